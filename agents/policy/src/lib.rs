//! Server choice for a tier of equal servers, pure: no clock, no I/O, no runtime.
//!
//! The arbiter and the simulator drive the same [`Selector`]; time is an argument, in microseconds
//! since any fixed start, and random numbers come from a seed in [`Settings`], so that one recorded
//! trace gives the same decisions in both.
//!
//! A request *acquires* up to `r` different servers and gets [`Grant`]s: at once as many as the
//! policy allows, the rest as servers are released, or later with [`Selector::hedge`]. The holder
//! of a grant reports its observation with [`Selector::observe`] and returns the server with
//! [`Selector::release`].
//!
//! | module | content |
//! |---|---|
//! | `selector` | the interface; the guardrails before and after each choice; waiting requests |
//! | `choice` | the structures that find the next servers without looking at all of them |
//! | `server` | the known state of a server |
//! | `policy` | the definition of a policy |
//! | `round_robin`, `random`, `least_outstanding`, `peak_ewma`, `c3`, `hot_cold`, `hedge`, `tad_paper`, `tad` | one policy each |
//! | `budget`, `ejection` | the guardrails |
//! | `trace` | calls and their results, as lines that can be replayed |
//! | `pool`, `tournament`, `roster`, `recency`, `percentile`, `rng`, `pending` | data structures |
//!
//! To add a policy: a module with its `RULE`, its `mod` line and its line in [`ALL`]. The tests of
//! `tests/` run over all of them.

#![warn(missing_docs)]

mod budget;
mod c3;
mod choice;
mod ejection;
mod hedge;
mod hot_cold;
pub mod impossible;
mod least_outstanding;
mod peak_ewma;
mod pending;
mod percentile;
mod policy;
mod pool;
mod random;
mod recency;
mod rng;
mod roster;
mod round_robin;
mod selector;
mod server;
mod tad;
mod tad_paper;
mod tournament;
pub mod trace;

use serde::{Deserialize, Serialize};

pub use ejection::EjectionRules;
pub use impossible::Impossible;
pub use policy::{Parameter, Policy, HEDGE_PERCENTILE, LOOK_AHEAD, OBSERVATION_AGE_MS, TOKENS};
pub use selector::{Acquired, Ask, Guarded, Hedge, Refused, Selector};
pub use server::Observation;

/// Microseconds since a start that the driver chooses.
pub type TimeUs = u64;

/// Index of a server in its tier.
pub type ServerId = usize;

/// The driver's name for a request (MySQL: a session's begin, or a command); unique while it waits.
pub type RequestId = u64;

/// The right to send one replica of `request` to `server`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The request that may send.
    pub request: RequestId,
    /// The server.
    pub server: ServerId,
    /// Beside another grant of the request, to see whether a server that is out is well again.
    pub probes: bool,
}

impl Grant {
    fn new(request: RequestId, server: ServerId) -> Self {
        Self { request, server, probes: false }
    }

    fn probe(request: RequestId, server: ServerId) -> Self {
        Self { probes: true, ..Self::new(request, server) }
    }
}

/// All policies.
const ALL: &[&policy::Rule] = &[
    &round_robin::RULE,
    &random::RULE,
    &least_outstanding::RULE,
    &peak_ewma::RULE,
    &c3::RULE,
    &hot_cold::RULE,
    &hedge::RULE,
    &tad_paper::RULE,
    &tad::RULE,
];

/// The bounds of every policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guardrails {
    /// Replicas beyond the first per request, over the window; no limit where absent.
    pub extra_load_max: Option<f64>,
    /// The window of `extra_load_max`.
    pub extra_load_window_us: u64,
    /// The rule that takes failing servers out; none takes none out.
    pub ejection: Option<EjectionRules>,
}

impl Default for Guardrails {
    /// No limit of extra load; ejection as [`EjectionRules::default`] says.
    fn default() -> Self {
        Self {
            extra_load_max: None,
            extra_load_window_us: 10_000_000,
            ejection: Some(EjectionRules::default()),
        }
    }
}

/// The settings of a [`Selector`]; start from [`Settings::new`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The policy to begin with.
    pub policy: Policy,
    /// Servers in the tier, M.
    pub servers: usize,
    /// Tokens per server, C (only with a policy that has tokens).
    pub tokens_per_server: usize,
    /// Servers looked at beyond the r that are needed, n (only with a policy that has tokens).
    #[serde(default = "look_ahead")]
    pub look_ahead: usize,
    /// An observed latency older than this no longer counts: the server is tried again. Also the
    /// time in which peak-EWMA's memory of a peak fades to 1/e.
    pub observation_age_us_max: u64,
    /// Requests that may wait for a token; beyond, they are refused (or go on with what they got).
    pub waiting_max: usize,
    /// The percentile of latencies after which `hedge` sends another replica, 0 to 1.
    pub hedge_percentile: f64,
    /// A grant is held through a session's pauses (TCP; MySQL while there are locks), not for one
    /// request: silence then says nothing of the server.
    pub held_for_sessions: bool,
    /// Seed of the random draws.
    pub seed: u64,
    /// The bounds of every policy.
    pub guardrails: Guardrails,
}

/// Every server of the tier.
fn look_ahead() -> usize {
    LOOK_AHEAD.default as usize
}

impl Settings {
    /// Defaults: one token per server, every server looked at, observations count for 10 s, 10,000
    /// requests may wait, hedging after the 95th percentile.
    pub fn new(policy: Policy, servers: usize) -> Self {
        Self {
            policy,
            servers,
            tokens_per_server: 1,
            look_ahead: look_ahead(),
            observation_age_us_max: 10_000_000,
            waiting_max: 10_000,
            hedge_percentile: 0.95,
            held_for_sessions: false,
            seed: 0,
            guardrails: Guardrails::default(),
        }
    }
}
