//! What is simulated: the JSON of a scenario, checked.

use policy::Kind;
use serde::{Deserialize, Serialize};

use crate::distribution::{at_least_0, positive, CountLaw, TimeLaw};
use crate::refused::Refused;

const TIERS_MAX: usize = 8;
const SERVERS_MAX: usize = 1_000_000;
const REQUESTS_MAX: u64 = 1_000_000_000;
/// Longest simulated time: 100 years in nanoseconds fit an integer.
const TIME_S_MAX: f64 = 100.0 * 365.0 * 86_400.0;

/// One simulation. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the result is called.
    #[serde(default)]
    pub name: String,
    /// Of all random draws; the same scenario with the same seed gives the same result.
    #[serde(default = "one")]
    pub seed: u64,
    /// When requests come to the first tier.
    pub arrivals: Arrivals,
    /// Requests that are measured. With recorded arrivals: all after the warm-up, if not given.
    pub requests: Option<u64>,
    /// Requests before those, which are simulated and not measured; a tenth if not given.
    pub warm_up_requests: Option<u64>,
    /// From the front to the back.
    pub tiers: Vec<Tier>,
    /// Batches behind each confidence interval.
    #[serde(default = "twenty")]
    pub batches: usize,
    /// Requests under way at which the simulation ends as unstable.
    #[serde(default = "million")]
    pub in_flight_max: usize,
    /// Events at which the simulation ends unfinished.
    #[serde(default = "ten_billion")]
    pub events_max: u64,
}

/// When requests come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Open, memoryless.
    Poisson {
        /// Mean rate.
        rate_per_s: f64,
    },
    /// At these times, ascending.
    Recorded {
        /// Since the start.
        times_s: Vec<f64>,
    },
}

/// A tier of equal servers behind an arbiter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// What it is called in the result.
    pub name: String,
    /// M.
    pub servers: usize,
    /// V, also below 1 (a cap); jobs get at most one core each.
    #[serde(default = "one_core")]
    pub cores: f64,
    /// How a server's jobs share it.
    #[serde(default)]
    pub discipline: Discipline,
    /// Core seconds of one copy on an undisturbed server, before its calls.
    pub work: TimeLaw,
    /// Whether the copies of a request have the same work.
    #[serde(default)]
    pub copies: Copies,
    /// Time per copy that needs no core (network, arbiter).
    #[serde(default)]
    pub delay_s: f64,
    /// Calls to the next tier, one after the other; none at the last tier.
    pub calls: Option<CountLaw>,
    /// How servers are chosen, by the name that the arbiter has for it.
    #[serde(default = "round_robin")]
    pub policy: String,
    /// r.
    #[serde(default = "one_replica")]
    pub replicas: usize,
    /// C, tokens per server (TAD).
    #[serde(default = "one_replica")]
    pub tokens: usize,
    /// How long a grant is held.
    #[serde(default)]
    pub hold: Hold,
    /// An observed latency older than this no longer counts.
    #[serde(default = "observation_age")]
    pub observation_age_s: f64,
    /// Requests that may wait for a token.
    #[serde(default = "million")]
    pub waiting_max: usize,
    /// Whether servers are avoided that a sibling copy of the same request above has (the stamp).
    #[serde(default)]
    pub apart: bool,
    /// Neighbours.
    pub interference: Option<Interference>,
    /// What happens to single servers.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// How jobs share a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// All at once, each at min(1, V / n) of a core.
    #[default]
    ProcessorSharing,
    /// V at a time, the others wait (at least one runs).
    FirstComeFirstServed,
}

/// Work of a request's copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// Drawn for each copy.
    #[default]
    Independent,
    /// Drawn once for the request.
    Same,
}

/// How long a copy above holds its servers here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// For each request anew (HTTP).
    #[default]
    Request,
    /// For all calls of one copy above (MySQL): a server that lags skips what is answered.
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

/// What happens to one server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// All its copies fail at once; nothing is sent there until it is back.
    Crash {
        /// Index from 0.
        server: usize,
        /// When.
        at_s: f64,
        /// For how long.
        for_s: f64,
    },
    /// It runs at `speed`.
    Limp {
        /// Index from 0.
        server: usize,
        /// When.
        at_s: f64,
        /// For how long.
        for_s: f64,
        /// In (0, 1].
        speed: f64,
    },
}

impl Fault {
    pub(crate) fn server(&self) -> usize {
        match *self {
            Self::Crash { server, .. } | Self::Limp { server, .. } => server,
        }
    }

    pub(crate) fn span_s(&self) -> (f64, f64) {
        match *self {
            Self::Crash { at_s, for_s, .. } | Self::Limp { at_s, for_s, .. } => (at_s, for_s),
        }
    }
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// [`Refused`] with the place, what was expected and what came.
    pub fn from_json(text: &str) -> Result<Self, Refused> {
        let mut json = serde_json::Deserializer::from_str(text);
        let scenario: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            Refused::new(
                error.path().to_string(),
                "a scenario's keys and values",
                error.inner(),
            )
        })?;
        json.end()
            .map_err(|error| Refused::new("scenario", "one JSON object", error))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`Refused`] for the first one that cannot be simulated.
    pub fn check(&self) -> Result<(), Refused> {
        within("tiers", self.tiers.len(), 1, TIERS_MAX)?;
        within("batches", self.batches, 2, 1000)?;
        within("in_flight_max", self.in_flight_max, 1, 10_000_000)?;
        self.check_arrivals()?;
        let (warm_up, measured) = (self.warm_up(), self.measured());
        if measured < self.batches as u64 || warm_up + measured > REQUESTS_MAX {
            let expected = format!("{} to {REQUESTS_MAX} with the warm-up", self.batches);
            return Err(Refused::new("requests", expected, measured));
        }
        for (i, tier) in self.tiers.iter().enumerate() {
            tier.check(&format!("tiers[{i}]"), i + 1 == self.tiers.len())?;
        }
        Ok(())
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
        let there = match &self.arrivals {
            Arrivals::Recorded { times_s } => times_s.len() as u64,
            Arrivals::Poisson { .. } => u64::MAX,
        };
        let after = there.saturating_sub(self.warm_up());
        self.requests
            .map_or(if there == u64::MAX { 0 } else { after }, |asked| {
                asked.min(after)
            })
    }

    fn check_arrivals(&self) -> Result<(), Refused> {
        match &self.arrivals {
            Arrivals::Poisson { rate_per_s } => {
                positive("arrivals.rate_per_s", *rate_per_s)?;
                if self.requests.is_none() {
                    return Err(Refused::new("requests", "a number of requests", "none"));
                }
            }
            Arrivals::Recorded { times_s } => {
                let mut before = 0.0;
                for (i, &time_s) in times_s.iter().enumerate() {
                    if !(time_s >= before && time_s < TIME_S_MAX) {
                        let place = format!("arrivals.times_s[{i}]");
                        return Err(Refused::new(place, format!("at least {before}"), time_s));
                    }
                    before = time_s;
                }
            }
        }
        Ok(())
    }
}

impl Tier {
    fn check(&self, place: &str, last: bool) -> Result<(), Refused> {
        let at = |key: &str| format!("{place}.{key}");
        self.kind(place)?;
        within(&at("servers"), self.servers, 1, SERVERS_MAX)?;
        within(&at("replicas"), self.replicas, 1, self.servers.min(64))?;
        within(&at("tokens"), self.tokens, 1, 100_000)?;
        within(&at("waiting_max"), self.waiting_max, 0, 10_000_000)?;
        positive(at("cores"), self.cores)?;
        positive(at("observation_age_s"), self.observation_age_s)?;
        at_least_0(at("delay_s"), self.delay_s)?;
        self.work.sampler(&at("work"))?;
        match (&self.calls, last) {
            (None, true) => {}
            (Some(calls), false) => calls.check(&at("calls"))?,
            (None, false) => {
                return Err(Refused::new(at("calls"), "calls to the next tier", "none"))
            }
            (Some(_), true) => {
                return Err(Refused::new(at("calls"), "none at the last tier", "some"))
            }
        }
        if let Some(neighbours) = &self.interference {
            positive(at("interference.gap_s"), neighbours.gap_s)?;
            positive(at("interference.run_s"), neighbours.run_s)?;
            speed(&at("interference.speed"), neighbours.speed)?;
        }
        for (i, fault) in self.faults.iter().enumerate() {
            self.check_fault(&at(&format!("faults[{i}]")), fault)?;
        }
        Ok(())
    }

    /// The policy.
    pub(crate) fn kind(&self, place: &str) -> Result<Kind, Refused> {
        Kind::from_name(&self.policy).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            Refused::new(
                format!("{place}.policy"),
                format!("one of {names}"),
                &self.policy,
            )
        })
    }

    fn check_fault(&self, place: &str, fault: &Fault) -> Result<(), Refused> {
        let (at_s, for_s) = fault.span_s();
        at_least_0(format!("{place}.at_s"), at_s)?;
        positive(format!("{place}.for_s"), for_s)?;
        if at_s + for_s > TIME_S_MAX {
            return Err(Refused::new(
                place,
                format!("an end before {TIME_S_MAX} s"),
                at_s + for_s,
            ));
        }
        if fault.server() >= self.servers {
            let expected = format!("an index below {}", self.servers);
            return Err(Refused::new(
                format!("{place}.server"),
                expected,
                fault.server(),
            ));
        }
        match fault {
            Fault::Limp { speed: slow, .. } => speed(&format!("{place}.speed"), *slow),
            Fault::Crash { .. } => Ok(()),
        }
    }
}

fn within(place: &str, value: usize, least: usize, most: usize) -> Result<(), Refused> {
    if value < least || value > most {
        return Err(Refused::new(place, format!("{least} to {most}"), value));
    }
    Ok(())
}

fn speed(place: &str, value: f64) -> Result<(), Refused> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(Refused::new(place, "a speed above 0 and at most 1", value))
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
    Kind::RoundRobin.name().to_owned()
}

fn one_core() -> f64 {
    1.0
}

fn one_replica() -> usize {
    1
}

fn observation_age() -> f64 {
    10.0
}
