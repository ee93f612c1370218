//! The servers of a client: those that it reads from (one, or r), and, where the tier has a primary, the
//! one that it writes to, from the first write on.
//!
//! Both have the same session state: session statements go to both, or are replayed when the second
//! one is added. While a transaction is open that has written, or that may write and reads at the
//! primary, or while the primary has state of its own, everything goes there. A transaction that
//! began at the readers belongs to the writer from its first write on.

use std::convert::Infallible;
use std::sync::Arc;

use policy::ServerId;
use tokio::time::Instant;

use super::classify::{Access, Effect};
use super::packet::Packet;
use super::passthrough::Passthrough;
use super::replay::{Entry, Replay};
use super::replicated::Replicated;
use super::reply::{is_in_transaction, Shape, AUTOCOMMIT};
use super::server_pool::ServerPool;
use super::types::{Beginning, NotOpen, Outcome, Request, Route, Statement, Verdict};
use crate::collision_avoidance::Stamp;
use crate::config::ReadsAfterWrite;
use crate::conn::Conn;
use crate::tier::Pinned;

/// Servers of a client's reads.
enum Readers {
    /// Not chosen yet.
    NotYet,
    One(Box<Passthrough>),
    Many(Box<Replicated>),
}

/// A client's session.
pub struct Session {
    pool: Arc<ServerPool>,
    start: Beginning,
    readers: Readers,
    writer: Option<Box<Passthrough>>,
    /// Transaction that the readers began, to be moved to the writer.
    begun: Vec<Entry>,
    /// True if only the writer has some of the state.
    stays: bool,
    wrote: bool,
    /// True if the writer served the last command.
    was_writer: bool,
    /// True if a reset does not undo all state.
    is_sticky: bool,
    pinned: Option<Pinned>,
}

/// Result of a command.
pub enum Served {
    /// The reply was passed on, as far as there is one.
    Passed(Outcome),
    /// A reply to pass on.
    Reply(Verdict),
}

impl Session {
    /// Creates the session; its servers are not chosen yet.
    pub fn new(pool: Arc<ServerPool>, start: Beginning) -> Self {
        Self {
            pool,
            start,
            readers: Readers::NotYet,
            writer: None,
            begun: Vec::new(),
            stays: false,
            wrote: false,
            was_writer: false,
            is_sticky: false,
            pinned: None,
        }
    }

    /// True if the writer served the last command.
    pub fn was_writer(&self) -> bool {
        self.was_writer
    }

    /// Chooses the servers for reads, if that is not done yet.
    pub async fn open(&mut self, stamp: Option<Stamp>) -> Result<(), NotOpen> {
        match (&mut self.readers, stamp) {
            (Readers::NotYet, _) => {
                self.start.stamp = stamp;
                let (pool, start) = (Arc::clone(&self.pool), self.start.clone());
                // No read's: that a server would be a probe says nothing of a session's whole life.
                self.readers = match pool.tier.replicas() {
                    r if r > 1 => Readers::Many(Box::new(Replicated::open(pool, start, r).await?)),
                    _ => Readers::One(Box::new(Passthrough::open(pool, start).await?)),
                };
            }
            (Readers::One(solo), Some(stamp)) => solo.stamped(stamp),
            (Readers::Many(held), Some(stamp)) => held.stamped(stamp),
            (_, None) => {}
        }
        Ok(())
    }

    /// Adds servers that connect and drops those that die, while the client is silent.
    pub async fn tend(&mut self) -> Infallible {
        let writing = async {
            match &mut self.writer {
                Some(writer) => loop {
                    writer.lose().await;
                },
                None => std::future::pending().await,
            }
        };
        let reading = async {
            match &mut self.readers {
                Readers::NotYet => std::future::pending().await,
                Readers::One(solo) => loop {
                    solo.lose().await;
                },
                Readers::Many(held) => held.tend().await,
            }
        };
        tokio::select! {
            never = writing => never,
            never = reading => never,
        }
    }

    /// Status of the last reply; at first that of the login.
    pub fn status(&self) -> u16 {
        match (&self.writer, &self.readers) {
            (Some(writer), _) if self.was_writer => writer.status,
            (_, Readers::NotYet) => AUTOCOMMIT,
            (_, Readers::One(solo)) => solo.status,
            (_, Readers::Many(held)) => held.status,
        }
    }

    /// Ends the session: connections are reset and pooled.
    pub async fn close(self) {
        if let Some(writer) = self.writer {
            writer.close().await;
        }
        match self.readers {
            Readers::One(solo) => solo.close().await,
            // Each of its links does that by itself.
            Readers::NotYet | Readers::Many(_) => {}
        }
    }

    /// Serves one command.
    ///
    /// # Errors
    /// [`NotOpen`]: the server that is written to cannot be had; the session goes on.
    pub async fn serve(
        &mut self,
        request: Request<'_>,
        client: &mut Conn,
        deadline: Instant,
    ) -> Result<Served, NotOpen> {
        if *request.route == Route::Session(Effect::Reset) {
            self.reset().await;
        }
        let served = self.serve_once(request, client, deadline).await;
        if let Some(pinned) = &self.pinned {
            pinned.asks();
        }
        served
    }

    async fn serve_once(
        &mut self,
        request: Request<'_>,
        client: &mut Conn,
        deadline: Instant,
    ) -> Result<Served, NotOpen> {
        if self.goes_to_writer(request.route) {
            let outcome = self.write(request, client, deadline).await?;
            return Ok(Served::Passed(outcome));
        }
        self.was_writer = false;
        if request.route.pins() {
            self.count_pinned();
        }
        let (served, was_good) = match &mut self.readers {
            Readers::NotYet => return Ok(Served::Passed(Outcome::Gone)),
            Readers::One(solo) => {
                let outcome = solo.serve(request, client, deadline).await;
                (Served::Passed(outcome), solo.was_good)
            }
            Readers::Many(held) => match client.while_here(held.serve(request, deadline)).await {
                Some(verdict) => (Served::Reply(verdict), held.was_good),
                None => (Served::Passed(Outcome::Cut), false),
            },
        };
        if let (Route::Session(effect), Some(writer), true) =
            (request.route, &mut self.writer, was_good)
        {
            // A transaction comes to it with the first write.
            if !matches!(effect, Effect::Begin(_) | Effect::Within | Effect::End) {
                writer.follow(effect, request).await;
            }
        }
        Ok(served)
    }

    /// First packet of the last reply, if a statement was prepared at a passed-through server.
    pub fn prepared(&mut self) -> Vec<u8> {
        let prepare_ok = match (&mut self.writer, &mut self.readers) {
            (Some(writer), _) if self.was_writer => &mut writer.prepare_ok,
            (_, Readers::One(solo)) => &mut solo.prepare_ok,
            (_, Readers::NotYet | Readers::Many(_)) => return Vec::new(),
        };
        std::mem::take(prepare_ok)
    }

    fn goes_to_writer(&self, route: &Route) -> bool {
        let Some(after) = self.pool.account().reads_after_write() else {
            return false;
        };
        let is_writer = |has: fn(&Passthrough) -> bool| self.writer.as_deref().is_some_and(has);
        let is_bound = self.stays || !self.begun.is_empty() || is_writer(Passthrough::is_bound);
        is_bound
            || match route {
                Route::Write | Route::Pin | Route::Lock => true,
                Route::Session(Effect::Begin(access)) => {
                    let reads_there = match access {
                        Access::Any => after == ReadsAfterWrite::Primary,
                        Access::Read => self.wrote && after == ReadsAfterWrite::Primary,
                        Access::Snapshot => true,
                    };
                    // SET TRANSACTION went there.
                    reads_there || is_writer(|writer| !writer.replay().is_possible())
                }
                Route::Session(Effect::Unrepeatable | Effect::Sticky) => true,
                Route::Session(_) => false,
                Route::Left => self.wrote,
                Route::One => self.was_writer,
                Route::Race => self.wrote && after == ReadsAfterWrite::Primary,
            }
    }

    /// As `serve`, at the writer.
    async fn write(
        &mut self,
        request: Request<'_>,
        client: &mut Conn,
        deadline: Instant,
    ) -> Result<Outcome, NotOpen> {
        let tier = Arc::clone(&self.pool.tier);
        let primary = tier.primary.get().map_err(NotOpen::NoPrimary)?;
        // First, since the readers keep tokens while it is open: one may be that of the same server.
        self.end_readers_transaction(deadline).await;
        if self.writer.is_none() {
            let opened = self.open_writer(primary).await;
            self.writer = Some(opened.inspect_err(|_| tier.primary.doubt())?);
        }
        let Some(writer) = &mut self.writer else {
            return Ok(Outcome::Gone);
        };
        if tier.primary.is_detected() {
            writer.stay_at(primary);
        }
        writer.take_over(std::mem::take(&mut self.begun));
        self.was_writer = true;
        let is_sticky = *request.route == Route::Session(Effect::Sticky);
        self.is_sticky |= is_sticky;
        self.wrote |= *request.route == Route::Write;
        let outcome = writer.serve(request, client, deadline).await;
        let was_good = writer.was_good;
        if outcome != Outcome::Served {
            tier.primary.doubt();
        }
        if request.route.pins() || is_sticky {
            self.stays = true;
            self.wrote = true;
            self.count_pinned();
        }
        if let (Route::Session(effect), true, false) = (request.route, was_good, self.stays) {
            let is_shared = !matches!(
                effect,
                Effect::Begin(_) | Effect::Within | Effect::Unrepeatable | Effect::Reset
            );
            if is_shared {
                self.readers_follow(effect, request, deadline).await;
            }
        }
        Ok(outcome)
    }

    /// Ends the transaction of the readers; it is to begin at the writer.
    async fn end_readers_transaction(&mut self, deadline: Instant) {
        let (transaction, is_open) = match &self.readers {
            Readers::NotYet => return,
            Readers::One(solo) => (solo.replay().transaction(), solo.is_in_transaction()),
            Readers::Many(held) => (held.replay().transaction(), is_in_transaction(held.status)),
        };
        // With `autocommit = 0` a read begins one, and no statement does.
        if transaction.is_empty() && !is_open {
            return;
        }
        if !transaction.is_empty() {
            self.begun = transaction.to_vec();
        }
        let request = Request {
            packet: &Packet::new(0, b"\x03COMMIT AND NO CHAIN NO RELEASE"),
            shape: Shape::Results,
            route: &Route::Session(Effect::End),
            statement: Statement::None,
        };
        self.readers_follow(&Effect::End, request, deadline).await;
    }

    async fn readers_follow(&mut self, effect: &Effect, request: Request<'_>, deadline: Instant) {
        match &mut self.readers {
            Readers::NotYet => {}
            Readers::One(solo) => solo.follow(effect, request).await,
            Readers::Many(held) => {
                // The client has its reply already.
                let _ = held.serve(request, deadline).await;
            }
        }
    }

    async fn open_writer(&self, primary: ServerId) -> Result<Box<Passthrough>, NotOpen> {
        let replay = match &self.readers {
            Readers::NotYet => Some(Replay::default()),
            Readers::One(solo) => solo.replay().settings(),
            Readers::Many(held) => held.replay().settings(),
        };
        let replay = replay.ok_or(NotOpen::TooMuchState)?;
        let start = Beginning { stamp: None, ..self.start.clone() };
        let pool = Arc::clone(&self.pool);
        let writer = Passthrough::open_at(pool, start, replay, primary).await?;
        Ok(Box::new(writer))
    }

    /// Resets state that only the writer had.
    async fn reset(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.close().await;
        }
        (self.stays, self.wrote, self.was_writer) = (false, false, false);
        self.begun.clear();
        if !self.is_sticky {
            self.pinned = None;
        }
    }

    fn count_pinned(&mut self) {
        self.pinned.get_or_insert_with(|| Pinned::new(&self.pool.tier));
    }
}
