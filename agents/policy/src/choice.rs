//! The choice itself: the known state of the servers, and the structures in which each kind of
//! policy finds the next ones without looking at all of them.
//!
//! | kind of policy | structure | cost of a choice of r among M |
//! |---|---|---|
//! | in turn | a counter | O(r), and a step for each unavailable server |
//! | drawn (random, peak-ewma, hot-cold) | a dense list of servers | O(sample) |
//! | ranked (the others) | a tournament tree over the servers' ranks | O(r log M) |

use crate::policy::{Moment, Sample, SelectionRule};
use crate::pool::Pool;
use crate::recency::Recency;
use crate::rng::Rng;
use crate::roster::Roster;
use crate::round_robin::RoundRobin;
use crate::server::{Observation, Server};
use crate::tournament::{Key, Tournament, ABSENT};
use crate::{Guardrails, Policy, ServerId, Settings, TimeUs};

/// Minimum choices for each one of a server whose observation has aged out.
const CHOICES_PER_PROBE: u64 = 10;

/// Servers of one choice: which it may not take, and which it should not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub(crate) not: &'a [ServerId],
    pub(crate) avoid: &'a [ServerId],
}

/// The servers, and what each policy needs to find the next ones.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    settings: Settings,
    pub(crate) servers: Vec<Server>,
    /// Servers that are alive and not ejected.
    usable: Roster,
    tree: Tournament,
    pub(crate) pool: Pool,
    turns: RoundRobin,
    recency: Recency,
    rng: Rng,
    choices: u64,
    /// Choice from which on the next observation may age out.
    next_probe: u64,
    sample: Vec<ServerId>,
    aside: Vec<ServerId>,
    loads: Vec<usize>,
}

impl Choice {
    /// Every server alive and unseen.
    pub(crate) fn new(settings: Settings) -> Self {
        let count = settings.servers;
        let mut choice = Self {
            settings,
            servers: vec![Server::new(); count],
            usable: Roster::new(count),
            tree: Tournament::new(count),
            pool: Pool::new(count),
            turns: RoundRobin::default(),
            recency: Recency::new(count),
            rng: Rng::new(settings.seed),
            choices: 0,
            next_probe: 0,
            sample: Vec::with_capacity(count),
            aside: Vec::with_capacity(count),
            loads: Vec::with_capacity(count),
        };
        (0..count).for_each(|server| choice.usable.insert(server));
        choice.level_all(0);
        choice
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn is_usable(&self, server: ServerId) -> bool {
        self.usable.has(server)
    }

    pub(crate) fn usable_count(&self) -> usize {
        self.usable.len()
    }

    /// True if nobody could be given anything now.
    pub(crate) fn nothing_free(&self) -> bool {
        if self.settings.policy.uses_tokens() {
            self.pool.is_empty()
        } else {
            self.usable.len() == 0
        }
    }

    /// Adds servers to `chosen`, up to `r`, and books them.
    pub(crate) fn choose(
        &mut self,
        now: TimeUs,
        r: usize,
        limits: Limits<'_>,
        chosen: &mut Vec<ServerId>,
    ) {
        self.expire(now);
        let first = chosen.len();
        match self.settings.policy.0.selection {
            SelectionRule::InTurn => self.in_turn(r, limits, chosen),
            SelectionRule::Drawn { sample_size, best_first } => {
                let count = r.saturating_sub(chosen.len());
                self.draw(sample_size(count), limits);
                self.take_drawn(now, count, best_first, chosen);
            }
            SelectionRule::Ranked(_) if self.looks_at_few(r) => {
                self.first_in_pool(now, r, limits, chosen);
            }
            SelectionRule::Ranked(_) => self.ranked(now, r, limits, chosen),
        }
        for &server in &chosen[first..] {
            if self.settings.policy.uses_tokens() {
                self.pool.take(server);
            }
            self.book(now, server);
        }
    }

    /// Books this one server, where it can be had and has a token free, if the policy has tokens.
    pub(crate) fn take(&mut self, now: TimeUs, server: ServerId) -> bool {
        let uses_tokens = self.settings.policy.uses_tokens();
        if !self.is_usable(server) || (uses_tokens && self.pool.free(server) == 0) {
            return false;
        }
        if uses_tokens {
            self.pool.take(server);
        }
        self.book(now, server);
        true
    }

    /// A server is given out (its token is taken already, if it has one).
    pub(crate) fn book(&mut self, now: TimeUs, server: ServerId) {
        self.choices += 1;
        if self.servers[server].chosen(now, self.choices) {
            self.recency.touch(server);
        }
        self.rekey(now, server);
    }

    pub(crate) fn observe(&mut self, now: TimeUs, server: ServerId, observation: Observation) {
        let decay_us = self.settings.observation_age_us_max;
        self.servers[server].observe(now, observation, decay_us);
        self.recency.touch(server);
        self.rekey(now, server);
    }

    pub(crate) fn release(&mut self, now: TimeUs, server: ServerId) {
        debug_assert!(
            self.servers[server].in_use > 0,
            "server {server} was released more often than granted"
        );
        self.servers[server].released(now);
        self.level(now, server);
    }

    pub(crate) fn set_usable(&mut self, now: TimeUs, server: ServerId, usable: bool) {
        if usable {
            self.usable.insert(server);
        } else {
            self.usable.remove(server);
        }
        self.level(now, server);
    }

    /// The server came back: what was known of it is void.
    pub(crate) fn forget(&mut self, server: ServerId) {
        self.servers[server].forget();
        self.recency.remove(server);
    }

    pub(crate) fn set_policy(&mut self, now: TimeUs, policy: Policy) {
        self.settings.policy = policy;
        self.level_all(now);
    }

    pub(crate) fn set_tokens(&mut self, now: TimeUs, per_server: usize) {
        self.settings.tokens_per_server = per_server;
        self.level_all(now);
    }

    pub(crate) fn set_look_ahead(&mut self, servers: usize) {
        self.settings.look_ahead = servers;
    }

    pub(crate) fn set_guardrails(&mut self, guardrails: Guardrails) {
        self.settings.guardrails = guardrails;
    }

    fn in_turn(&mut self, r: usize, limits: Limits<'_>, chosen: &mut Vec<ServerId>) {
        let Self { turns, usable, .. } = self;
        let count = self.servers.len();
        let Limits { not, avoid } = limits;
        let can = |server: ServerId| usable.has(server) && !not.contains(&server);
        turns.choose(count, r, |server| can(server) && !avoid.contains(&server), chosen);
        if chosen.len() < r && !avoid.is_empty() {
            turns.choose(count, r, |server| can(server) && avoid.contains(&server), chosen);
        }
    }

    /// The best `wanted` of those drawn; those to avoid only where there are not enough.
    fn take_drawn(
        &mut self,
        now: TimeUs,
        count: usize,
        best_first: fn(&mut Sample<'_>),
        chosen: &mut Vec<ServerId>,
    ) {
        best_first(&mut Sample {
            servers: &self.servers,
            drawn: &mut self.sample,
            count,
            now,
            decay_us: self.settings.observation_age_us_max,
            scratch: &mut self.loads,
        });
        chosen.extend(self.sample.iter().chain(&self.aside).take(count));
    }

    /// Draws `n` different servers into `sample`, and those to avoid that come up into `aside`: all
    /// of them if there are not `n` others.
    fn draw(&mut self, n: usize, limits: Limits<'_>) {
        self.sample.clear();
        self.aside.clear();
        let mut place = 0;
        while self.sample.len() < n {
            let Some(server) = self.usable.draw(place, &mut self.rng) else {
                break;
            };
            place += 1;
            if limits.not.contains(&server) {
            } else if limits.avoid.contains(&server) {
                self.aside.push(server);
            } else {
                self.sample.push(server);
            }
        }
    }

    fn ranked(&mut self, now: TimeUs, r: usize, limits: Limits<'_>, chosen: &mut Vec<ServerId>) {
        self.sample.clear();
        self.aside.clear();
        while chosen.len() < r {
            let Some((server, key)) = self.tree.least() else {
                break;
            };
            // A rank can only have grown since it was worked out.
            let fresh = self.key(now, server);
            if fresh > key {
                self.tree.set(server, fresh);
                continue;
            }
            self.tree.set(server, ABSENT);
            if limits.not.contains(&server) {
                self.sample.push(server);
            } else if limits.avoid.contains(&server) {
                self.aside.push(server);
            } else {
                chosen.push(server);
            }
        }
        let missing = r.saturating_sub(chosen.len());
        chosen.extend(self.aside.iter().take(missing));
        // Those that are booked now get another key then.
        for place in 0..self.sample.len() {
            self.rekey(now, self.sample[place]);
        }
        for place in 0..self.aside.len() {
            self.rekey(now, self.aside[place]);
        }
    }

    /// True if n + r tokens are fewer than there are servers.
    fn looks_at_few(&self, r: usize) -> bool {
        let looked_at = self.settings.look_ahead.saturating_add(r);
        self.settings.policy.uses_tokens() && looked_at < self.servers.len()
    }

    /// The best of the n + r servers whose tokens are nearest to the pool's head, those to avoid
    /// last. It looks at all servers: for n as a question, not for speed.
    fn first_in_pool(
        &mut self,
        now: TimeUs,
        r: usize,
        limits: Limits<'_>,
        chosen: &mut Vec<ServerId>,
    ) {
        let missing = r.saturating_sub(chosen.len());
        let looked_at = self.settings.look_ahead.saturating_add(missing);
        let mut sample = std::mem::take(&mut self.sample);
        sample.clear();
        sample.extend((0..self.servers.len()).filter(|server| {
            let is_free = self.usable.has(*server) && self.pool.free(*server) > 0;
            is_free && !limits.not.contains(server)
        }));
        sample.sort_unstable_by_key(|&server| self.pool.earliest(server));
        sample.truncate(looked_at);
        sample
            .sort_by_cached_key(|&server| (limits.avoid.contains(&server), self.key(now, server)));
        chosen.extend(sample.iter().take(missing));
        self.sample = sample;
    }

    /// True if the next choice would try a server of which nothing is known any more.
    pub(crate) fn is_probe_next(&self, now: TimeUs) -> bool {
        if !self.settings.policy.0.probes {
            return false;
        }
        let expires = |server: ServerId| self.tree.key(server) != ABSENT;
        let least = self.tree.least();
        least.is_some_and(|(server, _)| self.servers[server].expired)
            || self.aged_out(now).is_some_and(expires)
    }

    /// The oldest observation, where it is too old, counts no longer: one in so many choices, so that
    /// few requests are probes however many servers are seldom used.
    fn expire(&mut self, now: TimeUs) {
        if let Some(server) = self.aged_out(now) {
            self.next_probe = self.choices + CHOICES_PER_PROBE;
            self.recency.remove(server);
            self.servers[server].expired = true;
            self.rekey(now, server);
        }
    }

    /// The server whose observation is to be dropped now.
    fn aged_out(&self, now: TimeUs) -> Option<ServerId> {
        if self.choices < self.next_probe {
            return None;
        }
        let is_old = |server: &ServerId| {
            self.servers[*server].age_us(now) > self.settings.observation_age_us_max
        };
        self.recency.oldest().filter(is_old)
    }

    fn level_all(&mut self, now: TimeUs) {
        // One of each server in turn, so that the pool is mixed.
        while (0..self.servers.len())
            .filter(|&server| self.pool.step(server, self.share(server)))
            .count()
            > 0
        {}
        (0..self.servers.len()).for_each(|server| self.rekey(now, server));
    }

    fn level(&mut self, now: TimeUs, server: ServerId) {
        if self.settings.policy.uses_tokens() {
            self.pool.level(server, self.share(server));
        }
        self.rekey(now, server);
    }

    /// The tokens that the server should have in the pool.
    fn share(&self, server: ServerId) -> usize {
        if !self.settings.policy.uses_tokens() || !self.usable.has(server) {
            return 0;
        }
        let in_use = self.servers[server].in_use;
        self.settings.tokens_per_server.saturating_sub(in_use)
    }

    /// Updates the tree; a policy that does not rank needs none.
    fn rekey(&mut self, now: TimeUs, server: ServerId) {
        if let SelectionRule::Ranked(_) = self.settings.policy.0.selection {
            let key = self.key(now, server);
            self.tree.set(server, key);
        }
    }

    /// The server's place in the order of a policy that ranks.
    fn key(&self, now: TimeUs, server: ServerId) -> Key {
        let SelectionRule::Ranked(rank) = self.settings.policy.0.selection else {
            return ABSENT;
        };
        if !self.usable.has(server) {
            return ABSENT;
        }
        let state = &self.servers[server];
        let at = Moment { now, silence_counts: !self.settings.held_for_sessions };
        if !self.settings.policy.uses_tokens() {
            return (rank(state, at), state.turn);
        }
        match self.pool.earliest(server) {
            Some(stamp) => (rank(state, at), stamp),
            None => ABSENT,
        }
    }
}
