//! Request and response heads: parsed with httparse, then held to stricter rules, then rewritten.
//!
//! A proxy and its server that disagree on where a message ends can be made to see different
//! messages (request smuggling). So whatever could be read in two ways is refused: both
//! `Content-Length` and `Transfer-Encoding`, a repeated or odd length, any transfer coding but
//! `chunked`, bare line feeds, folded lines, spaces before a colon. Hop-by-hop fields are not
//! passed on.

use std::mem::MaybeUninit;

use super::body::Framing;
use super::refusal::Refusal;
use crate::siblings::{self, Stamp};

/// Largest head, of a request or a response.
pub const HEAD_MAX: usize = 64 * 1024;
const FIELDS_MAX: usize = 128;

/// A request's head.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    /// GET or HEAD without a body: may be cloned.
    pub is_read: bool,
    /// HEAD: the reply has no body.
    pub is_head: bool,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor: u8,
    /// Whether the client keeps the connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// How the body ends.
    pub framing: Framing,
    /// Which replica of the tier above it serves; not passed on.
    pub stamp: Option<Stamp>,
    /// What the server gets.
    pub forward: Vec<u8>,
}

/// A response's head.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// Status code.
    pub status: u16,
    /// Whether the server keeps the connection.
    pub keep_alive: bool,
    /// How the body ends.
    pub framing: Framing,
    /// What the client gets, without the connection's own fields and the final empty line.
    pub forward: Vec<u8>,
}

impl ResponseHead {
    /// Completes what the client gets: who answered, how it ends. `held` is the length of a body
    /// that is complete.
    pub fn close_for(
        &mut self,
        server: &str,
        request: &RequestHead,
        keep: bool,
        held: Option<usize>,
    ) {
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
///
/// # Errors
/// Why the server's reply cannot be used.
pub fn parse_response(
    bytes: &[u8],
    to_head: bool,
) -> Result<Option<(ResponseHead, usize)>, &'static str> {
    let mut head = ResponseHead::default();
    let length = head.read(bytes, to_head)?;
    Ok(length.map(|length| (head, length)))
}

impl RequestHead {
    /// As [`parse_request`], into a head that is used again and again; the length, or none yet.
    ///
    /// # Errors
    /// As [`parse_request`].
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        const BAD: fn(&'static str) -> Refusal = |reason| Refusal::new(400, reason);
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(_) => {
                return Err(Refusal::new(
                    431,
                    "the request's head is larger than 64 KiB",
                ))
            }
            Err(httparse::Error::TooManyHeaders) => {
                let reason = "the request has more than 128 header fields";
                return Err(Refusal::new(431, reason));
            }
            Err(httparse::Error::Version) => {
                return Err(Refusal::new(505, "HTTP/1.0 and 1.1 only"));
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
        let facts = Facts::of(request.headers).map_err(BAD)?;
        let framing = facts.framing(minor).map_err(BAD)?.unwrap_or(Framing::Empty);
        if facts.hosts > 1 || (minor == 1 && facts.hosts == 0) {
            return Err(BAD("expected exactly one Host field"));
        }
        self.is_head = method == "HEAD";
        self.is_read = (self.is_head || method == "GET")
            && matches!(framing, Framing::Empty | Framing::Length(0));
        self.minor = minor;
        self.keep_alive = facts.keep_alive(minor);
        self.expects_continue = minor == 1 && facts.expects_continue;
        self.framing = framing;
        self.stamp = facts.stamp;
        let version = if minor == 0 {
            " HTTP/1.0\r\n"
        } else {
            " HTTP/1.1\r\n"
        };
        self.forward.clear();
        for part in [method, " ", target, version] {
            self.forward.extend_from_slice(part.as_bytes());
        }
        facts.pass_on(request.headers, &mut self.forward);
        self.forward.extend_from_slice(b"\r\n");
        Ok(Some(length))
    }
}

impl ResponseHead {
    /// As [`parse_response`], into a head that is used again and again; the length, or none yet.
    ///
    /// # Errors
    /// As [`parse_response`].
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
            Err(_) => return Err("not an HTTP/1.1 response head"),
        };
        only_crlf(&bytes[..length])?;
        let (Some(status), Some(minor)) = (response.code, response.version) else {
            return Err("not an HTTP/1.1 response head");
        };
        if status < 100 || status == 101 {
            return Err("a status that was not asked for");
        }
        let facts = Facts::of(response.headers)?;
        let declared = facts.framing(minor)?;
        let bodiless = to_head || status < 200 || status == 204 || status == 304;
        self.status = status;
        self.framing = if bodiless {
            Framing::Empty
        } else {
            declared.unwrap_or(Framing::UntilClose)
        };
        self.keep_alive = facts.keep_alive(minor) && self.framing != Framing::UntilClose;
        let digit = |number: u16| b"0123456789"[usize::from(number % 10)];
        let digits = [digit(status / 100), digit(status / 10), digit(status), b' '];
        self.forward.clear();
        self.forward.extend_from_slice(b"HTTP/1.1 ");
        self.forward.extend_from_slice(&digits);
        let reason = response.reason.unwrap_or_default();
        self.forward.extend_from_slice(reason.as_bytes());
        self.forward.extend_from_slice(b"\r\n");
        facts.pass_on(response.headers, &mut self.forward);
        Ok(Some(length))
    }
}

/// httparse takes a bare line feed for the end of a line; others may not.
fn only_crlf(head: &[u8]) -> Result<(), &'static str> {
    let mut before = 0;
    for &byte in head {
        if byte == b'\n' && before != b'\r' {
            return Err("a line must end with CR LF");
        }
        before = byte;
    }
    Ok(())
}

/// What the header fields say of the connection and the body.
#[derive(Default)]
struct Facts {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep: bool,
    hosts: usize,
    expects_continue: bool,
    stamp: Option<Stamp>,
    /// Field names that `Connection` lists.
    listed: Vec<String>,
}

impl Facts {
    fn of(fields: &[httparse::Header<'_>]) -> Result<Self, &'static str> {
        let mut facts = Self::default();
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
            } else if is("expect") {
                facts.expects_continue = field.value.eq_ignore_ascii_case(b"100-continue");
            } else if is(siblings::HEADER) {
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

    fn set_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep = true;
            } else if !option.is_empty() {
                self.listed
                    .push(String::from_utf8_lossy(option).into_owned());
            }
        }
    }

    fn framing(&self, minor: u8) -> Result<Option<Framing>, &'static str> {
        match (self.length, self.chunked) {
            (Some(_), true) => Err("both Content-Length and Transfer-Encoding"),
            (None, true) if minor == 0 => Err("Transfer-Encoding in HTTP/1.0"),
            (None, true) => Ok(Some(Framing::Chunked)),
            (Some(length), false) => Ok(Some(Framing::Length(length))),
            (None, false) => Ok(None),
        }
    }

    fn keep_alive(&self, minor: u8) -> bool {
        !self.close && (minor == 1 || self.keep)
    }

    /// Writes the fields that go end to end, and those of the framing, which were found to be single
    /// and plain.
    fn pass_on(&self, fields: &[httparse::Header<'_>], to: &mut Vec<u8>) {
        const HOP_BY_HOP: [&str; 8] = [
            "connection",
            "keep-alive",
            "proxy-connection",
            "te",
            "upgrade",
            "http2-settings",
            "expect",
            // Ours to say.
            siblings::HEADER,
        ];
        // What a client lists cannot take the fields away that servers and we decide by.
        const OURS: [&str; 3] = ["host", "content-length", "transfer-encoding"];
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let is_listed = || self.listed.iter().any(|name| is(name));
            if HOP_BY_HOP.into_iter().any(is) || (is_listed() && !OURS.into_iter().any(is)) {
                continue;
            }
            for part in [field.name.as_bytes(), b": ", field.value, b"\r\n"] {
                to.extend_from_slice(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<RequestHead, Refusal> {
        parse_request(text.as_bytes()).map(|parsed| parsed.unwrap().0)
    }

    #[test]
    fn a_read_is_a_get_or_head_without_a_body() {
        assert!(
            request("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap()
                .is_read
        );
        assert!(
            request("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap()
                .is_read
        );
        assert!(
            !request("POST / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap()
                .is_read
        );
        let with_body = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
        assert!(!request(with_body).unwrap().is_read);
    }

    #[test]
    fn hop_by_hop_fields_stay_here() {
        let head = request(
            "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close, X-Mine, Host\r\nX-Mine: 1\r\n\
             Keep-Alive: 5\r\nUpgrade: h2c\r\nTE: trailers\r\nAccept: */*\r\n\r\n",
        )
        .unwrap();
        assert_eq!(
            &head.forward[..],
            b"GET /x HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"
        );
        assert!(!head.keep_alive);
    }

    #[test]
    fn a_partial_head_is_awaited_and_a_huge_one_refused() {
        assert!(parse_request(b"GET / HT").unwrap().is_none());
        let huge = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "x".repeat(HEAD_MAX));
        assert_eq!(parse_request(huge.as_bytes()).unwrap_err().status, 431);
        let many = format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "A: b\r\n".repeat(200)
        );
        assert_eq!(parse_request(many.as_bytes()).unwrap_err().status, 431);
    }

    fn response(text: &str, to_head: bool) -> Result<ResponseHead, &'static str> {
        parse_response(text.as_bytes(), to_head).map(|parsed| parsed.unwrap().0)
    }

    #[test]
    fn a_reply_s_body_ends_as_its_head_and_the_request_say() {
        let framing = |fields: &str, to_head| {
            response(&format!("HTTP/1.1 {fields}\r\n\r\n"), to_head).map(|head| head.framing)
        };
        assert_eq!(
            framing("200 OK\r\nContent-Length: 7", false),
            Ok(Framing::Length(7))
        );
        assert_eq!(
            framing("200 OK\r\nContent-Length: 7", true),
            Ok(Framing::Empty)
        );
        assert_eq!(
            framing("304 Not Modified\r\nContent-Length: 7", false),
            Ok(Framing::Empty)
        );
        assert_eq!(framing("204 No Content", false), Ok(Framing::Empty));
        assert_eq!(
            framing("200 OK\r\nTransfer-Encoding: chunked", false),
            Ok(Framing::Chunked)
        );
        assert_eq!(framing("200 OK", false), Ok(Framing::UntilClose));
        let both = "200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked";
        assert!(framing(both, false).is_err());
        assert!(framing("101 Switching Protocols", false).is_err());
    }

    #[test]
    fn a_reply_to_head_keeps_its_length() {
        let head = response("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true).unwrap();
        assert_eq!(head.forward, b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n");
    }
}
