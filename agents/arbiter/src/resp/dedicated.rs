//! A client with a connection of its own to the primary: what it says passes command by command,
//! what the server says as it comes, until one of the two closes or it has been `idle` for too long.
//! So transactions, blocking commands, subscriptions and pushes are Redis' own.
//!
//! What the arbiter refuses of others it refuses of these too. Replies are not held here, so that
//! the error has to come from the server to be in its place: it gets, in place of the command, one
//! that it does not have.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{split, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{timeout, Instant};

use super::classify::is_refused_always;
use super::command::{with_lengths, Commands, Found};
use super::dedicated_quota::Place;
use super::idle::Idle;
use super::reply::Replies;
use super::Front;
use crate::conn::Conn;
use crate::kv::socket::{arrive, Socket};
use crate::kv::Dialect;
use crate::memory::{Held, UNCOUNTED};
use crate::min_rate::MinRate;
use crate::stream::Stream;
use crate::tier::PRIMARY;

/// What the server is asked in place of a command that is refused.
const NO_COMMAND: &[u8] = b"*1\r\n$26\r\nNOT_OFFERED_BY_THE_ARBITER\r\n";
/// How long a client is heard after its server's last word, as it would be by `linger`.
const LINGER: Duration = Duration::from_secs(1);

/// What the client's own connection has to be told first.
#[derive(Debug, Default)]
pub struct Manners {
    /// It speaks RESP3.
    pub resp3: bool,
    /// Its name.
    pub name: Option<Vec<u8>>,
}

impl Manners {
    /// The reply to `CLIENT GETNAME`.
    pub fn own_name(&self) -> Vec<u8> {
        match (&self.name, self.resp3) {
            (None, true) => b"_\r\n".to_vec(),
            (None, false) => b"$-1\r\n".to_vec(),
            (Some(name), _) => {
                let head = format!("${}\r\n", name.len()).into_bytes();
                [&head[..], name, b"\r\n"].concat()
            }
        }
    }
}

/// Serves the client to its end. The command that pinned it is in its buffer.
pub async fn serve(front: &Front, mut client: Socket, manners: Manners, place: Option<Place>) {
    let counters = &front.tier.counters;
    counters.received.inc();
    let limit = front.tier.config().request_timeout();
    let Ok(server) = reach(front, &manners).await else {
        counters.failed.inc();
        // The client may be gone; there is nobody else to tell.
        let _ = client
            .write(b"-ERR arbiter: the primary could not be reached\r\n", limit)
            .await;
        return client.linger().await;
    };
    counters.answered.inc();
    let idle = Idle::new(front.tier.config().pinned_idle());
    let (client_reads, client_writes) = split(client.stream);
    let (server_reads, server_writes) = split(server.into_stream());
    let up = Up {
        from: client_reads,
        to: server_writes,
        buffer: client.buffer,
        commands: Commands::default(),
        held: Held::new(&front.tier.memory),
        pace: MinRate::of_sender(front.tier.config()),
        front,
        idle: &idle,
    };
    let mut up = pin!(up.go_on());
    let mut down = pin!(go_down(server_reads, client_writes, &idle));
    // An error is an end as well; both connections close then.
    tokio::select! {
        ended = &mut up => if ended.is_ok() {
            let _ = down.await;
        },
        _ = &mut down => {
            // Closed at once, what the client still says could destroy what it was told.
            let _ = timeout(LINGER, up).await;
        }
    }
    drop(place);
}

/// The way of what the server says to the client, until it closes or the connection has been idle
/// for too long. A client that takes nothing for as long ends it too.
async fn go_down(
    mut from: ReadHalf<Stream>,
    mut to: WriteHalf<Stream>,
    idle: &Idle,
) -> io::Result<()> {
    let mut over = pin!(idle.over());
    let mut said = BytesMut::new();
    loop {
        let passed = said.len();
        let read = tokio::select! {
            biased;
            read = arrive(&mut from, &mut said) => read?,
            () = &mut over => 0,
        };
        if read == 0 {
            return to.shutdown().await;
        }
        timeout(idle.limit(), to.write_all(&said[passed..])).await??;
        idle.told(&mut said);
        if said.is_empty() {
            // An idle connection holds none.
            said = BytesMut::new();
        }
    }
}

/// The way of the client's commands to the server.
struct Up<'a> {
    from: ReadHalf<Stream>,
    to: WriteHalf<Stream>,
    buffer: BytesMut,
    commands: Commands,
    /// Of `buffer`.
    held: Held,
    pace: MinRate,
    front: &'a Front,
    idle: &'a Idle,
}

impl Up<'_> {
    async fn go_on(mut self) -> io::Result<()> {
        loop {
            self.pass_all().await?;
            if self.buffer.is_empty() {
                // A large command leaves no large buffer.
                self.buffer = BytesMut::new();
            }
            if !self.held.cover(self.buffer.len()) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            if self.read_on().await? == 0 {
                return self.to.shutdown().await;
            }
            self.idle.heard();
        }
    }

    /// Reads on; where much of a command is here already, at a least rate while memory is scarce.
    async fn read_on(&mut self) -> io::Result<usize> {
        if self.buffer.len() <= UNCOUNTED {
            self.pace.begin();
            return arrive(&mut self.from, &mut self.buffer).await;
        }
        loop {
            let since = Instant::now();
            let reading = arrive(&mut self.from, &mut self.buffer);
            let read = timeout(self.pace.left(), reading).await;
            let bytes = match &read {
                Ok(Ok(bytes)) => *bytes,
                _ => 0,
            };
            let keeps = self.pace.keeps(bytes, since.elapsed());
            if !keeps && self.front.tier.memory.is_scarce() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if let Ok(read) = read {
                return read;
            }
        }
    }

    /// Notes a command; whether it is refused.
    fn asks(&self, command: &[u8]) -> bool {
        // What the server is asked in its place has a reply as well.
        self.idle.asked(command);
        is_refused_always(command)
    }

    /// Passes on all complete commands, with one call where none is refused.
    async fn pass_all(&mut self) -> io::Result<()> {
        let mut good = 0;
        loop {
            let rest = &self.buffer[good..];
            let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
            let (length, is_refused) = match self.commands.next(rest).map_err(broken)? {
                None => break,
                Some(Found::Nothing(length)) => (length, false),
                Some(Found::Lengths(length)) => (length, self.asks(&rest[..length])),
                Some(Found::Inline(length)) => (length, self.asks(&with_lengths(&rest[..length]))),
            };
            if is_refused {
                self.to.write_all(&self.buffer[..good]).await?;
                self.to.write_all(NO_COMMAND).await?;
                self.buffer.advance(good + length);
                good = 0;
            } else {
                good += length;
            }
        }
        self.to.write_all(&self.buffer[..good]).await?;
        self.buffer.advance(good);
        Ok(())
    }
}

async fn reach(front: &Front, manners: &Manners) -> io::Result<Conn> {
    let config = front.tier.config();
    let deadline = Instant::now() + config.request_timeout();
    let stream = front.tier.connect(PRIMARY, deadline).await;
    let mut conn = Conn::new(stream.map_err(|_| io::ErrorKind::ConnectionRefused)?);
    let greet = async {
        if manners.resp3 {
            tell(&mut conn, Replies::greeting(1), config.request_timeout()).await?;
        }
        if let Some(name) = &manners.name {
            let mut command = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$".to_vec();
            command.extend_from_slice(format!("{}\r\n", name.len()).as_bytes());
            command.extend_from_slice(name);
            command.extend_from_slice(b"\r\n");
            tell(&mut conn, &command, config.request_timeout()).await?;
        }
        io::Result::Ok(())
    };
    match timeout(config.request_timeout(), greet).await {
        Ok(Ok(())) => Ok(conn),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a command of the arbiter's own and takes its reply away; an error there is the server's
/// business with the client (a password is wanted, say), who hears it again.
async fn tell(conn: &mut Conn, command: &[u8], limit: Duration) -> io::Result<()> {
    conn.write(command, limit).await?;
    let mut replies = Replies::default();
    loop {
        let followed = replies.follow(&conn.buffer);
        let followed = followed.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let _ = conn.buffer.split_to(followed.used);
        if followed.reply.is_some() {
            return Ok(());
        }
        if conn.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
