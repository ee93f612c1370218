//! A session's connection to one server: a task with a queue of commands, run strictly in order.
//!
//! A slow server lags behind without delaying the client. It skips a read that another server has
//! answered, and always runs a statement that changes the session. Each command takes a token, and
//! returns it with its reply's last byte, unless it keeps it (see `passthrough`). When the
//! session ends, or gives up this server, the current command is read to its end (or stopped, if it
//! has no answer because its client is gone), the rest of the queue is discarded, and the
//! connection is reset and kept for another client.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use policy::{Refused, ServerId};
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout, Instant};

use super::contest::{LinkId, Ticket};
use super::handshake::Key;
use super::kill_query::stop;
use super::packet::{self, Packet};
use super::reply::{End, Follow, Shape, SqlError};
use super::server_pool::{OpenError, ServerConn, ServerPool};
use super::types::{Statement, Task};
use crate::tier::{Flight, Lease, Unreached};

/// Commands that a server may lag behind before the session drops it.
const QUEUE_MAX: usize = 1_024;
/// Maximum reply that is held back; a larger one is streamed from then on.
const REPLY_MAX: usize = 1024 * 1024;
/// Maximum pieces of a streamed reply between server and client.
const PIECES_MAX: usize = 8;

/// A command for one server.
pub struct Command {
    /// As the client sent it.
    pub packet: Packet,
    /// Its reply's form.
    pub shape: Shape,
    /// The prepared statement, if there is one.
    pub statement: Statement,
    /// See [`Route::locks`](super::types::Route::locks).
    pub locks: Option<bool>,
    /// The command.
    pub task: Task,
    /// The channel for the reply.
    pub ticket: Ticket,
}

/// An event of a link for its session, apart from replies.
pub enum News {
    /// Connected and ready for commands.
    Ready(LinkId),
    /// Closed. The server is named in case the session has dropped the link already.
    Down(LinkId, ServerId, Loss),
}

/// Reason for the loss of a link.
pub enum Loss {
    /// The connection broke, or failed.
    Broken,
    /// The connection was not made in time.
    Late,
    /// The server refused the login.
    Refused(Packet),
    /// It failed at a command that other servers executed, so its state differs from the session's.
    Disagrees,
}

/// The session's side of a link.
pub struct Link {
    /// Its number.
    pub id: LinkId,
    /// Its server.
    pub server: ServerId,
    commands: mpsc::Sender<Command>,
    abandoned: Arc<AtomicBool>,
}

/// Initial state of a link.
pub struct Start {
    /// Kind of connection.
    pub key: Key,
    /// Database to begin in.
    pub database: Option<Vec<u8>>,
    /// Channel for its events.
    pub news: mpsc::UnboundedSender<News>,
}

impl Link {
    /// Starts the task. Commands may be queued at once; they run after it has connected.
    pub fn start(pool: Arc<ServerPool>, id: LinkId, lease: Lease, start: Start) -> Self {
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let abandoned = Arc::new(AtomicBool::new(false));
        let server = lease.server;
        let Start { key, database, news } = start;
        let worker = Worker {
            pool,
            id,
            server,
            queue,
            abandoned: Arc::clone(&abandoned),
            news,
            lease: Some(lease),
            took_locks: false,
        };
        tokio::spawn(worker.run(key, database));
        Self { id, server, commands, abandoned }
    }

    /// Queues a command; false if the link is dead or too far behind.
    pub fn send(&self, command: Command) -> bool {
        self.commands.try_send(command).is_ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.abandoned.store(true, SeqCst);
    }
}

struct Worker {
    pool: Arc<ServerPool>,
    id: LinkId,
    server: ServerId,
    queue: mpsc::Receiver<Command>,
    abandoned: Arc<AtomicBool>,
    /// Closed when the session ends.
    news: mpsc::UnboundedSender<News>,
    /// The token; between commands only if the session keeps it.
    lease: Option<Lease>,
    took_locks: bool,
}

impl Worker {
    async fn run(mut self, key: Key, database: Option<Vec<u8>>) {
        // The session asks another server then, or this one once more.
        let deadline = Instant::now() + self.pool.tier.config().connect_timeout();
        let opened = tokio::select! {
            opened = self.pool.open(self.server, key, database.as_deref(), deadline) => opened,
            () = self.news.closed() => return,
        };
        let mut conn = match opened {
            Ok(conn) => conn,
            Err(why) => {
                let loss = match why {
                    OpenError::Refused(packet) => Loss::Refused(packet),
                    OpenError::Unreached(Unreached::Refused) => Loss::Broken,
                    OpenError::Unreached(_) => Loss::Late,
                };
                return self.tell(News::Down(self.id, self.server, loss));
            }
        };
        self.tell(News::Ready(self.id));
        let worked = self.work(&mut conn).await;
        let is_usable = !matches!(worked, Err(Loss::Broken));
        if let Err(loss) = worked {
            self.tell(News::Down(self.id, self.server, loss));
        }
        if is_usable {
            self.pool.give_back(self.server, conn).await;
        }
    }

    fn tell(&self, news: News) {
        // A session that is gone hears none.
        let _ = self.news.send(news);
    }

    async fn work(&mut self, conn: &mut ServerConn) -> Result<(), Loss> {
        loop {
            let command = match self.queue.try_recv() {
                Ok(command) => Some(command),
                Err(_) => self.rest(conn).await?,
            };
            let Some(mut command) = command else {
                return Ok(());
            };
            let has_locks = self.has_locks(conn);
            if !self.is_needed(&command) || !self.prepare(conn, has_locks, &command).await? {
                command.ticket.done();
            } else if !self.abandoned.load(SeqCst) {
                self.took_locks = command.locks.unwrap_or(self.took_locks);
                self.execute(conn, command).await?;
            }
            if !self.keeps_token(conn) {
                self.lease = None;
            }
        }
    }

    /// Waits for a command; none after the last.
    async fn rest(&mut self, conn: &mut ServerConn) -> Result<Option<Command>, Loss> {
        if !self.keeps_token(conn) {
            self.lease = None;
        }
        let gives_back = !self.pool.tier.holds_connections();
        let silence_max = self.pool.tier.config().request_timeout();
        loop {
            tokio::select! {
                biased;
                command = self.queue.recv() => return Ok(command),
                // The server closed, or said what nobody asked for.
                () = conn.conn.spoken() => return Err(Loss::Broken),
                () = sleep(silence_max), if gives_back && self.lease.is_some() => self.lease = None,
            }
        }
    }

    fn has_locks(&self, conn: &ServerConn) -> bool {
        self.took_locks || conn.in_transaction
    }

    fn keeps_token(&self, conn: &ServerConn) -> bool {
        self.has_locks(conn) || self.pool.tier.holds_connections()
    }

    /// True if no other server has answered it.
    fn is_needed(&self, command: &Command) -> bool {
        let is_needed = command.task != Task::Race || !command.ticket.is_answered();
        if !is_needed {
            self.pool.tier.counters.replicas_not_needed.inc();
        }
        is_needed
    }

    /// Waits for a token, if the command needs one; false if it is no longer needed.
    async fn prepare(
        &mut self,
        conn: &mut ServerConn,
        has_locks: bool,
        command: &Command,
    ) -> Result<bool, Loss> {
        if self.lease.is_some() || command.shape == Shape::Nothing {
            return Ok(true);
        }
        let mut leases = match self.pool.tier.again(self.server, !has_locks) {
            Ok(leases) => leases,
            // Dead or taken out: it has no tokens, and what is there goes on.
            Err(Refused::NoServer) => return Ok(true),
            Err(Refused::QueueFull) => return Err(Loss::Broken),
        };
        if leases.to_come() == 0 {
            return Ok(true);
        }
        let limit = self.pool.tier.config().request_timeout();
        tokio::select! {
            biased;
            lease = timeout(limit, leases.next()) => self.lease = lease.unwrap_or(None),
            () = self.news.closed() => return Ok(false),
            // The server has closed the connection: a token would be of no use.
            () = conn.conn.spoken() => return Err(Loss::Broken),
        }
        if !self.is_needed(command) {
            return Ok(false);
        }
        // Without it the session goes on elsewhere, if it can.
        self.lease.as_ref().map(|_| true).ok_or(Loss::Broken)
    }

    async fn execute(&self, conn: &mut ServerConn, mut command: Command) -> Result<(), Loss> {
        if command.statement != Statement::None {
            let Some(packet) = conn.numbered(&command.packet, command.statement) else {
                // It could not prepare it. A closed one is not missed.
                let is_close = matches!(command.statement, Statement::Close(_));
                return if is_close { Ok(()) } else { Err(Loss::Disagrees) };
            };
            command.packet = packet;
            if let Statement::Close(id) = command.statement {
                conn.closed(id);
            }
        }
        let flight = self.pool.tier.sent(self.server);
        let limit = self.pool.tier.config().request_timeout();
        if conn.conn.write(command.packet.bytes(), limit).await.is_err() {
            return lost(&command, &flight);
        }
        let Some(follow) = Follow::new(command.shape) else {
            command.ticket.done();
            return Ok(());
        };
        Reading { worker: self, limit, flight, follow, kept: BytesMut::new(), command }
            .run(conn)
            .await
    }
}

fn lost(command: &Command, flight: &Flight) -> Result<(), Loss> {
    let spent = flight.bad();
    if command.task == Task::Race && command.ticket.is_answered() {
        flight.wasted(spent);
    }
    Err(Loss::Broken)
}

/// A command that was sent; its reply is being read.
struct Reading<'a> {
    worker: &'a Worker,
    limit: Duration,
    flight: Flight,
    follow: Follow,
    kept: BytesMut,
    command: Command,
}

impl Reading<'_> {
    async fn run(mut self, conn: &mut ServerConn) -> Result<(), Loss> {
        loop {
            let Some(read) = self.next(conn).await else {
                return self.stop(conn).await;
            };
            let Ok(read) = read else {
                let late = lost(&self.command, &self.flight);
                return self.stop(conn).await.and(late);
            };
            let Ok(Some(packet)) = read else {
                return lost(&self.command, &self.flight);
            };
            if self.command.ticket.is_answered() {
                self.kept = BytesMut::new();
            } else {
                self.kept.extend_from_slice(packet.bytes());
            }
            if let Statement::Prepare(id) = std::mem::take(&mut self.command.statement) {
                if self.kept.is_empty() {
                    self.kept.extend_from_slice(packet.bytes());
                }
                if let Some(number) = packet::renumber(&mut self.kept, id) {
                    conn.knows(id, number);
                }
            }
            if let Some(end) = self.follow.packet(packet.payload()) {
                return self.end(conn, end);
            }
            if self.kept.len() > REPLY_MAX {
                let (pieces, rest) = mpsc::channel(PIECES_MAX);
                let reply = self.kept.split().freeze();
                let status = self.follow.status();
                if self.command.ticket.win(reply, Some(rest), status) {
                    self.flight.won();
                    return self.pour(conn, pieces).await;
                }
            }
        }
    }

    /// The next packet, or a time-out; none if the session ended and no server has answered.
    async fn next(
        &self,
        conn: &mut ServerConn,
    ) -> Option<Result<io::Result<Option<Packet>>, Elapsed>> {
        let mut reading = pin!(timeout(self.limit, packet::read(&mut conn.conn)));
        tokio::select! {
            biased;
            read = &mut reading => return Some(read),
            () = self.worker.news.closed() => {}
        }
        if !self.command.ticket.is_answered() {
            return None;
        }
        // A loser goes on: what it takes says how fast its server is.
        Some(reading.await)
    }

    /// Stops the command, because no client waits for it.
    async fn stop(mut self, conn: &mut ServerConn) -> Result<(), Loss> {
        let Worker { pool, server, .. } = self.worker;
        stop(pool, *server, conn, &mut self.follow).await;
        Err(Loss::Broken)
    }

    fn end(mut self, conn: &mut ServerConn, end: End) -> Result<(), Loss> {
        let reply = self.kept.split().freeze();
        conn.note_reply(&self.follow);
        match end {
            End::Good => self.good(conn, reply),
            End::Error(error) => self.error(reply, error),
            End::Broken => lost(&self.command, &self.flight),
        }
    }

    fn good(&mut self, conn: &mut ServerConn, reply: bytes::Bytes) -> Result<(), Loss> {
        conn.note(&self.command.task);
        let spent = match &self.command.task {
            Task::Race | Task::Alone => self.flight.good(),
            // Settings take no time anywhere: they say nothing of a server's speed.
            Task::Session(_) | Task::Sticky => self.flight.neutral(),
        };
        let status = self.follow.status();
        if self.command.ticket.win(reply, None, status) {
            self.flight.won();
        } else {
            if self.command.task == Task::Race {
                self.flight.wasted(spent);
            }
            self.command.ticket.done();
        }
        Ok(())
    }

    fn error(&mut self, reply: bytes::Bytes, error: SqlError) -> Result<(), Loss> {
        let spent =
            if error.is_of_the_server() { self.flight.bad() } else { self.flight.neutral() };
        if !self.command.ticket.is_answered() {
            self.command.ticket.fail(reply, self.follow.status());
            return Ok(());
        }
        self.command.ticket.done();
        match self.command.task {
            Task::Race => {
                self.flight.wasted(spent);
                Ok(())
            }
            Task::Alone => Ok(()),
            // The session is not here what it is elsewhere.
            Task::Session(_) | Task::Sticky => Err(Loss::Disagrees),
        }
    }

    /// Streams the rest of a reply that outgrew the buffer and won.
    async fn pour(
        mut self,
        conn: &mut ServerConn,
        pieces: mpsc::Sender<Result<bytes::Bytes, ()>>,
    ) -> Result<(), Loss> {
        loop {
            let Ok(Ok(Some(packet))) = timeout(self.limit, packet::read(&mut conn.conn)).await
            else {
                self.flight.bad();
                // The client may be gone, then it needs no word.
                let _ = pieces.send(Err(())).await;
                return Err(Loss::Broken);
            };
            let end = self.follow.packet(packet.payload());
            self.kept.extend_from_slice(packet.bytes());
            let is_due = end.is_some() || self.kept.len() > REPLY_MAX / 16;
            if is_due && pieces.send(Ok(self.kept.split().freeze())).await.is_err() && end.is_none()
            {
                return self.stop(conn).await;
            }
            if end.is_some() {
                conn.note_reply(&self.follow);
            }
            match end {
                None => {}
                Some(End::Good) => {
                    self.flight.good();
                    return Ok(());
                }
                Some(End::Error(error)) => {
                    if error.is_of_the_server() {
                        self.flight.bad();
                    }
                    return Ok(());
                }
                Some(End::Broken) => {
                    self.flight.bad();
                    let _ = pieces.send(Err(())).await;
                    return Err(Loss::Broken);
                }
            }
        }
    }
}
