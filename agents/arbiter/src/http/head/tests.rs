//! Heads one by one; `tests/loopback/rfc.rs` has the table.

use super::*;

fn request(text: &str) -> Result<RequestHead, Refusal> {
    parse_request(text.as_bytes()).map(|parsed| parsed.unwrap().0)
}

#[test]
fn a_read_is_a_get_or_head_without_a_body() {
    for (method, more, expected) in [
        ("GET", "", true),
        ("HEAD", "", true),
        ("POST", "", false),
        ("GET", "Content-Length: 1\r\n", false),
    ] {
        let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{more}\r\n");
        assert_eq!(request(&head).unwrap().is_read, expected, "{head}");
    }
}

#[test]
fn a_partial_head_is_awaited_and_a_huge_one_refused() {
    assert!(parse_request(b"GET / HT").unwrap().is_none());
    let huge = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "x".repeat(HEAD_MAX));
    assert_eq!(parse_request(huge.as_bytes()).unwrap_err().status, 431);
}

#[test]
fn a_client_that_means_to_close_is_not_kept() {
    let close = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close, X-Mine\r\n\r\n";
    assert!(!request(close).unwrap().keep_alive);
}

fn response(text: &str, to_head: bool) -> Result<ResponseHead, &'static str> {
    parse_response(text.as_bytes(), to_head).map(|parsed| parsed.unwrap().0)
}

#[test]
fn a_reply_s_body_ends_as_its_head_and_the_request_say() {
    let framing = |fields: &str, to_head| {
        response(&format!("HTTP/1.1 {fields}\r\n\r\n"), to_head).map(|head| head.framing)
    };
    let of_length = "200 OK\r\nContent-Length: 7";
    for (fields, to_head, expected) in [
        (of_length, false, Framing::Length(7)),
        (of_length, true, Framing::Empty),
        ("304 Not Modified\r\nContent-Length: 7", false, Framing::Empty),
        ("204 No Content", false, Framing::Empty),
        ("200 OK\r\nTransfer-Encoding: chunked", false, Framing::Chunked),
        ("200 OK", false, Framing::UntilClose),
    ] {
        assert_eq!(framing(fields, to_head), Ok(expected), "{fields}");
    }
}

#[test]
fn a_reply_to_head_keeps_its_length() {
    let head = response("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true).unwrap();
    assert_eq!(head.forward, b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n");
}
