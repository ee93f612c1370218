//! The rules of RFC 9110 and RFC 9112 for a message, section by section, and its fate here.

use arbiter::http::body::{Body, Framing};
use arbiter::http::head::{is_good, parse_request, parse_response};

/// The fate of a request's head.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// A server gets it, with these lines in place of what was sent.
    Sent(String),
    /// The client gets this status.
    Refused(u16),
    /// The arbiter answers it itself.
    Answered,
}

use Fate::{Answered, Refused};

fn sent(lines: &str) -> Fate {
    let lines = lines.replace('|', "\r\n");
    Fate::Sent(format!("{lines}\r\nVia: 1.1 sparecraft\r\n\r\n"))
}

/// `|` stands for the end of a line.
fn fate(lines: &str) -> Fate {
    let bytes = format!("{}\r\n\r\n", lines.replace('|', "\r\n"));
    match parse_request(bytes.as_bytes()) {
        Ok(Some((head, length))) => {
            assert_eq!(length, bytes.len(), "{lines}");
            match head.own_reply {
                Some(_) => Answered,
                None => Fate::Sent(String::from_utf8(head.forward).unwrap()),
            }
        }
        Ok(None) => panic!("{lines}: not complete"),
        Err(refusal) => Refused(refusal.status),
    }
}

/// Section, what comes, what becomes of it.
type Table = Vec<(&'static str, &'static str, Fate)>;

fn targets() -> Table {
    let get = |target: &str| sent(&format!("GET {target} HTTP/1.1|Host: a"));
    vec![
        ("9112 3.2.1", "GET / HTTP/1.1|Host: a", get("/")),
        (
            "9112 3.2.1",
            "GET /a?b=c&d HTTP/1.1|Host: a",
            get("/a?b=c&d"),
        ),
        ("9112 3.2.1", "GET //a HTTP/1.1|Host: a", get("//a")),
        ("9112 3.2.1", "GET /%41%zz HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2.1", "GET /%4 HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2.1", "GET /%e4 HTTP/1.1|Host: a", get("/%e4")),
        ("9112 3.2.1", "GET /\u{e4} HTTP/1.1|Host: a", Refused(400)),
        ("9110 4.2.5", "GET /a#b HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2", "GET a HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2", "GET a/b HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2", "GET ?a HTTP/1.1|Host: a", Refused(400)),
        (
            "9112 3.2",
            "GET a.example:80 HTTP/1.1|Host: a",
            Refused(400),
        ),
        ("9112 3.2", "GET /a b HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2", "GET /a\tb HTTP/1.1|Host: a", Refused(400)),
        ("9112 3.2", "GET /\u{7f} HTTP/1.1|Host: a", Refused(400)),
        ("9112 3", "GET  / HTTP/1.1|Host: a", Refused(400)),
        ("9112 3", "GET /  HTTP/1.1|Host: a", Refused(400)),
        ("9112 3", " GET / HTTP/1.1|Host: a", Refused(400)),
        ("9112 3", "GET /  HTTP/1.2|Host: a", Refused(400)),
        ("9112 3", "GET\t/ HTTP/1.1|Host: a", Refused(400)),
        ("9112 3", "G(T / HTTP/1.1|Host: a", Refused(400)),
        (
            "9112 3.2.2",
            "GET http://b/c HTTP/1.1|Host: a",
            sent("GET /c HTTP/1.1|Host: b"),
        ),
        (
            "9112 3.2.2",
            "GET http://b:81/c HTTP/1.1|Host: a",
            sent("GET /c HTTP/1.1|Host: b:81"),
        ),
        (
            "9112 3.2.2",
            "GET HTTP://b/ HTTP/1.1|Host: b",
            sent("GET / HTTP/1.1|Host: b"),
        ),
        (
            "9112 3.2.2",
            "GET http://b HTTP/1.1|Host: a",
            sent("GET / HTTP/1.1|Host: b"),
        ),
        (
            "9112 3.2.2",
            "GET http://b?c HTTP/1.1|Host: a",
            sent("GET /?c HTTP/1.1|Host: b"),
        ),
        (
            "9112 3.2.2",
            "GET http://[::1]/ HTTP/1.1|Host: a",
            sent("GET / HTTP/1.1|Host: [::1]"),
        ),
        ("9112 3.2.2", "GET http://b/ HTTP/1.1", Refused(400)),
        ("9110 4.2.1", "GET http:///c HTTP/1.1|Host: a", Refused(400)),
        (
            "9110 4.2.1",
            "GET http://:80/c HTTP/1.1|Host: a",
            Refused(400),
        ),
        (
            "9110 4.2.4",
            "GET http://u:p@b/ HTTP/1.1|Host: a",
            Refused(400),
        ),
        ("9110 7.4", "GET https://b/ HTTP/1.1|Host: b", Refused(421)),
        ("9112 3.2.2", "GET ftp://b/ HTTP/1.1|Host: b", Refused(400)),
        ("9112 3.2.2", "GET http:b HTTP/1.1|Host: b", Refused(400)),
        ("9112 3.2.3", "CONNECT b:80 HTTP/1.1|Host: b", Refused(501)),
        (
            "9112 3.2.4",
            "OPTIONS * HTTP/1.1|Host: a",
            sent("OPTIONS * HTTP/1.1|Host: a"),
        ),
        ("9112 3.2.4", "GET * HTTP/1.1|Host: a", Refused(400)),
        (
            "9112 3.2.4",
            "OPTIONS http://b HTTP/1.1|Host: a",
            sent("OPTIONS * HTTP/1.1|Host: b"),
        ),
        (
            "9112 3.2.4",
            "OPTIONS http://b/ HTTP/1.1|Host: a",
            sent("OPTIONS / HTTP/1.1|Host: b"),
        ),
    ]
}

fn hosts() -> Table {
    let get = |host: &str| sent(&format!("GET / HTTP/1.1|Host: {host}"));
    vec![
        ("9112 3.2", "GET / HTTP/1.1", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a|Host: a", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a|host: b", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a b", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a/b", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: u@a", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a:b", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a:80:90", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: http://a", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: [::1", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a\\b", Refused(400)),
        ("9112 3.2", "GET / HTTP/1.1|Host: a?b", Refused(400)),
        (
            "9112 3.2",
            "GET / HTTP/1.1|Host: a.example:8080",
            get("a.example:8080"),
        ),
        (
            "9112 3.2",
            "GET / HTTP/1.1|Host: [2001:db8::1]:80",
            get("[2001:db8::1]:80"),
        ),
        ("9112 3.2", "GET / HTTP/1.1|Host: 10.0.0.1", get("10.0.0.1")),
        ("9112 3.2", "GET / HTTP/1.1|Host:", get("")),
        ("9112 3.2", "GET / HTTP/1.1|Host:   a  ", get("a")),
        ("9112 5.1", "GET / HTTP/1.1|Host : a", Refused(400)),
        ("9112 5.2", "GET / HTTP/1.1|Host: a|X: b| c", Refused(400)),
        ("9110 5.5", "GET / HTTP/1.1|Host: a|X: b\0c", Refused(400)),
        ("9110 5.1", "GET / HTTP/1.1|Host: a|X y: b", Refused(400)),
        ("9110 5.1", "GET / HTTP/1.1|Host: a|: b", Refused(400)),
    ]
}

fn versions() -> Table {
    let old = |lines: &str| Fate::Sent(format!("{}\r\n\r\n", lines.replace('|', "\r\n")));
    vec![
        (
            "9110 2.5",
            "GET / HTTP/1.2|Host: a",
            sent("GET / HTTP/1.1|Host: a"),
        ),
        (
            "9110 2.5",
            "GET / HTTP/1.9|Host: a",
            sent("GET / HTTP/1.1|Host: a"),
        ),
        ("9110 2.5", "GET / HTTP/1.2", Refused(400)),
        ("9110 15.6.6", "GET / HTTP/2.0|Host: a", Refused(505)),
        ("9110 15.6.6", "GET / HTTP/3.0|Host: a", Refused(505)),
        ("9110 15.6.6", "GET / HTTP/0.9|Host: a", Refused(505)),
        ("9112 2.3", "GET / http/1.1|Host: a", Refused(400)),
        ("9112 2.3", "GET / HTTP/1|Host: a", Refused(400)),
        ("9112 2.3", "GET / HTTP/1.10|Host: a", Refused(400)),
        ("9112 2.3", "GET / HTTP/11|Host: a", Refused(400)),
        ("9112 2.3", "GET / HTCPCP/1.0|Host: a", Refused(400)),
        ("9112 2.3", "GET /|Host: a", Refused(400)),
        (
            "9112 2.3",
            "GET / HTTP/1.0|Host: a",
            old("GET / HTTP/1.1|Host: a|Via: 1.0 sparecraft"),
        ),
        (
            "9112 3.2",
            "GET / HTTP/1.0",
            old("GET / HTTP/1.1|Host: |Via: 1.0 sparecraft"),
        ),
        ("9112 3.2", "GET / HTTP/1.0|Host: a|Host: b", Refused(400)),
        (
            "9112 3.2.2",
            "GET http://b/c HTTP/1.0",
            old("GET /c HTTP/1.1|Host: b|Via: 1.0 sparecraft"),
        ),
        (
            "9112 6.1",
            "POST / HTTP/1.0|Transfer-Encoding: chunked",
            Refused(400),
        ),
        (
            "9110 7.6.3",
            "GET / HTTP/1.1|Host: a|Via: 1.0 b",
            sent("GET / HTTP/1.1|Host: a|Via: 1.0 b"),
        ),
    ]
}

fn ways() -> Table {
    let get = |more: &str| sent(&format!("GET / HTTP/1.1|Host: a{more}"));
    let trace = |more: &str| sent(&format!("TRACE / HTTP/1.1|{more}"));
    vec![
        (
            "9110 7.6.1",
            "GET / HTTP/1.1|Host: a|Connection: close",
            get(""),
        ),
        (
            "9110 7.6.1",
            "GET / HTTP/1.1|Host: a|Connection: x|X: y",
            get(""),
        ),
        (
            "9110 7.6.1",
            "GET / HTTP/1.1|Host: a|Connection: x, y|X: 1|Y: 2|Z: 3",
            get("|Z: 3"),
        ),
        (
            "9110 7.6.1",
            "GET / HTTP/1.1|Host: a|Connection: host",
            get(""),
        ),
        (
            "9110 7.6.1",
            "GET / HTTP/1.1|Host: a|Keep-Alive: 5",
            get(""),
        ),
        (
            "9110 7.6.1",
            "GET / HTTP/1.1|Host: a|Proxy-Connection: x",
            get(""),
        ),
        (
            "9110 10.1.4",
            "GET / HTTP/1.1|Host: a|Connection: te|TE: trailers",
            get(""),
        ),
        (
            "9110 7.8",
            "GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: h2c",
            get(""),
        ),
        (
            "9110 7.8",
            "GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: websocket",
            get("|Connection: Upgrade|Upgrade: websocket"),
        ),
        (
            "9110 7.8",
            "GET / HTTP/1.1|Host: a|Upgrade: websocket",
            get(""),
        ),
        (
            "9110 7.6.2",
            "TRACE / HTTP/1.1|Host: a|Max-Forwards: 0",
            Answered,
        ),
        (
            "9110 7.6.2",
            "TRACE / HTTP/1.1|Host: a|Max-Forwards: 1",
            trace("Max-Forwards: 0|Host: a"),
        ),
        (
            "9110 7.6.2",
            "TRACE / HTTP/1.1|Host: a|Max-Forwards: 70",
            trace("Max-Forwards: 69|Host: a"),
        ),
        (
            "9110 7.6.2",
            "TRACE / HTTP/1.1|Host: a|Max-Forwards: x",
            Refused(400),
        ),
        (
            "9110 7.6.2",
            "TRACE / HTTP/1.1|Host: a|Max-Forwards: -1",
            Refused(400),
        ),
        (
            "9110 7.6.2",
            "TRACE / HTTP/1.1|Host: a|Max-Forwards: 1|Max-Forwards: 1",
            Refused(400),
        ),
        (
            "9110 7.6.2",
            "OPTIONS * HTTP/1.1|Host: a|Max-Forwards: 0",
            Answered,
        ),
        (
            "9110 7.6.2",
            "OPTIONS / HTTP/1.1|Host: a|Max-Forwards: 0",
            Answered,
        ),
        (
            "9110 7.6.2",
            "OPTIONS / HTTP/1.1|Host: a|Max-Forwards: 3",
            sent("OPTIONS / HTTP/1.1|Max-Forwards: 2|Host: a"),
        ),
        (
            "9110 7.6.2",
            "GET / HTTP/1.1|Host: a|Max-Forwards: 0",
            get("|Max-Forwards: 0"),
        ),
        (
            "9110 7.6.2",
            "GET / HTTP/1.1|Host: a|Max-Forwards: x",
            get("|Max-Forwards: x"),
        ),
        (
            "9110 9.3.8",
            "TRACE / HTTP/1.1|Host: a",
            sent("TRACE / HTTP/1.1|Host: a"),
        ),
        (
            "9110 9.3.8",
            "TRACE / HTTP/1.1|Host: a|Content-Length: 1",
            Refused(400),
        ),
        (
            "9110 9.3.8",
            "TRACE / HTTP/1.1|Host: a|Transfer-Encoding: chunked",
            Refused(400),
        ),
        (
            "9110 10.1.1",
            "GET / HTTP/1.1|Host: a|Expect: 100-continue",
            get(""),
        ),
        (
            "9110 10.1.1",
            "GET / HTTP/1.1|Host: a|Expect: a-pony",
            Refused(417),
        ),
        (
            "9110 10.1.1",
            "PUT / HTTP/1.1|Host: a|Expect: 100-Continue|Content-Length: 1",
            sent("PUT / HTTP/1.1|Host: a|Content-Length: 1|Expect: 100-continue"),
        ),
        (
            "9110 10.1.1",
            "PUT / HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 0",
            sent("PUT / HTTP/1.1|Host: a|Content-Length: 0"),
        ),
        (
            "9110 10.1.1",
            "PUT / HTTP/1.0|Host: a|Expect: 100-continue|Content-Length: 1",
            Fate::Sent(
                "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nVia: 1.0 sparecraft\r\n\r\n"
                    .into(),
            ),
        ),
    ]
}

fn framings() -> Table {
    let post = |more: &str| sent(&format!("POST / HTTP/1.1|Host: a{more}"));
    vec![
        (
            "9112 6.1",
            "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked",
            post("|Transfer-Encoding: chunked"),
        ),
        (
            "9112 6.1",
            "POST / HTTP/1.1|Host: a|Transfer-Encoding: Chunked",
            post("|Transfer-Encoding: Chunked"),
        ),
        (
            "9112 6.1",
            "POST / HTTP/1.1|Host: a|Transfer-Encoding: gzip",
            Refused(400),
        ),
        (
            "9112 6.1",
            "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked, gzip",
            Refused(400),
        ),
        (
            "9112 6.1",
            "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Content-Length: 1",
            Refused(400),
        ),
        (
            "9112 6.3",
            "POST / HTTP/1.1|Host: a|Content-Length: 7",
            post("|Content-Length: 7"),
        ),
        (
            "9112 6.3",
            "POST / HTTP/1.1|Host: a|Content-Length: 7|Content-Length: 8",
            Refused(400),
        ),
        (
            "9112 6.3",
            "POST / HTTP/1.1|Host: a|Content-Length: 7, 8",
            Refused(400),
        ),
        (
            "9112 6.3",
            "POST / HTTP/1.1|Host: a|Content-Length: x",
            Refused(400),
        ),
        (
            "9112 6.3",
            "POST / HTTP/1.1|Host: a|Content-Length: -1",
            Refused(400),
        ),
        (
            "9112 6.3",
            "POST / HTTP/1.1|Host: a|Content-Length: 1.0",
            Refused(400),
        ),
        (
            "9110 8.6",
            "POST / HTTP/1.1|Host: a|Content-Length: 99999999999999999999",
            Refused(400),
        ),
        ("9112 6.3", "POST / HTTP/1.1|Host: a", post("")),
        (
            "9110 9.1",
            "get / HTTP/1.1|Host: a",
            sent("get / HTTP/1.1|Host: a"),
        ),
        (
            "9110 9.1",
            "PURGE / HTTP/1.1|Host: a",
            sent("PURGE / HTTP/1.1|Host: a"),
        ),
    ]
}

fn requests() -> Table {
    let tables = [targets(), hosts(), versions(), ways(), framings()];
    tables.into_iter().flatten().collect()
}

#[test]
fn requests_fare_as_the_rfc_says() {
    for (section, lines, expected) in requests() {
        assert_eq!(fate(lines), expected, "RFC {section}: {lines:?}");
    }
}

/// Section, a reply's head, and what the client gets of it; none where it cannot be used.
const REPLIES: [(&str, &str, Option<&str>); 22] = [
    (
        "9112 4",
        "HTTP/1.1 200 OK|A: b",
        Some("HTTP/1.1 200 OK|A: b|"),
    ),
    ("9112 4", "HTTP/1.1 200|A: b", Some("HTTP/1.1 200 |A: b|")),
    ("9112 4", "HTTP/1.1 200 |A: b", Some("HTTP/1.1 200 |A: b|")),
    ("9112 4", "HTTP/1.1 20 OK", None),
    ("9112 4", "HTTP/1.1 2000 OK", None),
    ("9112 4", "HTTP/1.1 099 No", None),
    ("9112 2.3", "HTTP/1.0 200 OK", Some("HTTP/1.1 200 OK|")),
    ("9110 2.5", "HTTP/1.2 200 OK", Some("HTTP/1.1 200 OK|")),
    ("9112 2.3", "HTTP/2.0 200 OK", None),
    ("9112 2.3", "ICY 200 OK", None),
    (
        "9110 7.6.1",
        "HTTP/1.1 200 OK|Connection: x|X: y",
        Some("HTTP/1.1 200 OK|"),
    ),
    (
        "9110 8.6",
        "HTTP/1.1 204 No Content|Content-Length: 5",
        Some("HTTP/1.1 204 No Content|"),
    ),
    (
        "9112 6.1",
        "HTTP/1.1 204 No Content|Transfer-Encoding: chunked",
        Some("HTTP/1.1 204 No Content|"),
    ),
    (
        "9110 8.6",
        "HTTP/1.1 103 Early Hints|Content-Length: 5|Link: a",
        Some("HTTP/1.1 103 Early Hints|Link: a|"),
    ),
    (
        "9110 8.6",
        "HTTP/1.1 304 Not Modified|Content-Length: 5",
        Some("HTTP/1.1 304 Not Modified|Content-Length: 5|"),
    ),
    (
        "9110 15.2.2",
        "HTTP/1.1 101 Switching Protocols|Upgrade: x",
        None,
    ),
    (
        "9112 6.1",
        "HTTP/1.1 200 OK|Transfer-Encoding: chunked|Content-Length: 1",
        None,
    ),
    (
        "9112 6.3",
        "HTTP/1.1 200 OK|Content-Length: 1|Content-Length: 2",
        None,
    ),
    ("9112 6.3", "HTTP/1.1 200 OK|Content-Length: -1", None),
    ("9112 6.1", "HTTP/1.1 200 OK|Transfer-Encoding: gzip", None),
    ("9112 5.2", "HTTP/1.1 200 OK|A: b| c", None),
    ("9112 5.1", "HTTP/1.1 200 OK|A : b", None),
];

#[test]
fn replies_fare_as_the_rfc_says() {
    for (section, lines, expected) in REPLIES {
        let bytes = format!("{}\r\n\r\n", lines.replace('|', "\r\n"));
        let parsed = parse_response(bytes.as_bytes(), false).ok().flatten();
        let found = parsed.map(|(head, _)| String::from_utf8(head.forward).unwrap());
        let expected = expected.map(|lines| lines.replace('|', "\r\n"));
        assert_eq!(found, expected, "RFC {section}: {lines:?}");
    }
}

/// Section, a status, whether it ends a race.
const STATUSES: [(&str, u16, bool); 9] = [
    ("9110 15.5.1", 400, true),
    ("9110 15.5.5", 404, true),
    ("9110 15.5.9", 408, false),
    ("9110 15.5.20", 421, false),
    ("8470 5.2", 425, false),
    ("6585 4", 429, false),
    ("9110 15.6.1", 500, false),
    ("9110 15.6.4", 503, false),
    ("9110 15.3.1", 200, true),
];

#[test]
fn what_says_nothing_of_the_request_does_not_win() {
    for (section, status, expected) in STATUSES {
        assert_eq!(is_good(status), expected, "RFC {section}: {status}");
    }
}

/// Section, bytes in chunks, the data in them; none where they break the framing.
const CHUNKS: [(&str, &str, Option<&str>); 18] = [
    ("9112 7.1", "3|abc|0||", Some("abc")),
    ("9112 7.1", "A|0123456789|0||", Some("0123456789")),
    ("9112 7.1", "0||", Some("")),
    ("9112 7.1", "000||", Some("")),
    ("9112 7.1", "003|abc|0||", Some("abc")),
    ("9112 7.1.1", "3;a=b|abc|0||", Some("abc")),
    ("9112 7.1.1", "3;a=\"b c\"|abc|0;x||", Some("abc")),
    ("9112 7.1.2", "3|abc|0|T: 1||", Some("abc")),
    ("9112 7.1.2", "3|abc|0|T: 1|U: 2||", Some("abc")),
    ("9112 7.1.2", "0|T: 1| folded||", None),
    ("9112 7.1", "x|abc|0||", None),
    ("9112 7.1", "-3|abc|0||", None),
    ("9112 7.1", "0x3|abc|0||", None),
    ("9112 7.1", "3|abcd|0||", None),
    ("9112 7.1", "|abc|0||", None),
    ("9112 7.1", "3 3|abc|0||", None),
    ("9112 7.1", "fffffffffffffffff|a", None),
    ("9112 2.2", "3\nabc\n0\n\n", None),
];

#[test]
fn chunks_fare_as_the_rfc_says() {
    for (section, bytes, expected) in CHUNKS {
        let bytes = bytes.replace('|', "\r\n");
        let (mut body, mut data) = (Body::new(Framing::Chunked), bytes::BytesMut::new());
        let taken = body.unframe(bytes.as_bytes(), &mut data);
        let found = taken.ok().map(|taken| {
            assert!(body.is_done() && taken == bytes.len(), "{bytes:?}");
            String::from_utf8(data.to_vec()).unwrap()
        });
        assert_eq!(found.as_deref(), expected, "RFC {section}: {bytes:?}");
    }
}

#[test]
fn the_tables_are_as_long_as_they_should_be() {
    let all = requests().len() + REPLIES.len() + STATUSES.len() + CHUNKS.len();
    assert!(all >= 120, "{all}");
}
