//! Packets: three bytes of length, one of sequence, the payload.
//!
//! Replies pass through as they are: a command has sequence 0 towards client and server alike, so
//! that the sequence numbers of a server's reply are right for the client as well.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};

use crate::conn::Conn;

/// Length of a payload that goes on in the next packet.
pub const PAYLOAD_MAX: usize = 0xff_ffff;
const HEADER: usize = 4;

/// One packet, header included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet(Bytes);

impl Packet {
    /// A packet of a payload below [`PAYLOAD_MAX`].
    pub fn new(sequence: u8, payload: &[u8]) -> Self {
        debug_assert!(payload.len() < PAYLOAD_MAX);
        let mut bytes = BytesMut::with_capacity(HEADER + payload.len());
        bytes.put_uint_le(payload.len() as u64, 3);
        bytes.put_u8(sequence);
        bytes.extend_from_slice(payload);
        Self(bytes.freeze())
    }

    /// Header and payload.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What it carries.
    pub fn payload(&self) -> &[u8] {
        &self.0[HEADER..]
    }

    /// Its place in the conversation.
    pub fn sequence(&self) -> u8 {
        self.0[3]
    }
}

/// The next packet; none where the connection ended between packets. May be dropped and called
/// again.
///
/// # Errors
/// Those of the socket, and an end in the middle of a packet.
pub async fn read(conn: &mut Conn) -> io::Result<Option<Packet>> {
    loop {
        if let Some(header) = conn.buffer.first_chunk::<HEADER>() {
            let length =
                usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            if conn.buffer.len() >= HEADER + length {
                return Ok(Some(Packet(conn.buffer.split_to(HEADER + length).freeze())));
            }
        }
        if conn.fill().await? == 0 {
            return if conn.buffer.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
    }
}

/// An ERR packet of the arbiter's own.
pub fn error(sequence: u8, code: u16, state: &str, message: &str) -> Packet {
    let mut payload = vec![0xff];
    payload.put_u16_le(code);
    payload.push(b'#');
    payload.extend_from_slice(state.as_bytes());
    payload.extend_from_slice(message.as_bytes());
    Packet::new(sequence, &payload)
}

/// An OK packet of the arbiter's own (autocommit on, nothing affected).
pub fn ok(sequence: u8) -> Packet {
    Packet::new(sequence, &[0, 0, 0, 2, 0, 0, 0])
}

/// Reads a payload's fields in order; none beyond its end.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A little-endian integer of `length` bytes, at most 8.
    pub fn integer(&mut self, length: usize) -> Option<u64> {
        let bytes = self.bytes(length)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |value, &byte| value << 8 | u64::from(byte)),
        )
    }

    /// A length-encoded integer.
    pub fn lenenc(&mut self) -> Option<u64> {
        match self.integer(1)? {
            0xfc => self.integer(2),
            0xfd => self.integer(3),
            0xfe => self.integer(8),
            0xfb | 0xff => None,
            small => Some(small),
        }
    }

    /// Bytes up to a zero byte, which is taken too.
    pub fn until_zero(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|&byte| byte == 0)?;
        let taken = self.bytes(length);
        self.bytes(1)?;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_length_sequence_payload() {
        let packet = Packet::new(7, b"abc");
        assert_eq!(packet.bytes(), b"\x03\x00\x00\x07abc");
        assert_eq!((packet.sequence(), packet.payload()), (7, &b"abc"[..]));
    }

    #[test]
    fn fields_end_with_the_payload() {
        let mut fields = Fields(b"\x02\x01ab\0\xfc\x01\x01");
        assert_eq!(fields.integer(2), Some(0x0102));
        assert_eq!(fields.until_zero(), Some(&b"ab"[..]));
        assert_eq!(fields.lenenc(), Some(0x0101));
        assert_eq!(fields.integer(1), None);
        assert_eq!(Fields(b"abc").until_zero(), None);
    }
}
