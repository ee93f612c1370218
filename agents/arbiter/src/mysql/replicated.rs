//! The servers that one session holds: a connection each, and a token while it works.
//!
//! If fewer than r tokens are free at the start the session begins with those; a server that comes
//! later is brought to the same state by replaying the session statements, and only then gets
//! reads. A server that dies between commands is replaced in the same way.
//!
//! With a policy that delays replicas (`hedge`) a session holds one server. A server that is added
//! for a late read is brought to the session's state too, and the session keeps the one that
//! answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use policy::{Refused, ServerId};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout_at, Instant};

use super::avoid_list::AvoidList;
use super::classify::Effect;
use super::contest::{Contest, Event, LinkId, Ticket};
use super::handshake::Key;
use super::link::{Command, Link, Loss, News, Start};
use super::packet::Packet;
use super::replay::{self, Replay};
use super::reply::{Shape, AUTOCOMMIT};
use super::server_pool::ServerPool;
use super::types::{Beginning, NotOpen, Request, Route, Task, Verdict};
use crate::collision_avoidance::Stamp;
use crate::delayed::{due, Delayed};
use crate::tier::{Lease, Leases, Wanted};

/// A session with up to r servers.
pub struct Replicated {
    pool: Arc<ServerPool>,
    key: Key,
    database: Option<Vec<u8>>,
    stamp: Option<Stamp>,
    /// Number of servers to hold.
    wanted: usize,
    /// Replicas of a read, including delayed ones.
    replicas: usize,
    leases: Option<Leases>,
    links: Vec<Link>,
    ready: Vec<LinkId>,
    next_link: LinkId,
    news: mpsc::UnboundedReceiver<News>,
    tell_news: mpsc::UnboundedSender<News>,
    replay: Replay,
    pinned: bool,
    last_winner: Option<LinkId>,
    refusing: Vec<ServerId>,
    spared: AvoidList,
    refusal: Option<Packet>,
    /// Session status of the last reply.
    pub status: u16,
    /// True if the last command succeeded.
    pub was_good: bool,
}

impl Replicated {
    /// Takes tokens and waits until the first server is connected.
    pub async fn open(
        pool: Arc<ServerPool>,
        start: Beginning,
        replicas: usize,
    ) -> Result<Self, NotOpen> {
        let hedges = pool.tier.policy().0.hedges();
        let deadline = Instant::now() + pool.tier.config().request_timeout();
        let (tell_news, news) = mpsc::unbounded_channel();
        let mut held = Self {
            pool,
            key: start.key,
            database: start.database,
            stamp: start.stamp,
            wanted: if hedges { 1 } else { replicas },
            replicas,
            leases: None,
            links: Vec::new(),
            ready: Vec::new(),
            next_link: 0,
            news,
            tell_news,
            replay: Replay::default(),
            pinned: false,
            last_winner: None,
            refusing: Vec::new(),
            spared: AvoidList::default(),
            refusal: None,
            status: AUTOCOMMIT,
            was_good: false,
        };
        match timeout_at(deadline, held.first_ready()).await {
            Ok(Ok(())) => Ok(held),
            Ok(Err(refused)) => {
                Err(held.refusal.take().map_or(NotOpen::Policy(refused), NotOpen::Refused))
            }
            Err(_) => Err(NotOpen::TimedOut),
        }
    }

    /// Counts collisions for a stamp that came after the choice of servers.
    pub fn stamped(&mut self, stamp: Stamp) {
        self.stamp = Some(stamp);
        for link in &self.links {
            self.pool.tier.holds(stamp, link.server);
        }
    }

    /// Adds servers that connect and drops those that die, while the client is silent.
    pub async fn tend(&mut self) -> Infallible {
        loop {
            self.change().await;
        }
    }

    /// The session's state, for another server.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// Serves one command.
    pub async fn serve(&mut self, request: Request<'_>, deadline: Instant) -> Verdict {
        let Request { packet, shape, route, .. } = request;
        while let Ok(news) = self.news.try_recv() {
            self.hear(news);
        }
        if !matches!(timeout_at(deadline, self.top_up()).await, Ok(true)) {
            return Verdict::Gone;
        }
        if route.pins() {
            self.pin();
        }
        let task = match route {
            Route::Race if self.pinned => Task::Alone,
            Route::Race => Task::Race,
            Route::One | Route::Left | Route::Write | Route::Pin | Route::Lock => Task::Alone,
            Route::Session(effect) => replay::task(effect),
        };
        if task == Task::Race && self.links.len() > 1 {
            self.pool.tier.counters.cloned.inc();
        }
        self.was_good = false;
        let (verdict, is_good) = self.contest(request, &task, deadline).await;
        self.was_good = is_good;
        if self.links.len() > self.wanted {
            self.keep_favourite();
        }
        if let (Route::Session(effect), true) = (route, is_good) {
            self.replay.record(effect, packet, shape);
            // The state that pinned it is undone.
            self.pinned &= *effect != Effect::Reset || !self.replay.is_possible();
        }
        if is_good {
            self.replay.note_status(self.status);
        }
        verdict
    }

    /// Sends a command and waits for the reply; the second result is true for a good one.
    async fn contest(
        &mut self,
        request: Request<'_>,
        task: &Task,
        deadline: Instant,
    ) -> (Verdict, bool) {
        let (shape, locks) = (request.shape, request.route.locks());
        let (contest, mut told) = Contest::new(self.pool.tier.servers().len());
        let command = |link: LinkId| Command {
            packet: request.packet.clone(),
            shape,
            statement: request.statement,
            locks,
            task: task.clone(),
            ticket: Ticket::new(&contest, link),
        };
        let targets = self.targets(task);
        let mut running = targets.len();
        self.links.retain(|link| !targets.contains(&link.id) || link.send(command(link.id)));
        if shape == Shape::Nothing {
            return (Verdict::Nothing, true);
        }
        let mut failed: Vec<(LinkId, Bytes)> = Vec::new();
        let mut delayed = self.delayed(task);
        while running > 0 {
            let joins = *task == Task::Race && self.leases.is_some();
            tokio::select! {
                event = told.recv() => match event {
                    Some(Event::Won { link, reply, rest, status }) => {
                        self.status = status.unwrap_or(self.status);
                        self.won(task, link, &failed);
                        return (Verdict::Reply { packets: reply, rest }, true);
                    }
                    Some(Event::Failed { link, reply, status }) => {
                        self.status = status.unwrap_or(self.status);
                        failed.push((link, reply));
                        running -= 1;
                    }
                    Some(Event::Lost { link }) => {
                        self.links.retain(|other| other.id != link);
                        running -= 1;
                    }
                    None => running = 0,
                },
                lease = next(&mut self.leases), if joins => {
                    // As soon as a token returns, its server gets the read that is still open.
                    if let Some(link) = self.join(lease) {
                        running += usize::from(self.links.iter().any(|other| {
                            other.id == link && other.send(command(link))
                        }));
                    }
                }
                () = due(&mut delayed) => {
                    if let Some(link) = self.one_more() {
                        running += usize::from(link.send(command(link.id)));
                    }
                }
                () = sleep_until(deadline) => {
                    contest.close();
                    return (Verdict::TimedOut, false);
                }
            }
        }
        contest.close();
        match failed.into_iter().next() {
            Some((link, packets)) => {
                self.last_winner = Some(link);
                let rest = None;
                (Verdict::Reply { packets, rest }, false)
            }
            None => (Verdict::Gone, false),
        }
    }

    fn won(&mut self, task: &Task, link: LinkId, failed: &[(LinkId, Bytes)]) {
        self.last_winner = Some(link);
        match task {
            Task::Race => {
                let not_sent = self.leases.as_ref().map_or(0, Leases::to_come) as u64;
                self.pool.tier.counters.replicas_not_needed.add(not_sent);
            }
            // A server that could not do it is not in the others' state.
            Task::Session(_) | Task::Sticky => {
                for (id, _) in failed {
                    self.shun(*id);
                    self.links.retain(|other| other.id != *id);
                }
            }
            Task::Alone => {}
        }
    }

    fn targets(&self, task: &Task) -> Vec<LinkId> {
        if *task == Task::Alone {
            self.favourite().into_iter().collect()
        } else {
            self.links.iter().map(|link| link.id).collect()
        }
    }

    /// The server that answered last, or a connected one, or any; probed ones come last.
    fn favourite(&self) -> Option<LinkId> {
        let link = |id: &LinkId| self.links.iter().find(|link| link.id == *id);
        let winner = self.last_winner.as_ref().and_then(link);
        let ready = self.ready.iter().filter_map(link);
        let others = || ready.clone().chain(&self.links);
        let is_in = |link: &&Link| !self.pool.tier.is_ejected(link.server);
        let favourite = winner.or_else(|| others().find(is_in).or_else(|| others().next()));
        favourite.map(|link| link.id)
    }

    /// Keeps one server, and excludes all others for ever.
    fn pin(&mut self) {
        if self.pinned {
            return;
        }
        self.pinned = true;
        self.leases = None;
        self.replay.forbid();
        self.keep_favourite();
    }

    fn keep_favourite(&mut self) {
        let favourite = self.favourite();
        self.links.retain(|link| Some(link.id) == favourite);
        self.ready.retain(|ready| Some(*ready) == favourite);
    }

    /// Times for asking other servers, if reads are delayed.
    fn delayed(&self, task: &Task) -> Option<Delayed> {
        let may = *task == Task::Race && self.wanted < self.replicas && self.replay.is_possible();
        let hedge = self.pool.tier.delay(self.replicas).filter(|_| may);
        hedge.map(Delayed::new)
    }

    /// Adds a server for a late read, brought to the session's state.
    fn one_more(&mut self) -> Option<&Link> {
        let exclude = self.not_again();
        let lease = self.pool.tier.hedge(&exclude)?;
        let id = self.join(Some(lease))?;
        self.links.iter().find(|link| link.id == id)
    }

    /// Replaces lost servers. False if there is none and none may come.
    async fn top_up(&mut self) -> bool {
        let missing = self.wanted.saturating_sub(self.links.len());
        if self.replay.is_possible() && missing > 0 && self.leases.is_none() {
            self.ask(missing).ok();
        }
        while self.links.is_empty() && self.leases.is_some() {
            self.change().await;
        }
        !self.links.is_empty()
    }

    fn ask(&mut self, missing: usize) -> Result<(), Refused> {
        let mut exclude = self.not_again();
        let copies = Wanted::Copies(missing);
        let mut leases = self.pool.tier.acquire_for(self.stamp, copies, &exclude);
        // None but those that were late: one of these, then.
        let is_stuck = matches!(leases, Err(Refused::NoServer)) && self.links.is_empty();
        if is_stuck && self.spared.forget() {
            exclude = self.not_again();
            leases = self.pool.tier.acquire_for(self.stamp, copies, &exclude);
        }
        self.leases = Some(leases?);
        Ok(())
    }

    /// Servers that it has, cannot have, or that were late.
    fn not_again(&mut self) -> Vec<ServerId> {
        let held = self.links.iter().map(|link| link.server);
        let refusing = held.chain(self.refusing.iter().copied());
        refusing.chain(self.spared.now()).collect()
    }

    /// Waits until one server is connected; replaces those that fail.
    async fn first_ready(&mut self) -> Result<(), Refused> {
        while self.ready.is_empty() {
            if self.links.is_empty() && self.leases.is_none() {
                self.ask(self.wanted)?;
            }
            self.change().await;
        }
        Ok(())
    }

    /// Waits for a new server, or for the next event of one.
    async fn change(&mut self) {
        let coming = self.leases.is_some();
        tokio::select! {
            lease = next(&mut self.leases), if coming => {
                self.join(lease);
            }
            // The session holds a sender itself, so that this never ends.
            Some(news) = self.news.recv() => self.hear(news),
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Ready(id) => self.ready.push(id),
            News::Down(id, server, loss) => {
                match loss {
                    Loss::Broken => {}
                    Loss::Late => {
                        let time = self.pool.tier.config().request_timeout();
                        self.spared.add(server, time);
                    }
                    Loss::Refused(packet) => {
                        self.refusing.push(server);
                        self.refusal = Some(packet);
                    }
                    Loss::Disagrees => self.refusing.push(server),
                }
                self.links.retain(|link| link.id != id);
                self.ready.retain(|ready| *ready != id);
            }
        }
    }

    /// Excludes a server that cannot take this session's state.
    fn shun(&mut self, id: LinkId) {
        let link = self.links.iter().find(|link| link.id == id);
        self.refusing.extend(link.map(|link| link.server));
    }

    /// Adds a link for a lease (none: all have come). Returns its number.
    fn join(&mut self, lease: Option<Lease>) -> Option<LinkId> {
        if self.leases.as_ref().is_some_and(|leases| leases.to_come() == 0) {
            self.leases = None;
        }
        let lease = lease.filter(|_| self.replay.is_possible())?;
        if let Some(stamp) = self.stamp {
            self.pool.tier.holds(stamp, lease.server);
        }
        let id = self.next_link;
        self.next_link += 1;
        let start =
            Start { key: self.key, database: self.database.clone(), news: self.tell_news.clone() };
        let link = Link::start(Arc::clone(&self.pool), id, lease, start);
        for entry in self.replay.entries() {
            let ticket = Ticket::new(&Contest::decided(), id);
            let (packet, shape, task) = (entry.packet.clone(), entry.shape, entry.task.clone());
            // The queue is empty and longer than the record.
            link.send(Command {
                packet,
                shape,
                statement: entry.statement,
                locks: None,
                task,
                ticket,
            });
        }
        self.links.push(link);
        Some(id)
    }
}

async fn next(leases: &mut Option<Leases>) -> Option<Lease> {
    match leases {
        Some(leases) => leases.next().await,
        None => std::future::pending().await,
    }
}
