//! The selector with an optional trace: each call that changes it, and its result, as a line of
//! JSON (`policy::trace` has the format, `simulator --replay` repeats the calls).
//!
//! The selector can be changed only by the methods here, so no call is missing. Lines are gathered
//! in memory and written 64 KiB at a time, whole lines only, under the tier's lock. A file that
//! cannot be written ends the trace, never a request.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::Path;

use policy::trace::{Answer, Call, End, Header, Line, Reason, Step, VERSION};
use policy::{
    Acquired, Ask, Grant, Guardrails, Observation, Policy, Refused, RequestId, Selector, ServerId,
    Settings, TimeUs,
};

const BUFFER_BYTES: usize = 64 << 10;

/// The selector and its trace.
pub struct Traced {
    selector: Selector,
    trace: Option<Trace>,
}

impl Traced {
    /// Creates a selector with these settings; writes them to the trace, if there is one.
    pub fn new(settings: Settings, trace: Option<Trace>) -> Self {
        let mut traced = Self { selector: Selector::new(settings), trace };
        if let Some(trace) = &mut traced.trace {
            trace.put(&Line::Begin(Header { version: VERSION, settings }));
        }
        traced
    }

    /// Writes the rest and the last line.
    pub fn end(&mut self) {
        if let Some(trace) = self.trace.take() {
            trace.end(Reason::Exit);
        }
    }

    /// As the selector's.
    pub fn acquire(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> Result<Acquired, Refused> {
        let first = grants.len();
        let acquired = self.selector.acquire(ask, grants);
        if self.trace.is_some() {
            let answer = acquired.into();
            self.write(ask.now, Step::acquire(ask), answer, &grants[first..]);
        }
        acquired
    }

    /// As the selector's.
    pub fn again(
        &mut self,
        now: TimeUs,
        (request, server): (RequestId, ServerId),
        waits: bool,
        grants: &mut Vec<Grant>,
    ) -> Result<Acquired, Refused> {
        let first = grants.len();
        let acquired = self.selector.again(now, (request, server), waits, grants);
        if self.trace.is_some() {
            let step = Step::Again { request, server, waits };
            self.write(now, step, acquired.into(), &grants[first..]);
        }
        acquired
    }

    /// As the selector's.
    pub fn hedge(&mut self, ask: &Ask<'_>, grants: &mut Vec<Grant>) -> bool {
        let first = grants.len();
        let is_granted = self.selector.hedge(ask, grants);
        if self.trace.is_some() {
            let answer = Answer::Found(is_granted);
            self.write(ask.now, Step::hedge(ask), answer, &grants[first..]);
        }
        is_granted
    }

    /// As the selector's, which does not ask for the time.
    pub fn cancel(&mut self, now: TimeUs, request: RequestId) -> usize {
        let waited = self.selector.cancel(request);
        if self.trace.is_some() {
            let step = Step::Cancel { request };
            self.write(now, step, Answer::Waited(waited), &[]);
        }
        waited
    }

    /// As the selector's.
    pub fn observe(&mut self, now: TimeUs, server: ServerId, seen: Observation) {
        self.step(now, Step::Observe { server, seen }, &mut Vec::new());
    }

    /// As the selector's.
    pub fn release(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        self.step(now, Step::Release { server }, grants);
    }

    /// As the selector's.
    pub fn server_down(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        self.step(now, Step::Down { server }, grants);
    }

    /// As the selector's.
    pub fn server_up(&mut self, now: TimeUs, server: ServerId, grants: &mut Vec<Grant>) {
        self.step(now, Step::Up { server }, grants);
    }

    /// As the selector's.
    pub fn set_policy(&mut self, now: TimeUs, policy: Policy, grants: &mut Vec<Grant>) {
        self.step(now, Step::Policy(policy), grants);
    }

    /// As the selector's.
    pub fn set_tokens(&mut self, now: TimeUs, per_server: usize, grants: &mut Vec<Grant>) {
        self.step(now, Step::Tokens(per_server), grants);
    }

    /// As the selector's, which does not ask for the time.
    pub fn set_look_ahead(&mut self, now: TimeUs, servers: usize) {
        self.step(now, Step::LookAhead(servers), &mut Vec::new());
    }

    /// As the selector's.
    pub fn set_guardrails(&mut self, now: TimeUs, rules: Guardrails, grants: &mut Vec<Grant>) {
        self.step(now, Step::Guardrails(rules), grants);
    }

    fn step(&mut self, now: TimeUs, step: Step<'_>, grants: &mut Vec<Grant>) {
        let first = grants.len();
        let answer = step.apply(now, &mut self.selector, grants);
        self.write(now, step, answer, &grants[first..]);
    }

    fn write(&mut self, now_us: TimeUs, step: Step<'_>, answer: Answer, grants: &[Grant]) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let grants = grants.iter().map(|it| (it.request, it.server)).collect();
        let goes_on = trace.call(Call { now_us, step, answer, grants });
        if let Some(trace) = self.trace.take_if(|_| !goes_on) {
            trace.end(Reason::Full);
        }
    }
}

impl Deref for Traced {
    type Target = Selector;

    fn deref(&self) -> &Selector {
        &self.selector
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.end();
    }
}

/// A trace file.
pub struct Trace {
    file: File,
    /// Path, for messages.
    path: String,
    lines: Vec<u8>,
    calls: u64,
    calls_max: u64,
    failed: bool,
}

impl Trace {
    /// Creates or overwrites a file, for at most `calls_max` calls.
    pub fn create(path: &Path, calls_max: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::create(path)?,
            path: path.display().to_string(),
            lines: Vec::with_capacity(BUFFER_BYTES + 1024),
            calls: 0,
            calls_max,
            failed: false,
        })
    }

    /// Writes a call; true if more may follow.
    fn call(&mut self, call: Call<'_>) -> bool {
        self.calls += 1;
        self.put(&Line::Call(call));
        self.calls < self.calls_max && !self.failed
    }

    fn put(&mut self, line: &Line<'_>) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.lines, line);
        self.lines.push(b'\n');
        if self.lines.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failed {
            return;
        }
        if let Err(error) = self.file.write_all(&self.lines) {
            tracing::error!("{}: the trace ends here: {error}", self.path);
            self.failed = true;
        }
        self.lines.clear();
    }

    fn end(mut self, reason: Reason) {
        let calls = self.calls;
        self.put(&Line::End(End { reason, calls }));
        self.flush();
        if reason == Reason::Full && !self.failed {
            let path = &self.path;
            tracing::warn!("{path}: the trace ends here, at trace_lines_max = {calls}");
        }
    }
}
