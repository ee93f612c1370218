//! The servers' next events as their shares of the host's cores change.
//!
//! A share changes whenever a server begins or ceases to want cores, so quotas that run out or are
//! renewed are events here, and each change touches all servers.

use crate::engine::{Simulation, QUOTA_TURNS, WORK_ENDS};

impl Simulation<'_> {
    /// The CPU time of a server's period is used up, or there is some again.
    pub(crate) fn quota_turns(&mut self, server: u32) {
        let index = server as usize;
        let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
        self.servers[index].advance(self.now_ns, sharing);
        self.share_host(server);
    }

    /// After a change at a server: what it and, if the host has too few cores or had, all others do
    /// next.
    pub(crate) fn share_host(&mut self, server: u32) {
        let index = server as usize;
        let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
        let Some(host) = &mut self.host else { return };
        host.demand_cores[index] = self.servers[index].demand_cores(sharing);
        if host.pace() == sharing.pace {
            return self.schedule_turn(server);
        }
        // Until now all went on at the old pace, which may just have used up another's quota.
        for (index, server) in self.servers.iter_mut().enumerate() {
            let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
            server.advance(self.now_ns, sharing);
            host.demand_cores[index] = server.demand_cores(sharing);
        }
        let pace = host.pace();
        for tier in &mut self.tiers {
            tier.sharing.pace = pace;
        }
        for server in 0..self.servers.len() as u32 {
            self.schedule_turn(server);
        }
    }

    /// The end of work or the turn of the quota, whichever is first.
    fn schedule_turn(&mut self, server: u32) {
        let index = server as usize;
        let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
        let state = &mut self.servers[index];
        let end_ns = state.next_end_ns(sharing);
        let turn_ns = state.next_turn_ns(sharing);
        let (code, at_ns) = match (end_ns, turn_ns) {
            (Some(end), Some(turn)) if turn < end => (QUOTA_TURNS, turn_ns),
            _ => (WORK_ENDS, end_ns),
        };
        if let Some(at_ns) = state.reschedule(at_ns, true) {
            self.calendar.push(at_ns, code | server, state.version);
        }
    }
}
