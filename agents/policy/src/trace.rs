//! A trace: every call that changes a [`Selector`], and what came of it, a line of JSON each.
//!
//! Time and seed are arguments, so the calls alone decide: who makes the same calls in the same
//! order gets the same answers. The arbiter writes such lines, the simulator replays them. Each is a
//! [`Line`]:
//!
//! ```text
//! {"begin":{"version":4,"settings":{"policy":"tad","servers":3,"tokens_per_server":1, ...}}}
//! {"call":{"now_us":900,"step":{"release":{"server":1}},"answer":"nothing","grants":[[4,1]]}}
//! {"end":{"reason":"exit","calls":1}}
//! ```
//!
//! A grant is `[REQUEST, SERVER]`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::impossible::in_range;
use crate::{
    Acquired, Ask, Grant, Guardrails, Impossible, Observation, Policy, Refused, RequestId,
    Selector, ServerId, Settings, TimeUs,
};

/// Version of the format; others are refused.
pub const VERSION: u32 = 4;
/// Maximum servers, that of an arbiter.
const SERVERS_MAX: usize = 1_000;
const TOKENS_MAX: usize = 10_000;
/// Maximum time, 285 years in microseconds: sums of a few do not overflow.
const TIME_MAX: u64 = 1 << 53;

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<'a> {
    /// The first: what the selector was built from.
    Begin(Header),
    /// A call.
    Call(Call<'a>),
    /// The last; a trace without it was cut off between two lines (a killed arbiter).
    End(End),
}

/// The beginning of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// See [`VERSION`].
    pub version: u32,
    /// The selector's.
    pub settings: Settings,
}

/// The end of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Reason of the end.
    pub reason: Reason,
    /// Lines between the first and this.
    pub calls: u64,
}

/// Reasons of a trace's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The arbiter has ended.
    Exit,
    /// The maximum of calls is written; others followed.
    Full,
}

/// A call, at a time that it was given, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call<'a> {
    /// Time of the call.
    pub now_us: TimeUs,
    /// The function that was called.
    pub step: Step<'a>,
    /// The return value of the call.
    pub answer: Answer,
    /// The grants that it gave out.
    pub grants: Vec<(RequestId, ServerId)>,
}

/// The calls that change a [`Selector`], with the fields of its methods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum Step<'a> {
    Acquire {
        request: RequestId,
        r: usize,
        probes: bool,
        exclude: Cow<'a, [ServerId]>,
        avoid: Cow<'a, [ServerId]>,
    },
    Again {
        request: RequestId,
        server: ServerId,
        waits: bool,
    },
    Hedge {
        request: RequestId,
        exclude: Cow<'a, [ServerId]>,
        avoid: Cow<'a, [ServerId]>,
    },
    Cancel {
        request: RequestId,
    },
    Observe {
        server: ServerId,
        seen: Observation,
    },
    Release {
        server: ServerId,
    },
    Down {
        server: ServerId,
    },
    Up {
        server: ServerId,
    },
    Policy(Policy),
    Tokens(usize),
    LookAhead(usize),
    Guardrails(Guardrails),
}

/// The return value of a call, besides grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Answer of calls that return nothing.
    Nothing,
    /// Answer of `acquire` and `again`.
    Acquired(Acquired),
    /// Refusal of `acquire` and `again`.
    Refused(Refused),
    /// Answer of `hedge`.
    Found(bool),
    /// Answer of `cancel`.
    Waited(usize),
}

impl From<Result<Acquired, Refused>> for Answer {
    fn from(answer: Result<Acquired, Refused>) -> Self {
        answer.map_or_else(Self::Refused, Self::Acquired)
    }
}

impl<'a> Step<'a> {
    /// The call of [`Selector::acquire`].
    pub fn acquire(ask: &Ask<'a>) -> Self {
        Self::Acquire {
            request: ask.request,
            r: ask.r,
            probes: ask.probes,
            exclude: ask.exclude.into(),
            avoid: ask.avoid.into(),
        }
    }

    /// The call of [`Selector::hedge`].
    pub fn hedge(ask: &Ask<'a>) -> Self {
        Self::Hedge { request: ask.request, exclude: ask.exclude.into(), avoid: ask.avoid.into() }
    }

    /// Makes the call.
    pub fn apply(&self, now: TimeUs, selector: &mut Selector, grants: &mut Vec<Grant>) -> Answer {
        match self {
            Self::Acquire { request, r, probes, exclude, avoid } => {
                let ask = Ask { probes: *probes, exclude, avoid, ..Ask::new(now, *request, *r) };
                return selector.acquire(&ask, grants).into();
            }
            Self::Again { request, server, waits } => {
                return selector.again(now, (*request, *server), *waits, grants).into()
            }
            Self::Hedge { request, exclude, avoid } => {
                let ask = Ask { exclude, avoid, ..Ask::new(now, *request, 1) };
                return Answer::Found(selector.hedge(&ask, grants));
            }
            Self::Cancel { request } => return Answer::Waited(selector.cancel(*request)),
            Self::Observe { server, seen } => selector.observe(now, *server, *seen),
            Self::Release { server } => selector.release(now, *server, grants),
            Self::Down { server } => selector.server_down(now, *server, grants),
            Self::Up { server } => selector.server_up(now, *server, grants),
            Self::Policy(policy) => selector.set_policy(now, *policy, grants),
            Self::Tokens(tokens) => selector.set_tokens(now, *tokens, grants),
            Self::LookAhead(servers) => selector.set_look_ahead(*servers),
            Self::Guardrails(rules) => selector.set_guardrails(now, *rules, grants),
        }
        Answer::Nothing
    }
}

impl Call<'_> {
    /// Refuses what a selector of so many servers does not take.
    pub fn check(&self, servers: usize) -> Result<(), Impossible> {
        in_range("now_us", self.now_us, 0..=TIME_MAX, "")?;
        let all_there = |key: &str, listed: &[ServerId]| {
            let mut listed = listed.iter();
            listed.try_for_each(|&server| in_range(key, server, 0..=servers - 1, ""))
        };
        match &self.step {
            Step::Acquire { exclude, avoid, .. } | Step::Hedge { exclude, avoid, .. } => {
                all_there("exclude", exclude)?;
                all_there("avoid", avoid)
            }
            Step::Observe { server, seen } => {
                let (Observation::LatencyUs(us) | Observation::Error { after_us: us }) = *seen;
                in_range("seen", us, 0..=TIME_MAX, "")?;
                all_there("server", &[*server])
            }
            Step::Again { server, .. }
            | Step::Release { server }
            | Step::Down { server }
            | Step::Up { server } => all_there("server", &[*server]),
            Step::Tokens(tokens) => in_range("tokens", *tokens, 1..=TOKENS_MAX, ""),
            Step::Guardrails(rules) => check_guardrails(rules),
            Step::Cancel { .. } | Step::Policy(_) | Step::LookAhead(_) => Ok(()),
        }
    }
}

impl Header {
    /// Refuses another version, and settings that no selector takes.
    pub fn check(&self) -> Result<(), Impossible> {
        let settings = &self.settings;
        let (tokens, age_us) = (settings.tokens_per_server, settings.observation_age_us_max);
        in_range("version", self.version, VERSION..=VERSION, "")?;
        in_range("servers", settings.servers, 1..=SERVERS_MAX, "")?;
        in_range("tokens_per_server", tokens, 1..=TOKENS_MAX, "")?;
        in_range("observation_age_us_max", age_us, 0..=TIME_MAX, "")?;
        in_range("hedge_percentile", settings.hedge_percentile, 0.0..=1.0, "")?;
        check_guardrails(&settings.guardrails)
    }
}

fn check_guardrails(rules: &Guardrails) -> Result<(), Impossible> {
    let extra_load_max = rules.extra_load_max.unwrap_or(0.0);
    let ejection = rules.ejection.unwrap_or_default();
    in_range("extra_load_max", extra_load_max, 0.0..=f64::MAX, "")?;
    in_range("extra_load_window_us", rules.extra_load_window_us, 0..=TIME_MAX, "")?;
    in_range("failure_share", ejection.failure_share, 0.0..=1.0, "")?;
    in_range("out_share_max", ejection.out_share_max, 0.0..=1.0, "")
}
