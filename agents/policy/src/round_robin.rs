//! Round robin: servers in turn, whatever their load (sPARE section 3.1, the baseline).
//!
//! `r` replicas go to the next `r` servers in order; the next request continues behind them. A
//! dead, ejected or excluded server is skipped; one to avoid comes last.

use crate::policy::{Rule, SelectionRule};
use crate::ServerId;

pub(crate) const RULE: Rule =
    Rule::new("round-robin", "nothing; servers in turn", SelectionRule::InTurn);

/// The turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct RoundRobin {
    next: ServerId,
}

impl RoundRobin {
    /// Adds usable servers of `0..servers`, in turn, until `chosen` has `r`.
    pub(crate) fn choose(
        &mut self,
        servers: usize,
        r: usize,
        usable: impl Fn(ServerId) -> bool,
        chosen: &mut Vec<ServerId>,
    ) {
        let start = self.next;
        for server in (start..servers).chain(0..start) {
            if chosen.len() >= r {
                break;
            }
            if usable(server) {
                chosen.push(server);
                self.next = if server + 1 == servers { 0 } else { server + 1 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(turns: &mut RoundRobin, r: usize, dead: ServerId) -> Vec<ServerId> {
        let mut chosen = Vec::new();
        turns.choose(4, r, |server| server != dead, &mut chosen);
        chosen
    }

    #[test]
    fn takes_servers_in_turn_and_steps_over_the_dead() {
        let mut turns = RoundRobin::default();
        assert_eq!(turn(&mut turns, 1, 9), [0]);
        assert_eq!(turn(&mut turns, 2, 9), [1, 2]);
        assert_eq!(turn(&mut turns, 2, 0), [3, 1]);
        assert_eq!(turn(&mut turns, 4, 2), [3, 0, 1]);
    }
}
