//! The fields of a trace's lines: `key=value`, in a fixed order, `-` for none.

use std::fmt::{Display, Formatter, Result as Written};
use std::str::{FromStr, Split};

use super::Malformed;
use crate::{EjectionRules, Guardrails, Observation, Policy, ServerId, TimeUs};

/// As many as an arbiter may have.
pub(super) const SERVERS_MAX: usize = 1_000;
const TOKENS_MAX: usize = 10_000;
/// In microseconds, 285 years: sums of a few do not overflow.
const TIME_MAX: u64 = 1 << 53;

/// Those that are not read yet.
pub(super) struct Fields<'a> {
    words: Split<'a, char>,
    /// In the tier.
    servers: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(text: &'a str, servers: usize) -> Self {
        Self {
            words: text.split(' '),
            servers,
        }
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, Malformed> {
        self.words.next().ok_or_else(|| Malformed::new(what, ""))
    }

    pub(super) fn end(mut self) -> Result<(), Malformed> {
        match self.words.next() {
            None => Ok(()),
            Some(more) => Err(Malformed::new("no further field", more)),
        }
    }

    fn text(&mut self, key: &str, what: &str) -> Result<&'a str, Malformed> {
        let expected = || format!("{key}= and {what}");
        let word = self.word(&expected())?;
        let value = word.strip_prefix(key).and_then(|it| it.strip_prefix('='));
        value.ok_or_else(|| Malformed::new(expected(), word))
    }

    pub(super) fn value<T: FromStr>(&mut self, key: &str, what: &str) -> Result<T, Malformed> {
        read(key, self.text(key, what)?, what)
    }

    pub(super) fn within(
        &mut self,
        key: &str,
        least: usize,
        most: usize,
    ) -> Result<usize, Malformed> {
        let what = format!("{least} to {most}");
        let text = self.text(key, &what)?;
        let value = read(key, text, &what)?;
        check(key, text, &what, value, (least..=most).contains(&value))
    }

    pub(super) fn time(&mut self, key: &str) -> Result<TimeUs, Malformed> {
        let what = "microseconds, at most 2^53";
        let text = self.text(key, what)?;
        let value = read(key, text, what)?;
        check(key, text, what, value, value <= TIME_MAX)
    }

    pub(super) fn share(&mut self, key: &str) -> Result<f64, Malformed> {
        let what = "0 to 1";
        let text = self.text(key, what)?;
        let value = read(key, text, what)?;
        check(key, text, what, value, (0.0..=1.0).contains(&value))
    }

    pub(super) fn tokens(&mut self) -> Result<usize, Malformed> {
        self.within("tokens", 1, TOKENS_MAX)
    }

    pub(super) fn server(&mut self) -> Result<ServerId, Malformed> {
        self.within("server", 0, self.servers.saturating_sub(1))
    }

    pub(super) fn servers(&mut self, key: &str) -> Result<Vec<ServerId>, Malformed> {
        let what = format!("servers 0 to {} or -", self.servers.saturating_sub(1));
        let text = self.text(key, &what)?;
        if text == "-" {
            return Ok(Vec::new());
        }
        let one = |part: &str| {
            let server = read(key, part, &what)?;
            check(key, part, &what, server, server < self.servers)
        };
        text.split(',').map(one).collect()
    }

    pub(super) fn policy(&mut self) -> Result<Policy, Malformed> {
        let name = self.text("kind", "the name of a policy")?;
        Policy::from_name(name)
            .ok_or_else(|| Malformed::new("kind= and the name of a policy", format!("kind={name}")))
    }

    pub(super) fn seen(&mut self) -> Result<Observation, Malformed> {
        let expected = "latency_us= or error_after_us= and microseconds";
        let word = self.word(expected)?;
        let us = |text: &str| {
            let us = read("observe", text, expected)?;
            check("observe", text, expected, us, us <= TIME_MAX)
        };
        match word.split_once('=') {
            Some(("latency_us", text)) => Ok(Observation::LatencyUs(us(text)?)),
            Some(("error_after_us", text)) => Ok(Observation::Error {
                after_us: us(text)?,
            }),
            _ => Err(Malformed::new(expected, word)),
        }
    }

    pub(super) fn guardrails(&mut self) -> Result<Guardrails, Malformed> {
        let key = "extra_load_max";
        let what = "a number of at least 0, or -";
        let text = self.text(key, what)?;
        let extra_load_max = match text {
            "-" => None,
            _ => {
                let value: f64 = read(key, text, what)?;
                let good = value.is_finite() && value >= 0.0;
                Some(check(key, text, what, value, good)?)
            }
        };
        Ok(Guardrails {
            extra_load_max,
            extra_load_window_us: self.time("extra_load_window_us")?,
            ejection: self.ejection()?,
        })
    }

    fn ejection(&mut self) -> Result<Option<EjectionRules>, Malformed> {
        let what = "FAILURES,SHARE,REQUESTS,WINDOW_US,FIRST_US,MAX_US,SHARE_MAX or -";
        let text = self.text("ejection", what)?;
        if text == "-" {
            return Ok(None);
        }
        let mut parts = text.split(',');
        let mut next = || parts.next().unwrap_or("");
        let rules = EjectionRules {
            consecutive_failures: read("ejection", next(), what)?,
            failure_share: read("ejection", next(), what)?,
            requests_min: read("ejection", next(), what)?,
            window_us: read("ejection", next(), what)?,
            out_us_first: read("ejection", next(), what)?,
            out_us_max: read("ejection", next(), what)?,
            out_share_max: read("ejection", next(), what)?,
        };
        let shares = [rules.failure_share, rules.out_share_max];
        let good = parts.next().is_none() && shares.iter().all(|it| (0.0..=1.0).contains(it));
        check("ejection", text, what, Some(rules), good)
    }
}

fn read<T: FromStr>(key: &str, text: &str, what: &str) -> Result<T, Malformed> {
    text.parse()
        .map_err(|_| Malformed::new(format!("{key}= and {what}"), format!("{key}={text}")))
}

fn check<T>(key: &str, text: &str, what: &str, value: T, good: bool) -> Result<T, Malformed> {
    if good {
        return Ok(value);
    }
    let expected = format!("{key}= and {what}");
    Err(Malformed::new(expected, format!("{key}={text}")))
}

/// Servers, with commas.
pub(super) struct List<'a>(pub(super) &'a [ServerId]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let Some((first, others)) = self.0.split_first() else {
            return f.write_str("-");
        };
        write!(f, "{first}")?;
        others.iter().try_for_each(|server| write!(f, ",{server}"))
    }
}

/// A value, or `-`.
pub(super) struct Maybe<T>(pub(super) Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// With a space before each field.
pub(super) fn write_guardrails(f: &mut Formatter<'_>, rules: &Guardrails) -> Written {
    write!(f, " extra_load_max={}", Maybe(rules.extra_load_max))?;
    write!(f, " extra_load_window_us={}", rules.extra_load_window_us)?;
    let Some(ejection) = rules.ejection else {
        return f.write_str(" ejection=-");
    };
    let EjectionRules {
        consecutive_failures,
        failure_share,
        requests_min,
        window_us,
        out_us_first,
        out_us_max,
        out_share_max,
    } = ejection;
    write!(f, " ejection={consecutive_failures},{failure_share}")?;
    write!(f, ",{requests_min},{window_us}")?;
    write!(f, ",{out_us_first},{out_us_max},{out_share_max}")
}
