//! Bytes on connections between nodes: a length of four bytes (little endian, as all numbers), a
//! byte for the kind, the rest. Lengths and names from a peer are checked before they are used.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::core::members::Members;
use crate::core::message::{Change, Datagram, Key, Message, Page, View, ViewId};
use crate::page_key::is_key;

/// The largest page that nodes hold.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Maximum length of a message: a page with its head.
const FRAME_BYTES_MAX: usize = PAGE_BYTES_MAX + 64;

/// First bytes of a hello.
const HELLO: &[u8; 8] = b"PRESS/1\n";

/// Length of a hello.
pub const HELLO_BYTES: usize = HELLO.len() + 5;

/// Reasons for refusing bytes as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Garbage {
    /// A length above the maximum.
    #[error("expected a message of at most {FRAME_BYTES_MAX} bytes (got one of {0})")]
    TooLong(usize),
    /// An unknown kind.
    #[error("expected a kind of message (got {0})")]
    Kind(u8),
    /// A message that ends too early or too late.
    #[error("expected a message as long as it says (got another)")]
    Length,
    /// A name that no page can have.
    #[error("expected the name of a page (got another)")]
    Key,
}

/// The first message of a node: its cluster, and its number.
pub fn hello(cluster: u32, me: usize) -> [u8; HELLO_BYTES] {
    let mut out = [0; HELLO_BYTES];
    out[..8].copy_from_slice(HELLO);
    out[8..12].copy_from_slice(&cluster.to_le_bytes());
    out[12] = me as u8;
    out
}

/// Returns the sender of a hello of this cluster.
pub fn hello_of(bytes: &[u8; HELLO_BYTES], cluster: u32) -> Option<usize> {
    (bytes[..12] == hello(cluster, 0)[..12]).then_some(usize::from(bytes[12]))
}

/// Appends a message.
pub fn encode(message: &Message, out: &mut BytesMut) {
    let start = out.len();
    out.put_u32_le(0);
    match message {
        Message::Changed(change) => {
            out.put_u8(1);
            out.put_u64_le(change.number);
            out.put_u8(u8::from(change.is_reset));
            put_keys(&change.added, out);
            put_keys(&change.evicted, out);
        }
        Message::Fetch { id, key } => {
            out.put_u8(2);
            out.put_u64_le(*id);
            out.put_slice(key.as_bytes());
        }
        Message::Page { id, page } => {
            out.put_u8(3);
            out.put_u64_le(*id);
            out.put_u32_le(page.check);
            out.put_slice(&page.body);
        }
        Message::Gone { id } => {
            out.put_u8(4);
            out.put_u64_le(*id);
        }
        Message::Credit(count) => {
            out.put_u8(5);
            out.put_u32_le(*count);
        }
        Message::Resend => out.put_u8(6),
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_keys(keys: &[Key], out: &mut BytesMut) {
    out.put_u32_le(keys.len() as u32);
    for key in keys {
        out.put_u16_le(key.len() as u16);
        out.put_slice(key.as_bytes());
    }
}

/// Takes the next message from the front, once it is complete.
pub fn decode(bytes: &mut BytesMut) -> Result<Option<Message>, Garbage> {
    let Some(head) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*head) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(Garbage::TooLong(length));
    }
    if bytes.len() < 4 + length {
        return Ok(None);
    }
    bytes.advance(4);
    message(&bytes.split_to(length)).map(Some)
}

fn message(bytes: &[u8]) -> Result<Message, Garbage> {
    let mut rest = bytes;
    let kind = rest.try_get_u8().map_err(|_| Garbage::Length)?;
    let message = match kind {
        1 => Message::Changed(Change {
            number: number(&mut rest)?,
            is_reset: rest.try_get_u8().map_err(|_| Garbage::Length)? != 0,
            added: keys(&mut rest)?,
            evicted: keys(&mut rest)?,
        }),
        2 => {
            let id = number(&mut rest)?;
            let key = key(std::mem::take(&mut rest))?;
            Message::Fetch { id, key }
        }
        3 => {
            let id = number(&mut rest)?;
            let check = rest.try_get_u32_le().map_err(|_| Garbage::Length)?;
            // A copy, so that a page in memory does not keep what came beside it.
            let body = Bytes::copy_from_slice(std::mem::take(&mut rest));
            let page = Page { body, check };
            Message::Page { id, page }
        }
        4 => Message::Gone { id: number(&mut rest)? },
        5 => Message::Credit(rest.try_get_u32_le().map_err(|_| Garbage::Length)?),
        6 => Message::Resend,
        other => return Err(Garbage::Kind(other)),
    };
    match rest.is_empty() {
        true => Ok(message),
        false => Err(Garbage::Length),
    }
}

fn number(rest: &mut &[u8]) -> Result<u64, Garbage> {
    rest.try_get_u64_le().map_err(|_| Garbage::Length)
}

fn keys(rest: &mut &[u8]) -> Result<Vec<Key>, Garbage> {
    let count = rest.try_get_u32_le().map_err(|_| Garbage::Length)?;
    (0..count).map(|_| one_key(rest)).collect()
}

fn one_key(rest: &mut &[u8]) -> Result<Key, Garbage> {
    let length = rest.try_get_u16_le().map_err(|_| Garbage::Length)?;
    let (name, after) = rest.split_at_checked(length.into()).ok_or(Garbage::Length)?;
    *rest = after;
    key(name)
}

fn key(bytes: &[u8]) -> Result<Key, Garbage> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| is_key(text));
    text.map(Key::from).ok_or(Garbage::Key)
}

/// A datagram of the monitor.
pub fn datagram(cluster: u32, me: usize, datagram: Datagram) -> Vec<u8> {
    let mut out = hello(cluster, me).to_vec();
    match datagram {
        Datagram::Heartbeat => out.put_u8(1),
        Datagram::Query(view) => {
            out.put_u8(2);
            out.put_u64_le(view.id.epoch);
            out.put_u8(view.id.master as u8);
            out.put_u64_le(view.members.0);
        }
        Datagram::Present => out.put_u8(3),
        Datagram::Suspect(node) => out.put_slice(&[4, node as u8]),
    }
    out
}

/// Returns the sender and the message of a datagram of this cluster.
pub fn datagram_of(bytes: &[u8], cluster: u32) -> Option<(usize, Datagram)> {
    let (head, mut rest) = bytes.split_first_chunk::<HELLO_BYTES>()?;
    let from = hello_of(head, cluster)?;
    let datagram = match rest.try_get_u8().ok()? {
        1 => Datagram::Heartbeat,
        2 => {
            let epoch = rest.try_get_u64_le().ok()?;
            let master = rest.try_get_u8().ok()?.into();
            let members = Members(rest.try_get_u64_le().ok()?);
            let id = ViewId { epoch, master };
            Datagram::Query(View { id, members })
        }
        3 => Datagram::Present,
        4 => Datagram::Suspect(rest.try_get_u8().ok()?.into()),
        _ => return None,
    };
    rest.is_empty().then_some((from, datagram))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::random::Random;

    fn samples() -> Vec<Message> {
        let page = Page::new("a.html", Bytes::from_static(b"body"));
        let change = Change {
            number: 7,
            is_reset: true,
            added: vec!["a".into(), "b/c".into()],
            evicted: vec!["d".into()],
        };
        vec![
            Message::Changed(change),
            Message::Fetch { id: 1, key: "a.html".into() },
            Message::Page { id: 2, page },
            Message::Gone { id: 3 },
            Message::Credit(4),
            Message::Resend,
        ]
    }

    #[test]
    fn what_is_written_is_read_in_any_pieces() {
        let mut all = BytesMut::new();
        samples().iter().for_each(|message| encode(message, &mut all));
        for piece in 1..all.len() {
            let (mut buffer, mut messages) = (BytesMut::new(), vec![]);
            for bytes in all.chunks(piece) {
                buffer.extend_from_slice(bytes);
                while let Some(message) = decode(&mut buffer).unwrap() {
                    messages.push(message);
                }
            }
            assert_eq!(messages, samples());
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_garbage_and_never_more_than_they_are() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let mut bytes = BytesMut::new();
            let sample = random.below(6) as usize;
            encode(&samples()[sample], &mut bytes);
            for _ in 0..=random.below(3) {
                let place = random.below(bytes.len() as u64) as usize;
                bytes[place] = random.bits() as u8;
            }
            let before = bytes.len();
            if let Ok(Some(Message::Page { page, .. })) = decode(&mut bytes) {
                assert!(page.body.len() < before);
            }
        }
    }

    #[test]
    fn too_long_a_message_is_refused_before_it_is_there() {
        let mut bytes = BytesMut::from(&u32::MAX.to_le_bytes()[..]);
        assert_eq!(decode(&mut bytes), Err(Garbage::TooLong(u32::MAX as usize)));
    }

    #[test]
    fn a_datagram_of_another_cluster_is_none() {
        let id = ViewId { epoch: 3, master: 1 };
        let members = Members::all(4);
        let all = [
            Datagram::Heartbeat,
            Datagram::Query(View { id, members }),
            Datagram::Present,
            Datagram::Suspect(2),
        ];
        for sample in all {
            let bytes = datagram(9, 3, sample);
            assert_eq!(datagram_of(&bytes, 9), Some((3, sample)));
            assert_eq!(datagram_of(&bytes, 8), None);
            assert_eq!(datagram_of(&bytes[..bytes.len() - 1], 9), None);
        }
    }
}
