//! A trace: every call that changes a [`Selector`], and what came of it, one line each.
//!
//! Time and seed are arguments, so the calls alone decide: who makes the same calls in the same
//! order gets the same answers. The arbiter writes such lines, the simulator replays them. A line is
//! the call, its fields in this order, ` -> `, and the outcome:
//!
//! ```text
//! trace version=3 kind=tad servers=3 tokens=1 ... seed=42 extra_load_max=- ... ejection=5,0.5,...
//! acquire now_us=512 request=0 r=2 probes=true exclude=- avoid=- -> grants=0@1,0@2 waiting=0 hedge=-
//! observe now_us=900 server=1 latency_us=388 -> grants=-
//! release now_us=901 server=1 -> grants=4@1
//! end reason=exit calls=3
//! ```
//!
//! | call | its fields after `now_us` | outcome besides `grants` (REQUEST@SERVER) |
//! |---|---|---|
//! | `acquire` | `request`, `r`, `probes`, `exclude`, `avoid` | `waiting`, `hedge` (AFTER_USxEXTRAS), or `refused` |
//! | `again` | `request`, `server`, `waits` | as of `acquire` |
//! | `hedge` | `request`, `exclude`, `avoid` | `found` |
//! | `cancel` | `request` | `waited` |
//! | `observe` | `server`, `latency_us` or `error_after_us` | |
//! | `release`, `down`, `up` | `server` | |
//! | `kind`, `tokens` | `kind`, `tokens` | |
//! | `guardrails` | `extra_load_max`, `extra_load_window_us`, `ejection` | |

mod fields;
mod frame;

use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result as Written};

use thiserror::Error;

use crate::{
    Acquired, Ask, Grant, Guardrails, Observation, Policy, Refused, RequestId, Selector, ServerId,
    TimeUs,
};
use fields::{Fields, List, Maybe};
pub use frame::{End, Header, VERSION};

/// Between a call and its outcome.
pub const ARROW: &str = " -> ";

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected {expected}, but got {came}")]
pub struct Malformed {
    /// A value that would do.
    pub expected: String,
    /// The value that is there.
    pub came: String,
}

/// A call, at a time that it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// Its `now`.
    pub now: TimeUs,
    /// The function that was called.
    pub step: Step<'a>,
}

/// The calls that change a [`Selector`], with the fields of its methods.
#[derive(Debug, Clone, PartialEq)]
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
    Guardrails(Guardrails),
}

/// The return value of a call, besides grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Of calls that return nothing.
    Nothing,
    /// Of `acquire` and `again`.
    Acquired(Result<Acquired, Refused>),
    /// Of `hedge`.
    Found(bool),
    /// Of `cancel`.
    Waited(usize),
}

/// An outcome as a line has it after the arrow.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The return value of the call.
    pub answer: Answer,
    /// The grants that it gave out.
    pub grants: &'a [Grant],
}

impl<'a> Call<'a> {
    /// Of [`Selector::acquire`].
    pub fn acquire(ask: &Ask<'a>) -> Self {
        let step = Step::Acquire {
            request: ask.request,
            r: ask.r,
            probes: ask.probes,
            exclude: ask.exclude.into(),
            avoid: ask.avoid.into(),
        };
        Self { now: ask.now, step }
    }

    /// Of [`Selector::hedge`].
    pub fn hedge(ask: &Ask<'a>) -> Self {
        let step = Step::Hedge {
            request: ask.request,
            exclude: ask.exclude.into(),
            avoid: ask.avoid.into(),
        };
        Self { now: ask.now, step }
    }

    /// Makes the call.
    pub fn apply(&self, selector: &mut Selector, grants: &mut Vec<Grant>) -> Answer {
        let now = self.now;
        match &self.step {
            Step::Acquire {
                request,
                r,
                probes,
                exclude,
                avoid,
            } => {
                let ask = Ask {
                    probes: *probes,
                    exclude,
                    avoid,
                    ..Ask::new(now, *request, *r)
                };
                return Answer::Acquired(selector.acquire(&ask, grants));
            }
            Step::Again {
                request,
                server,
                waits,
            } => {
                let asked = (*request, *server);
                return Answer::Acquired(selector.again(now, asked, *waits, grants));
            }
            Step::Hedge {
                request,
                exclude,
                avoid,
            } => {
                let ask = Ask {
                    exclude,
                    avoid,
                    ..Ask::new(now, *request, 1)
                };
                return Answer::Found(selector.hedge(&ask, grants));
            }
            Step::Cancel { request } => return Answer::Waited(selector.cancel(*request)),
            Step::Observe { server, seen } => selector.observe(now, *server, *seen),
            Step::Release { server } => selector.release(now, *server, grants),
            Step::Down { server } => selector.server_down(now, *server, grants),
            Step::Up { server } => selector.server_up(now, *server, grants),
            Step::Policy(policy) => selector.set_policy(now, *policy, grants),
            Step::Tokens(tokens) => selector.set_tokens(now, *tokens, grants),
            Step::Guardrails(rules) => selector.set_guardrails(now, *rules, grants),
        }
        Answer::Nothing
    }

    /// Reads the part of a line before the arrow, for a tier of `servers`.
    ///
    /// # Errors
    /// The first field that is not as it should be.
    pub fn parse(text: &str, servers: usize) -> Result<Call<'static>, Malformed> {
        let mut fields = Fields::new(text, servers);
        let verb = fields.word("the name of a call")?;
        let now = fields.time("now_us")?;
        let step = match verb {
            "acquire" => Step::Acquire {
                request: fields.value("request", "a number")?,
                r: fields.value("r", "a number")?,
                probes: fields.value("probes", "true or false")?,
                exclude: fields.servers("exclude")?.into(),
                avoid: fields.servers("avoid")?.into(),
            },
            "again" => Step::Again {
                request: fields.value("request", "a number")?,
                server: fields.server()?,
                waits: fields.value("waits", "true or false")?,
            },
            "hedge" => Step::Hedge {
                request: fields.value("request", "a number")?,
                exclude: fields.servers("exclude")?.into(),
                avoid: fields.servers("avoid")?.into(),
            },
            "cancel" => Step::Cancel {
                request: fields.value("request", "a number")?,
            },
            "observe" => Step::Observe {
                server: fields.server()?,
                seen: fields.seen()?,
            },
            "release" => Step::Release {
                server: fields.server()?,
            },
            "down" => Step::Down {
                server: fields.server()?,
            },
            "up" => Step::Up {
                server: fields.server()?,
            },
            "kind" => Step::Policy(fields.policy()?),
            "tokens" => Step::Tokens(fields.tokens()?),
            "guardrails" => Step::Guardrails(fields.guardrails()?),
            other => return Err(Malformed::new("the name of a call", other)),
        };
        fields.end()?;
        Ok(Call { now, step })
    }
}

impl Malformed {
    /// Bounded, whatever came.
    fn new(expected: impl Into<String>, came: impl AsRef<str>) -> Self {
        const SHOWN: usize = 80;
        let (expected, came) = (expected.into(), came.as_ref());
        let mut shown: String = came.chars().take(SHOWN).collect();
        if shown.len() < came.len() {
            shown.push_str("...");
        }
        let came = if came.is_empty() {
            "nothing".to_owned()
        } else {
            format!("{shown:?}")
        };
        Self { expected, came }
    }
}

impl Display for Call<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let now = self.now;
        match &self.step {
            Step::Acquire {
                request,
                r,
                probes,
                exclude,
                avoid,
            } => {
                let (exclude, avoid) = (List(exclude), List(avoid));
                write!(
                    f,
                    "acquire now_us={now} request={request} r={r} probes={probes}"
                )?;
                write!(f, " exclude={exclude} avoid={avoid}")
            }
            Step::Again {
                request,
                server,
                waits,
            } => {
                write!(f, "again now_us={now} request={request}")?;
                write!(f, " server={server} waits={waits}")
            }
            Step::Hedge {
                request,
                exclude,
                avoid,
            } => {
                let (exclude, avoid) = (List(exclude), List(avoid));
                write!(f, "hedge now_us={now} request={request}")?;
                write!(f, " exclude={exclude} avoid={avoid}")
            }
            Step::Cancel { request } => write!(f, "cancel now_us={now} request={request}"),
            Step::Observe { server, seen } => {
                write!(f, "observe now_us={now} server={server}")?;
                match seen {
                    Observation::LatencyUs(us) => write!(f, " latency_us={us}"),
                    Observation::Error { after_us } => write!(f, " error_after_us={after_us}"),
                }
            }
            Step::Release { server } => write!(f, "release now_us={now} server={server}"),
            Step::Down { server } => write!(f, "down now_us={now} server={server}"),
            Step::Up { server } => write!(f, "up now_us={now} server={server}"),
            Step::Policy(policy) => write!(f, "kind now_us={now} kind={}", policy.name()),
            Step::Tokens(tokens) => write!(f, "tokens now_us={now} tokens={tokens}"),
            Step::Guardrails(rules) => {
                write!(f, "guardrails now_us={now}")?;
                fields::write_guardrails(f, rules)
            }
        }
    }
}

impl Display for Outcome<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("grants=")?;
        for (
            place,
            Grant {
                request, server, ..
            },
        ) in self.grants.iter().enumerate()
        {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{request}@{server}")?;
        }
        if self.grants.is_empty() {
            f.write_str("-")?;
        }
        match self.answer {
            Answer::Nothing => Ok(()),
            Answer::Found(found) => write!(f, " found={found}"),
            Answer::Waited(waited) => write!(f, " waited={waited}"),
            Answer::Acquired(Err(Refused::NoServer)) => f.write_str(" refused=no-server"),
            Answer::Acquired(Err(Refused::QueueFull)) => f.write_str(" refused=queue-full"),
            Answer::Acquired(Ok(acquired)) => {
                let hedge = acquired.hedge;
                let hedge = Maybe(hedge.map(|it| format!("{}x{}", it.after_us, it.extras)));
                write!(f, " waiting={} hedge={hedge}", acquired.waiting)
            }
        }
    }
}
