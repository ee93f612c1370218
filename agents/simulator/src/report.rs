//! The output of a simulation: JSON.

use serde::Serialize;

/// Report on one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub name: String,
    /// Seed of the scenario.
    pub seed: u64,
    /// Reason of the end.
    pub stopped: Stopped,
    /// Simulated time from the first measured arrival to the end.
    pub measured_s: f64,
    /// Simulated time in all.
    pub simulated_s: f64,
    /// Arrivals from the outside, ends of work, and what changes a server.
    pub events: u64,
    /// Requests from the outside that got an answer.
    pub latency: LatencyReport,
    /// Requests from the outside that got none.
    pub failed: u64,
    /// Latency [s] of each measured request, in the order in which they came, if asked for; none:
    /// without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_s: Option<Vec<Option<f64>>>,
    /// Tiers from front to back.
    pub tiers: Vec<TierReport>,
}

/// Reasons of a simulation's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// All measured requests are answered.
    Done,
    /// Too many requests were under way: the backlog grows without end, and figures have no
    /// meaning.
    Unstable,
    /// `events_max` was reached.
    Events,
}

/// Latencies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyReport {
    /// Requests behind it.
    pub samples: u64,
    /// Mean.
    pub mean_s: f64,
    /// Half the width of its 95 % interval, from batches.
    pub mean_half_width_s: Option<f64>,
    /// Variance.
    pub variance_s2: f64,
    /// Percentiles by rank.
    pub percentiles: Vec<Percentile>,
}

impl LatencyReport {
    /// The q-th percentile, if it is one of those reported.
    pub fn percentile_s(&self, q: f64) -> Option<f64> {
        let entry = self.percentiles.iter().find(|percentile| percentile.q == q);
        entry.map(|percentile| percentile.value_s)
    }
}

/// One percentile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Percentile {
    /// Rank in percent.
    pub q: f64,
    /// Value.
    pub value_s: f64,
    /// Half the width of its 95 % interval, from batches.
    pub half_width_s: Option<f64>,
    /// True if at least ten samples are beyond it.
    pub sufficient: bool,
}

/// Figures of one tier over the measured time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierReport {
    /// Name of the tier.
    pub name: String,
    /// Requests answered here, per second.
    pub request_per_s: f64,
    /// From a request's start to its first good reply, including the tiers below.
    pub latency: LatencyReport,
    /// Requests without a good reply.
    pub failed: u64,
    /// Refused ones among them: no server, or a full queue.
    pub refused: u64,
    /// Copies sent.
    pub copies: u64,
    /// Share of the copies that came too late.
    pub lost_share: f64,
    /// Share of the work that was done for those.
    pub work_lost_share: f64,
    /// Mean work of a copy [core s], the law's.
    pub processing_s: f64,
    /// Work done over cores.
    pub utilisation: f64,
    /// Mean time from a grant to its return.
    pub hold_s: f64,
    /// Grants returned, per second: r times the rate of connections.
    pub grant_per_s: f64,
    /// Share of connections that had to wait for their first server.
    pub waited_share: f64,
    /// Mean of those waits.
    pub wait_s: f64,
    /// Extra copies that were sent late.
    pub hedges: u64,
    /// Share of requests of which two copies met at a server of the tier below.
    pub collided_share: f64,
}
