//! The input: the JSON of a scenario (checked by `checks`).

use policy::{Impossible, Policy, LOOK_AHEAD};
use serde::{Deserialize, Serialize};
use wire::guardrails::Guardrails;

use crate::distribution::{CountLaw, TimeLaw};

/// One simulation. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name in the result.
    #[serde(default)]
    pub name: String,
    /// Seed of all random draws; the same scenario with the same seed gives the same result.
    #[serde(default = "one")]
    pub seed: u64,
    /// Arrivals at the first tier.
    pub arrivals: Arrivals,
    /// Requests that are measured. With recorded arrivals: all after the warm-up, if not given.
    pub requests: Option<u64>,
    /// Requests before those, which are simulated and not measured; a tenth if not given.
    pub warm_up_requests: Option<u64>,
    /// Tiers from front to back.
    pub tiers: Vec<Tier>,
    /// Host of all servers; none if each has its own cores.
    pub host: Option<Host>,
    /// Batches behind each confidence interval.
    #[serde(default = "twenty")]
    pub batches: usize,
    /// Requests under way at which the simulation ends as unstable.
    #[serde(default = "million")]
    pub in_flight_max: usize,
    /// Events at which the simulation ends unfinished.
    #[serde(default = "ten_billion")]
    pub events_max: u64,
    /// True if the report is to list the latency of each measured request.
    #[serde(default)]
    pub each: bool,
}

/// Law of arrivals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Open, memoryless.
    Poisson {
        /// Mean rate.
        rate_per_s: f64,
    },
    /// Arrivals at given times, ascending.
    Recorded {
        /// Times since the start.
        times_s: Vec<f64>,
    },
}

/// A machine that all servers share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Cores of the host.
    pub cores: f64,
    /// Cores among them that others use all the time.
    #[serde(default)]
    pub busy_cores: f64,
}

/// A tier of equal servers behind an arbiter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Name in the result.
    pub name: String,
    /// M.
    pub servers: usize,
    /// V, also below 1 (a cap); jobs get at most one core each.
    #[serde(default = "one_core")]
    pub cores: f64,
    /// Sharing of a server by its jobs.
    #[serde(default)]
    pub discipline: Discipline,
    /// CPU time that a control group grants per period, if `cores` is enforced so.
    pub quota: Option<Quota>,
    /// Core seconds of one copy on an undisturbed server, before its calls.
    pub work: TimeLaw,
    /// Core seconds of one copy after its reply, for which nobody waits.
    #[serde(default)]
    pub after_s: f64,
    /// Relation between the work of a request's copies.
    #[serde(default)]
    pub copies: Copies,
    /// Time per copy that needs no core (network, arbiter).
    #[serde(default)]
    pub delay_s: f64,
    /// Time that a copy's reply takes on the server's network card, one after the other.
    #[serde(default)]
    pub card_s: f64,
    /// Calls to the next tier, one after the other; none at the last tier.
    pub calls: Option<CountLaw>,
    /// Equal pieces of the work, each with its share of the calls behind it; not more than calls.
    #[serde(default = "one_piece")]
    pub pieces: u32,
    /// Policy of choosing servers, by the arbiter's name.
    #[serde(default = "round_robin")]
    pub policy: String,
    /// r.
    #[serde(default = "one_replica")]
    pub replicas: usize,
    /// C, tokens per server (TAD).
    #[serde(default = "one_replica")]
    pub tokens: usize,
    /// n, servers looked at beyond the r that are needed (TAD).
    #[serde(default = "look_ahead")]
    pub look_ahead: usize,
    /// Time for which a grant is held.
    #[serde(default)]
    pub hold: Hold,
    /// An observed latency older than this no longer counts.
    #[serde(default = "observation_age")]
    pub observation_age_s: f64,
    /// Requests that may wait for a token.
    #[serde(default = "million")]
    pub waiting_max: usize,
    /// The percentile of latencies after which `hedge` sends another replica.
    #[serde(default = "ninety_five")]
    pub hedge_percentile: f64,
    /// Bounds of the policy; the arbiter's keys and defaults.
    #[serde(default)]
    pub guardrails: Guardrails,
    /// True if servers are avoided that a sibling copy of the same request above has (the stamp).
    #[serde(default)]
    pub apart: bool,
    /// Neighbours.
    pub interference: Option<Interference>,
    /// Faults of single servers.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// Sharing of a server by its jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// All at once, each at min(1, V / n) of a core.
    #[default]
    ProcessorSharing,
    /// V at a time, the others wait (at least one runs).
    FirstComeFirstServed,
}

/// CPU time of `cores` periods: used in bursts, then none until the period's end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Length of a period.
    pub period_s: f64,
    /// Cores at a time, while there is CPU time left.
    pub burst_cores: f64,
}

/// Work of a request's copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// Drawn for each copy.
    #[default]
    Independent,
    /// Drawn once for the request.
    Same,
    /// Of this correlation, in [0, 1]: drawn once for that share of the requests, which gives any law
    /// of work that correlation.
    Correlated(f64),
}

impl Copies {
    /// Share of the requests whose copies have the same work.
    pub(crate) fn same_share(self) -> f64 {
        match self {
            Self::Independent => 0.0,
            Self::Same => 1.0,
            Self::Correlated(share) => share,
        }
    }
}

/// Time for which a copy above holds its servers here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// For one request (HTTP).
    #[default]
    Request,
    /// For all calls of the copy (MySQL): a server that lags skips answered calls.
    Connection,
}

/// Neighbours that come to each server as a Poisson process, and may overlap (sPARE section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// Mean time from one start to the next.
    pub gap_s: f64,
    /// Mean length of a run, exponential.
    pub run_s: f64,
    /// Speed of the server meanwhile, in (0, 1].
    pub speed: f64,
}

/// A fault of one server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// All its copies fail at once; nothing is sent there until it is back.
    Crash {
        /// Index from 0.
        server: usize,
        /// Start.
        at_s: f64,
        /// Length.
        for_s: f64,
    },
    /// It runs at `speed`.
    Limp {
        /// Index from 0.
        server: usize,
        /// Start.
        at_s: f64,
        /// Length.
        for_s: f64,
        /// Speed in (0, 1].
        speed: f64,
    },
    /// Jobs of others share its cores with its own, as a neighbour's threads do, and may have them
    /// when a piece of work is to start.
    Crowd {
        /// Index from 0.
        server: usize,
        /// Start.
        at_s: f64,
        /// Length.
        for_s: f64,
        /// Number of jobs, each with the share of a job of its own.
        jobs: f64,
        /// Mean time for which each piece of work that starts there waits first, exponential.
        #[serde(default)]
        wait_s: f64,
    },
}

impl Fault {
    pub(crate) fn server(&self) -> usize {
        match *self {
            Self::Crash { server, .. } | Self::Limp { server, .. } | Self::Crowd { server, .. } => {
                server
            }
        }
    }

    pub(crate) fn span_s(&self) -> (f64, f64) {
        match *self {
            Self::Crash { at_s, for_s, .. }
            | Self::Limp { at_s, for_s, .. }
            | Self::Crowd { at_s, for_s, .. } => (at_s, for_s),
        }
    }
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// [`Impossible`] with the place, what was expected and what came.
    pub fn from_json(text: &str) -> Result<Self, Impossible> {
        let mut json = serde_json::Deserializer::from_str(text);
        let scenario: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            Impossible::new(error.path().to_string(), "a scenario's keys and values", error.inner())
        })?;
        json.end().map_err(|error| Impossible::new("scenario", "one JSON object", error))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Requests that are simulated first and not measured.
    pub fn warm_up(&self) -> u64 {
        let tenth = match &self.arrivals {
            Arrivals::Recorded { times_s } => times_s.len() as u64 / 10,
            Arrivals::Poisson { .. } => self.requests.unwrap_or(0) / 10,
        };
        self.warm_up_requests.unwrap_or(tenth)
    }

    /// Requests that are measured.
    pub fn measured(&self) -> u64 {
        let count = match &self.arrivals {
            Arrivals::Recorded { times_s } => times_s.len() as u64,
            Arrivals::Poisson { .. } => u64::MAX,
        };
        let after = count.saturating_sub(self.warm_up());
        self.requests
            .map_or(if count == u64::MAX { 0 } else { after }, |requests| requests.min(after))
    }
}

fn one() -> u64 {
    1
}

fn twenty() -> usize {
    20
}

fn million() -> usize {
    1_000_000
}

fn ten_billion() -> u64 {
    10_000_000_000
}

fn round_robin() -> String {
    Policy::default().name().to_owned()
}

fn one_core() -> f64 {
    1.0
}

fn one_replica() -> usize {
    1
}

fn one_piece() -> u32 {
    1
}

fn look_ahead() -> usize {
    LOOK_AHEAD.default as usize
}

fn observation_age() -> f64 {
    10.0
}

fn ninety_five() -> f64 {
    95.0
}
