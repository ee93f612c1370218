//! Replies in any pieces, good ones and those that no server should send.

use loadworker::outcome::Outcome;
use loadworker::protocol::{Progress, Protocol, Reader};
use memchr::memmem::Finder;

/// Reads a reply in pieces of `size` bytes, and then the connection's end.
fn read(protocol: Protocol, data: &[u8], size: usize) -> (Progress, u16, u64) {
    let mut reader = Reader::new(protocol);
    let needle = Finder::new("abc");
    let mut progress = Progress::More;
    let mut length = 0;
    while progress == Progress::More {
        let ended = length == data.len();
        length = (length + size).min(data.len());
        progress = reader.read(&data[..length], ended, &needle);
    }
    (progress, reader.summary().status, reader.summary().bytes)
}

fn good(outcome: Outcome) -> Progress {
    Progress::Whole { outcome, keep: true }
}

fn last(outcome: Outcome) -> Progress {
    Progress::Whole { outcome, keep: false }
}

fn check(protocol: Protocol, cases: &[(&[u8], Progress)]) {
    for (data, expected) in cases {
        // A reader looks at all that came for each piece.
        let piece = data.len().div_ceil(1_000);
        for size in [piece, 4 * piece, 100_000] {
            let (progress, _, _) = read(protocol, data, size);
            let text = String::from_utf8_lossy(&data[..data.len().min(60)]);
            assert_eq!(progress, *expected, "{text:?} in pieces of {size}");
        }
    }
}

#[test]
fn memcached_replies_are_values_states_and_errors() {
    let long = vec![b'x'; 70_000];
    check(
        Protocol::Memcached,
        &[
            (b"VALUE k 0 3\r\nabc\r\nEND\r\n", good(Outcome::Ok)),
            (b"VALUE k 0 3\r\nxyz\r\nVALUE l 0 3\r\nabc\r\nEND\r\n", good(Outcome::Ok)),
            (b"END\r\n", good(Outcome::BadContent)),
            (b"SERVER_ERROR out of memory\r\n", good(Outcome::BadStatus)),
            (b"VALUE k 0 x\r\nabc\r\nEND\r\n", Progress::Garbled),
            (b"VALUE k 0 -1\r\nabc\r\nEND\r\n", Progress::Garbled),
            (b"VALUE k 0 3\r\nabcd\r\nEND\r\n", Progress::Garbled),
            (b"VALUE k 0 99999999999\r\n", Progress::Garbled),
            (b"hello\r\n", Progress::Garbled),
            (b"VALUE k 0 3\r\nab", Progress::Cut),
            (&long, Progress::Garbled),
        ],
    );
}

#[test]
fn redis_replies_are_values_arrays_and_errors() {
    check(
        Protocol::Redis,
        &[
            (b"$3\r\nabc\r\n", good(Outcome::Ok)),
            (b"*2\r\n$1\r\nk\r\n$3\r\nabc\r\n", good(Outcome::Ok)),
            (b"*2\r\n*1\r\n:1\r\n$3\r\nabc\r\n", good(Outcome::Ok)),
            (b"*0\r\n", good(Outcome::BadContent)),
            (b"$-1\r\n", good(Outcome::BadContent)),
            (b"-ERR no\r\n", good(Outcome::BadStatus)),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+abc\r\n", Progress::Garbled),
            (b"!3\r\nabc\r\n", Progress::Garbled),
            (b"$3\r\nabcd\r\n", Progress::Garbled),
            (b"*2\r\n$3\r\nabc\r\n", Progress::Cut),
        ],
    );
    let (progress, _, _) = read(Protocol::Redis, b"+abc\r\n+more\r\n", 100_000);
    assert_eq!(progress, last(Outcome::Ok), "what was not asked for ends the connection");
}

#[test]
fn http_replies_have_a_length_chunks_or_the_connection_s_end() {
    check(
        Protocol::Http,
        &[
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", good(Outcome::Ok)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxyz", good(Outcome::BadContent)),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", good(Outcome::Ok)),
            (b"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nabc", good(Outcome::BadStatus)),
            (b"HTTP/1.1 204 No Content\r\n\r\n", good(Outcome::BadStatus)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", good(Outcome::Ok)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n", good(Outcome::Ok)),
            (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", last(Outcome::Ok)),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", last(Outcome::Ok)),
            (b"HTTP/1.1 200 OK\r\n\r\nabc", last(Outcome::Ok)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", Progress::Cut),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Progress::Cut),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", Progress::Garbled),
            (b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc", Progress::Garbled),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", Progress::Garbled),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", Progress::Garbled),
            (b"220 mail.example ESMTP\r\n\r\n", Progress::Garbled),
        ],
    );
}

#[test]
fn a_reply_that_did_not_end_has_its_status_and_its_bytes() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    assert_eq!(read(Protocol::Http, head, 1), (Progress::Cut, 200, 3));
    assert_eq!(read(Protocol::Http, b"HTTP/1.1 2", 1), (Progress::Cut, 0, 0));
}

fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![];
    for (sequence, payload) in payloads.iter().enumerate() {
        bytes.extend([payload.len() as u8, 0, 0, sequence as u8 + 1]);
        bytes.extend(*payload);
    }
    bytes
}

#[test]
fn mysql_replies_are_rows_counts_and_errors() {
    let end: &[u8] = &[0xfe, 0, 0, 2, 0];
    let rows = packets(&[&[1], b"\x03defcolumn", end, b"\x03abc", b"\x03xyz", end]);
    let header = packets(&[&[1], b"\x03defcolumn", end, end]);
    let update = packets(&[&[0, 1, 0, 2, 0, 0, 0]]);
    let error = packets(&[b"\xff\x28\x04#42000no"]);
    let part = &rows[..rows.len() - 3];
    let no_rows = packets(&[&[1], end]);
    check(
        Protocol::Mysql,
        &[
            (&rows, good(Outcome::Ok)),
            (&header, good(Outcome::BadContent)),
            (&update, good(Outcome::BadContent)),
            (&error, good(Outcome::BadStatus)),
            (part, Progress::Cut),
            (&no_rows, Progress::Cut),
            (b"\0\0\0\x01", Progress::Garbled),
        ],
    );
}
