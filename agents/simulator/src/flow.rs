//! The flow of requests: the arbiter of each tier, as the simulator drives the policy.
//!
//! A request at a tier belongs to a *connection*: with HTTP its own one, with MySQL one for all
//! calls of the copy above. The connection asks the tier's selector for r servers, once. Each of
//! its requests is copied to all of them; the first good reply is the answer, the others run to
//! their end (sPARE cancels nothing). A server that lags skips answered requests. A server that is
//! granted after the answer is not used. If the policy delays copies (`hedge`), a connection holds
//! one server: after each answer the one that gave it. A copy does a piece of its work, makes its
//! share of the calls to the tier below, one after the other, does the next piece, and holds its
//! grant all the time; its connection below is idle meanwhile. Its work after the reply (`after_s`)
//! uses cores, and no request waits for it.

use policy::{Ask, Hedge, Observation};

use crate::engine::{Simulation, COPY_ARRIVES, HEDGE, REPLY_SENT};
use crate::state::{Copy, Slot, NONE, ORPHAN};

impl Simulation<'_> {
    /// Opens a connection to a tier and starts its first of `calls` requests.
    pub(crate) fn open(&mut self, tier: usize, parent: u32, number: u64, calls: u32) {
        let id = self.connections.add();
        let connection = &mut self.connections[id];
        connection.used = true;
        connection.parent = parent;
        connection.tier = tier as u32;
        connection.seq = 0;
        connection.calls_left = calls;
        connection.to_come = 0;
        connection.closed = false;
        connection.idle = false;
        connection.number = number;
        connection.hedges_left = 0;
        connection.slots.clear();
        if parent != NONE {
            self.copies[parent].child = id;
        }
        self.next_request(id);
        if self.tiers[tier].apart {
            self.list_siblings(tier, parent);
        }
        let state = &mut self.tiers[tier];
        let now = self.now_ns / 1000;
        let replicas = state.selector.replicas(now, state.replicas);
        let ask = Ask {
            // A session that goes to one server cannot be copied.
            probes: replicas > 1 || !state.by_connection,
            avoid: &state.avoid,
            ..Ask::new(now, u64::from(id), replicas)
        };
        match state.selector.acquire(&ask, &mut state.grants) {
            Ok(acquired) => {
                let copies = state.grants.iter().filter(|grant| !grant.probes).count();
                self.connections[id].to_come = (copies + acquired.waiting) as u32;
                self.plan_hedges(id, acquired.hedge);
                self.take_grants(tier);
            }
            Err(_) => {
                self.tiers[tier].measure.refused += u64::from(self.measuring);
                self.close(id, false);
            }
        }
    }

    /// The connection's next request begins.
    fn next_request(&mut self, id: u32) {
        let connection = &mut self.connections[id];
        let tier = &mut self.tiers[connection.tier as usize];
        connection.seq += 1;
        connection.calls_left -= 1;
        connection.outstanding = 0;
        connection.collided = false;
        connection.started_ns = self.now_ns;
        connection.fan_out = tier.draw_calls();
        connection.same_work = tier.draw_same();
        if connection.same_work {
            connection.work_ns = tier.draw_work_ns();
        }
    }

    /// Uses the grants that the selector gave.
    pub(crate) fn take_grants(&mut self, tier: usize) {
        let mut grants = std::mem::take(&mut self.tiers[tier].grants);
        for grant in grants.drain(..) {
            let id = grant.request as u32;
            let server = self.tiers[tier].first + grant.server as u32;
            if self.connections[id].slots.is_empty() {
                self.first_grant(tier, id);
            }
            self.note_collision(id, server);
            let connection = &mut self.connections[id];
            // A probe comes besides.
            let awaited = u32::from(!grant.probes);
            connection.to_come = connection.to_come.saturating_sub(awaited);
            connection.slots.push(Slot {
                server,
                copy: NONE,
                sent_seq: 0,
                given_up: false,
                granted_ns: self.now_ns,
            });
            if !connection.idle {
                let place = connection.slots.len() - 1;
                self.send(id, place);
            }
        }
        self.tiers[tier].grants = grants;
    }

    fn first_grant(&mut self, tier: usize, id: u32) {
        let waited_ns = self.now_ns - self.connections[id].started_ns;
        if self.measuring && waited_ns > 0 {
            let measure = &mut self.tiers[tier].measure;
            measure.waits += 1;
            measure.wait_s += waited_ns as f64 * 1e-9;
        }
    }

    /// Counts a collision if another copy of the same request above has this server (sPARE section
    /// 3.2).
    fn note_collision(&mut self, id: u32, server: u32) {
        let parent = self.connections[id].parent;
        if parent >= ORPHAN {
            return;
        }
        let above = self.copies[parent].connection;
        if self.connections[above].slots.len() < 2 {
            return;
        }
        let collides = self.connections[above].slots.iter().any(|slot| {
            slot.copy != NONE && slot.copy != parent && {
                let child = self.copies[slot.copy].child;
                child != NONE && self.connections[child].slots.iter().any(|s| s.server == server)
            }
        });
        if collides {
            self.connections[above].collided = true;
        }
    }

    /// Sends the request at hand to a server that the connection holds.
    fn send(&mut self, id: u32, place: usize) {
        let copy = self.copies.add();
        let connection = &mut self.connections[id];
        let tier = &mut self.tiers[connection.tier as usize];
        connection.outstanding += 1;
        let slot = &mut connection.slots[place];
        slot.copy = copy;
        slot.sent_seq = connection.seq;
        let work_ns = if connection.same_work { connection.work_ns } else { tier.draw_work_ns() };
        tier.measure.copies += u64::from(self.measuring);
        let state = &mut self.copies[copy];
        *state = Copy {
            generation: state.generation,
            used: true,
            connection: id,
            seq: connection.seq,
            server: slot.server,
            calls: connection.fan_out,
            called: 0,
            pieces: tier.pieces.min(connection.fan_out).max(1),
            child: NONE,
            sent_ns: self.now_ns,
            work_ns,
        };
        if tier.delay_ns == 0 {
            self.copy_arrives(copy);
        } else {
            let (at_ns, version) = (self.now_ns + tier.delay_ns, state.generation);
            self.calendar.push(at_ns, COPY_ARRIVES | copy, version);
        }
    }

    /// A piece of a copy's own work is done: its next call follows, or its reply.
    pub(crate) fn work_done(&mut self, copy: u32) {
        let state = &self.copies[copy];
        if state.connection == NONE {
            self.drop_copy(copy);
            return;
        }
        if state.child != NONE {
            self.go_on(state.child);
            return;
        }
        if state.called == state.calls {
            self.reply(copy);
            return;
        }
        let below = self.connections[state.connection].tier as usize + 1;
        let calls = if self.tiers[below].by_connection { state.calls } else { 1 };
        self.open(below, copy, 0, calls);
    }

    /// A copy's reply goes through its server's network card, after those that are there.
    fn reply(&mut self, copy: u32) {
        let Copy { server, generation, .. } = self.copies[copy];
        let card_ns = self.tiers[usize::from(self.tier_of[server as usize])].card_ns;
        if card_ns == 0 {
            return self.finish(copy, true);
        }
        let free_ns = &mut self.cards_free_ns[server as usize];
        *free_ns = self.now_ns.max(*free_ns) + card_ns;
        self.calendar.push(*free_ns, REPLY_SENT | copy, generation);
    }

    /// A copy replied, or failed.
    pub(crate) fn finish(&mut self, copy: u32, good: bool) {
        let Copy { connection: id, seq, server, sent_ns, work_ns, .. } = self.copies[copy];
        self.drop_copy(copy);
        let connection = &mut self.connections[id];
        let tier_index = connection.tier as usize;
        let idle = connection.idle;
        let current = !connection.closed && !idle && seq == connection.seq;
        if current {
            connection.outstanding -= 1;
        }
        let Some(place) = connection.slots.iter().position(|slot| slot.copy == copy) else {
            return;
        };
        connection.slots[place].copy = NONE;
        let slot = connection.slots[place];
        let (closed, given_up) = (connection.closed, slot.given_up);
        let may_resend = slot.sent_seq < connection.seq && !given_up && !idle;
        let tier = &mut self.tiers[tier_index];
        let after_us = (self.now_ns - sent_ns) / 1000;
        let observation =
            if good { Observation::LatencyUs(after_us) } else { Observation::Error { after_us } };
        let local = tier.local(server);
        tier.selector.observe(self.now_ns / 1000, local, observation);
        let alive = tier.selector.is_alive(local);
        if self.measuring {
            tier.measure.work_s += work_ns * 1e-9;
            if !current {
                tier.measure.copies_lost += 1;
                tier.measure.work_lost_s += work_ns * 1e-9;
            }
        }
        if good {
            self.go_on_after(tier_index, server, current);
        }
        if closed || given_up || !alive {
            self.give_back(id, place);
        }
        match (closed, current && good) {
            (true, _) => {}
            (false, true) => self.answered(id, server),
            (false, false) if alive && may_resend => self.send(id, place),
            (false, false) => {
                // A failed copy of a single request has no use for its server: to hold it and wait
                // for another is how all tokens end with requests that wait.
                if alive && !given_up && !self.tiers[tier_index].by_connection {
                    self.give_back(id, place);
                }
                self.fail_if_hopeless(id);
            }
        }
    }

    pub(crate) fn drop_copy(&mut self, copy: u32) {
        self.copies[copy].used = false;
        self.copies.remove(copy);
    }

    /// A copy has replied, in time (`current`) or not: what it still does at its server.
    fn go_on_after(&mut self, tier: usize, server: u32, current: bool) {
        let work_ns = self.tiers[tier].after_ns;
        if work_ns == 0.0 {
            return;
        }
        if self.measuring {
            let measure = &mut self.tiers[tier].measure;
            measure.work_s += work_ns * 1e-9;
            if !current {
                measure.work_lost_s += work_ns * 1e-9;
            }
        }
        let copy = self.copies.add();
        let state = &mut self.copies[copy];
        *state = Copy {
            generation: state.generation,
            used: true,
            connection: NONE,
            seq: 0,
            server,
            calls: 0,
            called: 0,
            pieces: 1,
            child: NONE,
            sent_ns: self.now_ns,
            work_ns,
        };
        self.copy_arrives(copy);
    }

    /// The request at hand is answered: the copy above works, the next begins, or the connection
    /// ends.
    fn answered(&mut self, id: u32, by: u32) {
        let connection = &self.connections[id];
        let (parent, more) = (connection.parent, connection.calls_left > 0);
        if self.measuring {
            let measure = &mut self.tiers[connection.tier as usize].measure;
            measure.latencies.record(self.now_ns - connection.started_ns);
            measure.collided += u64::from(connection.collided);
        }
        let mut works = false;
        if parent < ORPHAN {
            self.copies[parent].called += 1;
            works = self.copies[parent].works_next();
        }
        if !more {
            self.close(id, true);
            return;
        }
        self.connections[id].idle = true;
        self.connections[id].hedges_left = 0;
        if self.hedges(id) {
            self.keep_one(id, by);
        }
        if works {
            self.copy_arrives(parent);
        } else {
            self.go_on(id);
        }
    }

    /// An idle connection makes its next request, of all servers that it holds.
    fn go_on(&mut self, id: u32) {
        self.connections[id].idle = false;
        self.next_request(id);
        if self.hedges(id) {
            let tier = &self.tiers[self.connections[id].tier as usize];
            self.plan_hedges(id, tier.selector.delay(tier.replicas));
        }
        for place in 0..self.connections[id].slots.len() {
            if self.connections[id].slots[place].copy == NONE {
                self.send(id, place);
            }
        }
        self.fail_if_hopeless(id);
    }

    /// Fails a request that has no copy running or to be sent.
    pub(crate) fn fail_if_hopeless(&mut self, id: u32) {
        let connection = &self.connections[id];
        let lags =
            connection.slots.iter().any(|slot| slot.sent_seq < connection.seq && !slot.given_up);
        if connection.idle {
            return;
        }
        if connection.outstanding == 0 && connection.to_come == 0 && !lags {
            self.close(id, false);
        }
    }

    /// All is answered, or has failed: servers go back, and the copy above goes on.
    pub(crate) fn close(&mut self, id: u32, good: bool) {
        let connection = &mut self.connections[id];
        let tier = connection.tier as usize;
        connection.closed = true;
        connection.idle = false;
        let (parent, number) = (connection.parent, connection.number);
        let latency_ns = self.now_ns - connection.started_ns;
        if !good && self.measuring {
            self.tiers[tier].measure.failed += 1;
        }
        if std::mem::take(&mut connection.to_come) > 0 {
            self.tiers[tier].selector.cancel(u64::from(id));
        }
        let mut place = self.connections[id].slots.len();
        if place == 0 {
            self.forget(id);
        }
        while place > 0 {
            place -= 1;
            if self.connections[id].slots[place].copy == NONE {
                self.give_back(id, place);
            }
        }
        match parent {
            ORPHAN => {}
            NONE => self.over(number, latency_ns, good),
            copy => {
                self.copies[copy].child = NONE;
                if !good {
                    self.finish(copy, false);
                } else if self.copies[copy].works_next() {
                    self.copy_arrives(copy);
                } else {
                    self.work_done(copy);
                }
            }
        }
    }

    /// A server goes back to the selector; a connection that is closed and holds none is over.
    pub(crate) fn give_back(&mut self, id: u32, place: usize) {
        let connection = &mut self.connections[id];
        let tier_index = connection.tier as usize;
        let slot = connection.slots.swap_remove(place);
        let over = connection.closed && connection.slots.is_empty();
        if over {
            self.forget(id);
        }
        let tier = &mut self.tiers[tier_index];
        if self.measuring {
            tier.measure.grants += 1;
            tier.measure.hold_s += (self.now_ns - slot.granted_ns) as f64 * 1e-9;
        }
        let local = tier.local(slot.server);
        tier.selector.release(self.now_ns / 1000, local, &mut tier.grants);
        if !tier.grants.is_empty() {
            self.take_grants(tier_index);
        }
    }

    fn forget(&mut self, id: u32) {
        self.connections[id].used = false;
        self.connections.remove(id);
    }

    /// True if the connection's copies are delayed.
    fn hedges(&self, id: u32) -> bool {
        let tier = &self.tiers[self.connections[id].tier as usize];
        tier.selector.policy().hedges()
    }

    /// The connection goes on with the server that has just answered; the others go back, at the
    /// end of what they run.
    fn keep_one(&mut self, id: u32, by: u32) {
        for place in (0..self.connections[id].slots.len()).rev() {
            let slot = &mut self.connections[id].slots[place];
            slot.given_up |= slot.server != by;
            if slot.given_up && slot.copy == NONE {
                self.give_back(id, place);
            }
        }
    }

    /// Delayed copies of the request that begins.
    fn plan_hedges(&mut self, id: u32, hedge: Option<Hedge>) {
        let connection = &mut self.connections[id];
        connection.hedges_left = hedge.map_or(0, |hedge| hedge.extras as u32);
        connection.hedge_after_ns = hedge.map_or(0, |hedge| hedge.after_us * 1000);
        self.plan_hedge(id);
    }

    fn plan_hedge(&mut self, id: u32) {
        let connection = &mut self.connections[id];
        if connection.hedges_left > 0 {
            connection.hedge_at_ns = self.now_ns + connection.hedge_after_ns;
            let at_ns = connection.hedge_at_ns;
            self.calendar.push(at_ns, HEDGE | id, connection.generation);
        }
    }

    /// The time for one more copy has come, if the request that it was planned for still waits.
    pub(crate) fn hedge(&mut self, id: u32, generation: u32) {
        let now_ns = self.now_ns;
        let connection = &mut self.connections[id];
        let is_due = connection.hedges_left > 0 && connection.hedge_at_ns == now_ns;
        if connection.generation != generation || connection.closed || !is_due {
            return;
        }
        connection.hedges_left -= 1;
        let state = &mut self.tiers[connection.tier as usize];
        state.exclude.clear();
        let servers = connection
            .slots
            .iter()
            .filter(|slot| !slot.given_up)
            .map(|slot| (slot.server - state.first) as usize);
        state.exclude.extend(servers);
        let ask = Ask { exclude: &state.exclude, ..Ask::new(self.now_ns / 1000, u64::from(id), 1) };
        if state.selector.hedge(&ask, &mut state.grants) {
            let is_probe = state.grants.iter().any(|grant| grant.probes);
            connection.to_come += u32::from(!is_probe);
            state.measure.hedges += u64::from(self.measuring);
        }
        let tier = connection.tier as usize;
        self.plan_hedge(id);
        self.take_grants(tier);
    }

    /// Puts the servers that siblings of the copy above have at a tier into its `avoid`.
    fn list_siblings(&mut self, tier: usize, parent: u32) {
        let state = &mut self.tiers[tier];
        state.avoid.clear();
        if parent >= ORPHAN {
            return;
        }
        let above = &self.connections[self.copies[parent].connection];
        for slot in &above.slots {
            if slot.copy == NONE || slot.copy == parent || self.copies[slot.copy].child == NONE {
                continue;
            }
            let child = &self.connections[self.copies[slot.copy].child];
            state.avoid.extend(child.slots.iter().map(|s| (s.server - state.first) as usize));
        }
    }
}
