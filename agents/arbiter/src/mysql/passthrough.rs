//! A session with one server (r = 1): commands and replies pass straight through, without a task
//! or a queue between client and server and without a copy.
//!
//! The session keeps its server, and has a token from the begin of a command to the end of the
//! server's reply. If its server has no free token, a session continues at another server if it
//! can.
//!
//! Locks at the server (an open transaction's, those of `LOCK TABLES` and the like) keep the token
//! from one command to the next: otherwise who holds the lock and who waits for it could deadlock on
//! tokens. A client that is silent for a request's
//! time-out gives the token back nevertheless, and what it sends then goes with a token if one is
//! free, else without. With `tad-paper` the session keeps its token to its end (`holds_connections`).
//!
//! As in `replicated`: a server that dies between commands is replaced, and the next one is first
//! brought to the session's state; if it dies in mid-command the session ends.

use std::sync::Arc;
use std::time::Duration;

use policy::{Refused, ServerId};
use tokio::time::{timeout, timeout_at, Instant};

use super::avoid_list::AvoidList;
use super::classify::Effect;
use super::handshake::Key;
use super::kill_query::KillQuery;
use super::packet;
use super::passing::{pass, Passing, Stopped};
use super::replay::{self, Entry, Replay};
use super::reply::{End, Follow, Shape, AUTOCOMMIT};
use super::server_pool::{OpenError, ServerConn, ServerPool};
use super::types::{Beginning, NotOpen, Outcome, Request, Route, Statement, Task};
use crate::collision_avoidance::Stamp;
use crate::conn::Conn;
use crate::tier::{Flight, Lease, Leases, Unreached, Wanted};

/// A session with one server.
pub struct Passthrough {
    pool: Arc<ServerPool>,
    key: Key,
    database: Option<Vec<u8>>,
    stamp: Option<Stamp>,
    server: Option<Reached>,
    replay: Replay,
    /// Statements that begin the transaction of the next command.
    to_begin: Vec<Entry>,
    /// True if it may have locks that are not in the server's status.
    took_locks: bool,
    /// True while a transaction that has written is open: it cannot move.
    wrote_within: bool,
    /// Servers that cannot take the session's state.
    refusing: Vec<ServerId>,
    spared: AvoidList,
    /// Session status of the last reply.
    pub status: u16,
    /// True if the last command succeeded.
    pub was_good: bool,
    /// First packet of its reply, if it prepared a statement.
    pub prepare_ok: Vec<u8>,
}

/// The server of a session.
struct Reached {
    server: ServerId,
    conn: ServerConn,
    /// The token; between commands only if the session keeps it.
    lease: Option<Lease>,
}

/// Condition for sending a command.
enum Needed {
    /// A server, because there is none.
    Server,
    /// Another server that has a token; if there is none, the present one.
    Another,
    /// A token of the present server.
    Token(Box<Leases>),
}

impl Reached {
    /// Leaves the server for another one.
    fn leave(self, pool: &Arc<ServerPool>) {
        let pool = Arc::clone(pool);
        tokio::spawn(async move { pool.give_back(self.server, self.conn).await });
    }
}

impl Passthrough {
    /// Opens a session. Holds a token while it connects.
    pub async fn open(pool: Arc<ServerPool>, start: Beginning) -> Result<Self, NotOpen> {
        Self::open_without(pool, start, Replay::default(), Vec::new()).await
    }

    /// As `open`, at this server only, in this state.
    pub async fn open_at(
        pool: Arc<ServerPool>,
        start: Beginning,
        replay: Replay,
        server: ServerId,
    ) -> Result<Self, NotOpen> {
        let others = all_but(server, &pool);
        Self::open_without(pool, start, replay, others).await
    }

    /// Is at this server only from now on. The connection to another one ends, and with it what
    /// cannot be repeated: then the next command ends the session.
    pub fn stay_at(&mut self, server: ServerId) {
        if self.refusing.contains(&server) {
            self.refusing = all_but(server, &self.pool);
            self.server.take_if(|reached| reached.server != server);
        }
    }

    async fn open_without(
        pool: Arc<ServerPool>,
        start: Beginning,
        replay: Replay,
        others: Vec<ServerId>,
    ) -> Result<Self, NotOpen> {
        let deadline = Instant::now() + pool.tier.config().request_timeout();
        let mut solo = Self {
            pool,
            key: start.key,
            database: start.database,
            stamp: start.stamp,
            server: None,
            replay,
            to_begin: Vec::new(),
            took_locks: false,
            wrote_within: false,
            refusing: others,
            spared: AvoidList::default(),
            status: AUTOCOMMIT,
            was_good: false,
            prepare_ok: Vec::new(),
        };
        solo.reach(deadline).await?;
        if let Some(reached) = &mut solo.server {
            if !solo.pool.tier.holds_connections() {
                reached.lease = None;
            }
        }
        Ok(solo)
    }

    /// Counts a collision for a stamp that came after the choice of the server.
    pub fn stamped(&mut self, stamp: Stamp) {
        self.stamp = Some(stamp);
        if let Some(reached) = &self.server {
            self.pool.tier.holds(stamp, reached.server);
        }
    }

    /// Waits until the server disconnects, or the client has held its token in silence for too
    /// long.
    pub async fn lose(&mut self) {
        let silence_max = self.pool.tier.config().request_timeout();
        let gives_back = !self.pool.tier.holds_connections();
        match &mut self.server {
            Some(reached) if gives_back && reached.lease.is_some() => {
                if timeout(silence_max, reached.conn.conn.spoken()).await.is_err() {
                    reached.lease = None;
                    return;
                }
            }
            Some(reached) => reached.conn.conn.spoken().await,
            None => std::future::pending().await,
        }
        self.server = None;
    }

    /// Ends the session: the connection is reset and pooled. Its token returns after the rollback.
    pub async fn close(self) {
        if let Some(Reached { server, conn, lease, .. }) = self.server {
            self.pool.give_back(server, conn).await;
            drop(lease);
        }
    }

    /// The session's state, for another server.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// True while it cannot move: a transaction is open, or it may have locks.
    pub fn is_bound(&self) -> bool {
        let has_begun = self.wrote_within || self.replay.is_in_transaction();
        has_begun || !self.to_begin.is_empty() || self.took_locks || self.is_in_transaction()
    }

    /// True while its server says that a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        let within = |reached: &Reached| reached.conn.in_transaction;
        self.server.as_ref().is_some_and(within)
    }

    /// Continues a transaction of another server with the next command.
    pub fn take_over(&mut self, transaction: Vec<Entry>) {
        if !transaction.is_empty() {
            self.to_begin = transaction;
        }
    }

    /// Repeats a statement of another server of the session; if it fails, the next server that is
    /// reached gets it.
    pub async fn follow(&mut self, effect: &Effect, request: Request<'_>) {
        self.replay.record(effect, request.packet, request.shape);
        let limit = self.pool.tier.config().request_timeout();
        let Some(mut reached) = self.server.take() else {
            return;
        };
        let conn = &mut reached.conn;
        let is_done = if let Statement::Close(id) = request.statement {
            let packet = conn.numbered(request.packet, request.statement);
            conn.closed(id);
            match packet {
                Some(packet) => conn.conn.write(packet.bytes(), limit).await.is_ok(),
                None => true,
            }
        } else {
            let entry = Entry::new(effect, request.packet, request.shape);
            timeout(limit, repeat(conn, &entry, limit)).await == Ok(End::Good)
        };
        if is_done {
            if !self.keeps_token(&reached) {
                reached.lease = None;
            }
            self.server = Some(reached);
        }
    }

    /// Serves one command.
    pub async fn serve(
        &mut self,
        request: Request<'_>,
        client: &mut Conn,
        deadline: Instant,
    ) -> Outcome {
        let Request { packet: command, shape, route, statement } = request;
        self.was_good = false;
        match self.needs(shape, route) {
            Ok(None) => {}
            Err(outcome) => return outcome,
            Ok(Some(needed)) => {
                // Boxed, since most commands need nothing: they do not carry its room along.
                let fetching = Box::pin(self.fetch(needed, deadline));
                match client.limit_while_here(deadline, fetching).await {
                    Some(Some(Ok(()))) => {}
                    Some(Some(Err(outcome))) => return outcome,
                    Some(None) if self.server.is_some() => return Outcome::Unsent,
                    Some(None) => return Outcome::Gone,
                    None => return Outcome::Cut,
                }
            }
        }
        if route.pins() {
            self.replay.forbid();
        }
        let Some(mut reached) = self.server.take() else {
            return Outcome::Gone;
        };
        if !self.to_begin.is_empty() {
            let to_begin = std::mem::take(&mut self.to_begin);
            let limit = self.pool.tier.config().request_timeout();
            let begins = repeat_all(&mut reached.conn, &to_begin, deadline, limit);
            match client.while_here(begins).await {
                Some(End::Good) => self.replay.take_over(to_begin),
                Some(_) => return Outcome::Gone,
                None => return Outcome::Cut,
            }
        }
        let task = match route {
            Route::Race => Task::Race,
            Route::One | Route::Left | Route::Write | Route::Pin | Route::Lock => Task::Alone,
            Route::Session(effect) => replay::task(effect),
        };
        self.wrote_within |= *route == Route::Write;
        let numbered = match statement {
            Statement::None | Statement::Prepare(_) => None,
            Statement::Use(_) | Statement::Close(_) => {
                match reached.conn.numbered(command, statement) {
                    Some(numbered) => Some(numbered),
                    None => return self.lacks(reached, request, client).await,
                }
            }
        };
        if let Statement::Close(id) = statement {
            reached.conn.closed(id);
        }
        let limit = self.pool.tier.config().request_timeout();
        let mut passing = Passing {
            flight: self.pool.tier.sent(reached.server),
            task: &task,
            statement,
            limit,
            deadline,
        };
        let server = &mut reached.conn.conn;
        let sent = numbered.as_ref().unwrap_or(command);
        let reply = match passing.run(server, sent, shape, client).await {
            Ok(reply) => reply,
            Err(stopped) => {
                let outcome = stopped.outcome;
                self.give_up(reached, passing.flight, stopped);
                return outcome;
            }
        };
        drop(passing);
        if let (Statement::Prepare(id), Some((number, prepare_ok))) = (statement, reply.prepared) {
            reached.conn.knows(id, number);
            self.prepare_ok = prepare_ok;
        }
        self.was_good = reply.end == End::Good;
        if let Some(follow) = &reply.follow {
            reached.conn.note_reply(follow);
            self.status = follow.status().unwrap_or(self.status);
        }
        if reply.end == End::Good {
            reached.conn.note(&task);
            self.took_locks = route.locks().unwrap_or(self.took_locks);
            if let Route::Session(effect) = route {
                self.replay.record(effect, command, shape);
            }
            self.replay.note_status(self.status);
        }
        self.wrote_within &= reached.conn.in_transaction;
        if !self.keeps_token(&reached) {
            reached.lease = None;
        }
        let passed = pass(&mut reached.conn.conn, reply.bytes, client, limit).await;
        self.server = Some(reached);
        passed.map_or(Outcome::Cut, |()| Outcome::Served)
    }

    /// Treats a command for a statement that this server does not have.
    async fn lacks(
        &mut self,
        reached: Reached,
        request: Request<'_>,
        client: &mut Conn,
    ) -> Outcome {
        self.server = Some(reached);
        if request.shape == Shape::Nothing {
            return Outcome::Served;
        }
        let text = "arbiter: Unknown prepared statement handler";
        let error = packet::error(request.packet.next_sequence(), 1243, "HY000", text);
        let limit = self.pool.tier.config().request_timeout();
        match client.write(error.bytes(), limit).await {
            Ok(()) => Outcome::Served,
            Err(_) => Outcome::Cut,
        }
    }

    /// Abandons the work that the server still does, if any.
    fn give_up(&self, reached: Reached, flight: Flight, stopped: Stopped) {
        if let Some(follow) = stopped.unfinished {
            let unwanted = KillQuery {
                pool: Arc::clone(&self.pool),
                server: reached.server,
                conn: reached.conn,
                follow,
                lease: reached.lease,
                flight,
            };
            unwanted.end();
        }
    }

    fn has_locks(&self, reached: &Reached) -> bool {
        self.took_locks || reached.conn.in_transaction
    }

    fn keeps_token(&self, reached: &Reached) -> bool {
        self.has_locks(reached) || self.pool.tier.holds_connections()
    }

    /// Returns the unmet condition of a command; takes a free token at once.
    fn needs(&mut self, shape: Shape, route: &Route) -> Result<Option<Needed>, Outcome> {
        let is_there = |reached: &mut Reached| reached.conn.conn.is_silent();
        if !self.server.as_mut().is_some_and(is_there) {
            self.server = None;
        }
        let Some(reached) = &self.server else {
            let may_move = self.replay.is_possible() && !self.wrote_within;
            return may_move.then_some(Some(Needed::Server)).ok_or(Outcome::Gone);
        };
        let (server, has_locks) = (reached.server, self.has_locks(reached));
        // Without a reply nothing says when the server is done, nor could an error be told.
        if reached.lease.is_some() || shape == Shape::Nothing {
            return Ok(None);
        }
        let is_free = self.replay.is_possible() && !self.wrote_within;
        let may_move = is_free && !has_locks && !matches!(route, Route::One | Route::Left);
        let mut leases = match self.pool.tier.again(server, !may_move && !has_locks) {
            Ok(leases) => leases,
            Err(Refused::NoServer) if may_move => return Ok(Some(Needed::Another)),
            // Dead or taken out: it has no tokens, and what is there goes on.
            Err(Refused::NoServer) => return Ok(None),
            Err(Refused::QueueFull) => return Err(Outcome::Unsent),
        };
        let lease = leases.at_once();
        if lease.is_none() && leases.to_come() > 0 {
            return Ok(Some(Needed::Token(Box::new(leases))));
        }
        if lease.is_none() && may_move {
            return Ok(Some(Needed::Another));
        }
        if let Some(reached) = &mut self.server {
            reached.lease = lease;
        }
        Ok(None)
    }

    async fn fetch(&mut self, needed: Needed, deadline: Instant) -> Result<(), Outcome> {
        match needed {
            Needed::Server => self.reach(deadline).await.map_err(|_| Outcome::Gone),
            Needed::Another => self.move_on(deadline).await,
            Needed::Token(mut leases) => {
                if let Some(reached) = &mut self.server {
                    tokio::select! {
                        biased;
                        lease = leases.next() => {
                            reached.lease = lease;
                            return Ok(());
                        }
                        () = reached.conn.conn.spoken() => {}
                    }
                }
                // The server has closed the connection: a token would be of no use.
                self.server = None;
                Err(Outcome::Gone)
            }
        }
    }

    /// Takes the first token of any server.
    async fn move_on(&mut self, deadline: Instant) -> Result<(), Outcome> {
        match self.reach(deadline).await {
            Err(NotOpen::Policy(Refused::QueueFull) | NotOpen::TimedOut) => Err(Outcome::Unsent),
            // Without another server it stays.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Finds a server and brings it to the session's state; leaves the present one if it is
    /// another.
    async fn reach(&mut self, deadline: Instant) -> Result<(), NotOpen> {
        let mut refusal = None;
        // Not again in this search.
        let mut tried = self.refusing.clone();
        tried.extend(self.spared.now());
        let mut insists = false;
        loop {
            let leases = self.pool.tier.acquire_for(self.stamp, Wanted::One, &tried);
            // None but those that were late: one of these, then, as long as there is time.
            if matches!(leases, Err(Refused::NoServer))
                && self.server.is_none()
                && !insists
                && self.spared.forget()
            {
                insists = true;
                tried.clone_from(&self.refusing);
                continue;
            }
            let mut leases = leases.map_err(|refused| {
                refusal.take().map_or(NotOpen::Policy(refused), NotOpen::Refused)
            })?;
            let lease = timeout_at(deadline, leases.next()).await;
            let Some(lease) = lease.map_err(|_| NotOpen::TimedOut)? else {
                return Err(NotOpen::TimedOut);
            };
            let server = lease.server;
            if let Some(stamp) = self.stamp {
                self.pool.tier.holds(stamp, server);
            }
            let is_here = |reached: &&mut Reached| reached.server == server;
            if let Some(reached) = self.server.as_mut().filter(is_here) {
                reached.lease = Some(lease);
                return Ok(());
            }
            let insists_until = if insists { deadline } else { Instant::now() };
            let database = self.database.as_deref();
            let opening = self.pool.open(server, self.key, database, insists_until);
            let was_late = match opening.await {
                Ok(conn) => {
                    let mut reached = Reached { server, conn, lease: Some(lease) };
                    let limit = self.pool.tier.config().request_timeout();
                    let entries = self.replay.entries();
                    match repeat_all(&mut reached.conn, entries, deadline, limit).await {
                        End::Good => {
                            if let Some(left) = self.server.replace(reached) {
                                left.leave(&self.pool);
                            }
                            return Ok(());
                        }
                        End::Error(_) => self.refusing.push(server),
                        End::Broken => {}
                    }
                    false
                }
                Err(OpenError::Refused(packet)) => {
                    refusal = Some(packet);
                    false
                }
                Err(OpenError::Unreached(why)) => why != Unreached::Refused,
            };
            tried.push(server);
            // A session that has a server tries the other again only after a while.
            if was_late || self.server.is_some() {
                let time = self.pool.tier.config().request_timeout();
                self.spared.add(server, time);
            }
        }
    }
}

fn all_but(server: ServerId, pool: &ServerPool) -> Vec<ServerId> {
    let servers = 0..pool.tier.servers().len();
    servers.filter(|other| *other != server).collect()
}

/// Repeats a session's statements at another server. A time-out counts as broken.
async fn repeat_all<'a>(
    conn: &mut ServerConn,
    entries: impl IntoIterator<Item = &'a Entry>,
    deadline: Instant,
    limit: Duration,
) -> End {
    for entry in entries {
        let repeated = timeout_at(deadline, repeat(conn, entry, limit)).await;
        let end = repeated.unwrap_or(End::Broken);
        if end != End::Good {
            return end;
        }
    }
    End::Good
}

async fn repeat(conn: &mut ServerConn, entry: &Entry, limit: Duration) -> End {
    let Some(mut follow) = Follow::new(entry.shape) else {
        return End::Good;
    };
    if conn.conn.write(entry.packet.bytes(), limit).await.is_err() {
        return End::Broken;
    }
    let mut statement = entry.statement;
    while let Ok(Some(packet)) = packet::read(&mut conn.conn).await {
        if let Statement::Prepare(id) = std::mem::take(&mut statement) {
            let mut first = packet.bytes()[..packet.bytes().len().min(16)].to_vec();
            if let Some(number) = packet::renumber(&mut first, id) {
                conn.knows(id, number);
            }
        }
        if let Some(end) = follow.packet(packet.payload()) {
            conn.note(&entry.task);
            conn.note_reply(&follow);
            return end;
        }
    }
    End::Broken
}
