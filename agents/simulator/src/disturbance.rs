//! Disturbances of servers: neighbours, limping, crashes.

use rand_distr::{Distribution, Poisson};

use crate::distribution::exponential;
use crate::engine::{Simulation, FAULT, NEIGHBOUR_COMES, NEIGHBOUR_GOES};
use crate::scenario::Fault;
use crate::state::{NONE, ORPHAN};
use crate::tier::NS;

impl Simulation<'_> {
    /// Neighbours as they are in the long run, and what the scenario says will happen.
    pub(crate) fn start_disturbances(&mut self) {
        for server in 0..self.servers.len() as u32 {
            let tier = usize::from(self.tier_of[server as usize]);
            let Some(neighbours) = self.scenario.tiers[tier].interference else {
                continue;
            };
            // Runs under way at a time are Poisson, and what is left of each is exponential.
            let rng = &mut self.disturbances.rng;
            let present = Poisson::new(neighbours.run_s / neighbours.gap_s);
            let present = present.map_or(0.0, |law| law.sample(rng)) as u64;
            let left_s =
                (0..present).map(|_| neighbours.run_s * exponential(rng)).fold(0.0, f64::max);
            let first_ns = (neighbours.gap_s * exponential(rng) * NS) as u64;
            if present > 0 {
                self.noisy_for(server, (left_s * NS) as u64);
            }
            self.calendar.push(first_ns, NEIGHBOUR_COMES | server, 0);
        }
        for (index, (fault, _)) in self.disturbances.faults.iter().enumerate() {
            let (at_s, for_s) = fault.span_s();
            self.calendar.push((at_s * NS) as u64, FAULT | index as u32, 0);
            self.calendar.push(((at_s + for_s) * NS) as u64, FAULT | index as u32, 1);
        }
    }

    pub(crate) fn neighbour_comes(&mut self, server: u32) {
        let tier = usize::from(self.tier_of[server as usize]);
        if let Some(neighbours) = self.scenario.tiers[tier].interference {
            let rng = &mut self.disturbances.rng;
            let run_ns = (neighbours.run_s * exponential(rng) * NS) as u64;
            let next_ns = (neighbours.gap_s * exponential(rng) * NS) as u64;
            self.noisy_for(server, run_ns);
            self.calendar.push(self.now_ns + next_ns, NEIGHBOUR_COMES | server, 0);
        }
    }

    pub(crate) fn neighbour_goes(&mut self, server: u32) {
        self.change_speed(server);
    }

    fn noisy_for(&mut self, server: u32, run_ns: u64) {
        let end_ns = self.now_ns + run_ns;
        let until_ns = &mut self.disturbances.noisy_until_ns[server as usize];
        *until_ns = end_ns.max(*until_ns);
        self.calendar.push(end_ns, NEIGHBOUR_GOES | server, 0);
        self.change_speed(server);
    }

    fn change_speed(&mut self, server: u32) {
        let index = server as usize;
        let tier = usize::from(self.tier_of[index]);
        let noisy = self.disturbances.noisy_until_ns[index] > self.now_ns;
        let neighbours = self.scenario.tiers[tier].interference;
        let slowed = neighbours.filter(|_| noisy).map_or(1.0, |neighbours| neighbours.speed);
        let speed = slowed * self.disturbances.limps[index];
        let strangers = self.disturbances.strangers[index];
        self.servers[index].disturb(self.now_ns, speed, strangers, self.tiers[tier].sharing);
        self.schedule(server, true);
    }

    pub(crate) fn fault(&mut self, index: usize, begins: bool) {
        let (fault, first) = self.disturbances.faults[index];
        let server = first + fault.server() as u32;
        match (fault, begins) {
            (Fault::Limp { speed, .. }, true) => self.limp(server, speed),
            (Fault::Limp { speed, .. }, false) => self.limp(server, 1.0 / speed),
            (Fault::Crowd { jobs, wait_s, .. }, true) => self.crowd(server, jobs, wait_s),
            (Fault::Crowd { jobs, wait_s, .. }, false) => self.crowd(server, -jobs, -wait_s),
            (Fault::Crash { .. }, true) => self.crash(server),
            (Fault::Crash { .. }, false) => self.restart(server),
        }
    }

    fn limp(&mut self, server: u32, factor: f64) {
        let limps = &mut self.disturbances.limps[server as usize];
        *limps = settled(*limps * factor, 1.0);
        self.change_speed(server);
    }

    fn crowd(&mut self, server: u32, jobs: f64, wait_s: f64) {
        let strangers = &mut self.disturbances.strangers[server as usize];
        *strangers = settled(*strangers + jobs, 0.0);
        let mean_s = &mut self.disturbances.waits_s[server as usize];
        *mean_s = settled(*mean_s + wait_s, 0.0);
        self.change_speed(server);
    }

    /// The arbiter sees its connections end: all copies there fail, nothing more is sent there.
    fn crash(&mut self, server: u32) {
        let index = server as usize;
        let tier_index = usize::from(self.tier_of[index]);
        let tier = &mut self.tiers[tier_index];
        let local = tier.local(server);
        if !tier.selector.is_alive(local) {
            return; // down already
        }
        tier.selector.server_down(self.now_ns / 1000, local, &mut tier.grants);
        self.servers[index].crash();
        self.cards_free_ns[index] = 0;
        if let Some(line) = self.lines.get_mut(index) {
            line.clear();
        }
        self.schedule(server, true);
        for copy in 0..self.copies.places() {
            let state = &self.copies[copy];
            if !(state.used && state.server == server) {
                continue;
            }
            let (above, child) = (state.connection, state.child);
            if child != NONE {
                let below = &mut self.connections[child];
                below.parent = ORPHAN;
                below.calls_left = 0;
                if below.idle {
                    self.close(child, true);
                }
            }
            if above == NONE {
                self.drop_copy(copy);
            } else {
                self.finish(copy, false);
            }
        }
        self.leave_idle(server);
        self.take_grants(tier_index);
    }

    /// Connections give back a dead server on which they run nothing.
    fn leave_idle(&mut self, server: u32) {
        for id in 0..self.connections.places() {
            let connection = &self.connections[id];
            let place = connection.slots.iter().position(|slot| slot.server == server);
            if let (true, Some(place)) = (connection.used, place) {
                self.give_back(id, place);
                if self.connections[id].used && !self.connections[id].closed {
                    self.fail_if_hopeless(id);
                }
            }
        }
    }

    fn restart(&mut self, server: u32) {
        let tier_index = usize::from(self.tier_of[server as usize]);
        let tier = &mut self.tiers[tier_index];
        let local = tier.local(server);
        tier.selector.server_up(self.now_ns / 1000, local, &mut tier.grants);
        self.take_grants(tier_index);
    }
}

/// A value that is that of rest but for rounding is at rest: a server bursts again then.
fn settled(value: f64, rest: f64) -> f64 {
    if (value - rest).abs() < 1e-9 {
        rest
    } else {
        value
    }
}
