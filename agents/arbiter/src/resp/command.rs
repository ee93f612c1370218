//! The end of a client's command. Stricter than Redis: input that Redis would read differently (a
//! wrong line end, a length with a sign or leading zeros) is refused, because clients share
//! connections.

use thiserror::Error;

use crate::kv::{line_end, number, HELD_MAX};

/// Maximum arguments of a command, as in Redis.
const ARGUMENTS_MAX: u64 = 1024 * 1024;
/// Maximum length of an inline command, as in Redis, and of a length's line.
const INLINE_MAX: usize = 64 * 1024;
const LENGTH_MAX: usize = 32;

/// Reason for refusing a client's bytes, in Redis' words where it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("Protocol error: {0}")]
pub struct Refused(pub &'static str);

/// Finds the ends of successive commands.
#[derive(Debug, Default)]
pub struct Commands {
    /// Position up to which the present command was looked at.
    at: usize,
    /// Arguments still to come.
    arguments: u64,
}

/// A complete command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Arguments with their lengths: total length.
    Lengths(usize),
    /// A line of words: total length.
    Inline(usize),
    /// An empty command: total length.
    Nothing(usize),
}

impl Commands {
    /// Finds the next command at the start of `bytes`; none yet. Until one is found, `bytes` must
    /// keep its beginning.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<Found>, Refused> {
        if self.at == 0 {
            match bytes.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return inline(bytes),
            }
            let Some((line, after)) = length_line(bytes, 0, "invalid multibulk length")? else {
                return Ok(None);
            };
            let none = line == b"0" || line == b"-1";
            if none {
                return Ok(Some(Found::Nothing(after)));
            }
            self.arguments = number(line)
                .filter(|&count| count <= ARGUMENTS_MAX)
                .ok_or(Refused("invalid multibulk length"))?;
            self.at = after;
        }
        while self.arguments > 0 {
            match bytes.get(self.at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(_) => return Err(Refused("expected '$'")),
            }
            let Some((line, start)) = length_line(bytes, self.at, "invalid bulk length")? else {
                return Ok(None);
            };
            let length = number(line)
                .and_then(|length| usize::try_from(length).ok())
                .filter(|&length| length.saturating_add(start) <= HELD_MAX)
                .ok_or(Refused("invalid bulk length"))?;
            let end = start + length;
            let Some(line_end) = bytes.get(end..end + 2) else {
                return Ok(None);
            };
            if line_end != b"\r\n" {
                return Err(Refused("expected CR LF after an argument"));
            }
            self.at = end + 2;
            self.arguments -= 1;
        }
        let length = std::mem::take(&mut self.at);
        Ok(Some(Found::Lengths(length)))
    }
}

/// Digits of the length at `at` (after its sign), and the position behind them.
fn length_line<'a>(
    bytes: &'a [u8],
    at: usize,
    wrong: &'static str,
) -> Result<Option<(&'a [u8], usize)>, Refused> {
    let end = line_end(&bytes[at..], LENGTH_MAX).map_err(|_| Refused(wrong))?;
    Ok(end.map(|end| (&bytes[at + 1..at + end], at + end + 2)))
}

fn inline(bytes: &[u8]) -> Result<Option<Found>, Refused> {
    let end = line_end(bytes, INLINE_MAX).map_err(|_| Refused("bad inline request"))?;
    let Some(end) = end else {
        return Ok(None);
    };
    let line = &bytes[..end];
    if line.iter().all(|&byte| byte == b' ') {
        return Ok(Some(Found::Nothing(end + 2)));
    }
    let plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\'');
    if !line.iter().all(plain) {
        return Err(Refused("quotes and control characters in an inline request"));
    }
    Ok(Some(Found::Inline(end + 2)))
}

/// Converts an inline command to one with lengths.
pub fn with_lengths(line: &[u8]) -> Vec<u8> {
    let words =
        || line.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).filter(|word| !word.is_empty());
    let mut out = format!("*{}\r\n", words().count()).into_bytes();
    for word in words() {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Arguments of a command of kind [`Found::Lengths`].
pub fn arguments(command: &[u8]) -> Arguments<'_> {
    let start = command.iter().position(|&byte| byte == b'\n');
    Arguments { rest: start.map_or(&[], |start| &command[start + 1..]) }
}

/// Iterates over a command's arguments.
#[derive(Debug, Clone)]
pub struct Arguments<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == b'\r')?;
        let length = usize::try_from(number(self.rest.get(1..end)?)?).ok()?;
        let start = end + 2;
        let argument = self.rest.get(start..start + length)?;
        self.rest = self.rest.get(start + length + 2..)?;
        Some(argument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::piece;

    /// Parses at once and in pieces, which must agree.
    fn found(bytes: &[u8]) -> Result<Option<Found>, Refused> {
        let whole = Commands::default().next(bytes);
        let mut slow = Commands::default();
        let mut last = Ok(None);
        let pieces = (0..bytes.len()).step_by(piece(bytes));
        for end in pieces.chain([bytes.len()]) {
            last = slow.next(&bytes[..end]);
            if last != Ok(None) {
                break;
            }
        }
        assert_eq!(whole, last, "{:?}", String::from_utf8_lossy(bytes));
        whole
    }

    #[test]
    fn a_command_ends_after_its_arguments() {
        let get = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n";
        assert_eq!(found(get), Ok(Some(Found::Lengths(get.len()))));
        assert_eq!(arguments(get).collect::<Vec<_>>(), [&b"GET"[..], b"a\r\nb"]);
        let two = [&get[..], b"*1\r\n"].concat();
        assert_eq!(found(&two), Ok(Some(Found::Lengths(get.len()))));
        for end in 0..get.len() {
            assert_eq!(found(&get[..end]), Ok(None));
        }
    }

    #[test]
    fn inline_commands_are_rewritten() {
        assert_eq!(found(b"PING\r\n"), Ok(Some(Found::Inline(6))));
        assert_eq!(found(b"\r\n"), Ok(Some(Found::Nothing(2))));
        assert_eq!(found(b"*0\r\n"), Ok(Some(Found::Nothing(4))));
        assert_eq!(with_lengths(b"GET  key\r\n"), b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }

    #[test]
    fn what_redis_might_read_in_another_way_is_refused() {
        for bytes in [
            &b"*02\r\n"[..],
            b"*+2\r\n",
            b"*2\n",
            b"*1048577\r\n",
            b"*1\r\n+OK\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$3\r\nabcde\r\n",
            b"*1\r\n$99999999999\r\n",
            b"*1\r\n$67108864\r\n",
            b"PING\n",
            b"GET \"a b\"\r\n",
            b"\x16\x03\x01\x02\r\n",
        ] {
            assert!(found(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(found(&vec![b'a'; INLINE_MAX + 2]).is_err());
        assert!(found(&[b"*".to_vec(), vec![b'1'; 64]].concat()).is_err());
    }
}
