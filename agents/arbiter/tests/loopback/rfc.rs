//! The rules of RFC 9110 and RFC 9112 for a message, section by section, and its fate here.

use arbiter::http::body::{Body, Framing};
use arbiter::http::head::{is_good, parse_request, parse_response};

/// The section, a request's head, and its fate: `=` a server gets it, or these lines in its place;
/// `here` the arbiter answers it itself; a number is the status that the client gets. `|` is the end of
/// a line, `␊` and `␍` are a line feed and a carriage return alone. What a server gets has a `Via`
/// besides.
const REQUESTS: &str = "\
9112 3.2.1 GET / HTTP/1.1|Host: a -> =
9112 3.2.1 GET /a?b=c&d HTTP/1.1|Host: a -> =
9112 3.2.1 GET //a HTTP/1.1|Host: a -> =
9112 3.2.1 GET /%41%zz HTTP/1.1|Host: a -> 400
9112 3.2.1 GET /%4 HTTP/1.1|Host: a -> 400
9112 3.2.1 GET /%e4 HTTP/1.1|Host: a -> =
9112 3.2.1 GET /\u{e4} HTTP/1.1|Host: a -> 400
9110 4.2.5 GET /a#b HTTP/1.1|Host: a -> 400
9112 3.2 GET a HTTP/1.1|Host: a -> 400
9112 3.2 GET a/b HTTP/1.1|Host: a -> 400
9112 3.2 GET ?a HTTP/1.1|Host: a -> 400
9112 3.2 GET a.example:80 HTTP/1.1|Host: a -> 400
9112 3.2 GET /a b HTTP/1.1|Host: a -> 400
9112 3.2 GET /a\tb HTTP/1.1|Host: a -> 400
9112 3.2 GET /\u{7f} HTTP/1.1|Host: a -> 400
9112 3 GET  / HTTP/1.1|Host: a -> 400
9112 3 GET /  HTTP/1.1|Host: a -> 400
9112 3  GET / HTTP/1.1|Host: a -> 400
9112 3 GET /  HTTP/1.2|Host: a -> 400
9112 3 GET\t/ HTTP/1.1|Host: a -> 400
9112 3 G(T / HTTP/1.1|Host: a -> 400
9112 3.2.2 GET http://b/c HTTP/1.1|Host: a -> GET /c HTTP/1.1|Host: b
9112 3.2.2 GET http://b:81/c HTTP/1.1|Host: a -> GET /c HTTP/1.1|Host: b:81
9112 3.2.2 GET HTTP://b/ HTTP/1.1|Host: b -> GET / HTTP/1.1|Host: b
9112 3.2.2 GET http://b HTTP/1.1|Host: a -> GET / HTTP/1.1|Host: b
9112 3.2.2 GET http://b?c HTTP/1.1|Host: a -> GET /?c HTTP/1.1|Host: b
9112 3.2.2 GET http://[::1]/ HTTP/1.1|Host: a -> GET / HTTP/1.1|Host: [::1]
9112 3.2.2 GET http://b/ HTTP/1.1 -> 400
9110 4.2.1 GET http:///c HTTP/1.1|Host: a -> 400
9110 4.2.1 GET http://:80/c HTTP/1.1|Host: a -> 400
9110 4.2.4 GET http://u:p@b/ HTTP/1.1|Host: a -> 400
9110 7.4 GET https://b/ HTTP/1.1|Host: b -> 421
9112 3.2.2 GET ftp://b/ HTTP/1.1|Host: b -> 400
9112 3.2.2 GET http:b HTTP/1.1|Host: b -> 400
9112 3.2.3 CONNECT b:80 HTTP/1.1|Host: b -> 501
9112 3.2.4 OPTIONS * HTTP/1.1|Host: a -> =
9112 3.2.4 GET * HTTP/1.1|Host: a -> 400
9112 3.2.4 OPTIONS http://b HTTP/1.1|Host: a -> OPTIONS * HTTP/1.1|Host: b
9112 3.2.4 OPTIONS http://b/ HTTP/1.1|Host: a -> OPTIONS / HTTP/1.1|Host: b
9112 3.2 GET / HTTP/1.1 -> 400
9112 3.2 GET / HTTP/1.1|Host: a|Host: a -> 400
9112 3.2 GET / HTTP/1.1|Host: a|host: b -> 400
9112 3.2 GET / HTTP/1.1|Host: a b -> 400
9112 3.2 GET / HTTP/1.1|Host: a/b -> 400
9112 3.2 GET / HTTP/1.1|Host: u@a -> 400
9112 3.2 GET / HTTP/1.1|Host: a:b -> 400
9112 3.2 GET / HTTP/1.1|Host: a:80:90 -> 400
9112 3.2 GET / HTTP/1.1|Host: http://a -> 400
9112 3.2 GET / HTTP/1.1|Host: [::1 -> 400
9112 3.2 GET / HTTP/1.1|Host: a\\b -> 400
9112 3.2 GET / HTTP/1.1|Host: a?b -> 400
9112 3.2 GET / HTTP/1.1|Host: a.example:8080 -> =
9112 3.2 GET / HTTP/1.1|Host: [2001:db8::1]:80 -> =
9112 3.2 GET / HTTP/1.1|Host: 10.0.0.1 -> =
9112 3.2 GET / HTTP/1.1|Host: -> GET / HTTP/1.1|Host:\x20
9112 3.2 GET / HTTP/1.1|Host:   a   -> GET / HTTP/1.1|Host: a
9112 5.1 GET / HTTP/1.1|Host : a -> 400
9112 5.2 GET / HTTP/1.1|Host: a|X: b| c -> 400
9110 5.5 GET / HTTP/1.1|Host: a|X: b\0c -> 400
9110 5.1 GET / HTTP/1.1|Host: a|X y: b -> 400
9110 5.1 GET / HTTP/1.1|Host: a|: b -> 400
9110 2.5 GET / HTTP/1.2|Host: a -> GET / HTTP/1.1|Host: a
9110 2.5 GET / HTTP/1.9|Host: a -> GET / HTTP/1.1|Host: a
9110 2.5 GET / HTTP/1.2 -> 400
9110 15.6.6 GET / HTTP/2.0|Host: a -> 505
9110 15.6.6 GET / HTTP/3.0|Host: a -> 505
9110 15.6.6 GET / HTTP/0.9|Host: a -> 505
9112 2.3 GET / http/1.1|Host: a -> 400
9112 2.3 GET / HTTP/1|Host: a -> 400
9112 2.3 GET / HTTP/1.10|Host: a -> 400
9112 2.3 GET / HTTP/11|Host: a -> 400
9112 2.3 GET / HTCPCP/1.0|Host: a -> 400
9112 2.3 GET /|Host: a -> 400
9112 2.3 GET / HTTP/1.0|Host: a -> GET / HTTP/1.1|Host: a
9112 3.2 GET / HTTP/1.0 -> GET / HTTP/1.1|Host:\x20
9112 3.2 GET / HTTP/1.0|Host: a|Host: b -> 400
9112 3.2.2 GET http://b/c HTTP/1.0 -> GET /c HTTP/1.1|Host: b
9112 6.1 POST / HTTP/1.0|Transfer-Encoding: chunked -> 400
9110 7.6.3 GET / HTTP/1.1|Host: a|Via: 1.0 b -> =
9110 7.6.1 GET / HTTP/1.1|Host: a|Connection: close -> GET / HTTP/1.1|Host: a
9110 7.6.1 GET / HTTP/1.1|Host: a|Connection: x|X: y -> GET / HTTP/1.1|Host: a
9110 7.6.1 GET / HTTP/1.1|Host: a|Connection: x, y|X: 1|Y: 2|Z: 3 -> GET / HTTP/1.1|Host: a|Z: 3
9110 7.6.1 GET / HTTP/1.1|Host: a|Connection: host -> GET / HTTP/1.1|Host: a
9110 7.6.1 GET / HTTP/1.1|Host: a|Keep-Alive: 5 -> GET / HTTP/1.1|Host: a
9110 7.6.1 GET / HTTP/1.1|Host: a|Proxy-Connection: x -> GET / HTTP/1.1|Host: a
9110 10.1.4 GET / HTTP/1.1|Host: a|Connection: te|TE: trailers -> GET / HTTP/1.1|Host: a
9110 7.8 GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: h2c -> GET / HTTP/1.1|Host: a
9110 7.8 GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: websocket -> GET / HTTP/1.1|Host: a
9110 7.8 GET / HTTP/1.1|Host: a|Upgrade: websocket -> GET / HTTP/1.1|Host: a
9110 7.6.2 TRACE / HTTP/1.1|Host: a|Max-Forwards: 0 -> here
9110 7.6.2 TRACE / HTTP/1.1|Host: a|Max-Forwards: 1 -> TRACE / HTTP/1.1|Max-Forwards: 0|Host: a
9110 7.6.2 TRACE / HTTP/1.1|Host: a|Max-Forwards: 70 -> TRACE / HTTP/1.1|Max-Forwards: 69|Host: a
9110 7.6.2 TRACE / HTTP/1.1|Host: a|Max-Forwards: x -> 400
9110 7.6.2 TRACE / HTTP/1.1|Host: a|Max-Forwards: -1 -> 400
9110 7.6.2 TRACE / HTTP/1.1|Host: a|Max-Forwards: 1|Max-Forwards: 1 -> 400
9110 7.6.2 OPTIONS * HTTP/1.1|Host: a|Max-Forwards: 0 -> here
9110 7.6.2 OPTIONS / HTTP/1.1|Host: a|Max-Forwards: 0 -> here
9110 7.6.2 OPTIONS / HTTP/1.1|Host: a|Max-Forwards: 3 -> OPTIONS / HTTP/1.1|Max-Forwards: 2|Host: a
9110 7.6.2 GET / HTTP/1.1|Host: a|Max-Forwards: 0 -> =
9110 7.6.2 GET / HTTP/1.1|Host: a|Max-Forwards: x -> =
9110 9.3.8 TRACE / HTTP/1.1|Host: a -> =
9110 9.3.8 TRACE / HTTP/1.1|Host: a|Content-Length: 1 -> 400
9110 9.3.8 TRACE / HTTP/1.1|Host: a|Transfer-Encoding: chunked -> 400
9110 10.1.1 GET / HTTP/1.1|Host: a|Expect: 100-continue -> GET / HTTP/1.1|Host: a
9110 10.1.1 GET / HTTP/1.1|Host: a|Expect: a-pony -> 417
9110 10.1.1 PUT / HTTP/1.1|Host: a|Expect: 100-Continue|Content-Length: 1 -> PUT / HTTP/1.1|Host: a|Content-Length: 1|Expect: 100-continue
9110 10.1.1 PUT / HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 0 -> PUT / HTTP/1.1|Host: a|Content-Length: 0
9110 10.1.1 PUT / HTTP/1.0|Host: a|Expect: 100-continue|Content-Length: 1 -> PUT / HTTP/1.1|Host: a|Content-Length: 1
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked -> =
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: Chunked -> =
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: gzip -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked, gzip -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Content-Length: 1 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 7 -> =
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 7|Content-Length: 8 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 7, 8 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: x -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: -1 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 1.0 -> 400
9110 8.6 POST / HTTP/1.1|Host: a|Content-Length: 99999999999999999999 -> 400
9112 6.3 POST / HTTP/1.1|Host: a -> =
9110 9.1 get / HTTP/1.1|Host: a -> =
9110 9.1 PURGE / HTTP/1.1|Host: a -> =
9112 6.1 POST / HTTP/1.1|Host: a|Content-Length: 6|Transfer-Encoding: chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Content-Length: 4 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 5|Content-Length: 6 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 5|Content-Length: 5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 5, 5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: +5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: -5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 0x5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: 1 0 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length: -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Transfer-Encoding: cow -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Transfer-Encoding: chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked, identity -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: gzip, chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: xchunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: \"chunked\" -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: ,chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked; -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: \u{b}chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding : chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding\t: chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding:| chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|X: y␊Transfer-Encoding: chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|X: y␍Transfer-Encoding: chunked -> 400
9112 6.1 POST / HTTP/1.1|Host: a|Transfer-Encoding: -> 400
9112 6.3 POST / HTTP/1.1|Host: a|Content-Length : 5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|X: y␊Content-Length: 5 -> 400
9112 6.3 POST / HTTP/1.1|Host: a|X: y␍Content-Length: 5 -> 400
9112 5 POST / HTTP/1.1|Host: a|X: y| z -> 400
9112 5 POST / HTTP/1.1|Host: a|X: y␊ z -> 400
9112 5 POST / HTTP/1.1|Host: a|X: y|\tz -> 400
9112 5 POST / HTTP/1.1|Host: a|X: a\0b -> 400
9112 5 POST / HTTP/1.1|Host: a|X\0: b -> 400
9112 5 POST / HTTP/1.1|Host: a|X -> 400
9112 5 POST / HTTP/1.1|Host: a|: x -> 400
9112 5 POST / HTTP/1.1|Host: a|Host: b -> 400
9112 2.2 GET / HTTP/1.1| Host: a -> 400
9112 2.2 GET / HTTP/1.1␊Host: a␊␊ -> 400
9112 2.2 GET / HTTP/1.1␍|Host: a -> 400
9112 2.2 GET /\0 HTTP/1.1|Host: a -> 400
9112 2.2 GET / -> 400
9112 2.2 CONNECT a:1 HTTP/1.1|Host: a -> 501
";

/// A row's head as bytes, and its fate.
fn row(row: &str) -> (String, &str) {
    let (rule, fate) = row.rsplit_once(" -> ").unwrap();
    let (_, lines) = rule.split_at(rule.match_indices(' ').nth(1).unwrap().0 + 1);
    let bytes = lines.replace('|', "\r\n").replace('␊', "\n").replace('␍', "\r");
    (bytes + "\r\n\r\n", fate)
}

/// Heads that are refused, each with its status.
pub fn refused() -> impl Iterator<Item = (String, u16)> {
    let rows = REQUESTS.lines().map(row);
    rows.filter_map(|(head, fate)| Some((head, fate.parse().ok()?)))
}

#[test]
fn requests_fare_as_the_rfc_says() {
    for line in REQUESTS.lines() {
        let (bytes, expected) = row(line);
        let fate = match parse_request(bytes.as_bytes()) {
            Ok(Some((head, _))) if head.own_reply.is_some() => "here".to_owned(),
            Ok(Some((head, length))) => {
                assert_eq!(length, bytes.len(), "{line}");
                let version = if bytes.contains("HTTP/1.0") { "1.0" } else { "1.1" };
                let sent = String::from_utf8(head.forward).unwrap();
                let via = format!("Via: {version} sparecraft\r\n\r\n");
                let sent = sent.strip_suffix(&via).unwrap();
                let same = bytes.strip_suffix("\r\n") == Some(sent);
                let shown = sent.strip_suffix("\r\n").unwrap().replace("\r\n", "|");
                if same {
                    "=".to_owned()
                } else {
                    shown
                }
            }
            Ok(None) => panic!("{line}: not complete"),
            Err(refusal) => refusal.status.to_string(),
        };
        assert_eq!(fate, expected, "RFC {line:?}");
    }
}

/// The section, a reply's head, and what the client gets of it; `none` where it cannot be used.
const REPLIES: &str = "\
9112 4 HTTP/1.1 200 OK|A: b -> HTTP/1.1 200 OK|A: b|
9112 4 HTTP/1.1 200|A: b -> HTTP/1.1 200 |A: b|
9112 4 HTTP/1.1 200 |A: b -> HTTP/1.1 200 |A: b|
9112 4 HTTP/1.1 20 OK -> none
9112 4 HTTP/1.1 2000 OK -> none
9112 4 HTTP/1.1 099 No -> none
9112 2.3 HTTP/1.0 200 OK -> HTTP/1.1 200 OK|
9110 2.5 HTTP/1.2 200 OK -> HTTP/1.1 200 OK|
9112 2.3 HTTP/2.0 200 OK -> none
9112 2.3 ICY 200 OK -> none
9110 7.6.1 HTTP/1.1 200 OK|Connection: x|X: y -> HTTP/1.1 200 OK|
9110 8.6 HTTP/1.1 204 No Content|Content-Length: 5 -> HTTP/1.1 204 No Content|
9112 6.1 HTTP/1.1 204 No Content|Transfer-Encoding: chunked -> HTTP/1.1 204 No Content|
9110 8.6 HTTP/1.1 103 Early Hints|Content-Length: 5|Link: a -> HTTP/1.1 103 Early Hints|Link: a|
9110 8.6 HTTP/1.1 304 Not Modified|Content-Length: 5 -> HTTP/1.1 304 Not Modified|Content-Length: 5|
9110 15.2.2 HTTP/1.1 101 Switching Protocols|Upgrade: x -> none
9112 6.1 HTTP/1.1 200 OK|Transfer-Encoding: chunked|Content-Length: 1 -> none
9112 6.3 HTTP/1.1 200 OK|Content-Length: 1|Content-Length: 2 -> none
9112 6.3 HTTP/1.1 200 OK|Content-Length: -1 -> none
9112 6.1 HTTP/1.1 200 OK|Transfer-Encoding: gzip -> none
9112 5.2 HTTP/1.1 200 OK|A: b| c -> none
9112 5.1 HTTP/1.1 200 OK|A : b -> none
";

#[test]
fn replies_fare_as_the_rfc_says() {
    for line in REPLIES.lines() {
        let (bytes, expected) = row(line);
        let parsed = parse_response(bytes.as_bytes(), false).ok().flatten();
        let head = parsed.map(|(head, _)| String::from_utf8(head.forward).unwrap());
        let head = head.map_or("none".to_owned(), |head| head.replace("\r\n", "|"));
        assert_eq!(head, expected, "RFC {line:?}");
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
const CHUNKS: [(&str, &str, Option<&str>); 27] = [
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
    ("9112 7.1", "3  |abc|0||", Some("abc")),
    ("9112 7.1.1", "3 ;a=\"b c\"|abc|0||", Some("abc")),
    ("9112 7.1.1", "3;a=\0|abc|0||", None),
    ("9112 7.1", "3 x|abc|0||", None),
    ("9112 2.2", "3 \nabc|0||", None),
    ("9112 2.2", "3|abc\n0||", None),
    ("9112 7.1", "ffffffffffffffff|a", None),
    ("9112 2.2", "0|\n", None),
    ("9112 2.2", "0|T: 1\n|", None),
];

#[test]
fn chunks_fare_as_the_rfc_says() {
    for (section, bytes, expected) in CHUNKS {
        let bytes = bytes.replace('|', "\r\n");
        let (mut body, mut data) = (Body::new(Framing::Chunked), bytes::BytesMut::new());
        let taken = body.unframe(bytes.as_bytes(), &mut data);
        let data = taken.ok().map(|taken| {
            assert!(body.is_done() && taken == bytes.len(), "{bytes:?}");
            String::from_utf8(data.to_vec()).unwrap()
        });
        assert_eq!(data.as_deref(), expected, "RFC {section}: {bytes:?}");
    }
}
