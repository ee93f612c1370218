//! The one interface to all policies, and what they share: accounts per server, waiting requests.
//!
//! Rules that hold for every policy, at any time (the property tests check them):
//! - a request never gets the same server twice, nor one it excluded, nor a dead one;
//! - with TAD, an alive server has C = free + in use tokens (fewer free when C was lowered below
//!   what is in use), a dead one has none free;
//! - no waiting request could use a token that is free: as tokens come, the first in line that may
//!   take one gets it.

use thiserror::Error;

use crate::pending::{Offer, Pending, Waiting};
use crate::round_robin::RoundRobin;
use crate::server::{Observation, Server};
use crate::tad::Pool;
use crate::{Grant, Kind, RequestId, ServerId, Settings, TimeUs};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The time.
    pub now: TimeUs,
    /// Who asks.
    pub request: RequestId,
    /// How many different servers; cut to those that can be had.
    pub r: usize,
    /// Servers that it must not get.
    pub exclude: &'a [ServerId],
    /// Servers that it gets only if nothing else can be had now (they have its siblings).
    pub avoid: &'a [ServerId],
}

impl Ask<'_> {
    /// Asks for any `r` servers.
    pub fn new(now: TimeUs, request: RequestId, r: usize) -> Self {
        Self {
            now,
            request,
            r,
            exclude: &[],
            avoid: &[],
        }
    }
}

/// What an accepted request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquired {
    /// Grants given at once.
    pub granted: usize,
    /// Servers that it waits for; their grants come out of later calls.
    pub waiting: usize,
    /// When to ask for more with [`Selector::hedge`].
    pub hedge: Option<Hedge>,
}

/// Replicas that are sent only if the request is not answered by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    /// From the sending of a replica to the next.
    pub after_us: u64,
    /// How often, at most.
    pub extras: usize,
}

/// Why a request got nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    /// No server is alive that the request did not exclude.
    #[error("no server is alive")]
    NoServer,
    /// All tokens are out and too many requests wait already.
    #[error("no token is free and the queue is full")]
    QueueFull,
}

/// Chooses servers for requests.
#[derive(Debug, Clone)]
pub struct Selector {
    settings: Settings,
    servers: Vec<Server>,
    turns: RoundRobin,
    pool: Pool,
    pending: Pending,
    chosen: Vec<ServerId>,
}

impl Selector {
    /// A selector with every server alive and unseen.
    pub fn new(settings: Settings) -> Self {
        let mut selector = Self {
            settings,
            servers: vec![Server::new(); settings.servers],
            turns: RoundRobin::default(),
            pool: Pool::new(settings.servers),
            pending: Pending::new(settings.waiting_max),
            chosen: Vec::with_capacity(settings.servers),
        };
        selector.level_tokens();
        selector
    }

    /// Asks for `ask.r` different servers, cut to those that are alive. What can be given now is
    /// pushed to `grants`; the rest comes out of later calls, unless the request is cancelled.
    /// Waiting extras that find the queue full are given up silently.
    ///
    /// # Errors
    /// [`Refused`] when the request got nothing and waits for nothing.
    pub fn acquire(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> Result<Acquired, Refused> {
        let Ask {
            request, exclude, ..
        } = *ask;
        let possible = (0..self.servers.len())
            .filter(|&server| self.servers[server].alive && !exclude.contains(&server))
            .count();
        let r = ask.r.max(1).min(possible);
        if r == 0 {
            return Err(Refused::NoServer);
        }
        self.choose(ask.now, r, exclude, ask.avoid);
        let granted = self.chosen.len();
        if granted == 0 && self.pending.is_full() {
            return Err(Refused::QueueFull);
        }
        grants.extend(self.chosen.iter().map(|&server| Grant { request, server }));
        if granted == r || self.pending.is_full() {
            return Ok(Acquired {
                granted,
                waiting: 0,
                hedge: None,
            });
        }
        let not = exclude.iter().chain(&self.chosen).copied().collect();
        self.pending.push(Waiting {
            request,
            wanted: r - granted,
            not,
        });
        Ok(Acquired {
            granted,
            waiting: r - granted,
            hedge: None,
        })
    }

    /// One more server for a request that is not answered in time, if one can be had at once;
    /// `ask.exclude` has those that it used, `ask.r` does not matter. It never waits.
    pub fn hedge(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> bool {
        self.choose(ask.now, 1, ask.exclude, ask.avoid);
        grants.extend(self.chosen.iter().map(|&server| Grant {
            request: ask.request,
            server,
        }));
        !self.chosen.is_empty()
    }

    /// The request waits no longer. Returns how many servers it was still waiting for.
    pub fn cancel(&mut self, request: RequestId) -> usize {
        self.pending.cancel(request)
    }

    /// Records what a replica saw of its server.
    pub fn observe(&mut self, now: TimeUs, server: ServerId, seen: Observation) {
        self.servers[server].observe(now, seen);
    }

    /// A grant comes back; the token goes to the pool's tail or to who waits for it.
    pub fn release(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        let in_use = &mut self.servers[server].in_use;
        debug_assert!(
            *in_use > 0,
            "server {server} was released more often than granted"
        );
        *in_use = in_use.saturating_sub(1);
        self.level_tokens_of(server);
        self.serve_pending(now, grants);
    }

    /// The server is dead: nothing more is sent there until [`Selector::server_up`].
    pub fn server_down(&mut self, server: ServerId) {
        self.servers[server].alive = false;
        self.pool.clear(server);
    }

    /// The server is back, unseen.
    pub fn server_up(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        if self.servers[server].alive {
            return;
        }
        self.servers[server].alive = true;
        self.servers[server].forget();
        self.level_tokens();
        self.serve_pending(now, grants);
    }

    /// Changes the policy; what is granted stays granted.
    pub fn set_kind(&mut self, now: TimeUs, kind: Kind, grants: &mut Vec<Grant>) {
        self.settings.kind = kind;
        self.level_tokens();
        self.serve_pending(now, grants);
    }

    /// Changes C. With fewer, free tokens go first and the others as they return.
    pub fn set_tokens(&mut self, now: TimeUs, per_server: usize, grants: &mut Vec<Grant>) {
        self.settings.tokens_per_server = per_server;
        self.level_tokens();
        self.serve_pending(now, grants);
    }

    /// The policy now.
    pub fn kind(&self) -> Kind {
        self.settings.kind
    }

    /// Tokens per server now, C.
    pub fn tokens_per_server(&self) -> usize {
        self.settings.tokens_per_server
    }

    /// Whether the server may be chosen.
    pub fn is_alive(&self, server: ServerId) -> bool {
        self.servers[server].alive
    }

    /// Grants of the server not yet released.
    pub fn in_use(&self, server: ServerId) -> usize {
        self.servers[server].in_use
    }

    /// Tokens of the server in the pool (0 with a policy that has none).
    pub fn tokens_free(&self, server: ServerId) -> usize {
        self.pool.free(server)
    }

    /// Requests that wait for at least one server.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Puts up to `r` servers, not in `not`, into `self.chosen` and books them; those in `avoid`
    /// only after all others.
    fn choose(&mut self, now: TimeUs, r: usize, not: &[ServerId], avoid: &[ServerId]) {
        let Self {
            servers,
            settings,
            turns,
            pool,
            chosen,
            ..
        } = self;
        chosen.clear();
        let usable = |server: ServerId| servers[server].alive && !not.contains(&server);
        let age_us_max = settings.observation_age_us_max;
        match settings.kind {
            Kind::RoundRobin => {
                turns.choose(
                    servers.len(),
                    r,
                    |server| usable(server) && !avoid.contains(&server),
                    chosen,
                );
                let others = |server| usable(server) && avoid.contains(&server);
                turns.choose(servers.len(), r, others, chosen);
            }
            Kind::Tad => {
                let rank = |server| {
                    let avoided = avoid.contains(&server);
                    (avoided, servers[server].rank(now, age_us_max))
                };
                pool.choose(r, usable, rank, chosen);
            }
        }
        for &server in chosen.iter() {
            servers[server].in_use += 1;
            servers[server].chosen(now, age_us_max);
        }
    }

    /// Gives what is free to those who wait, in their order.
    fn serve_pending(&mut self, now: TimeUs, grants: &mut Vec<Grant>) {
        if self.pending.len() == 0 {
            return;
        }
        let mut pending = std::mem::replace(&mut self.pending, Pending::new(0));
        pending.offer(
            |not| {
                if self.nothing_free() {
                    return Offer::Nothing;
                }
                self.choose(now, 1, not, &[]);
                self.chosen
                    .first()
                    .map_or(Offer::NotForYou, |&server| Offer::Server(server))
            },
            |request, server| grants.push(Grant { request, server }),
        );
        self.pending = pending;
    }

    fn nothing_free(&self) -> bool {
        match self.settings.kind {
            Kind::RoundRobin => self.servers.iter().all(|server| !server.alive),
            Kind::Tad => self.pool.is_empty(),
        }
    }

    /// Brings every server's tokens to C, one of each server in turn, so that the pool is mixed.
    fn level_tokens(&mut self) {
        while (0..self.servers.len())
            .filter(|&server| self.level_one(server))
            .count()
            > 0
        {}
    }

    fn level_tokens_of(&mut self, server: ServerId) {
        while self.level_one(server) {}
    }

    /// Adds or takes one token of the server where it has not its share; whether it had to.
    fn level_one(&mut self, server: ServerId) -> bool {
        let account = &self.servers[server];
        let share = match self.settings.kind {
            Kind::Tad if account.alive => self
                .settings
                .tokens_per_server
                .saturating_sub(account.in_use),
            _ => 0,
        };
        match self.pool.free(server).cmp(&share) {
            std::cmp::Ordering::Less => self.pool.push(server),
            std::cmp::Ordering::Greater => self.pool.shrink(server),
            std::cmp::Ordering::Equal => return false,
        }
        true
    }
}
