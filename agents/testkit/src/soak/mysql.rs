//! The soak of the MySQL arbiter, beside the other's: real servers are killed and stopped while
//! sessions read, write in transactions, keep state, ask what takes too long, and leave in the middle.
//!
//! A page has one text ever, its [`body`], at each server. What a session did is undone by itself or by
//! its end, so that nobody may ever see what another left: a row, a variable, a setting.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Error, Opts};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::clients::{self, Clients};
use super::subject::{hang, Subject};
use super::{Plan, ProtocolReport};
use crate::keyed::{body, large_key};
use crate::load::{Tally, PATIENCE};
use crate::mariadb::{options, MariaDb};
use crate::random::Random;

const SERVERS: usize = 2;
/// The server that takes the writes.
const PRIMARY: usize = 0;
const PAGES: u64 = 512;
/// Tables of the servers; what is done with drafts is always undone. Clients of other languages read articles
/// and undo proposals.
const TABLES: &str = "
CREATE TABLE wiki.page (id BIGINT UNSIGNED PRIMARY KEY, text MEDIUMBLOB) ENGINE=InnoDB;
CREATE TABLE wiki.draft (id BIGINT UNSIGNED PRIMARY KEY, text MEDIUMBLOB) ENGINE=InnoDB;
CREATE TABLE wiki.article (id INT PRIMARY KEY, text TEXT);
INSERT INTO wiki.article SELECT seq, CONCAT('article=', seq, '=', \
REPEAT(MD5(CONCAT('article=', seq)), 1 + seq MOD 64)) FROM wiki.seq_0_to_999;
CREATE TABLE wiki.proposal (client VARCHAR(20), id INT, text TEXT, PRIMARY KEY (client, id));
";
/// Clients by what they do.
const CLIENTS: [(usize, Does); 5] = [
    (6, Does::Read),
    (3, Does::KeepASetting),
    (3, Does::WriteAndUndo),
    (2, Does::KeepAVariable),
    (2, Does::Leave),
];
/// Pause after each act; the other arbiter needs the processor more.
const ACT_PAUSE: Duration = Duration::from_millis(100);
/// Pause before a client connects anew: while the primary is away, so are all writes.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Pause after each fault: a MariaDB that starts again needs a core for a second.
const FAULT_PAUSE: Duration = Duration::from_secs(6);
/// A client's acts until it connects anew.
const ACTS: usize = 50;
const SETTINGS: &str = "policy = \"tad\"\nreplicas = 2\ntokens = 16\nrequest_timeout_ms = 500\n\
                        [mysql]\nuser = \"wiki\"\npassword = \"wiki-read\"\ndatabase = \"wiki\"\nprimary = \"first\"\n\
                        [guardrails]\nejected_ms_first = 200\nejected_ms_max = 1000";
/// Longer than a request may take.
const SLEEP: &str = "SELECT SLEEP(5)";

#[derive(Debug, Clone, Copy)]
enum Does {
    /// Reads pages.
    Read,
    /// Sets a variable of the session that the arbiter repeats at another server.
    KeepASetting,
    /// Writes in a transaction, sees it, takes it back, sees it no more.
    WriteAndUndo,
    /// Sets a variable that keeps the session at its server.
    KeepAVariable,
    /// Asks what takes too long, or goes in the middle of a transaction or of a query.
    Leave,
}

/// Runs it until the tally says stop. The tally is its own.
///
/// # Errors
/// When something cannot be started, the arbiter does not end well, or keeps tokens of clients that
/// have gone.
pub async fn run(plan: &Plan, tally: &Arc<Tally>) -> Result<ProtocolReport> {
    let folder = tempfile::tempdir()?;
    let mut servers = Vec::with_capacity(SERVERS);
    for _ in 0..SERVERS {
        let server = MariaDb::start(TABLES, &[]).await?;
        fill(&mut server.direct().await?).await?;
        servers.push(server);
    }
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let subject = Subject::start(plan, "mysql", folder.path(), &addresses, SETTINGS).await?;
    let mut others = Clients::start(plan, &clients::MYSQL, subject.clients, tally)?;
    let mut clients = JoinSet::new();
    let mut number = plan.seed << 24;
    for (count, does) in CLIENTS {
        for _ in 0..count {
            number += 1;
            let (tally, address) = (Arc::clone(tally), subject.clients);
            clients.spawn(async move { act(address, does, number, &tally).await });
        }
    }
    let (mut random, mut kills, mut hangs) = (Random::new(plan.seed), 0, 0);
    while tally.goes_on() {
        others.ensure_running()?;
        let replicas = 1 + random.below(SERVERS as u64);
        let body = format!("{{\"replicas\":{replicas}}}");
        subject.put("/v1/replicas", &body).await?;
        let place = random.below(SERVERS as u64) as usize;
        let victim = &mut servers[place];
        // While the primary is away, so are all writes: such errors are counted apart.
        tally.outage.store(place == PRIMARY, Relaxed);
        if hangs <= kills {
            hang(victim.pid(), &mut random).await?;
            hangs += 1;
        } else {
            victim.kill()?;
            kills += 1;
            sleep(Duration::from_millis(300)).await;
            victim.restart()?;
            victim.ready().await?; // on a busy host this takes longer than an arbiter may
        }
        subject.all_back().await?;
        tally.outage.store(false, Relaxed);
        tally.faulted.store(kills > 0 && hangs > 0, Relaxed);
        sleep(FAULT_PAUSE).await;
    }
    clients.join_all().await;
    let clients = others.end().await?;
    subject.all_back().await?;
    subject.all_free().await?;
    subject.end().await?;
    let counts = tally.counts();
    Ok(ProtocolReport { counts, clients, kills, hangs })
}

/// A page's number; one of them is large.
fn page(random: &mut Random) -> u64 {
    match random.below(PAGES) {
        0 => large_key(0),
        n => Random::new(n).bits(),
    }
}

async fn fill(conn: &mut Conn) -> Result<()> {
    let keys = (1..PAGES).map(|n| Random::new(n).bits());
    for key in keys.chain([large_key(0)]) {
        conn.query_drop(insert("page", key)).await?;
    }
    Ok(())
}

fn insert(table: &str, key: u64) -> String {
    let text: String = body(key).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("INSERT INTO {table} VALUES ({key}, x'{text}')")
}

fn select(table: &str, key: u64) -> String {
    format!("SELECT text FROM {table} WHERE id = {key}")
}

/// A client, until the tally says stop.
async fn act(address: SocketAddr, does: Does, seed: u64, tally: &Tally) {
    let mut random = Random::new(seed);
    let options = options(address);
    while tally.goes_on() {
        sleep(RETRY_PAUSE).await;
        let Some(conn) = connect(&options, tally).await else {
            continue;
        };
        let mut session = Session { conn, tally };
        for _ in 0..ACTS {
            let result = match does {
                Does::Read => session.read(&mut random).await,
                Does::KeepASetting => session.keep_a_setting(&mut random).await,
                Does::WriteAndUndo => session.write_and_undo(&mut random).await,
                Does::KeepAVariable => session.keep_a_variable(&mut random).await,
                Does::Leave => session.leave(&mut random).await,
            };
            if result.is_none() || !tally.goes_on() {
                break;
            }
            sleep(ACT_PAUSE).await;
        }
    }
}

async fn connect(options: &Opts, tally: &Tally) -> Option<Conn> {
    let conn = timeout(PATIENCE, Conn::new(options.clone())).await;
    let conn = accept(conn.ok(), "a connection", tally)?;
    tally.connections.fetch_add(1, Relaxed);
    Some(conn)
}

/// The reply; none for an error.
fn accept<T>(reply: Option<Result<T, Error>>, query: &str, tally: &Tally) -> Option<T> {
    match reply {
        Some(Ok(value)) => return Some(value),
        Some(Err(Error::Server(error))) => tally.error(format!("MySQL error {}", error.code)),
        Some(Err(_)) => drop(tally.unanswered.fetch_add(1, Relaxed)),
        None => tally.wrong(format!("{query}: no reply within 20 s")),
    }
    None
}

/// None from its methods: the session is over.
struct Session<'a> {
    conn: Conn,
    tally: &'a Tally,
}

impl Session<'_> {
    async fn read(&mut self, random: &mut Random) -> Option<()> {
        let key = page(random);
        self.expect(&select("page", key), Some(body(key))).await
    }

    async fn keep_a_setting(&mut self, random: &mut Random) -> Option<()> {
        let length = 1_024 + random.below(1_000);
        self.execute(&format!("SET group_concat_max_len = {length}")).await?;
        for _ in 0..4 {
            self.read(random).await?;
            self.expect("SELECT @@group_concat_max_len", Some(length)).await?;
        }
        Some(())
    }

    async fn write_and_undo(&mut self, random: &mut Random) -> Option<()> {
        let key = random.bits();
        let draft = select("draft", key);
        self.expect::<Vec<u8>>(&draft, None).await?;
        self.execute("BEGIN").await?;
        self.execute(&insert("draft", key)).await?;
        self.expect(&draft, Some(body(key))).await?;
        self.read(random).await?;
        self.execute("ROLLBACK").await?;
        self.expect::<Vec<u8>>(&draft, None).await
    }

    async fn keep_a_variable(&mut self, random: &mut Random) -> Option<()> {
        let number = random.bits();
        self.execute(&format!("SELECT @a := {number}")).await?;
        self.read(random).await?;
        self.expect("SELECT @a", Some(number)).await
    }

    /// Always none, but when the session goes on after an error.
    async fn leave(&mut self, random: &mut Random) -> Option<()> {
        // Nothing of those that left before is here.
        self.expect::<Option<u64>>("SELECT @a", Some(None)).await?;
        let drafts = "SELECT COUNT(*) FROM draft WHERE id < 1000000";
        self.expect(drafts, Some(0_u64)).await?;
        match random.below(3) {
            0 => {
                let key = random.below(1_000_000);
                self.execute("BEGIN").await?;
                // Two may choose the same, and then one waits for the other.
                self.execute(&insert("draft", key)).await?;
                self.execute("SELECT @a := 1").await?;
            }
            1 => {
                let result = timeout(Duration::from_millis(50), self.conn.query_drop(SLEEP)).await;
                if result.is_ok_and(|reply| reply.is_ok()) {
                    self.tally.wrong(format!("{SLEEP}: done in 50 ms"));
                }
            }
            _ => {
                let reply = timeout(PATIENCE, self.conn.query_drop(SLEEP)).await.ok();
                if accept(reply, SLEEP, self.tally).is_some() {
                    self.tally.wrong(format!("{SLEEP}: no error"));
                }
            }
        }
        None
    }

    async fn execute(&mut self, sql: &str) -> Option<()> {
        let reply = timeout(PATIENCE, self.conn.query_drop(sql)).await.ok();
        accept(reply, sql, self.tally)?;
        self.tally.checked.fetch_add(1, Relaxed);
        Some(())
    }

    /// Asks for at most one row of one value, and checks it.
    async fn expect<T>(&mut self, sql: &str, value: Option<T>) -> Option<()>
    where
        T: FromRow + PartialEq + Debug + Send + 'static,
    {
        let query = self.conn.query_first::<T, _>(sql);
        let row = accept(timeout(PATIENCE, query).await.ok(), sql, self.tally)?;
        if row == value {
            self.tally.checked.fetch_add(1, Relaxed);
            return Some(());
        }
        let short = |value: &Option<T>| format!("{value:?}").chars().take(100).collect::<String>();
        let (value, row) = (short(&value), short(&row));
        self.tally.wrong(format!("{sql}: expected {value} (got {row})"));
        None
    }
}
