//! The replay of an arbiter's trace: the same calls to the selector of the simulated tiers,
//! compared with the arbiter's results.

use std::io::{BufRead, Read};

use policy::trace::{Call, End, Header, Line, Reason, Step};
use policy::{Grant, Impossible, Selector, Settings, TimeUs};
use serde::Serialize;

/// A line with many grants at once is the longest.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// Version of this form.
    pub schema: u32,
    /// The policy at the start.
    pub policy: &'static str,
    /// Servers in the tier.
    pub servers: usize,
    /// Calls whose outcomes were compared.
    pub compared: u64,
    /// Calls with the same outcome.
    pub equal: u64,
    /// Servers that were given out in the replay.
    pub grants: u64,
    /// End of the trace.
    pub ended: Ended,
    /// The first call with another outcome.
    pub first_difference: Option<Difference>,
}

/// End of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The arbiter ended.
    Exit,
    /// `trace_lines_max` was reached.
    Full,
    /// No last line: the arbiter was killed, and decisions may be missing.
    Cut,
}

/// A call with two outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Line of the trace, from 1.
    pub line: u64,
    /// The call with the arbiter's outcome.
    pub recorded: String,
    /// The call with the outcome here.
    pub replayed: String,
}

/// Makes a trace's calls again; `place` is its name in errors.
///
/// # Errors
/// A line that is not of a trace, or of another version: the place with the line, what was
/// expected, what came.
pub fn replay(place: &str, trace: impl BufRead) -> Result<Replay, Impossible> {
    let mut lines = Lines::new(place, trace);
    let settings = lines.begin()?;
    let mut selector = Selector::new(settings);
    let mut result = Replay {
        schema: 2,
        policy: settings.policy.name(),
        servers: settings.servers,
        compared: 0,
        equal: 0,
        grants: 0,
        ended: Ended::Cut,
        first_difference: None,
    };
    let mut grants: Vec<Grant> = Vec::new();
    while let Some(recorded) = lines.call(settings.servers)? {
        if let Step::Release { server } = recorded.step {
            if selector.in_use(server) == 0 && result.first_difference.is_some() {
                // It gave out another one before: this call cannot be made.
                result.compared += 1;
                continue;
            }
            if selector.in_use(server) == 0 {
                let expected = "a release of a server that is in use";
                return Err(lines.refuse(expected, shortened(&lines.line)));
            }
        }
        grants.clear();
        let step = &recorded.step;
        let answer = step.apply(recorded.now_us, &mut selector, &mut grants);
        let pairs = grants.iter().map(|grant| (grant.request, grant.server)).collect();
        let replayed = Call { answer, grants: pairs, ..recorded.clone() };
        result.compared += 1;
        result.grants += grants.len() as u64;
        if replayed == recorded {
            result.equal += 1;
        } else if result.first_difference.is_none() {
            result.first_difference = Some(Difference {
                line: lines.number,
                recorded: lines.line.clone(),
                replayed: lines.serialize(&Line::Call(replayed))?,
            });
        }
    }
    result.ended = lines.ended;
    Ok(result)
}

/// Arrival times in seconds since the first: those of the calls that asked for servers and excluded
/// none (a retry excludes earlier servers).
pub fn arrivals_s(place: &str, trace: impl BufRead) -> Result<Vec<f64>, Impossible> {
    let mut lines = Lines::new(place, trace);
    let servers = lines.begin()?.servers;
    let mut times: Vec<TimeUs> = Vec::new();
    while let Some(call) = lines.call(servers)? {
        match call.step {
            Step::Acquire { exclude, .. } if exclude.is_empty() => times.push(call.now_us),
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
    /// The last one, without its end.
    line: String,
    number: u64,
    calls: u64,
    ended: Ended,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(place: &'a str, trace: R) -> Self {
        Self { place, trace, line: String::new(), number: 0, calls: 0, ended: Ended::Cut }
    }

    /// The settings of the first line.
    fn begin(&mut self) -> Result<Settings, Impossible> {
        match self.next()? {
            Some(Line::Begin(header)) => {
                header.check().map_err(|error| self.impossible(error))?;
                Ok(header.settings)
            }
            _ => Err(self.refuse("the first line of a trace", shortened(&self.line))),
        }
    }

    /// The next call; none at the end.
    fn call(&mut self, servers: usize) -> Result<Option<Call<'static>>, Impossible> {
        match self.next()? {
            Some(Line::Call(call)) => {
                call.check(servers).map_err(|error| self.impossible(error))?;
                self.calls += 1;
                Ok(Some(call))
            }
            Some(Line::End(end)) => self.end(end).map(|()| None),
            Some(Line::Begin(Header { .. })) => {
                Err(self.refuse("one first line of a trace", "another one"))
            }
            None => Ok(None),
        }
    }

    fn end(&mut self, end: End) -> Result<(), Impossible> {
        if end.calls != self.calls {
            let expected = format!("{} calls before this line", end.calls);
            return Err(self.refuse(&expected, self.calls));
        }
        self.ended = match end.reason {
            Reason::Full => Ended::Full,
            Reason::Exit => Ended::Exit,
        };
        match self.next()? {
            None => Ok(()),
            Some(_) => Err(self.refuse("nothing after the last line", shortened(&self.line))),
        }
    }

    /// Reads the next line, if there is one.
    fn next(&mut self) -> Result<Option<Line<'static>>, Impossible> {
        self.line.clear();
        self.number += 1;
        let mut bounded = self.trace.by_ref().take(LINE_BYTES_MAX);
        if let Err(error) = bounded.read_line(&mut self.line) {
            return Err(self.refuse("a line of text", error));
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.pop() != Some('\n') {
            return Err(self.refuse("a whole line", "the beginning of one"));
        }
        let line = serde_json::from_str(&self.line);
        line.map(Some).map_err(|error| self.refuse("a line of a trace", error))
    }

    fn serialize(&self, line: &Line<'_>) -> Result<String, Impossible> {
        let text = serde_json::to_string(line);
        text.map_err(|error| self.refuse("a line that can be written", error))
    }

    fn refuse(&self, expected: &str, got: impl ToString) -> Impossible {
        Impossible::new(format!("{}:{}", self.place, self.number), expected, got)
    }

    fn impossible(&self, error: Impossible) -> Impossible {
        let place = format!("{}:{}: {}", self.place, self.number, error.key);
        Impossible::new(place, error.expected, error.got)
    }
}

/// Shortens a long line.
fn shortened(line: &str) -> String {
    const SHOWN: usize = 80;
    if line.is_empty() {
        return "an empty file".into();
    }
    let head: String = line.chars().take(SHOWN).collect();
    let more = if head.len() < line.len() { "..." } else { "" };
    head + more
}
