//! A request's target: its resource and its host (RFC 9112, 3.2), and its `Max-Forwards` (RFC 9110,
//! 7.6.2).
//!
//! If two programs read a target or a host differently, one may answer for the wrong resource, and
//! a cache may keep that answer. So everything outside of the grammar is refused, except some
//! characters without meaning that browsers and scripts send unescaped (`|`, `"`, `[`, ...).

use std::borrow::Cow;

use super::refusal::Refusal;

/// The request target for the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Origin-form, or `*`.
    pub path: Cow<'a, str>,
    /// The host of an absolute-form target, which overrides `Host`.
    pub host: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Reads the target of a request line.
    pub fn read(method: &str, target: &'a str) -> Result<Self, Refusal> {
        const INVALID: Refusal = Refusal::new(400, "the request's target is none");
        if !is_plain(target) {
            return Err(INVALID);
        }
        if target.starts_with('/') {
            return Ok(Self { path: Cow::Borrowed(target), host: None });
        }
        if target == "*" && method == "OPTIONS" {
            return Ok(Self { path: Cow::Borrowed("*"), host: None });
        }
        let (scheme, rest) = target.split_once("://").ok_or(INVALID)?;
        if scheme.eq_ignore_ascii_case("https") {
            return Err(Refusal::new(421, "https needs a connection that is secured"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let is_http = scheme.eq_ignore_ascii_case("http");
        if !is_http || host.is_empty() || host.starts_with(':') || !is_host(host.as_bytes()) {
            return Err(INVALID);
        }
        let path = match path {
            "" if method == "OPTIONS" => Cow::Borrowed("*"),
            path if path.starts_with('/') => Cow::Borrowed(path),
            query => Cow::Owned(format!("/{query}")),
        };
        let host = Some(host);
        Ok(Self { path, host })
    }
}

/// True for visible ASCII without a fragment, each `%` followed by two hexadecimal digits.
fn is_plain(target: &str) -> bool {
    let bytes = target.as_bytes();
    let is_escape = |at: usize| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !bytes.is_empty()
        && bytes.iter().enumerate().all(|(at, byte)| match byte {
            b'#' => false,
            b'%' => is_escape(at),
            byte => byte.is_ascii_graphic(),
        })
}

/// True for a host with or without a port (RFC 3986, 3.2.2), or nothing.
pub fn is_host(value: &[u8]) -> bool {
    let (name, port) = match value {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|&byte| byte == b']') else {
                return false;
            };
            let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b":.-_~".contains(byte);
            if end < 2 || !rest[..end].iter().all(inside) {
                return false;
            }
            (&[][..], &rest[end + 1..])
        }
        _ => {
            let colon = value.iter().position(|&byte| byte == b':');
            value.split_at(colon.unwrap_or(value.len()))
        }
    };
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    // Unreserved, escaped, and delimiters that a name may have.
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    is_port && name.iter().all(in_name)
}

/// A reply to a request that is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnReply {
    /// Head without hop-by-hop fields and the empty line.
    pub head: Vec<u8>,
    /// Body.
    pub body: Vec<u8>,
}

impl OwnReply {
    /// Replies to a request with `Max-Forwards: 0`; TRACE returns the request without secret
    /// fields.
    pub fn last(method: &str, received: &[u8]) -> Self {
        let mut body = Vec::new();
        let mut kind = "";
        if method == "TRACE" {
            kind = "Content-Type: message/http\r\n";
            for line in received.split_inclusive(|&byte| byte == b'\n') {
                if !is_secret(line) {
                    body.extend_from_slice(line);
                }
            }
        }
        let head = format!("HTTP/1.1 200 OK\r\n{kind}Content-Length: {}\r\n", body.len());
        Self { head: head.into_bytes(), body }
    }

    /// Completes the head.
    pub fn with_connection(&self, keep: bool, minor: u8) -> Vec<u8> {
        let connection: &[u8] = match (keep, minor) {
            (false, _) => b"Connection: close\r\n\r\n",
            (true, 0) => b"Connection: keep-alive\r\n\r\n",
            (true, _) => b"\r\n",
        };
        [&self.head[..], connection].concat()
    }
}

fn is_secret(line: &[u8]) -> bool {
    const SECRET: [&[u8]; 3] = [b"authorization", b"proxy-authorization", b"cookie"];
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    SECRET.iter().any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for good in
            ["", "a", "a.b-c_d~e", "a:80", "a:", "127.0.0.1:8080", "[::1]", "[::1]:80", "a%20b"]
        {
            assert!(is_host(good.as_bytes()), "{good:?}");
        }
        for bad in [
            "a b", "a/b", "a@b", "a:b", "a:80:90", "a,b c", "[::1", "[]", "[::1]80", "a?b", "a#b",
            "<a>", "a\\b", "\"a\"", "a:123456", "\u{e4}",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn a_trace_comes_back_without_its_secrets() {
        let received = b"TRACE / HTTP/1.1\r\nHost: a\r\nCookie: s=1\r\nX: y\r\n\r\n";
        let reply = OwnReply::last("TRACE", received);
        assert_eq!(reply.body, b"TRACE / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n");
        assert_eq!(OwnReply::last("OPTIONS", received).body, b"");
    }
}
