//! A head's fields: their meaning for connection, body and route, and the ones that are passed on.

use super::body::Framing;
use super::target::is_host;
use crate::collision_avoidance::{self, Stamp};

/// Requires CR LF, because httparse accepts a bare line feed and others may not.
pub fn only_crlf(head: &[u8]) -> Result<(), &'static str> {
    let mut ends = memchr::memchr_iter(b'\n', head);
    if ends.all(|end| head[..end].ends_with(b"\r")) {
        return Ok(());
    }
    Err("a line must end with CR LF")
}

/// True if one of the media types is that of server-sent events.
fn names_events(value: &[u8]) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    let types = value.split(|&byte| byte == b',');
    types.map(<[u8]>::trim_ascii).any(|it| {
        let rest = it.get(EVENTS.len()..);
        let is_named = rest.is_some_and(|_| it[..EVENTS.len()].eq_ignore_ascii_case(EVENTS));
        is_named && rest.is_some_and(|rest| matches!(rest.trim_ascii_start(), [] | [b';', ..]))
    })
}

/// The header fields that concern connection and body.
pub struct Facts {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep: bool,
    pub hosts: usize,
    pub is_host_invalid: bool,
    pub expects_continue: bool,
    /// True for an unknown expectation.
    pub expects_other: bool,
    pub max_forwards: Result<Option<u64>, &'static str>,
    pub stamp: Option<Stamp>,
    /// True if `Accept` or `Content-Type` names server-sent events.
    pub is_events: bool,
    /// Field names that `Connection` lists.
    listed: Vec<String>,
}

impl Facts {
    pub fn of(fields: &[httparse::Header<'_>]) -> Result<Self, &'static str> {
        let mut facts = Self {
            length: None,
            chunked: false,
            close: false,
            keep: false,
            hosts: 0,
            is_host_invalid: false,
            expects_continue: false,
            expects_other: false,
            max_forwards: Ok(None),
            stamp: None,
            is_events: false,
            listed: Vec::new(),
        };
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                facts.set_length(field.value)?;
            } else if is("transfer-encoding") {
                if facts.chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("the only transfer coding known is one \"chunked\"");
                }
                facts.chunked = true;
            } else if is("connection") {
                facts.set_connection(field.value);
            } else if is("host") {
                facts.hosts += 1;
                facts.is_host_invalid |= !is_host(field.value);
            } else if is("expect") {
                let is_known = field.value.eq_ignore_ascii_case(b"100-continue");
                facts.expects_continue |= is_known;
                facts.expects_other |= !is_known;
            } else if is("accept") || is("content-type") {
                facts.is_events |= names_events(field.value);
            } else if is("max-forwards") {
                facts.set_max_forwards(field.value);
            } else if is(collision_avoidance::HEADER) {
                facts.stamp = Stamp::parse(field.value);
            }
        }
        Ok(facts)
    }

    fn set_length(&mut self, value: &[u8]) -> Result<(), &'static str> {
        const ODD: &str = "expected one Content-Length of digits only";
        let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
        if !digits || self.length.is_some() {
            return Err(ODD);
        }
        let text = std::str::from_utf8(value).map_err(|_| ODD)?;
        self.length = Some(text.parse().map_err(|_| ODD)?);
        Ok(())
    }

    fn set_max_forwards(&mut self, value: &[u8]) {
        let digits = (1..=9).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(value).ok().filter(|_| digits);
        let number = number.and_then(|text| text.parse().ok());
        self.max_forwards = match (number, self.max_forwards) {
            (Some(number), Ok(None)) => Ok(Some(number)),
            _ => Err("expected one Max-Forwards of digits only"),
        };
    }

    fn set_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep = true;
            } else if !option.is_empty() {
                self.listed.push(String::from_utf8_lossy(option).into_owned());
            }
        }
    }

    pub fn framing(&self, minor: u8) -> Result<Option<Framing>, &'static str> {
        match (self.length, self.chunked) {
            (Some(_), true) => Err("both Content-Length and Transfer-Encoding"),
            (None, true) if minor == 0 => Err("Transfer-Encoding in HTTP/1.0"),
            (None, true) => Ok(Some(Framing::Chunked)),
            (Some(length), false) => Ok(Some(Framing::Length(length))),
            (None, false) => Ok(None),
        }
    }

    pub fn keep_alive(&self, minor: u8) -> bool {
        !self.close && (minor == 1 || self.keep)
    }

    /// Writes the end-to-end fields and the framing, without those in `left_out`.
    pub fn pass_on(&self, fields: &[httparse::Header<'_>], left_out: &[&str], to: &mut Vec<u8>) {
        const HOP_BY_HOP: [&str; 8] = [
            "connection",
            "keep-alive",
            "proxy-connection",
            "te",
            "upgrade",
            "http2-settings",
            "expect",
            // Ours to say.
            collision_avoidance::HEADER,
        ];
        // A client's list cannot take away the fields that servers and we decide by.
        const OURS: [&str; 3] = ["host", "content-length", "transfer-encoding"];
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let is_listed = || self.listed.iter().any(|name| is(name));
            if HOP_BY_HOP.into_iter().any(is) || (is_listed() && !OURS.into_iter().any(is)) {
                continue;
            }
            if left_out.iter().any(|name| is(name)) {
                continue;
            }
            for part in [field.name.as_bytes(), b": ", field.value, b"\r\n"] {
                to.extend_from_slice(part);
            }
        }
    }
}
