//! What is known of one server: alive, in use, how fast it was when last seen.

use crate::TimeUs;

/// What a replica saw of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The time from sending to the complete reply.
    LatencyUs(u64),
    /// No usable reply. Counts as infinite latency: a server that fails fast must not look fast.
    Error,
}

/// The rank of a server that was never seen, or so long ago that it may have changed.
const RANK_UNKNOWN: u64 = 0;
/// The rank of a server whose last reply was an error.
const RANK_ERROR: u64 = u64::MAX;

/// The accounts of one server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) alive: bool,
    /// Grants not yet released.
    pub(crate) in_use: usize,
    last: Option<(TimeUs, u64)>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            alive: true,
            in_use: 0,
            last: None,
        }
    }

    pub(crate) fn observe(&mut self, now: TimeUs, seen: Observation) {
        let rank = match seen {
            // 0 stands for unknown, so that the fastest possible reply is 1 microsecond.
            Observation::LatencyUs(us) => us.clamp(1, RANK_ERROR - 1),
            Observation::Error => RANK_ERROR,
        };
        self.last = Some((now, rank));
    }

    /// Speed by the last observed latency, lower is faster (sPARE section 4.1.1).
    pub(crate) fn rank(&self, now: TimeUs, age_us_max: u64) -> u64 {
        match self.last {
            Some((at, rank)) if now.saturating_sub(at) <= age_us_max => rank,
            _ => RANK_UNKNOWN,
        }
    }

    /// Called when the server was chosen. Where its observation was too old, this request is the
    /// probe: until it reports, or for another period, the old value counts again, so that an
    /// expired slow server gets one request and not a burst.
    pub(crate) fn chosen(&mut self, now: TimeUs, age_us_max: u64) {
        if let Some((at, _)) = &mut self.last {
            if now.saturating_sub(*at) > age_us_max {
                *at = now;
            }
        }
    }

    /// A server that came back is a new one.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ranks_behind_any_latency_and_unknown_before() {
        let mut failed = Server::new();
        let mut slow = Server::new();
        failed.observe(0, Observation::Error);
        slow.observe(0, Observation::LatencyUs(u64::MAX));
        let unknown = Server::new();
        assert!(failed.rank(0, 10) > slow.rank(0, 10));
        assert!(unknown.rank(0, 10) < slow.rank(0, 10));
    }

    #[test]
    fn an_observation_ages_out_and_the_next_choice_is_the_only_probe() {
        let mut server = Server::new();
        server.observe(0, Observation::Error);
        assert_eq!(server.rank(10, 10), RANK_ERROR);
        assert_eq!(server.rank(11, 10), RANK_UNKNOWN);
        server.chosen(11, 10);
        assert_eq!(server.rank(11, 10), RANK_ERROR, "one probe at a time");
        assert_eq!(
            server.rank(22, 10),
            RANK_UNKNOWN,
            "and another after one more period"
        );
    }
}
