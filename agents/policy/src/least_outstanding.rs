//! Least outstanding: the servers with the fewest replicas in flight (join the shortest queue, as
//! the arbiter sees it: Winston, Optimality of the shortest line discipline, 1977). Of equals, the
//! one that was chosen longest ago. A server whose last reply was an error comes after all others
//! while that observation counts, because a server that fails fast looks idle.

use crate::policy::{Moment, Rule, SelectionRule};
use crate::server::Server;

pub(crate) const RULE: Rule =
    Rule::new("least-outstanding", "replicas under way", SelectionRule::Ranked(rank));

const SUSPECT: u64 = 1 << 32;

/// Cost of a server; lower is better.
fn rank(server: &Server, _: Moment) -> u64 {
    server.in_use as u64 + if server.is_suspect() { SUSPECT } else { 0 }
}
