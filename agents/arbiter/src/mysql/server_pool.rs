//! Authenticated connections to the servers: opened, kept, reset before another client uses them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use policy::ServerId;
use tokio::time::timeout;

use super::handshake::{self, Key, LogIn, ServerGreeting};
use super::packet::{self, Packet};
use super::reply::{is_in_transaction, ok_status, End, Follow, Shape, NO_BACKSLASH_ESCAPES};
use super::types::{Statement, Task};
use crate::config::Mysql;
use crate::conn::Conn;
use crate::lock;
use crate::mysql_auth::{self, FAST_PATH_TAKEN, FULL_PATH_WANTED};
use crate::tier::{Tier, Unreached};

/// Maximum idle connections per server, of all keys together.
const IDLE_MAX: usize = 64;
/// Idle time after which a connection is closed (servers close it after 8 hours by default).
const IDLE_AGE_MAX: Duration = Duration::from_secs(600);
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Version in greetings until a server has been reached.
const VERSION_UNKNOWN: &[u8] = b"5.5.5-10.11.0-MariaDB";
const UTF8MB4: u8 = 45;

/// Maximum requests of a server in one login: another method, its key's owner, fast or full.
const QUESTIONS_MAX: usize = 6;
/// caching_sha2_password, full path: request for the server's RSA key.
const PUBLIC_KEY_PLEASE: u8 = 2;

const COM_INIT_DB: u8 = 0x02;
const COM_QUERY: u8 = 0x03;
const COM_RESET_CONNECTION: u8 = 0x1f;

/// State that all clients share.
pub struct ServerPool {
    /// The servers.
    pub tier: Arc<Tier>,
    account: Mysql,
    idle: Vec<Mutex<Vec<Idle>>>,
    greeting: Mutex<Option<ServerGreeting>>,
    no_backslash_escapes: AtomicBool,
    next_connection: AtomicU32,
}

/// An authenticated connection.
pub struct ServerConn {
    /// The socket.
    pub conn: Conn,
    key: Key,
    /// The current database.
    pub database: Option<Vec<u8>>,
    /// True if an unjudged statement may have changed it.
    pub database_unknown: bool,
    /// False if its state cannot be reset.
    pub resettable: bool,
    /// True if a transaction is open, by the server's status.
    pub in_transaction: bool,
    /// The server's numbers of the session's statements.
    statements: HashMap<u32, u32>,
    /// The server's number of the connection.
    thread: u32,
}

struct Idle {
    conn: ServerConn,
    since: Instant,
}

/// Reason for having no connection.
#[derive(Debug)]
pub enum OpenError {
    /// The server could not be reached, or disconnected.
    Unreached(Unreached),
    /// The server refused.
    Refused(Packet),
}

/// A violation of the protocol.
const BROKEN: OpenError = OpenError::Unreached(Unreached::Refused);

impl From<Unreached> for OpenError {
    fn from(why: Unreached) -> Self {
        Self::Unreached(why)
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Unreached(match error.kind() {
            io::ErrorKind::TimedOut => Unreached::Late,
            _ => Unreached::Refused,
        })
    }
}

impl ServerPool {
    /// A pool for the tier.
    pub fn new(tier: Arc<Tier>, account: Mysql) -> Arc<Self> {
        let idle = tier.servers().iter().map(|_| Mutex::default()).collect();
        Arc::new(Self {
            tier,
            account,
            idle,
            greeting: Mutex::new(None),
            no_backslash_escapes: AtomicBool::new(false),
            next_connection: AtomicU32::new(1),
        })
    }

    /// The account that clients must use.
    pub fn account(&self) -> &Mysql {
        &self.account
    }

    /// True if a server takes backslashes in texts literally: then the arbiter may misread
    /// statements, and must not clone any.
    pub fn may_misread(&self) -> bool {
        self.no_backslash_escapes.load(Relaxed)
    }

    /// Number of a client's connection.
    pub fn connection_number(&self) -> u32 {
        self.next_connection.fetch_add(1, Relaxed)
    }

    /// Greeting of the servers; asks one if it is not known.
    pub async fn greeting(&self) -> ServerGreeting {
        let known = || lock(&self.greeting).clone();
        if known().is_none() {
            for server in 0..self.tier.servers().len() {
                if self.probe(server).await {
                    break;
                }
            }
        }
        known().unwrap_or_else(|| ServerGreeting {
            version: VERSION_UNKNOWN.to_vec(),
            thread: 0,
            collation: UTF8MB4,
            nonce: Vec::new(),
            method: None,
        })
    }

    /// True if the server accepts a login; the connection is kept.
    pub async fn probe(&self, server: ServerId) -> bool {
        let database = Some(self.account.database.clone()).filter(|name| !name.is_empty());
        match self.connect(server, Key::default(), database.as_ref().map(String::as_bytes)).await {
            Ok(conn) => {
                self.put(server, conn);
                true
            }
            Err(_) => false,
        }
    }

    /// Takes an idle connection of this kind with this database, or opens one. Failures that are
    /// not the server's are retried until `deadline`; another one makes it dead.
    pub async fn open(
        &self,
        server: ServerId,
        key: Key,
        database: Option<&[u8]>,
        deadline: tokio::time::Instant,
    ) -> Result<ServerConn, OpenError> {
        let counters = &self.tier.server_counters[server];
        while let Some(mut conn) = self.take(server, key, database) {
            match timeout(self.limit(), conn.use_database(database)).await {
                Ok(Ok(())) => {
                    counters.connections_reused.inc();
                    return Ok(conn);
                }
                Ok(Err(OpenError::Refused(packet))) => {
                    self.put(server, conn);
                    return Err(OpenError::Refused(packet));
                }
                // It died in the pool: the next, or a new one.
                Ok(Err(OpenError::Unreached(_))) | Err(_) => {}
            }
        }
        let attempt = || async {
            match self.connect(server, key, database).await {
                Err(OpenError::Unreached(why)) => Err(why),
                reached => Ok(reached),
            }
        };
        self.tier.connect_by(server, deadline, attempt).await?
    }

    /// Resets a connection and pools it. It must be idle.
    pub async fn give_back(&self, server: ServerId, mut conn: ServerConn) {
        if !conn.resettable || !conn.conn.is_silent() {
            return;
        }
        if let Ok(Ok(())) = timeout(self.tier.config().request_timeout(), conn.reset()).await {
            self.put(server, conn);
        }
    }

    /// Closes dead and old idle connections, for ever.
    pub async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            for server in 0..self.idle.len() {
                drop(self.usable(server));
            }
        }
    }

    fn limit(&self) -> Duration {
        self.tier.config().connect_timeout()
    }

    fn take_any(&self, server: ServerId) -> Option<ServerConn> {
        Some(self.usable(server).pop()?.conn)
    }

    /// Idle connections that are neither dead nor old.
    fn usable(&self, server: ServerId) -> MutexGuard<'_, Vec<Idle>> {
        let mut idle = lock(&self.idle[server]);
        idle.retain_mut(Idle::is_usable);
        idle
    }

    fn take(&self, server: ServerId, key: Key, database: Option<&[u8]>) -> Option<ServerConn> {
        let mut idle = self.usable(server);
        // A connection cannot leave its database for none.
        let fits = |idle: &Idle| {
            let has_none = idle.conn.database.is_none() && !idle.conn.database_unknown;
            idle.conn.key == key && (database.is_some() || has_none)
        };
        let place = idle.iter().rposition(fits)?;
        Some(idle.remove(place).conn)
    }

    fn put(&self, server: ServerId, conn: ServerConn) {
        let mut idle = lock(&self.idle[server]);
        if idle.len() >= IDLE_MAX {
            // The oldest goes, so that kinds that nobody uses any more do not fill the pool.
            idle.remove(0);
        }
        idle.push(Idle { conn, since: Instant::now() });
    }

    /// Opens a connection, with one attempt; the caller judges the result.
    pub async fn connect(
        &self,
        server: ServerId,
        key: Key,
        database: Option<&[u8]>,
    ) -> Result<ServerConn, OpenError> {
        let login = async {
            let stream = self.tier.dial(server).await?;
            let mut conn = Conn::new(stream);
            let greeting = self.log_in(&mut conn, key, database).await?;
            Ok((conn, greeting))
        };
        let (conn, greeting) = timeout(self.limit(), login)
            .await
            .unwrap_or(Err(OpenError::Unreached(Unreached::Late)))?;
        self.tier.server_counters[server].connections_opened.inc();
        let database = database.map(<[u8]>::to_vec);
        Ok(ServerConn {
            conn,
            key,
            database,
            database_unknown: false,
            resettable: greeting.reset_restores(key),
            in_transaction: false,
            statements: HashMap::new(),
            thread: greeting.thread,
        })
    }

    /// Kills the query of this connection, over another one; true if the server accepted.
    pub async fn kill_query(&self, server: ServerId, conn: &mut ServerConn) -> bool {
        let killing = async {
            let mut other = match self.take_any(server) {
                Some(other) => other,
                None => self.connect(server, conn.key, None).await?,
            };
            let sql = format!("KILL QUERY {}", conn.thread);
            let query = [&[COM_QUERY], sql.as_bytes()].concat();
            other.command(&query).await?;
            self.put(server, other);
            Ok::<_, OpenError>(true)
        };
        matches!(timeout(self.limit(), killing).await, Ok(Ok(true)))
    }

    async fn log_in(
        &self,
        conn: &mut Conn,
        key: Key,
        database: Option<&[u8]>,
    ) -> Result<ServerGreeting, OpenError> {
        let greeting = next(conn).await?;
        if greeting.payload().first() == Some(&0xff) {
            return Err(OpenError::Refused(with_state(&greeting)));
        }
        let greeting = handshake::server_greeting(greeting.payload()).ok_or(BROKEN)?;
        let password = self.account.password.as_bytes();
        let method = greeting.method.unwrap_or_default();
        let login = LogIn {
            key,
            user: self.account.user.as_bytes(),
            method,
            token: &method.token(password, &greeting.nonce),
            database,
            packet_bytes_max: self.account.packet_bytes_max as u32,
        };
        write(conn, &Packet::new(1, &login.payload()), self.limit()).await?;
        let reply = self.prove(conn, greeting.nonce.clone()).await?;
        match reply.payload().first() {
            Some(0) => {
                lock(&self.greeting).replace(greeting.clone());
                if ok_status(reply.payload()) & u64::from(NO_BACKSLASH_ESCAPES) != 0 {
                    self.no_backslash_escapes.store(true, Relaxed);
                }
                Ok(greeting)
            }
            Some(0xff) => Err(OpenError::Refused(reply)),
            _ => {
                let text = "arbiter: the server wants another authentication than \
                            mysql_native_password or caching_sha2_password";
                let error = packet::error(2, 1251, "08004", text);
                Err(OpenError::Refused(error))
            }
        }
    }

    /// Answers a server's requests during a login. Returns its decision, or an unknown request.
    async fn prove(&self, conn: &mut Conn, mut nonce: Vec<u8>) -> Result<Packet, OpenError> {
        let password = self.account.password.as_bytes();
        for _ in 0..QUESTIONS_MAX {
            let question = next(conn).await?;
            let sequence = question.sequence().wrapping_add(1);
            let answer = if let Some((method, other)) = handshake::method_switch(question.payload())
            {
                nonce = other.to_vec();
                method.token(password, &nonce)
            } else if question.payload() == FAST_PATH_TAKEN {
                continue;
            } else if question.payload() == FULL_PATH_WANTED {
                vec![PUBLIC_KEY_PLEASE]
            } else if let Some((1, key)) = question.payload().split_first() {
                mysql_auth::encrypted(password, &nonce, key).ok_or(BROKEN)?
            } else {
                return Ok(question);
            };
            write(conn, &Packet::new(sequence, &answer), self.limit()).await?;
        }
        Err(BROKEN)
    }
}

impl ServerConn {
    /// Notes a reply that was read to its end.
    pub fn note_reply(&mut self, follow: &Follow) {
        let in_transaction = follow.status().map(is_in_transaction);
        self.in_transaction = in_transaction.unwrap_or(self.in_transaction);
    }

    /// The command with the server's statement number; none if the server does not have the
    /// statement.
    pub fn numbered(&self, packet: &Packet, statement: Statement) -> Option<Packet> {
        match statement {
            Statement::None | Statement::Prepare(_) => Some(packet.clone()),
            Statement::Use(id) | Statement::Close(id) => {
                Some(packet.with_statement(*self.statements.get(&id)?))
            }
        }
    }

    /// Notes the server's number of a statement.
    pub fn knows(&mut self, id: u32, number: u32) {
        self.statements.insert(id, number);
    }

    /// Notes that a statement was closed.
    pub fn closed(&mut self, id: u32) {
        self.statements.remove(&id);
    }

    /// Notes the effects of a command that the server executed.
    pub fn note(&mut self, task: &Task) {
        match task {
            Task::Race => {}
            // A statement of any kind may have changed it.
            Task::Alone => self.database_unknown = true,
            Task::Session(None) => {}
            Task::Session(Some(database)) => self.database = Some(database.clone()),
            Task::Sticky => self.resettable = false,
        }
    }

    async fn use_database(&mut self, wanted: Option<&[u8]>) -> Result<(), OpenError> {
        match wanted {
            Some(wanted) if self.database_unknown || self.database.as_deref() != Some(wanted) => {
                self.command(&[&[COM_INIT_DB], wanted].concat()).await?;
                self.database = Some(wanted.to_vec());
                self.database_unknown = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn reset(&mut self) -> Result<(), OpenError> {
        self.command(&[COM_RESET_CONNECTION]).await?;
        self.statements.clear();
        self.in_transaction = false;
        Ok(())
    }

    /// True unless the server may be written to.
    pub async fn is_read_only(&mut self) -> Result<bool, OpenError> {
        let query = [&[COM_QUERY], &b"SELECT @@global.read_only"[..]].concat();
        self.conn.write(Packet::new(0, &query).bytes(), Duration::from_secs(1)).await?;
        let mut follow = Follow::new(Shape::Results).ok_or(BROKEN)?;
        let mut is_read_only = true;
        loop {
            let packet = next(&mut self.conn).await?;
            // The row: a string of one character; newer servers have a word.
            is_read_only &= !matches!(packet.payload(), b"\x010" | b"\x03OFF");
            match follow.packet(packet.payload()) {
                None => {}
                Some(End::Good) => return Ok(is_read_only),
                Some(_) => return Err(OpenError::Refused(packet)),
            }
        }
    }

    /// Sends a command whose reply is OK or ERR.
    async fn command(&mut self, payload: &[u8]) -> Result<(), OpenError> {
        self.conn.write(Packet::new(0, payload).bytes(), Duration::from_secs(1)).await?;
        let reply = next(&mut self.conn).await?;
        match reply.payload().first() {
            Some(0) => Ok(()),
            Some(0xff) => Err(OpenError::Refused(reply)),
            _ => Err(BROKEN),
        }
    }
}

impl Idle {
    fn is_usable(&mut self) -> bool {
        self.since.elapsed() < IDLE_AGE_MAX && self.conn.conn.is_silent()
    }
}

async fn next(conn: &mut Conn) -> Result<Packet, OpenError> {
    packet::read(conn).await?.ok_or(BROKEN)
}

async fn write(conn: &mut Conn, packet: &Packet, limit: Duration) -> Result<(), OpenError> {
    Ok(conn.write(packet.bytes(), limit).await?)
}

/// Adds the SQL state to an ERR packet that replaces a greeting ("Too many connections"), because a
/// client expects one after its connection phase.
fn with_state(error: &Packet) -> Packet {
    match error.payload() {
        [0xff, low, high, text @ ..] if text.first() != Some(&b'#') => {
            let code = u16::from_le_bytes([*low, *high]);
            packet::error(error.sequence(), code, "08004", &String::from_utf8_lossy(text))
        }
        _ => error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_place_of_a_greeting_gets_a_state() {
        let bare = Packet::new(0, b"\xff\x10\x04Too many connections");
        let error = with_state(&bare);
        assert_eq!(error.payload(), b"\xff\x10\x04#08004Too many connections");
        assert_eq!(with_state(&error), error);
    }
}
