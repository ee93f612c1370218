//! A session with one server (r = 1): commands and replies pass straight through, without a task
//! or a queue between client and server and without a copy.
//!
//! As in `held`: a server that dies between commands is replaced, and the next one is first brought
//! to the session's state; one that dies in mid-command takes the session with it.

use std::io::ErrorKind::TimedOut;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use policy::ServerId;
use tokio::time::{timeout_at, Instant};

use super::hello::Key;
use super::hub::{Hub, OpenError, ServerConn};
use super::packet::{self, Packet};
use super::replay::{self, Entry, Replay};
use super::reply::{is_of_the_statement, End, Follow, Shape};
use super::terms::{Beginning, NotOpen, Route, Task};
use crate::conn::Conn;
use crate::siblings::Stamp;
use crate::tier::{Flight, Lease};

/// From this size on the whole packets of a reply go out before the reply is complete.
const PART_BYTES: usize = 64 * 1024;

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The client has its reply, if there is one.
    Served,
    /// The reply was cut, or the client did not take it.
    Cut,
    /// No server replied; the client got nothing yet.
    Gone,
    /// None in time; the client got nothing yet.
    TimedOut,
}

/// See the module.
pub struct Solo {
    hub: Arc<Hub>,
    key: Key,
    database: Option<Vec<u8>>,
    stamp: Option<Stamp>,
    server: Option<Reached>,
    replay: Replay,
    /// Servers that cannot have the session's state.
    refusing: Vec<ServerId>,
}

struct Reached {
    lease: Lease,
    conn: ServerConn,
}

impl Solo {
    /// Takes a token and waits for its server to be connected.
    ///
    /// # Errors
    /// [`NotOpen`].
    pub async fn open(hub: Arc<Hub>, start: Beginning) -> Result<Self, NotOpen> {
        let deadline = Instant::now() + hub.tier.config().request_timeout();
        let mut solo = Self {
            hub,
            key: start.key,
            database: start.database,
            stamp: start.stamp,
            server: None,
            replay: Replay::default(),
            refusing: Vec::new(),
        };
        solo.reach(deadline).await?;
        Ok(solo)
    }

    /// The stamp came too late for the choice of the server; a collision is counted all the same.
    pub fn stamped(&mut self, stamp: Stamp) {
        self.stamp = Some(stamp);
        if let Some(reached) = &self.server {
            self.hub.tier.holds(stamp, reached.lease.server);
        }
    }

    /// Waits until the server is gone, and gives its token back.
    pub async fn lose(&mut self) {
        match &mut self.server {
            Some(reached) => reached.conn.conn.spoken().await,
            None => std::future::pending().await,
        }
        self.server = None;
    }

    /// The session is over: the connection is reset and kept for another client.
    pub async fn close(self) {
        if let Some(Reached { lease, conn }) = self.server {
            self.hub.give_back(lease.server, conn).await;
        }
    }

    /// Serves one command.
    pub async fn serve(
        &mut self,
        command: &Packet,
        shape: Shape,
        route: &Route,
        client: &mut Conn,
        deadline: Instant,
    ) -> Outcome {
        let is_there = |reached: &mut Reached| reached.conn.conn.is_silent();
        if !self.server.as_mut().is_some_and(is_there) {
            self.server = None;
            if !self.replay.is_possible() || self.reach(deadline).await.is_err() {
                return Outcome::Gone;
            }
        }
        if *route == Route::Pin {
            self.replay.forbid();
        }
        let Some(mut reached) = self.server.take() else {
            return Outcome::Gone;
        };
        let task = match route {
            Route::Race => Task::Race,
            Route::One | Route::Pin => Task::Alone,
            Route::Session(effect) => replay::task(effect),
        };
        let passing = Passing {
            flight: self.hub.tier.sent(reached.lease.server),
            task: &task,
            limit: self.hub.tier.config().request_timeout(),
            deadline,
        };
        match passing
            .run(&mut reached.conn.conn, command, shape, client)
            .await
        {
            Ok(End::Good) => {
                reached.conn.note(&task);
                if let Route::Session(effect) = route {
                    self.replay.record(effect, command, shape);
                }
            }
            Ok(_) => {}
            Err(outcome) => return outcome,
        }
        self.server = Some(reached);
        Outcome::Served
    }

    /// Finds a server, and brings it to the session's state.
    async fn reach(&mut self, deadline: Instant) -> Result<(), NotOpen> {
        let mut refusal = None;
        loop {
            let leases = self.hub.tier.acquire_for(self.stamp, 1, &self.refusing);
            let mut leases = leases.map_err(|refused| {
                refusal
                    .take()
                    .map_or(NotOpen::Policy(refused), NotOpen::Refused)
            })?;
            let lease = timeout_at(deadline, leases.next()).await;
            let Some(lease) = lease.map_err(|_| NotOpen::TimedOut)? else {
                return Err(NotOpen::TimedOut);
            };
            let server = lease.server;
            if let Some(stamp) = self.stamp {
                self.hub.tier.holds(stamp, server);
            }
            match self
                .hub
                .open(server, self.key, self.database.as_deref())
                .await
            {
                Ok(conn) => {
                    let mut reached = Reached { lease, conn };
                    if self.catch_up(&mut reached.conn, deadline).await {
                        self.server = Some(reached);
                        return Ok(());
                    }
                }
                Err(OpenError::Refused(packet)) => refusal = Some(packet),
                Err(OpenError::Unreachable | OpenError::Local) => {}
            }
            self.refusing.push(server);
        }
    }

    /// Replays the session's statements.
    async fn catch_up(&mut self, conn: &mut ServerConn, deadline: Instant) -> bool {
        let limit = self.hub.tier.config().request_timeout();
        for entry in self.replay.entries() {
            if !matches!(
                timeout_at(deadline, repeat(conn, entry, limit)).await,
                Ok(true)
            ) {
                return false;
            }
        }
        true
    }
}

async fn repeat(conn: &mut ServerConn, entry: &Entry, limit: Duration) -> bool {
    let Some(mut follow) = Follow::new(entry.shape) else {
        return true;
    };
    if conn.conn.write(entry.packet.bytes(), limit).await.is_err() {
        return false;
    }
    while let Ok(Some(packet)) = packet::read(&mut conn.conn).await {
        if let Some(end) = follow.packet(packet.payload()) {
            conn.note(&entry.task);
            return end == End::Good;
        }
    }
    false
}

/// A command on its way to the server, and its reply on the way back.
struct Passing<'a> {
    flight: Flight,
    task: &'a Task,
    limit: Duration,
    deadline: Instant,
}

impl Passing<'_> {
    /// How the reply ended.
    async fn run(
        mut self,
        server: &mut Conn,
        command: &Packet,
        shape: Shape,
        client: &mut Conn,
    ) -> Result<End, Outcome> {
        if server.write(command.bytes(), self.limit).await.is_err() {
            return Err(self.lost(Outcome::Gone));
        }
        let Some(mut follow) = Follow::new(shape) else {
            return Ok(End::Good);
        };
        let (mut whole, mut otherwise) = (0, Outcome::Gone);
        loop {
            while let Some(length) = packet::whole(&server.buffer[whole..]) {
                let end = follow.packet(&server.buffer[whole + packet::HEADER..whole + length]);
                whole += length;
                match end {
                    None => {}
                    Some(End::Broken) => return Err(self.lost(otherwise)),
                    Some(end) => {
                        self.observe(&end);
                        self.pass(server, whole, client).await?;
                        return Ok(end);
                    }
                }
            }
            if whole >= PART_BYTES {
                self.pass(server, whole, client).await?;
                (whole, otherwise) = (0, Outcome::Cut);
                // A large reply may take its time, as long as it goes on.
                self.deadline = Instant::now() + self.limit;
            }
            match server.fill_by(self.deadline).await {
                Ok(1..) => {}
                Err(error) if error.kind() == TimedOut && otherwise == Outcome::Gone => {
                    return Err(self.lost(Outcome::TimedOut));
                }
                _ => return Err(self.lost(otherwise)),
            }
        }
    }

    fn lost(&self, outcome: Outcome) -> Outcome {
        self.flight.bad();
        outcome
    }

    /// Gives the first `length` bytes of the server's to the client.
    async fn pass(
        &self,
        server: &mut Conn,
        length: usize,
        client: &mut Conn,
    ) -> Result<(), Outcome> {
        let written = client.write(&server.buffer[..length], self.limit).await;
        server.buffer.advance(length);
        server.shrink_buffer();
        written.map_err(|_| Outcome::Cut)
    }

    /// Tells the policy.
    fn observe(&self, end: &End) {
        match (end, self.task) {
            (End::Good, Task::Race | Task::Alone) => {
                self.flight.good();
                self.flight.won();
            }
            // Settings take no time anywhere: they say nothing of a server's speed.
            (End::Good, Task::Session(_) | Task::Sticky) => self.flight.won(),
            (End::Error { state }, _) if is_of_the_statement(*state) => {}
            (End::Error { .. } | End::Broken, _) => {
                self.flight.bad();
            }
        }
    }
}
