//! Every parser on arbitrary bytes, for the fuzz targets (`agents/fuzz`) and the test of their
//! corpus. A broken promise is a panic.
//!
//! The promises: no panic and no endless loop; a parser that is fed in pieces finds the same ends as
//! one that gets all at once; a head that is passed on is read by the next as it was read here.

use crate::http::body::{Body, Framing};
use crate::http::head::{parse_request, parse_response};
use crate::kv::{Broken, Dialect, Kind};
use crate::mysql::reply::{End, Follow, Shape};
use crate::mysql::{classify, handshake, packet};
use crate::resp::command::{arguments, with_lengths, Commands, Found};
use crate::{memcached, resp};

/// Runs a parser; panics if an invariant is violated.
pub type Target = fn(&[u8]);

/// Name and parser of every target.
pub const TARGETS: [(&str, Target); 11] = [
    ("http_request", http_request),
    ("http_reply", http_reply),
    ("http_chunks", http_chunks),
    ("mysql_packet", mysql_packet),
    ("mysql_handshake", mysql_handshake),
    ("mysql_statement", mysql_statement),
    ("mysql_reply", mysql_reply),
    ("resp_command", resp_command),
    ("resp_reply", resp_reply),
    ("memcached_command", memcached_command),
    ("memcached_reply", memcached_reply),
];

/// Request head: the forwarded head has the same framing and the same end.
pub fn http_request(bytes: &[u8]) {
    let Ok(Some((head, length))) = parse_request(bytes) else {
        return;
    };
    assert!(length <= bytes.len());
    match parse_request(&head.forward) {
        Ok(Some((again, end))) => {
            assert_eq!(end, head.forward.len());
            assert_eq!((again.framing, again.is_read), (head.framing, head.is_read));
        }
        _ => panic!("what is passed on is not a request"),
    }
}

/// A reply's head.
pub fn http_reply(bytes: &[u8]) {
    for to_head in [false, true] {
        if let Ok(Some((head, length))) = parse_response(bytes, to_head) {
            assert!(length <= bytes.len());
            assert!((100..=999).contains(&head.status));
        }
    }
}

/// Chunked body, at once and byte by byte.
pub fn http_chunks(bytes: &[u8]) {
    let mut whole = Body::new(Framing::Chunked);
    let taken = whole.consume(bytes);
    let mut slow = Body::new(Framing::Chunked);
    let mut slowly = Ok(0);
    for byte in bytes {
        slowly = match (slowly, slow.consume(std::slice::from_ref(byte))) {
            (Ok(sum), Ok(one)) => Ok(sum + one),
            (Ok(_), Err(error)) => Err(error),
            (failed, _) => failed,
        };
    }
    assert_eq!(taken, slowly);
    assert!(taken.is_err() || whole.is_done() == slow.is_done());
}

/// MySQL packets and the fields in them.
pub fn mysql_packet(mut bytes: &[u8]) {
    while let Some(length) = packet::whole(bytes) {
        let mut fields = packet::Fields(&bytes[packet::HEADER..length]);
        while fields.lenenc().is_some() && fields.integer(3).is_some() {}
        while fields.until_zero().is_some_and(|text| !text.is_empty()) {}
        bytes = &bytes[length..];
    }
}

/// Connection phase of both sides.
pub fn mysql_handshake(bytes: &[u8]) {
    if let Some(greeting) = handshake::server_greeting(bytes) {
        assert!(greeting.nonce.len() <= bytes.len());
    }
    if let Some((_, nonce)) = handshake::method_switch(bytes) {
        assert!(nonce.len() < bytes.len());
    }
    if let Ok(client) = handshake::handshake_response(bytes) {
        assert!(client.user.len() <= bytes.len());
    }
}

/// Statement: one classified as a read must not contain a second statement.
pub fn mysql_statement(sql: &[u8]) {
    let class = classify::classify(sql);
    // The line feed ends a comment that the statement may end in.
    let doubled = [sql, b"\n; DELETE FROM t"].concat();
    if class == classify::Class::Read {
        assert_ne!(classify::classify(&doubled), class);
    }
}

/// Reply of the form that the first byte selects.
pub fn mysql_reply(bytes: &[u8]) {
    const SHAPES: [Shape; 4] = [Shape::Single, Shape::Results, Shape::Rows, Shape::Prepared];
    let Some((&shape, mut bytes)) = bytes.split_first() else {
        return;
    };
    let Some(mut follow) = Follow::new(SHAPES[usize::from(shape) % SHAPES.len()]) else {
        return;
    };
    while let Some(length) = packet::whole(bytes) {
        let end = follow.packet(&bytes[packet::HEADER..length]);
        if matches!(end, Some(End::Good | End::Error { .. } | End::Broken)) {
            return;
        }
        bytes = &bytes[length..];
    }
}

/// Redis commands, at once and byte by byte, with the announced number of arguments.
pub fn resp_command(bytes: &[u8]) {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let outcome = Commands::default().next(rest);
        let mut slow = Commands::default();
        let mut slowly = Ok(None);
        for end in 0..=rest.len() {
            slowly = slow.next(&rest[..end]);
            if slowly != Ok(None) {
                break;
            }
        }
        assert_eq!(outcome, slowly);
        let length = match outcome {
            Ok(Some(Found::Lengths(length))) => {
                let size: usize = arguments(&rest[..length]).map(<[u8]>::len).sum();
                assert!(size < length);
                resp::classify::classify(&rest[..length]);
                length
            }
            Ok(Some(Found::Inline(length))) => {
                let command = with_lengths(&rest[..length]);
                let whole = Ok(Some(Found::Lengths(command.len())));
                assert_eq!(Commands::default().next(&command), whole);
                length
            }
            Ok(Some(Found::Nothing(length))) => length,
            Ok(None) | Err(_) => return,
        };
        assert!(length > 0 && length <= rest.len());
        at += length;
    }
}

/// Redis replies.
pub fn resp_reply(bytes: &[u8]) {
    // Bytes may be refused.
    let _ = replies::<resp::reply::Replies>(bytes);
}

/// memcached commands: each is complete, and no prefix of it is.
pub fn memcached_command(mut bytes: &[u8]) {
    while let Ok(Some(command)) = memcached::command::next(bytes) {
        assert!(command.length > 1 && command.length <= bytes.len());
        assert!(command.keys.end < command.length);
        for end in 0..command.length {
            assert_eq!(memcached::command::next(&bytes[..end]), Ok(None));
        }
        bytes = &bytes[command.length..];
    }
}

/// memcached replies.
pub fn memcached_reply(bytes: &[u8]) {
    // Bytes may be refused.
    let _ = replies::<memcached::reply::Replies>(bytes);
}

/// Length of a piece: one byte, or more for long inputs, because a parser may look at all its bytes
/// for each piece.
pub(crate) fn piece(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(4_096).max(1)
}

/// Ends of replies, equal at once and in pieces; else the reason for closing the connection.
pub(crate) fn replies<D: Dialect>(bytes: &[u8]) -> Result<Vec<(usize, Kind)>, Broken> {
    let (whole, broken) = ends::<D>(bytes, bytes.len().max(1));
    let (slow, slowly_broken) = ends::<D>(bytes, piece(bytes));
    assert_eq!((&whole, broken.is_some()), (&slow, slowly_broken.is_some()));
    broken.map_or(Ok(whole), Err)
}

/// Ends of replies in pieces of `step` bytes, and the reason for closing the connection.
fn ends<D: Dialect>(bytes: &[u8], step: usize) -> (Vec<(usize, Kind)>, Option<Broken>) {
    let (mut at, mut end, mut found) = (0, step.min(bytes.len()), Vec::new());
    let mut dialect = D::default();
    loop {
        let followed = match dialect.follow(&bytes[at..end]) {
            Ok(followed) => followed,
            Err(broken) => return (found, Some(broken)),
        };
        at += followed.used;
        assert!(at <= end);
        match followed.reply {
            Some(kind) => found.push((at, kind)),
            None if end == bytes.len() => return (found, None),
            None => end = (end + step).min(bytes.len()),
        }
    }
}
