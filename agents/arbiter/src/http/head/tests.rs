//! Heads one by one; `tests/loopback/rfc.rs` has the table.

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
        b"GET /x HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nVia: 1.1 sparecraft\r\n\r\n"
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
