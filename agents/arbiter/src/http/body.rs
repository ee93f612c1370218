//! The end of a message's body. Bytes pass through unchanged, chunk framing included; this module
//! only follows them, strictly, so that no peer can see another end than the arbiter.

use std::io;

use bytes::BytesMut;
use thiserror::Error;
use tokio::time::Instant;

use crate::conn::Conn;

/// Most bytes of a chunk's size line, and of all trailers together.
const LINE_MAX: usize = 256;
const TRAILERS_MAX: usize = 8 * 1024;

/// The delimiter of a body, by its head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    #[default]
    Empty,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// End of the connection (replies only).
    UntilClose,
}

/// A body with invalid framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("broken body: {0}")]
pub struct BodyError(&'static str);

/// Follows one body through its framing.
#[derive(Debug, Clone)]
pub struct Body {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClose,
    /// Within a chunk's size line: the size so far, its digits, the line's bytes, and the part.
    Size {
        size: u64,
        digits: usize,
        line: usize,
        part: Part,
    },
    /// Before the line feed of the size line.
    SizeEnd(u64),
    Data(u64),
    /// Before CR and LF after a chunk's data.
    DataCr,
    DataLf,
    /// In the trailers: their bytes, and those of this line.
    Trailer {
        all: usize,
        line: usize,
    },
    TrailerLf {
        all: usize,
        line: usize,
    },
    Done,
}

/// The parts of a chunk's size line, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Digits,
    /// Spaces after the size, which some servers write.
    Padding,
    Extension,
}

const SIZE: State = State::Size { size: 0, digits: 0, line: 0, part: Part::Digits };

impl Body {
    /// Starts a body.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => SIZE,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    /// True if the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Number of the next bytes that belong to the body.
    pub fn consume(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        self.follow(bytes, |_| {})
    }

    /// Adds the data in the next bytes to `data`, without its framing.
    pub fn unframe(&mut self, bytes: &[u8], data: &mut BytesMut) -> Result<usize, BodyError> {
        self.follow(bytes, |piece| data.extend_from_slice(piece))
    }

    /// As `unframe`, piece by piece.
    pub fn data(&mut self, bytes: &[u8], data: impl FnMut(&[u8])) -> Result<usize, BodyError> {
        self.follow(bytes, data)
    }

    fn follow(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, BodyError> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            let left = (bytes.len() - at) as u64;
            match &mut self.state {
                State::UntilClose => {
                    data(&bytes[at..]);
                    at = bytes.len();
                }
                State::Length(rest) | State::Data(rest) => {
                    let taken = left.min(*rest);
                    *rest -= taken;
                    let end = at + usize::try_from(taken).unwrap_or(usize::MAX);
                    data(&bytes[at..end]);
                    at = end;
                    self.end_of_data();
                }
                _ => {
                    self.state = self.state.framing_byte(bytes[at])?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    fn end_of_data(&mut self) {
        match self.state {
            State::Length(0) => self.state = State::Done,
            State::Data(0) => self.state = State::DataCr,
            _ => {}
        }
    }

    /// Waits for the next bytes of the body at the front of the connection's buffer: their number,
    /// or none when the body is complete. The caller advances the buffer. Cancel-safe.
    ///
    /// # Errors
    /// Those of the socket; `TimedOut`; `InvalidData` for broken framing, `UnexpectedEof` for an
    /// early end.
    pub async fn next(&mut self, conn: &mut Conn, deadline: Instant) -> io::Result<Option<usize>> {
        let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if self.is_done() {
            return Ok(None);
        }
        if conn.buffer.is_empty() && conn.fill_by(deadline).await? == 0 {
            self.end().map_err(|error| io::Error::new(io::ErrorKind::UnexpectedEof, error))?;
            return Ok(None);
        }
        self.consume(&conn.buffer).map(Some).map_err(broken)
    }

    /// Tells that the connection ended.
    pub fn end(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::UntilClose | State::Done => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError("the connection ended in the middle of it")),
        }
    }
}

impl State {
    fn framing_byte(self, byte: u8) -> Result<Self, BodyError> {
        match self {
            Self::Size { .. } => self.size_byte(byte),
            Self::SizeEnd(size) => match (byte, size) {
                (b'\n', 0) => Ok(Self::Trailer { all: 0, line: 0 }),
                (b'\n', size) => Ok(Self::Data(size)),
                _ => Err(BodyError("a chunk's size line must end with CR LF")),
            },
            Self::DataCr if byte == b'\r' => Ok(Self::DataLf),
            Self::DataLf if byte == b'\n' => Ok(SIZE),
            Self::DataCr | Self::DataLf => Err(BodyError("a chunk's data must end with CR LF")),
            Self::Trailer { all, .. } if all >= TRAILERS_MAX => Err(BodyError("too many trailers")),
            Self::Trailer { all, line } => match byte {
                b'\r' => Ok(Self::TrailerLf { all: all + 1, line }),
                b'\n' | 0 => Err(BodyError("a trailer line must end with CR LF")),
                b' ' | b'\t' if line == 0 => Err(BodyError("a trailer line must not be folded")),
                _ => Ok(Self::Trailer { all: all + 1, line: line + 1 }),
            },
            Self::TrailerLf { all, line } => match (byte, line) {
                (b'\n', 0) => Ok(Self::Done),
                (b'\n', _) => Ok(Self::Trailer { all: all + 1, line: 0 }),
                _ => Err(BodyError("a trailer line must end with CR LF")),
            },
            Self::Length(_) | Self::UntilClose | Self::Data(_) | Self::Done => Ok(self),
        }
    }

    fn size_byte(self, byte: u8) -> Result<Self, BodyError> {
        let Self::Size { size, digits, line, part } = self else {
            return Ok(self);
        };
        if line >= LINE_MAX {
            return Err(BodyError("a chunk's size line is too long"));
        }
        let next = |size, digits, part| Ok(Self::Size { size, digits, line: line + 1, part });
        let digit = char::from(byte).to_digit(16).map(u64::from);
        match (part, byte, digit) {
            (_, b'\r', _) if digits > 0 => Ok(Self::SizeEnd(size)),
            (Part::Digits, _, Some(digit)) if digits < 15 => {
                next(size * 16 + digit, digits + 1, part)
            }
            (Part::Digits | Part::Padding, b' ' | b'\t', _) if digits > 0 => {
                next(size, digits, Part::Padding)
            }
            (Part::Digits | Part::Padding, b';', _) if digits > 0 => {
                next(size, digits, Part::Extension)
            }
            (Part::Extension, b'\t' | 0x20..=0x7e, _) => next(size, digits, part),
            _ => Err(BodyError("a chunk must begin with its size in hexadecimal")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(framing: Framing, bytes: &[u8]) -> Result<(usize, bool), BodyError> {
        let mut body = Body::new(framing);
        let mut taken = 0;
        // Byte by byte and at once must agree.
        for byte in bytes {
            taken += body.consume(std::slice::from_ref(byte))?;
        }
        let mut whole = Body::new(framing);
        assert_eq!(whole.consume(bytes)?, taken);
        assert_eq!(whole.is_done(), body.is_done());
        Ok((taken, body.is_done()))
    }

    #[test]
    fn a_length_ends_after_its_bytes() {
        assert_eq!(follow(Framing::Length(3), b"abcd"), Ok((3, true)));
        assert_eq!(follow(Framing::Length(5), b"abcd"), Ok((4, false)));
        assert_eq!(follow(Framing::Empty, b"abcd"), Ok((0, true)));
    }

    #[test]
    fn chunks_end_after_the_trailers() {
        let bytes = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\nNEXT";
        assert_eq!(follow(Framing::Chunked, bytes), Ok((bytes.len() - 4, true)));
        assert_eq!(follow(Framing::Chunked, b"0\r\n\r\n"), Ok((5, true)));
    }

    #[test]
    fn a_size_is_extended_by_no_more_than_a_line() {
        let long = format!("3;{}\r\nabc\r\n", "x".repeat(LINE_MAX));
        assert!(follow(Framing::Chunked, long.as_bytes()).is_err());
    }

    #[test]
    fn an_end_in_the_middle_is_an_error() {
        let mut body = Body::new(Framing::Length(3));
        assert_eq!(body.consume(b"ab"), Ok(2));
        assert!(body.end().is_err());
        let mut body = Body::new(Framing::UntilClose);
        assert_eq!(body.consume(b"ab"), Ok(2));
        assert!(body.end().is_ok() && body.is_done());
    }
}
