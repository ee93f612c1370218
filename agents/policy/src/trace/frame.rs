//! The first and the last line of a trace.

use std::fmt::{Display, Formatter, Result as Written};

use super::fields::{self, Fields};
use super::Malformed;
use crate::Settings;

/// Of the form of lines; another one is refused.
pub const VERSION: u32 = 3;
/// The first line: what the selector was built from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header(pub Settings);

/// The last line; a trace without it was cut off between two lines (a killed arbiter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// As many calls as there may be were written, others followed; not the arbiter's end.
    pub is_full: bool,
    /// Lines between the first and this.
    pub calls: u64,
}

impl Header {
    /// Reads the first line.
    ///
    /// # Errors
    /// Another version, or the first field that is not as it should be.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut fields = Fields::new(text, 0);
        if fields.word("\"trace\"")? != "trace" {
            let expected = format!("a first line \"trace version={VERSION} ...\"");
            return Err(Malformed::new(expected, text));
        }
        let version: u32 = fields.value("version", "a number")?;
        if version != VERSION {
            let expected = format!("a trace of version {VERSION}");
            return Err(Malformed::new(expected, format!("version {version}")));
        }
        let settings = Settings {
            policy: fields.policy()?,
            servers: fields.within("servers", 1, fields::SERVERS_MAX)?,
            tokens_per_server: fields.tokens()?,
            observation_age_us_max: fields.time("observation_age_us")?,
            waiting_max: fields.value("waiting_max", "a number")?,
            hedge_percentile: fields.share("hedge_percentile")?,
            held_for_sessions: fields.value("sessions", "true or false")?,
            seed: fields.value("seed", "a number")?,
            guardrails: fields.guardrails()?,
        };
        fields.end()?;
        Ok(Self(settings))
    }
}

impl End {
    /// Reads a last line; none if it is another one.
    ///
    /// # Errors
    /// The first field that is not as it should be.
    pub fn parse(text: &str) -> Result<Option<Self>, Malformed> {
        let Some(text) = text.strip_prefix("end ") else {
            return Ok(None);
        };
        let mut fields = Fields::new(text, 0);
        let reason: String = fields.value("reason", "exit or full")?;
        let is_full = match reason.as_str() {
            "full" => true,
            "exit" => false,
            _ => return Err(Malformed::new("reason= and exit or full", reason)),
        };
        let calls = fields.value("calls", "a number")?;
        fields.end()?;
        Ok(Some(Self { is_full, calls }))
    }
}

impl Display for Header {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let Self(of) = self;
        write!(f, "trace version={VERSION} kind={}", of.policy.name())?;
        write!(f, " servers={} tokens={}", of.servers, of.tokens_per_server)?;
        write!(f, " observation_age_us={}", of.observation_age_us_max)?;
        write!(f, " waiting_max={}", of.waiting_max)?;
        write!(f, " hedge_percentile={}", of.hedge_percentile)?;
        write!(f, " sessions={} seed={}", of.held_for_sessions, of.seed)?;
        fields::write_guardrails(f, &of.guardrails)
    }
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let reason = if self.is_full { "full" } else { "exit" };
        write!(f, "end reason={reason} calls={}", self.calls)
    }
}
