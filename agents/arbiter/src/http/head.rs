//! Request and response heads: parsed with httparse, then checked by stricter rules, then
//! rewritten.
//!
//! If a proxy and its server disagree on the end of a message, an attacker can make them see
//! different messages (request smuggling). So ambiguous messages are refused: both `Content-Length`
//! and `Transfer-Encoding`, a repeated or odd length, any transfer coding except `chunked`, bare
//! line feeds, folded lines, spaces before a colon. Hop-by-hop fields are not passed on, and every
//! message is passed on as HTTP/1.1.

use std::mem::MaybeUninit;

use super::body::Framing;
use super::fields::{only_crlf, Facts};
use super::refusal::Refusal;
use super::target::{OwnReply, Target};
use crate::collision_avoidance::Stamp;

#[cfg(test)]
mod tests;

/// Maximum size of a head.
pub const HEAD_MAX: usize = 64 * 1024;
const FIELDS_MAX: usize = 128;

/// True if a reply may win over others that are under way. A status about the server or the
/// connection may not, because another replica may do better.
pub fn is_good(status: u16) -> bool {
    status < 500 && !matches!(status, 408 | 421 | 425 | 429)
}

/// Head of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    /// True for GET or HEAD without a body, which may be replicated.
    pub is_read: bool,
    /// True for a safe method (RFC 9110, 9.2.1).
    pub is_safe: bool,
    /// True for a read whose reply may be endless or slow: it goes to one server and is streamed.
    pub streams: bool,
    /// True for HEAD: the reply has no body.
    pub is_head: bool,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor: u8,
    /// True if the client keeps the connection open.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// The arbiter's own reply, if the request is not forwarded.
    pub own_reply: Option<Box<OwnReply>>,
    /// Delimiter of the body.
    pub framing: Framing,
    /// Stamp of a replica of the tier above; not passed on.
    pub stamp: Option<Stamp>,
    /// The head for the server.
    pub forward: Vec<u8>,
}

/// Head of a response.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// Status code.
    pub status: u16,
    /// True if the server keeps the connection open.
    pub keep_alive: bool,
    /// True for server-sent events, which may be endless.
    pub is_events: bool,
    /// Delimiter of the body.
    pub framing: Framing,
    /// The client's copy, without hop-by-hop fields and the final empty line.
    pub forward: Vec<u8>,
}

impl RequestHead {
    /// Path with query.
    pub fn path(&self) -> &[u8] {
        let mut words = self.forward.split(|&byte| byte == b' ');
        words.nth(1).unwrap_or_default()
    }
}

impl ResponseHead {
    /// Completes the client's head: the server's name and the framing. `held` is the length of a
    /// complete body.
    pub fn close_for(
        &mut self,
        server: &str,
        request: &RequestHead,
        keep: bool,
        held: Option<usize>,
    ) {
        if request.minor == 0 {
            self.leave_chunks_out();
        }
        let out = &mut self.forward;
        for part in ["x-sparecraft-server: ", server, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        if let (Framing::UntilClose, Some(length)) = (self.framing, held) {
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        out.extend_from_slice(match (keep, request.minor) {
            (false, _) => &b"Connection: close\r\n\r\n"[..],
            (true, 0) => b"Connection: keep-alive\r\n\r\n",
            (true, _) => b"\r\n",
        });
    }

    /// Removes fields about chunks, which HTTP/1.0 does not know.
    fn leave_chunks_out(&mut self) {
        let mut kept = Vec::with_capacity(self.forward.len());
        for line in self.forward.split_inclusive(|&byte| byte == b'\n') {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
            if !is(b"transfer-encoding") && !is(b"trailer") {
                kept.extend_from_slice(line);
            }
        }
        self.forward = kept;
    }
}

/// Parses a request's head at the beginning of `bytes`: it and its length, or none yet.
///
/// # Errors
/// The reply that the client gets; the connection then ends.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, Refusal> {
    let mut head = RequestHead::default();
    let length = head.read(bytes)?;
    Ok(length.map(|length| (head, length)))
}

/// Parses a response's head at the beginning of `bytes`, the reply to a HEAD or another request.
pub fn parse_response(
    bytes: &[u8],
    to_head: bool,
) -> Result<Option<(ResponseHead, usize)>, &'static str> {
    let mut head = ResponseHead::default();
    let length = head.read(bytes, to_head)?;
    Ok(length.map(|length| (head, length)))
}

impl RequestHead {
    /// True if a body follows.
    pub fn has_body(&self) -> bool {
        !matches!(self.framing, Framing::Empty | Framing::Length(0))
    }

    /// As [`parse_request`], into a head that is reused; the length, or none yet.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        const BAD: fn(&'static str) -> Refusal = |reason| Refusal::new(400, reason);
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(_) => return Err(Refusal::new(431, "the request's head is larger than 64 KiB")),
            Err(httparse::Error::TooManyHeaders) => {
                let reason = "the request has more than 128 header fields";
                return Err(Refusal::new(431, reason));
            }
            Err(httparse::Error::Version) => {
                return match version_of(bytes) {
                    Some((b'1', place)) if bytes[place] > b'1' => {
                        // A later minor version is read as the one that we know (RFC 9110, 2.5).
                        let mut known = bytes.to_vec();
                        known[place] = b'1';
                        self.read(&known)
                    }
                    Some((b'1', _)) | None => Err(BAD("not an HTTP/1.1 request head")),
                    Some(_) => Err(Refusal::new(505, "HTTP/1.0 and 1.1 only")),
                };
            }
            Err(_) => return Err(BAD("not an HTTP/1.1 request head")),
        };
        only_crlf(&bytes[..length]).map_err(BAD)?;
        let (Some(method), Some(target), Some(minor)) =
            (request.method, request.path, request.version)
        else {
            return Err(BAD("not an HTTP/1.1 request head"));
        };
        if method == "CONNECT" {
            return Err(Refusal::new(501, "CONNECT is not supported"));
        }
        let target = Target::read(method, target)?;
        let facts = Facts::of(request.headers).map_err(BAD)?;
        let framing = facts.framing(minor).map_err(BAD)?.unwrap_or(Framing::Empty);
        if facts.hosts > 1 || (minor == 1 && facts.hosts == 0) {
            return Err(BAD("expected exactly one Host field"));
        }
        if facts.is_host_invalid {
            return Err(BAD("the Host field has no host"));
        }
        if minor == 1 && facts.expects_other {
            return Err(Refusal::new(417, "expected nothing but 100-continue"));
        }
        self.is_head = method == "HEAD";
        self.is_safe = matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
        self.is_read = (self.is_head || method == "GET")
            && matches!(framing, Framing::Empty | Framing::Length(0));
        self.streams = self.is_read && facts.is_events;
        self.minor = minor;
        self.keep_alive = facts.keep_alive(minor);
        self.framing = framing;
        self.expects_continue = minor == 1 && facts.expects_continue && self.has_body();
        self.stamp = facts.stamp;
        self.own_reply = None;
        self.forward.clear();
        for part in [method, " ", &target.path, " HTTP/1.1\r\n"] {
            self.forward.extend_from_slice(part.as_bytes());
        }
        let mut left_out: &[&str] = &[];
        if let Some(host) = target.host.or((facts.hosts == 0).then_some("")) {
            self.add("Host", host);
            left_out = &["host"];
        }
        if method == "TRACE" || method == "OPTIONS" {
            if method == "TRACE" && self.has_body() {
                return Err(BAD("TRACE has no body"));
            }
            match facts.max_forwards.map_err(BAD)? {
                Some(0) => {
                    let reply = OwnReply::last(method, &bytes[..length]);
                    self.own_reply = Some(Box::new(reply));
                }
                Some(count) => self.add("Max-Forwards", &(count - 1).to_string()),
                None => {}
            }
            left_out = match left_out {
                [] => &["max-forwards"],
                _ => &["host", "max-forwards"],
            };
        }
        facts.pass_on(request.headers, left_out, &mut self.forward);
        if self.expects_continue {
            self.add("Expect", "100-continue");
        }
        let via: &[u8] = match minor {
            0 => b"Via: 1.0 sparecraft\r\n\r\n",
            _ => b"Via: 1.1 sparecraft\r\n\r\n",
        };
        self.forward.extend_from_slice(via);
        Ok(Some(length))
    }

    fn add(&mut self, name: &str, value: &str) {
        for part in [name, ": ", value, "\r\n"] {
            self.forward.extend_from_slice(part.as_bytes());
        }
    }
}

/// The major version of a valid request line, and the position of the minor version.
fn version_of(bytes: &[u8]) -> Option<(u8, usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = bytes[..end].strip_suffix(b"\r")?;
    let start = line.iter().rposition(|&byte| byte == b' ')? + 1;
    match line[start..].strip_prefix(b"HTTP/")? {
        [major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Some((*major, start + 7))
        }
        _ => None,
    }
}

impl ResponseHead {
    /// As [`parse_response`], into a head that is reused; the length, or none yet.
    pub fn read(&mut self, bytes: &[u8], to_head: bool) -> Result<Option<usize>, &'static str> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut fields,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(_) => return Err("the response's head is larger than 64 KiB"),
            Err(httparse::Error::Version)
                if bytes.starts_with(b"HTTP/1.") && bytes.get(8) == Some(&b' ') =>
            {
                let mut known = bytes.to_vec();
                if !known[7].is_ascii_digit() || known[7] < b'2' {
                    return Err("not an HTTP/1.1 response head");
                }
                known[7] = b'1';
                return self.read(&known, to_head);
            }
            Err(_) => return Err("not an HTTP/1.1 response head"),
        };
        only_crlf(&bytes[..length])?;
        let (Some(status), Some(minor)) = (response.code, response.version) else {
            return Err("not an HTTP/1.1 response head");
        };
        let facts = Facts::of(response.headers)?;
        if status < 100 || status == 101 {
            return Err("a status that was not asked for");
        }
        let declared = facts.framing(minor)?;
        let bodiless = to_head || status < 200 || status == 204 || status == 304;
        self.status = status;
        self.is_events = !bodiless && facts.is_events;
        self.framing =
            if bodiless { Framing::Empty } else { declared.unwrap_or(Framing::UntilClose) };
        // Such a reply has no content, and must not announce any (RFC 9110, 8.6).
        let is_bare = status < 200 || status == 204;
        let is_sane = !is_bare || matches!(declared, None | Some(Framing::Length(0)));
        let has_end = self.framing != Framing::UntilClose;
        self.keep_alive = facts.keep_alive(minor) && has_end && is_sane;
        let left_out: &[&str] =
            if is_bare { &["content-length", "transfer-encoding"] } else { &[] };
        let digit = |number: u16| b"0123456789"[usize::from(number % 10)];
        let digits = [digit(status / 100), digit(status / 10), digit(status), b' '];
        self.forward.clear();
        self.forward.extend_from_slice(b"HTTP/1.1 ");
        self.forward.extend_from_slice(&digits);
        let reason = response.reason.unwrap_or_default();
        self.forward.extend_from_slice(reason.as_bytes());
        self.forward.extend_from_slice(b"\r\n");
        facts.pass_on(response.headers, left_out, &mut self.forward);
        Ok(Some(length))
    }
}
