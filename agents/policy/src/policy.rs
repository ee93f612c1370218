//! A policy: a [`Rule`] in a module of its own, known outside by its name.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::server::Server;
use crate::{ServerId, TimeUs, ALL};

/// One of the policies in [`Policy::all`].
#[derive(Debug, Clone, Copy)]
pub struct Policy(pub(crate) &'static Rule);

/// The properties of a policy.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Name in configurations and results.
    pub(crate) name: &'static str,
    /// The facts that it looks at, in one line.
    pub(crate) summary: &'static str,
    /// Parameters of the arbiter's configuration that it uses.
    pub(crate) parameters: &'static [Parameter],
    pub(crate) selection: SelectionRule,
    /// Servers have tokens, and requests wait for one.
    pub(crate) uses_tokens: bool,
    /// A session keeps its servers' tokens until its connection ends.
    pub(crate) holds_connections: bool,
    /// True if it sends to one server first, and to the others after a percentile of latencies.
    pub(crate) hedges: bool,
    /// A server whose observation has aged out is tried again.
    pub(crate) probes: bool,
}

/// Selection of servers.
#[derive(Debug)]
pub(crate) enum SelectionRule {
    /// One server after the other.
    InTurn,
    /// The best of some that are drawn at random.
    Drawn {
        /// Number of servers drawn for `r` replicas.
        sample_size: fn(r: usize) -> usize,
        /// Brings the best ones to the front of the sample, in order.
        best_first: fn(&mut Sample<'_>),
    },
    /// The servers of least rank; a rank may only grow with time, unless the server is observed.
    Ranked(fn(&Server, Moment) -> u64),
}

/// Inputs of a rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: TimeUs,
    /// True if a server that owes answers and gives none is slow.
    pub(crate) silence_counts: bool,
}

/// Servers drawn for a choice.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) servers: &'a [Server],
    pub(crate) drawn: &'a mut [ServerId],
    pub(crate) count: usize,
    pub(crate) now: TimeUs,
    /// Time in which the memory of a peak decays to 1/e.
    pub(crate) decay_us: u64,
    /// Room to sort in.
    pub(crate) scratch: &'a mut Vec<usize>,
}

impl Rule {
    /// A policy without parameters, tokens, delays or probes.
    pub(crate) const fn new(
        name: &'static str,
        summary: &'static str,
        selection: SelectionRule,
    ) -> Self {
        Self {
            name,
            summary,
            parameters: &[],
            selection,
            uses_tokens: false,
            holds_connections: false,
            hedges: false,
            probes: false,
        }
    }
}

impl Sample<'_> {
    /// Brings the `count` servers of least cost to the front.
    pub(crate) fn least_first<C: PartialOrd>(&mut self, cost: impl Fn(&Server) -> C) {
        for first in 0..self.count.min(self.drawn.len()) {
            let mut best = (first, cost(&self.servers[self.drawn[first]]));
            for (place, &server) in self.drawn.iter().enumerate().skip(first + 1) {
                let other = cost(&self.servers[server]);
                if other < best.1 {
                    best = (place, other);
                }
            }
            self.drawn.swap(first, best.0);
        }
    }
}

/// A number of the arbiter's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    /// Key.
    pub name: &'static str,
    /// Meaning.
    pub summary: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// The value that a configuration need not state.
    pub default: f64,
    /// The least value.
    pub minimum: f64,
    /// The greatest value.
    pub maximum: f64,
}

/// Age from which an observation no longer counts.
pub const OBSERVATION_AGE_MS: Parameter = Parameter {
    name: "observation_age_ms",
    summary: "age from which an observed latency no longer counts",
    unit: "ms",
    default: 10_000.0,
    minimum: 1.0,
    maximum: 3_600_000.0,
};

/// Percentile of latencies after which `hedge` sends another replica.
pub const HEDGE_PERCENTILE: Parameter = Parameter {
    name: "hedge_percentile",
    summary: "the percentile of latencies after which another replica is sent",
    unit: "%",
    default: 95.0,
    minimum: 1.0,
    maximum: 99.9,
};

/// Tokens per server, C.
pub const TOKENS: Parameter = Parameter {
    name: "tokens",
    summary: "requests (MySQL, TCP: connections) that a server has at the same time",
    unit: "1",
    default: 1.0,
    minimum: 1.0,
    maximum: 1_000.0,
};

/// Further look-ups beside the r that are needed, n of sPARE 4.1.
pub const LOOK_AHEAD: Parameter = Parameter {
    name: "look_ahead",
    summary: "servers looked at beyond the r that are needed; the default is every one of the tier",
    unit: "1",
    default: 1_000.0,
    minimum: 0.0,
    maximum: 1_000.0,
};

impl Policy {
    /// All policies.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        ALL.iter().map(|rule| Self(rule))
    }

    /// Name in configurations and results.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The facts that it looks at, in one line.
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// Parameters of the arbiter's configuration that it uses.
    pub fn parameters(self) -> &'static [Parameter] {
        self.0.parameters
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|policy| policy.name() == name)
    }

    /// True if servers have tokens, and requests wait for one.
    pub fn uses_tokens(self) -> bool {
        self.0.uses_tokens
    }

    /// True if a session keeps its servers' tokens until its connection ends (sPARE 4.1), and not
    /// only from a command to its reply.
    pub fn holds_connections(self) -> bool {
        self.0.holds_connections
    }

    /// True if it sends to one server at first, and to others when that is late.
    pub fn hedges(self) -> bool {
        self.0.hedges
    }
}

impl Default for Policy {
    /// The first.
    fn default() -> Self {
        Self(ALL[0])
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Policy {}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Self::from_name(&name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            let expected = names.join(", ");
            serde::de::Error::custom(format!("expected one of {expected} (got {name:?})"))
        })
    }
}
