//! The interface to all policies, and their common parts: guardrails, the queue of waiting
//! requests.
//!
//! Rules that hold for every policy, at any time (the property tests check them):
//! - a request never gets the same server twice, nor one it excluded, and a dead one only where it
//!   waited for it alone, being there: it needs no token any more, and waits no longer;
//! - it gets an ejected one only beside one that can be had, to probe it; alone only when there is no
//!   other, for who is there already, or where nothing can be copied (`ejection`);
//! - with tokens, a server that can be had has C = free + in use (fewer free when C was lowered below
//!   what is in use), any other has none free;
//! - no waiting request could use a token that is free: as tokens come, the first in line that may
//!   take one gets it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::budget::Budget;
use crate::choice::{Choice, Limits};
use crate::ejection::{Change, Ejection};
use crate::pending::{Offer, Pending, Waiting};
use crate::percentile::Percentile;
use crate::server::Observation;
use crate::{Grant, Guardrails, Policy, RequestId, ServerId, Settings, TimeUs};

/// The wish of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The time.
    pub now: TimeUs,
    /// The request's number.
    pub request: RequestId,
    /// Number of different servers; cut to those available.
    pub r: usize,
    /// True if a copy may go to one more, which is out, to see whether it is well again.
    pub probes: bool,
    /// Servers that it must not get.
    pub exclude: &'a [ServerId],
    /// Servers that it gets only if nothing else can be had now (they have its siblings).
    pub avoid: &'a [ServerId],
}

impl Ask<'_> {
    /// Asks for any `r` servers, and for none to be probed.
    pub fn new(now: TimeUs, request: RequestId, r: usize) -> Self {
        Self { now, request, r, probes: false, exclude: &[], avoid: &[] }
    }
}

/// The grant of an accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acquired {
    /// Grants given at once, with that of a probe.
    pub granted: usize,
    /// Servers that it waits for; their grants come out of later calls.
    pub waiting: usize,
    /// Times for asking for more with [`Selector::hedge`].
    pub hedge: Option<Hedge>,
}

/// Replicas that are sent only if the request is not answered by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hedge {
    /// Time between two replicas.
    pub after_us: u64,
    /// Maximum number.
    pub extras: usize,
}

/// Reasons for granting nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// No server is alive that the request did not exclude.
    #[error("no server is alive")]
    NoServer,
    /// All tokens are out and too many requests wait already.
    #[error("no token is free and the queue is full")]
    QueueFull,
}

/// The counts of the guardrails' actions so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// Times that the budget of extra load was used up.
    pub fall_backs: u64,
    /// Requests that got r = 1 for it.
    pub requests_cut: u64,
    /// True if requests get r = 1 now.
    pub is_fallen_back: bool,
    /// Servers taken out.
    pub ejections: u64,
    /// Requests of which a copy went to a server that was out, to see whether it is well again.
    pub probes: u64,
    /// Delayed replicas given out.
    pub hedges: u64,
}

/// Chooses servers for requests.
#[derive(Debug, Clone)]
pub struct Selector {
    choice: Choice,
    pending: Pending,
    budget: Budget,
    ejection: Ejection,
    latencies: Percentile,
    alive: usize,
    hedges: u64,
    /// Scratch: servers of one choice.
    chosen: Vec<ServerId>,
}

impl Selector {
    /// A selector with every server alive and unseen.
    pub fn new(settings: Settings) -> Self {
        let Guardrails { extra_load_max, extra_load_window_us, ejection } = settings.guardrails;
        Self {
            choice: Choice::new(settings),
            pending: Pending::new(settings.waiting_max),
            budget: Budget::new(extra_load_max, extra_load_window_us),
            ejection: Ejection::new(ejection, settings.servers, settings.held_for_sessions),
            latencies: Percentile::new(settings.hedge_percentile),
            alive: settings.servers,
            hedges: 0,
            chosen: Vec::with_capacity(settings.servers),
        }
    }

    /// Asks for `ask.r` different servers, cut to those that can be had and to the budget of extra
    /// load, and for a probe. What can be given now is pushed to `grants`; the rest comes out of later
    /// calls, unless the request is cancelled. Waiting extras that find the queue full are given up
    /// silently. A probe comes right behind another grant, and nobody waits for one.
    ///
    /// # Errors
    /// [`Refused`] when the request got nothing and waits for nothing.
    pub fn acquire(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> Result<Acquired, Refused> {
        let count = ask.r.max(1).min(self.possible(ask.exclude));
        if count == 0 {
            return self.last_resort(ask, grants);
        }
        if let Some(server) = self.due_alone(ask) {
            self.ejection.probe(server);
            return Ok(self.give(ask, server, grants));
        }
        let r = 1 + self.budget.request(ask.now, count - 1);
        let hedges = self.policy().hedges();
        let copies = if hedges { 1 } else { r };
        self.choose(ask.now, copies, ask.exclude, ask.avoid);
        let granted = self.chosen.len();
        if granted == 0 && self.pending.is_full() {
            self.budget.refund(r - 1);
            return Err(Refused::QueueFull);
        }
        self.hand_out(ask.request, grants);
        let is_beside = ask.probes && granted > 0;
        let probe = is_beside.then(|| self.probe(ask.now, ask.exclude, ask.avoid));
        let probe = probe.flatten();
        grants.extend(probe.map(|server| Grant::probe(ask.request, server)));
        let acquired =
            Acquired { granted: granted + usize::from(probe.is_some()), waiting: 0, hedge: None };
        if hedges {
            // Delayed replicas are booked when they are asked for.
            self.budget.refund(r - 1);
            let hedge = self.delay(r);
            return Ok(Acquired { hedge, ..acquired });
        }
        let waiting = r - granted;
        if waiting == 0 || self.pending.is_full() {
            self.budget.refund(waiting.min(r - 1));
            return Ok(acquired);
        }
        self.pending.push(Waiting {
            request: ask.request,
            count: waiting,
            extras: waiting.min(r - 1),
            probes: ask.probes && probe.is_none(),
            not: [ask.exclude, &self.chosen, probe.as_slice()].concat(),
            only: None,
        });
        Ok(Acquired { waiting, ..acquired })
    }

    /// Asks for one server, for who has a connection there and keeps it: this is no choice, and to
    /// the budget of extra load no request. Where its tokens are out the request waits, if it
    /// `waits`; else it gets nothing. At an ejected server, which has no tokens, it needs none.
    pub fn again(
        &mut self,
        now: TimeUs,
        (request, server): (RequestId, ServerId),
        waits: bool,
        grants: &mut Vec<Grant>,
    ) -> Result<Acquired, Refused> {
        if !self.is_alive(server) {
            return Err(Refused::NoServer);
        }
        let granted = self.book_again(now, server);
        if granted {
            grants.push(Grant::new(request, server));
        }
        let waits = waits && !granted;
        if waits && self.pending.is_full() {
            return Err(Refused::QueueFull);
        }
        if waits {
            self.pending.push(Waiting {
                request,
                count: 1,
                extras: 0,
                probes: false,
                not: Vec::new(),
                only: Some(server),
            });
        }
        Ok(Acquired { granted: usize::from(granted), waiting: usize::from(waits), hedge: None })
    }

    /// Number of replicas for a read that wants `r`: one more if the only server would be one that
    /// `tad` has not observed for long, so that no request waits for a probe alone.
    pub fn replicas(&self, now: TimeUs, r: usize) -> usize {
        if r == 1 && self.choice.is_probe_next(now) {
            2
        } else {
            r
        }
    }

    /// True if a server that is out, and none of `not`, is to be probed by a copy of the next request
    /// that can be copied.
    pub fn is_probe_due(&self, now: TimeUs, not: &[ServerId]) -> bool {
        self.ejection.due(now, |server| !not.contains(&server)).is_some()
    }

    /// Times for further replicas of a request of `r`; none if the policy delays none, or has too
    /// few observations. A caller that keeps a server for several requests asks for each.
    pub fn delay(&self, r: usize) -> Option<Hedge> {
        if !self.policy().hedges() || r < 2 {
            return None;
        }
        let after_us = self.latencies.value_us()?;
        Some(Hedge { after_us, extras: r - 1 })
    }

    /// One more server for a late request, if one is free and the budget allows it; otherwise one
    /// that is due for a probe. `ask.exclude` has those that it used; `ask.r` is ignored. Never
    /// waits.
    pub fn hedge(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> bool {
        if !self.budget.one_more(ask.now) {
            return false;
        }
        self.choose(ask.now, 1, ask.exclude, ask.avoid);
        self.hand_out(ask.request, grants);
        let mut is_granted = !self.chosen.is_empty();
        if !is_granted {
            self.budget.refund(1);
            let probe = self.probe(ask.now, ask.exclude, ask.avoid);
            grants.extend(probe.map(|server| Grant::probe(ask.request, server)));
            is_granted = probe.is_some();
        }
        self.hedges += u64::from(is_granted);
        is_granted
    }

    /// The request waits no longer (it was answered, or its deadline has come). Returns how many
    /// servers it was still waiting for.
    pub fn cancel(&mut self, request: RequestId) -> usize {
        let Some(waiting) = self.pending.cancel(request) else {
            return 0;
        };
        self.budget.refund(waiting.extras);
        waiting.count
    }

    /// Records a replica's observation of its server. Call it before the replica's release.
    pub fn observe(&mut self, now: TimeUs, server: ServerId, observation: Observation) {
        self.choice.observe(now, server, observation);
        if let Observation::LatencyUs(us) = observation {
            self.latencies.add(us);
        }
        if !self.is_alive(server) {
            return;
        }
        let reply = match observation {
            Observation::LatencyUs(us) => (false, us),
            Observation::Error { after_us } => (true, after_us),
        };
        match self.ejection.observe(now, server, reply, self.alive) {
            Change::None => {}
            Change::Ejected => self.choice.set_usable(now, server, false),
            Change::Restored => self.choice.set_usable(now, server, true),
        }
    }

    /// A grant comes back; the token goes to the pool's tail or to who waits for it.
    pub fn release(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        self.choice.release(now, server);
        if self.choice.servers[server].in_use == 0 {
            self.ejection.idle(now, server);
        }
        self.serve_pending(now, grants);
    }

    /// The server is dead: nothing more is sent there until [`Selector::server_up`].
    pub fn server_down(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        if !self.choice.servers[server].alive {
            return;
        }
        self.choice.servers[server].alive = false;
        self.alive -= 1;
        self.ejection.readmit(now, server);
        self.choice.set_usable(now, server, false);
        self.readmit_surplus(now);
        self.serve_pending(now, grants);
    }

    /// The server is back, unseen.
    pub fn server_up(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        if self.choice.servers[server].alive {
            return;
        }
        self.choice.forget(server);
        self.alive += 1;
        self.choice.set_usable(now, server, true);
        self.serve_pending(now, grants);
    }

    /// Changes the policy; what is granted stays granted.
    pub fn set_policy(&mut self, now: TimeUs, policy: Policy, grants: &mut Vec<Grant>) {
        self.choice.set_policy(now, policy);
        self.serve_pending(now, grants);
    }

    /// Changes C. With fewer, free tokens go first and the others as they return.
    pub fn set_tokens(&mut self, now: TimeUs, per_server: usize, grants: &mut Vec<Grant>) {
        self.choice.set_tokens(now, per_server);
        self.serve_pending(now, grants);
    }

    /// Changes n, the servers looked at beyond the r that are needed.
    pub fn set_look_ahead(&mut self, servers: usize) {
        self.choice.set_look_ahead(servers);
    }

    /// Changes the guardrails. Who is ejected stays so by the new rules, or comes back without any.
    pub fn set_guardrails(&mut self, now: TimeUs, guardrails: Guardrails, grants: &mut Vec<Grant>) {
        self.choice.set_guardrails(guardrails);
        self.budget.set(guardrails.extra_load_max, guardrails.extra_load_window_us);
        self.ejection.set(guardrails.ejection);
        self.readmit_surplus(now);
        self.serve_pending(now, grants);
    }

    /// The policy now.
    pub fn policy(&self) -> Policy {
        self.choice.settings().policy
    }

    /// The guardrails now.
    pub fn guardrails(&self) -> Guardrails {
        self.choice.settings().guardrails
    }

    /// Tokens per server now, C.
    pub fn tokens_per_server(&self) -> usize {
        self.choice.settings().tokens_per_server
    }

    /// Servers looked at beyond the r that are needed now, n.
    pub fn look_ahead(&self) -> usize {
        self.choice.settings().look_ahead
    }

    /// True if the server is not dead.
    pub fn is_alive(&self, server: ServerId) -> bool {
        self.choice.servers[server].alive
    }

    /// True if the server is out for its failures (a dead one is not).
    pub fn is_ejected(&self, server: ServerId) -> bool {
        self.ejection.is_out(server)
    }

    /// Grants of the server not yet released.
    pub fn in_use(&self, server: ServerId) -> usize {
        self.choice.servers[server].in_use
    }

    /// Tokens of the server in the pool (0 with a policy that has none).
    pub fn tokens_free(&self, server: ServerId) -> usize {
        self.choice.pool.free(server)
    }

    /// Requests that wait for at least one server.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// The counts of the guardrails' actions so far.
    pub fn guarded(&self) -> Guarded {
        Guarded {
            fall_backs: self.budget.fall_backs,
            requests_cut: self.budget.requests_cut,
            is_fallen_back: self.budget.is_fallen_back(),
            ejections: self.ejection.ejections,
            probes: self.ejection.probes,
            hedges: self.hedges,
        }
    }

    /// Number of available servers without those excluded.
    fn possible(&self, exclude: &[ServerId]) -> usize {
        let counts = |(place, server): (usize, &ServerId)| {
            self.choice.is_usable(*server) && !exclude[..place].contains(server)
        };
        let excluded = exclude.iter().enumerate().filter(|entry| counts(*entry)).count();
        self.choice.usable_count() - excluded
    }

    /// No server can be had. Rather than to refuse the request, one that is ejected gets it.
    fn last_resort(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> Result<Acquired, Refused> {
        let server = self.any_out(ask.exclude).ok_or(Refused::NoServer)?;
        Ok(self.give(ask, server, grants))
    }

    fn any_out(&self, not: &[ServerId]) -> Option<ServerId> {
        let mut out = self.ejection.out().iter().copied();
        out.find(|server| !not.contains(server))
    }

    /// The request gets this one server, which is out.
    fn give(&mut self, ask: &Ask<'_>, server: ServerId, grants: &mut Vec<Grant>) -> Acquired {
        self.budget.request(ask.now, 0);
        self.choice.book(ask.now, server);
        grants.push(Grant::new(ask.request, server));
        Acquired { granted: 1, waiting: 0, hedge: None }
    }

    /// Puts up to `r` servers that can be had, not in `not`, into `self.chosen` and books them; those
    /// in `avoid` only after all others.
    fn choose(&mut self, now: TimeUs, r: usize, not: &[ServerId], avoid: &[ServerId]) {
        self.chosen.clear();
        let limits = Limits { not, avoid };
        self.choice.choose(now, r, limits, &mut self.chosen);
    }

    /// A server to be probed by a copy of a request that has another server, if one is due and the
    /// budget has room; it is booked.
    fn probe(&mut self, now: TimeUs, not: &[ServerId], avoid: &[ServerId]) -> Option<ServerId> {
        let may = |server| !not.contains(&server) && !avoid.contains(&server);
        let server = self.ejection.due(now, may)?;
        if !self.budget.one_more(now) {
            return None;
        }
        self.ejection.probe(server);
        self.choice.book(now, server);
        Some(server)
    }

    /// A server that is to be probed by this request alone, as it cannot be copied.
    fn due_alone(&self, ask: &Ask<'_>) -> Option<ServerId> {
        let may = |server| !ask.exclude.contains(&server) && !ask.avoid.contains(&server);
        let is_alone = !ask.probes && ask.r <= 1;
        is_alone.then(|| self.ejection.due_alone(ask.now, may))?
    }

    fn hand_out(&self, request: RequestId, grants: &mut Vec<Grant>) {
        grants.extend(self.chosen.iter().map(|&server| Grant::new(request, server)));
    }

    /// Takes servers back in, the longest out first, until no more are out than may be.
    fn readmit_surplus(&mut self, now: TimeUs) {
        while let Some(server) = self.ejection.surplus(self.alive) {
            self.ejection.readmit(now, server);
            self.choice.set_usable(now, server, true);
        }
    }

    /// Gives what is free to those who wait, in their order.
    fn serve_pending(&mut self, now: TimeUs, grants: &mut Vec<Grant>) {
        if self.pending.len() == 0 {
            return;
        }
        let mut pending = std::mem::replace(&mut self.pending, Pending::new(0));
        pending.offer(|waiting| self.offer(now, waiting), |grant| grants.push(grant));
        self.pending = pending;
    }

    /// The grant for one that waits; it is booked.
    fn offer(&mut self, now: TimeUs, waiting: &Waiting) -> Offer {
        if let Some(server) = self.last_resort_of(waiting) {
            self.choice.book(now, server);
            let probe = None;
            return Offer::Server { server, probe };
        }
        let is_out = |server| !self.choice.is_usable(server);
        if self.choice.nothing_free() && !waiting.only.is_some_and(is_out) {
            return Offer::Nothing;
        }
        let candidate = match waiting.only {
            Some(server) => self.book_again(now, server).then_some(server),
            None => {
                self.choose(now, 1, &waiting.not, &[]);
                self.chosen.first().copied()
            }
        };
        let Some(server) = candidate else {
            return Offer::NotForYou;
        };
        // Not one of those that it waits for, which has gone out meanwhile.
        let probes = waiting.probes && self.possible(&waiting.not) >= waiting.count;
        let probe = probes.then(|| self.probe(now, &waiting.not, &[]));
        Offer::Server { server, probe: probe.flatten() }
    }

    /// A server that is out, for one that has none and for whom no other can be had any more.
    fn last_resort_of(&self, waiting: &Waiting) -> Option<ServerId> {
        let has_none = waiting.only.is_none() && waiting.extras < waiting.count;
        let is_stuck = has_none && self.possible(&waiting.not) == 0;
        is_stuck.then(|| self.any_out(&waiting.not))?
    }

    /// Books a server for who is there already, if it has a token, or is out and so has none.
    fn book_again(&mut self, now: TimeUs, server: ServerId) -> bool {
        let is_out = !self.choice.is_usable(server);
        if is_out {
            self.choice.book(now, server);
        }
        is_out || self.choice.take(now, server)
    }
}
