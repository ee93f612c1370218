//! A request's head in the words of HTTP/1.1, and a reply's in those of HTTP/2.

use ::http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, TE};
use ::http::request::Parts;
use ::http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::http::body::Framing;

const FIELDS_MAX: usize = 160;
/// Of one connection of HTTP/1.1 only.
const OF_A_CONNECTION: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// The head, and whether its body is to follow in chunks; none where the request contradicts itself.
/// Names and values were looked at by the reader of HTTP/2: there is no line end in them.
pub fn request(parts: &Parts, is_empty: bool) -> Option<(Vec<u8>, bool)> {
    let length = parts.headers.get(CONTENT_LENGTH);
    let has_length = length.is_some_and(|length| length != "0");
    if (is_empty && has_length) || parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return None;
    }
    let uri = &parts.uri;
    let authority = uri.authority().map(::http::uri::Authority::as_str);
    let target = match (&parts.method, uri.path_and_query()) {
        (&::http::Method::CONNECT, _) => authority?,
        (_, target) => target?.as_str(),
    };
    let mut head = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
    if let Some(authority) = authority {
        add(&mut head, "host", authority.as_bytes());
    }
    for (name, value) in &parts.headers {
        let is_host = name == HOST && authority.is_some();
        let stays = [COOKIE, EXPECT, TE].contains(name) || is_of_a_connection(name);
        if !is_host && !stays {
            add(&mut head, name.as_str(), value.as_bytes());
        }
    }
    // A client may send them apart, and servers of HTTP/1.1 want them together (RFC 9113, 8.2.3).
    let cookies: Vec<_> = parts.headers.get_all(COOKIE).iter().collect();
    if !cookies.is_empty() {
        let all: Vec<_> = cookies.iter().map(|value| value.as_bytes()).collect();
        add(&mut head, "cookie", &all.join(&b"; "[..]));
    }
    let is_chunked = !is_empty && length.is_none();
    if is_chunked {
        add(&mut head, "transfer-encoding", b"chunked");
    }
    add(&mut head, "connection", b"close");
    head.extend_from_slice(b"\r\n");
    Some((head, is_chunked))
}

fn add(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

fn is_of_a_connection(name: &HeaderName) -> bool {
    OF_A_CONNECTION.contains(&name.as_str())
}

/// The head at the beginning of `bytes`, how its body ends, and its length; none yet. It is of the
/// arbiter's own writing.
pub fn reply(bytes: &[u8], is_head: bool) -> Option<(Response<()>, Framing, usize)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let Ok(httparse::Status::Complete(length)) = parsed.parse(bytes) else {
        return None;
    };
    let status = StatusCode::from_u16(parsed.code?).ok()?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    let mut framing = Framing::UntilClose;
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if name == "transfer-encoding" {
            framing = Framing::Chunked;
        }
        if is_of_a_connection(&name) {
            continue;
        }
        if name == CONTENT_LENGTH {
            let digits = std::str::from_utf8(field.value).ok()?;
            framing = Framing::Length(digits.parse().ok()?);
        }
        let value = HeaderValue::from_bytes(field.value).ok()?;
        response.headers_mut().append(name, value);
    }
    let is_bare = is_head || status.is_informational() || [204, 304].contains(&status.as_u16());
    if is_bare {
        framing = Framing::Empty;
    }
    Some((response, framing, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(request: ::http::request::Builder, is_empty: bool) -> Option<(String, bool)> {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let (head, is_chunked) = super::request(&parts, is_empty)?;
        Some((String::from_utf8(head).unwrap(), is_chunked))
    }

    fn get() -> ::http::request::Builder {
        ::http::Request::get("https://a.test/x?y=1")
    }

    #[test]
    fn a_request_is_said_in_the_older_words() {
        let request = get()
            .header("accept", "*/*")
            .header("cookie", "a=1")
            .header("te", "trailers")
            .header("expect", "100-continue")
            .header("cookie", "b=2");
        let head = "GET /x?y=1 HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\ncookie: a=1; b=2\r\n\
                    connection: close\r\n\r\n";
        assert_eq!(said(request, true), Some((head.to_owned(), false)));
    }

    #[test]
    fn a_body_has_its_length_or_comes_in_chunks() {
        let (head, is_chunked) = said(get().header("content-length", "3"), false).unwrap();
        assert!(head.contains("\r\ncontent-length: 3\r\n") && !is_chunked);
        let (head, is_chunked) = said(get(), false).unwrap();
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n") && is_chunked);
        assert_eq!(said(get().header("content-length", "3"), true), None);
        assert!(said(get().header("content-length", "0"), true).is_some());
        let twice = get().header("content-length", "3");
        assert_eq!(said(twice.header("content-length", "3"), false), None);
    }

    #[test]
    fn a_reply_s_end_is_where_its_fields_say() {
        for (fields, is_head, framing) in [
            ("Content-Length: 5\r\n", false, Framing::Length(5)),
            ("Content-Length: 5\r\n", true, Framing::Empty),
            ("Transfer-Encoding: chunked\r\n", false, Framing::Chunked),
            ("Connection: close\r\n", false, Framing::UntilClose),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{fields}A: b\r\n\r\nrest");
            let (head, found, length) = reply(text.as_bytes(), is_head).unwrap();
            assert_eq!((found, length), (framing, text.len() - 4));
            assert_eq!(head.headers()["a"], "b");
            assert!(!head.headers().contains_key("connection"));
        }
        assert!(reply(b"HTTP/1.1 200 OK\r\nA: b\r\n", false).is_none());
    }
}
