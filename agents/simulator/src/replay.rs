//! A trace of an arbiter, replayed: the same calls to the selector that the simulated tiers use, and
//! whether each had the outcome that the arbiter's had.

use std::io::{BufRead, Read};

use policy::trace::{Call, End, Header, Malformed, Outcome, Step, ARROW, VERSION};
use policy::{Grant, Selector, TimeUs};
use serde::Serialize;

use crate::refused::Refused;

/// A line with many grants at once is the longest.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// Of this form.
    pub schema: u32,
    /// The policy at the start.
    pub policy: &'static str,
    /// In the tier.
    pub servers: usize,
    /// Calls whose outcomes were compared.
    pub compared: u64,
    /// Those with the same outcome.
    pub equal: u64,
    /// Servers that were given out in the replay.
    pub grants: u64,
    /// How the trace ends.
    pub ended: Ended,
    /// The first call with another outcome.
    pub first_difference: Option<Difference>,
}

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// With the arbiter.
    Exit,
    /// At `trace_lines_max`.
    Full,
    /// Without a last line: the arbiter was killed, and decisions may be missing at the end.
    Cut,
}

/// A call with two outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// In the trace, from 1.
    pub line: u64,
    /// The call.
    pub call: String,
    /// The arbiter's outcome.
    pub recorded: String,
    /// The outcome here.
    pub replayed: String,
}

/// Makes a trace's calls again; `place` is its name in errors.
///
/// # Errors
/// A line that is not of a trace, or of another version: the place with the line, what was
/// expected, what came.
pub fn replay(place: &str, trace: impl BufRead) -> Result<Replay, Refused> {
    let mut lines = Lines::new(place, trace);
    let Header(settings) = lines.header()?;
    let mut selector = Selector::new(settings);
    let mut done = Replay {
        schema: 1,
        policy: settings.policy.name(),
        servers: settings.servers,
        compared: 0,
        equal: 0,
        grants: 0,
        ended: Ended::Cut,
        first_difference: None,
    };
    let mut grants: Vec<Grant> = Vec::new();
    while let Some((call, recorded)) = lines.call(settings.servers)? {
        if let Step::Release { server } = call.step {
            if selector.in_use(server) == 0 && done.first_difference.is_some() {
                // It gave out another one before: this call cannot be made.
                done.compared += 1;
                continue;
            }
            if selector.in_use(server) == 0 {
                let expected = "a release of a server that is in use";
                return Err(lines.refuse(expected, format!("{call}")));
            }
        }
        grants.clear();
        let answer = call.apply(&mut selector, &mut grants);
        let grants = grants.as_slice();
        let replayed = Outcome { answer, grants }.to_string();
        done.compared += 1;
        done.grants += grants.len() as u64;
        if replayed == recorded {
            done.equal += 1;
        } else if done.first_difference.is_none() {
            done.first_difference = Some(Difference {
                line: lines.number,
                call: call.to_string(),
                recorded,
                replayed,
            });
        }
    }
    done.ended = lines.ended;
    Ok(done)
}

/// When requests came, in seconds since the first: those of the calls that asked for servers and
/// excluded none (another try of a request excludes those that it had).
///
/// # Errors
/// As [`replay`].
pub fn arrivals_s(place: &str, trace: impl BufRead) -> Result<Vec<f64>, Refused> {
    let mut lines = Lines::new(place, trace);
    let Header(settings) = lines.header()?;
    let mut times: Vec<TimeUs> = Vec::new();
    while let Some((call, _)) = lines.call(settings.servers)? {
        match call.step {
            Step::Acquire { exclude, .. } if exclude.is_empty() => times.push(call.now),
            _ => {}
        }
    }
    // Threads read the clock before they queue for the tier.
    times.sort_unstable();
    let first = times.first().copied().unwrap_or(0);
    let seconds = |time: &TimeUs| (time - first) as f64 / 1e6;
    Ok(times.iter().map(seconds).collect())
}

/// A trace, line by line.
struct Lines<'a, R> {
    place: &'a str,
    trace: R,
    line: String,
    number: u64,
    calls: u64,
    ended: Ended,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(place: &'a str, trace: R) -> Self {
        Self {
            place,
            trace,
            line: String::new(),
            number: 0,
            calls: 0,
            ended: Ended::Cut,
        }
    }

    fn header(&mut self) -> Result<Header, Refused> {
        if !self.read()? {
            let expected = format!("a first line \"trace version={VERSION} ...\"");
            return Err(self.refuse(&expected, "an empty file"));
        }
        Header::parse(&self.line).map_err(|error| self.malformed(error))
    }

    /// The next call, and its outcome as it was written; none at the end.
    fn call(&mut self, servers: usize) -> Result<Option<(Call<'static>, String)>, Refused> {
        if !self.read()? {
            return Ok(None);
        }
        let end = End::parse(&self.line).map_err(|error| self.malformed(error))?;
        if let Some(end) = end {
            return self.end(end).map(|()| None);
        }
        self.calls += 1;
        let Some((call, outcome)) = self.line.split_once(ARROW) else {
            let came = shortened(&self.line);
            return Err(self.refuse("a call, \" -> \" and its outcome", came));
        };
        let read = Call::parse(call, servers).map_err(|error| self.malformed(error))?;
        Ok(Some((read, outcome.to_owned())))
    }

    fn end(&mut self, end: End) -> Result<(), Refused> {
        if end.calls != self.calls {
            let expected = format!("{} calls before this line", end.calls);
            return Err(self.refuse(&expected, self.calls));
        }
        self.ended = if end.is_full {
            Ended::Full
        } else {
            Ended::Exit
        };
        if self.read()? {
            let came = shortened(&self.line);
            return Err(self.refuse("nothing after the line \"end ...\"", came));
        }
        Ok(())
    }

    /// Reads the next line, if there is one.
    fn read(&mut self) -> Result<bool, Refused> {
        self.line.clear();
        self.number += 1;
        let mut bounded = self.trace.by_ref().take(LINE_BYTES_MAX);
        if let Err(error) = bounded.read_line(&mut self.line) {
            return Err(self.refuse("a line of text", error));
        }
        match self.line.pop() {
            None => Ok(false),
            Some('\n') if self.line.is_empty() => {
                Err(self.refuse("a line of a trace", "an empty one"))
            }
            Some('\n') => Ok(true),
            Some(last) => {
                self.line.push(last);
                let came = format!("the beginning of one, {}", shortened(&self.line));
                Err(self.refuse("a whole line", came))
            }
        }
    }

    fn refuse(&self, expected: &str, came: impl ToString) -> Refused {
        Refused::new(format!("{}:{}", self.place, self.number), expected, came)
    }

    fn malformed(&self, error: Malformed) -> Refused {
        self.refuse(&error.expected, error.came)
    }
}

/// Of a line that may be long.
fn shortened(line: &str) -> String {
    const SHOWN: usize = 80;
    let shown: String = line.chars().take(SHOWN).collect();
    let more = if shown.len() < line.len() { "..." } else { "" };
    format!("{:?}", shown + more)
}
