//! Server choice for a tier of equal servers, pure: no clock, no I/O, no runtime.
//!
//! The arbiter and the simulator drive the same [`Selector`]; time is an argument, in microseconds
//! since any fixed start, so that one recorded trace gives the same decisions in both. A policy
//! that draws random numbers takes its generator as an argument too (round-robin and TAD draw
//! none).
//!
//! A request *acquires* up to `r` different servers and gets [`Grant`]s: at once as many as the
//! policy allows, the rest as servers are released. Who holds a grant reports what it saw with
//! [`Selector::observe`] and gives the server back with [`Selector::release`].
//!
//! | module | what |
//! |---|---|
//! | `selector` | the interface, the accounts per server, the queue of waiting requests |
//! | `round_robin` | the load-oblivious baseline: no tokens, never waits |
//! | `tad` | sPARE section 4: a pool of tokens, look at M of them, take the `r` fastest |
//!
//! To add a policy: a module with a pure `choose` over [`server::Server`]s, a variant of [`Kind`].

#![warn(missing_docs)]

mod pending;
mod round_robin;
mod selector;
mod server;
mod tad;

pub use selector::{Acquired, Ask, Hedge, Refused, Selector};
pub use server::Observation;

/// Microseconds since a start that the driver chooses.
pub type TimeUs = u64;

/// Index of a server in its tier.
pub type ServerId = usize;

/// The driver's name for a request (HTTP) or a connection (MySQL); unique while it waits.
pub type RequestId = u64;

/// The right to send one replica of `request` to `server`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Who may send.
    pub request: RequestId,
    /// Where to.
    pub server: ServerId,
}

/// The policies that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Servers in turn, whatever their load.
    RoundRobin,
    /// Token-based arbitration, sPARE section 4.
    Tad,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::RoundRobin, Self::Tad];

    /// Its name in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Tad => "tad",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether servers have tokens, and requests wait for one.
    pub fn uses_tokens(self) -> bool {
        self == Self::Tad
    }
}

/// What a [`Selector`] is built from; start from [`Settings::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The policy to begin with.
    pub kind: Kind,
    /// Servers in the tier, M.
    pub servers: usize,
    /// Tokens per server, C (unused by round-robin).
    pub tokens_per_server: usize,
    /// An observed latency older than this no longer counts: the server is tried again.
    pub observation_age_us_max: u64,
    /// Requests that may wait for a token; beyond, they are refused (or go on with what they got).
    pub waiting_max: usize,
}

impl Settings {
    /// One token per server, observations count for 10 s, 10,000 requests may wait.
    pub fn new(kind: Kind, servers: usize) -> Self {
        Self {
            kind,
            servers,
            tokens_per_server: 1,
            observation_age_us_max: 10_000_000,
            waiting_max: 10_000,
        }
    }
}
