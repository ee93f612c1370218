//! Packets: three bytes of length, one of sequence, the payload.
//!
//! Replies pass through as they are: a command has sequence 0 towards client and server alike, so
//! that the sequence numbers of a server's reply are right for the client as well.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::conn::Conn;

/// Length of a payload that continues in the next packet.
pub const PAYLOAD_MAX: usize = 0xff_ffff;
/// Bytes before a payload.
pub const HEADER: usize = 4;

/// Maximum bytes of a too large message that are skipped; then the connection is closed.
const SKIPPED_MAX: usize = 1 << 30;

/// One packet with its header, or a client's command of several packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet(Bytes);

impl Packet {
    /// Creates a packet of a payload below [`PAYLOAD_MAX`].
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

    /// The payload; of several packets, that of the first.
    pub fn payload(&self) -> &[u8] {
        &self.0[HEADER..HEADER + payload_length(&self.0)]
    }

    /// The sequence number of the reply.
    pub fn next_sequence(&self) -> u8 {
        let continued = self.0.len() / (HEADER + PAYLOAD_MAX);
        self.sequence().wrapping_add(continued as u8 + 1)
    }

    /// Its sequence number.
    pub fn sequence(&self) -> u8 {
        self.0[3]
    }
}

impl Packet {
    /// A copy for another prepared statement.
    pub fn with_statement(&self, number: u32) -> Self {
        let mut bytes = BytesMut::from(&self.0[..]);
        if let Some(place) = bytes.get_mut(HEADER + 1..HEADER + 5) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Self(bytes.freeze())
    }
}

/// Replaces the server's statement number in the first packet of the reply to COM_STMT_PREPARE by
/// the arbiter's. Returns the server's; none if the reply is an error.
pub fn renumber(reply: &mut [u8], id: u32) -> Option<u32> {
    let (status, rest) = reply.get_mut(HEADER..)?.split_first_mut()?;
    let place = rest.first_chunk_mut::<4>().filter(|_| *status == 0)?;
    let number = u32::from_le_bytes(*place);
    *place = id.to_le_bytes();
    Some(number)
}

/// Payload length in a header.
fn payload_length(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16
}

/// Length of the packet at the beginning of `bytes`, with its header; none if it is incomplete.
pub fn whole(bytes: &[u8]) -> Option<usize> {
    let length = HEADER + payload_length(bytes.first_chunk::<HEADER>()?);
    (bytes.len() >= length).then_some(length)
}

/// Reads the next packet; none if the connection ended between packets. Cancel-safe.
///
/// # Errors
/// Those of the socket, and an end in the middle of a packet.
pub async fn read(conn: &mut Conn) -> io::Result<Option<Packet>> {
    loop {
        if let Some(length) = whole(&conn.buffer) {
            return Ok(Some(Packet(conn.buffer.split_to(length).freeze())));
        }
        if conn.fill().await? == 0 {
            return ended(conn);
        }
    }
}

fn ended<T>(conn: &Conn) -> io::Result<Option<T>> {
    if conn.buffer.is_empty() {
        Ok(None)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A client's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// As received.
    Whole(Packet),
    /// A command above the limit, skipped to its end. Sequence number of the reply.
    TooLarge(u8),
}

/// Reads the next command, of one packet or several; none if the connection ended between commands.
/// Cancel-safe, except within a message that is too large.
///
/// # Errors
/// Those of the socket, and an end in the middle of a command.
pub async fn read_message(conn: &mut Conn, bytes_max: usize) -> io::Result<Option<Message>> {
    loop {
        let (mut length, mut carried) = (0, 0);
        while let Some(header) = conn.buffer[length..].first_chunk::<HEADER>() {
            let payload = payload_length(header);
            carried += payload;
            if carried > bytes_max {
                return Ok(Some(Message::TooLarge(skip(conn).await?)));
            }
            length += HEADER + payload;
            if conn.buffer.len() < length {
                break;
            }
            if payload < PAYLOAD_MAX {
                let message = conn.buffer.split_to(length).freeze();
                return Ok(Some(Message::Whole(Packet(message))));
            }
        }
        if conn.fill().await? == 0 {
            return ended(conn);
        }
    }
}

/// Skips a message to its end, so that the client can read a reply to it.
async fn skip(conn: &mut Conn) -> io::Result<u8> {
    let mut skipped = 0;
    while skipped <= SKIPPED_MAX {
        while conn.buffer.len() < HEADER {
            fill(conn).await?;
        }
        let (payload, sequence) = (payload_length(&conn.buffer), conn.buffer[3]);
        let mut due = HEADER + payload;
        skipped += due;
        while due > 0 {
            if conn.buffer.is_empty() {
                fill(conn).await?;
            }
            let taken = due.min(conn.buffer.len());
            conn.buffer.advance(taken);
            due -= taken;
        }
        if payload < PAYLOAD_MAX {
            return Ok(sequence.wrapping_add(1));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn fill(conn: &mut Conn) -> io::Result<()> {
    match conn.fill().await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// An ERR packet of the arbiter.
pub fn error(sequence: u8, code: u16, state: &str, message: &str) -> Packet {
    let mut payload = vec![0xff];
    payload.put_u16_le(code);
    payload.push(b'#');
    payload.extend_from_slice(state.as_bytes());
    payload.extend_from_slice(message.as_bytes());
    Packet::new(sequence, &payload)
}

/// An OK packet of the arbiter with this status and no affected rows.
pub fn ok(sequence: u8, status: u16) -> Packet {
    let [low, high] = status.to_le_bytes();
    Packet::new(sequence, &[0, 0, 0, low, high, 0, 0])
}

/// Reads the fields of a payload in order; none beyond its end.
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
        Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
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

    /// Bytes up to a zero byte, which is consumed too.
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
