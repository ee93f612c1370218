//! A session's connection to one server: a task with a queue of commands, run strictly in order.
//!
//! A slow server lags behind without holding the client up. When it gets to a read that another has
//! answered it skips it; a statement that changes the session it always runs. When the session
//! ends, or gives this server up, what is being run is drained, the rest of the queue is thrown
//! away, the connection is reset and kept for another client, and only then its token returns.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use policy::ServerId;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::contest::{LinkId, Ticket};
use super::hello::Key;
use super::hub::{Hub, OpenError, ServerConn};
use super::packet::{self, Packet};
use super::reply::{is_of_the_statement, End, Follow, Shape};
use super::terms::Task;
use crate::tier::{Flight, Lease};

/// Commands that a server may lag behind; beyond, the session gives it up.
const QUEUE_MAX: usize = 1_024;
/// Largest reply that is held back; a larger one is streamed as soon as it is larger.
const REPLY_MAX: usize = 1024 * 1024;
/// Pieces of a streamed reply under way between server and client.
const PIECES_MAX: usize = 8;

/// A command for one server.
pub struct Command {
    /// As the client sent it.
    pub packet: Packet,
    /// Its reply's form.
    pub shape: Shape,
    /// What it is.
    pub task: Task,
    /// Where the reply goes.
    pub ticket: Ticket,
}

/// What a link tells its session apart from replies.
pub enum News {
    /// Connected; it takes commands.
    Ready(LinkId),
    /// Gone.
    Down(LinkId, Loss),
}

/// Why a link is gone.
pub enum Loss {
    /// The connection broke, or could not be made.
    Broken,
    /// The server refused the login.
    Refused(Packet),
    /// It could not do what other servers did: it is not where the session is.
    Disagrees,
}

/// How the session reaches a link.
pub struct Link {
    /// Its number.
    pub id: LinkId,
    /// Its server.
    pub server: ServerId,
    commands: mpsc::Sender<Command>,
    abandoned: Arc<AtomicBool>,
}

/// What a link needs to begin with.
pub struct Start {
    /// Kind of connection.
    pub key: Key,
    /// Database to begin in.
    pub database: Option<Vec<u8>>,
    /// Where it tells its state.
    pub news: mpsc::UnboundedSender<News>,
}

impl Link {
    /// Starts the task. Commands may be queued at once; they run when it is connected.
    pub fn start(hub: Arc<Hub>, id: LinkId, lease: Lease, start: Start) -> Self {
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let abandoned = Arc::new(AtomicBool::new(false));
        let server = lease.server;
        let worker = Worker {
            hub,
            id,
            server,
            queue,
            abandoned: Arc::clone(&abandoned),
        };
        tokio::spawn(worker.run(lease, start));
        Self {
            id,
            server,
            commands,
            abandoned,
        }
    }

    /// Queues a command; false when the link is dead or too far behind.
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
    hub: Arc<Hub>,
    id: LinkId,
    server: ServerId,
    queue: mpsc::Receiver<Command>,
    abandoned: Arc<AtomicBool>,
}

impl Worker {
    async fn run(mut self, lease: Lease, start: Start) {
        let Start {
            key,
            database,
            news,
        } = start;
        let opened = self.hub.open(self.server, key, database.as_deref()).await;
        // A session that is gone hears no news.
        let tell = |told: News| drop(news.send(told));
        let mut conn = match opened {
            Ok(conn) => conn,
            Err(OpenError::Refused(packet)) => {
                return tell(News::Down(self.id, Loss::Refused(packet)))
            }
            Err(OpenError::Unreachable | OpenError::Local) => {
                return tell(News::Down(self.id, Loss::Broken))
            }
        };
        tell(News::Ready(self.id));
        let worked = self.work(&mut conn).await;
        let is_usable = !matches!(worked, Err(Loss::Broken));
        if let Err(loss) = worked {
            tell(News::Down(self.id, loss));
        }
        if is_usable {
            self.hub.give_back(self.server, conn).await;
        }
        drop(lease);
    }

    async fn work(&mut self, conn: &mut ServerConn) -> Result<(), Loss> {
        loop {
            let command = tokio::select! {
                biased;
                command = self.queue.recv() => command,
                // The server closed, or said what nobody asked for.
                () = conn.conn.spoken() => return Err(Loss::Broken),
            };
            let Some(mut command) = command else {
                return Ok(());
            };
            if command.task == Task::Race && command.ticket.is_answered() {
                self.hub.tier.counters.replicas_not_needed.inc();
                command.ticket.done();
            } else if !self.abandoned.load(SeqCst) {
                self.execute(conn, command).await?;
            }
        }
    }

    async fn execute(&self, conn: &mut ServerConn, mut command: Command) -> Result<(), Loss> {
        let flight = self.hub.tier.sent(self.server);
        let limit = self.hub.tier.config().request_timeout();
        if conn
            .conn
            .write(command.packet.bytes(), limit)
            .await
            .is_err()
        {
            return lost(&command, &flight);
        }
        let Some(follow) = Follow::new(command.shape) else {
            command.ticket.done();
            return Ok(());
        };
        Reading {
            limit,
            flight,
            follow,
            kept: BytesMut::new(),
            command,
        }
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
struct Reading {
    limit: Duration,
    flight: Flight,
    follow: Follow,
    kept: BytesMut,
    command: Command,
}

impl Reading {
    async fn run(mut self, conn: &mut ServerConn) -> Result<(), Loss> {
        loop {
            let Ok(Ok(Some(packet))) = timeout(self.limit, packet::read(&mut conn.conn)).await
            else {
                return lost(&self.command, &self.flight);
            };
            if self.command.ticket.is_answered() {
                self.kept = BytesMut::new();
            } else {
                self.kept.extend_from_slice(packet.bytes());
            }
            if let Some(end) = self.follow.packet(packet.payload()) {
                return self.end(conn, end);
            }
            if self.kept.len() > REPLY_MAX {
                let (pieces, rest) = mpsc::channel(PIECES_MAX);
                if self
                    .command
                    .ticket
                    .win(self.kept.split().freeze(), Some(rest))
                {
                    self.flight.won();
                    return self.pour(conn, pieces).await;
                }
            }
        }
    }

    fn end(mut self, conn: &mut ServerConn, end: End) -> Result<(), Loss> {
        let reply = self.kept.split().freeze();
        match end {
            End::Good => self.good(conn, reply),
            End::Error { state } => self.error(reply, state),
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
        if self.command.ticket.win(reply, None) {
            self.flight.won();
        } else {
            if self.command.task == Task::Race {
                self.flight.wasted(spent);
            }
            self.command.ticket.done();
        }
        Ok(())
    }

    fn error(&mut self, reply: bytes::Bytes, state: [u8; 5]) -> Result<(), Loss> {
        let is_the_server_s = !is_of_the_statement(state);
        let spent = if is_the_server_s {
            self.flight.bad()
        } else {
            self.flight.neutral()
        };
        if !self.command.ticket.is_answered() {
            self.command.ticket.fail(reply);
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

    /// The reply outgrew the buffer and won: streams the rest.
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
                // Nobody reads it: not worth the draining.
                self.flight.neutral();
                return Err(Loss::Broken);
            }
            match end {
                None => {}
                Some(End::Good) => {
                    self.flight.good();
                    return Ok(());
                }
                Some(End::Error { .. }) => {
                    self.flight.bad();
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
