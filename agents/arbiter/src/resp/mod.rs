//! The Redis arbiter: RESP2 and RESP3.
//!
//! One server of the tier is the primary (the first, or the one that says so), the others are its
//! replicas (Redis itself copies).
//! Reads go to r of all servers, the first good reply wins; writes go to the primary. Both travel
//! on connections that all clients share. A command that leaves a state behind in its connection,
//! blocks, or is not known pins the client: while that state is there it has a connection of its own
//! to the primary, and its commands pass through, but for those that are refused of everybody.
//!
//! | module | content |
//! |---|---|
//! | `command` | the end of a client's command; refused commands |
//! | `classify` | the class of a command: the table of `docs/arbiter.md` |
//! | `reply` | the end of a server's reply |
//! | `client` | a client's connection |
//! | `read_your_writes` | the replicas that have a client's writes |
//! | `roles` | the server that says that it is the primary |
//! | `dedicated` | a client with its own connection |
//! | `dedicated_quota` | the limits of their number |
//! | `hold` | the reasons that hold a client there |
//! | `idle` | the end of such a connection |

pub mod classify;
pub mod client;
pub mod command;
mod dedicated;
pub mod dedicated_quota;
mod hold;
mod idle;
pub mod read_your_writes;
pub mod reply;
mod roles;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use policy::ServerId;
use tokio::time::timeout;

use self::classify::Class;
use self::dedicated_quota::DedicatedQuota;
use self::read_your_writes::Rounds;
use crate::config::Config;
use crate::conn::Conn;
use crate::counters::Counters;
use crate::kv::{self, Dialect};
use crate::tier::Tier;

/// State that the clients of a thread share.
pub type Front = kv::front::Front<reply::Replies>;

/// The state that the clients of all threads share.
pub struct State {
    /// Places for dedicated connections.
    dedicated: Arc<DedicatedQuota>,
    /// Writes that replicas have, if clients read their own writes.
    rounds: Option<Arc<Rounds>>,
}

impl State {
    /// Creates the state by the configuration.
    pub fn new(config: &Config) -> Arc<Self> {
        let follows = config.redis.is_some_and(|redis| redis.read_your_writes);
        let (most, of_address) = (config.pinned_max, config.pinned_per_address_max());
        Arc::new(Self {
            dedicated: DedicatedQuota::new(most, of_address),
            rounds: follows.then(|| Arc::new(Rounds::new(config.servers.len()))),
        })
    }

    /// Follows the servers' roles and the replicas' state for ever, if that is configured.
    pub fn watch(&self, tier: &Arc<Tier>) {
        if tier.primary.is_detected() {
            crate::roles::watch_all(tier);
        }
        if let Some(rounds) = &self.rounds {
            read_your_writes::watch_all(tier, rounds);
        }
    }
}

/// Counts commands by their effect on data; those about the connection, and unknown ones, are
/// neither reads nor writes. A pinned client's reads are the primary's.
fn count(counters: &Counters, class: Class, commands: u64, is_pinned: bool) {
    match class {
        Class::Read | Class::Loose | Class::Ask => {
            counters.reads.add(commands);
            if is_pinned || class == Class::Ask {
                counters.reads_of_one.add(commands);
            }
        }
        Class::Write => counters.writes.add(commands),
        _ => {}
    }
}

/// Sends a command of the arbiter, and returns its reply.
async fn ask(conn: &mut Conn, command: &[u8], limit: Duration) -> io::Result<String> {
    conn.write(command, limit).await?;
    let (mut replies, mut scanned) = (reply::Replies::default(), 0);
    loop {
        let followed = replies.follow(&conn.buffer[scanned..]);
        let followed =
            followed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        scanned += followed.used;
        if followed.reply.is_some() {
            let reply = conn.buffer.split_to(scanned);
            return Ok(String::from_utf8_lossy(&reply).into_owned());
        }
        if conn.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// True if the server accepts connections and commands. One that requires a password is alive; one
/// that loads its data, or has lost its primary and serves no stale data, is not.
pub async fn probe(front: &Front, server: ServerId) -> bool {
    let config = front.tier.config();
    let answer = async {
        let stream = front.tier.dial(server).await;
        let mut conn = Conn::new(stream.ok()?);
        conn.write(b"PING\r\n", config.connect_timeout()).await.ok()?;
        while !conn.buffer.contains(&b'\n') {
            if conn.fill().await.ok()? == 0 || conn.buffer.len() > reply::LINE_MAX {
                return None;
            }
        }
        let here = [&b"+PONG"[..], b"-NOAUTH", b"-NOPERM"];
        here.iter().any(|start| conn.buffer.starts_with(start)).then_some(())
    };
    let limit = config.connect_timeout() + Duration::from_millis(250);
    matches!(timeout(limit, answer).await, Ok(Some(())))
}
