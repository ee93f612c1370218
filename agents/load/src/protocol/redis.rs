//! Redis (RESP2): any command with one reply that is no subscription.
//!
//! A request is a command with spaces between: `HGETALL entry:000017`, `HSET entry:000017 field3
//! 100`; a write's last word is the size of its value, which begins with the key. What is checked
//! is as in `memcached.rs`.

use memchr::memmem::Finder;

use super::text::{block, line, size, size_of, value, Found};
use super::{judge, Progress};
use crate::outcome::Outcome;

/// Arrays in arrays.
const DEPTH_MAX: usize = 4;

/// The command as an array of bulk strings.
pub fn request(text: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split(' ').collect();
    let stored;
    let parts: Vec<&[u8]> = match words.as_slice() {
        [command, key] => vec![command.as_bytes(), key.as_bytes()],
        [command, key, field, size] => {
            stored = value(key, size_of(size)?);
            vec![command.as_bytes(), key.as_bytes(), field.as_bytes(), &stored]
        }
        _ => return None,
    };
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend(format!("${}\r\n", part.len()).bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
    }
    Some(bytes)
}

/// Reads one reply.
#[derive(Debug, Default)]
pub struct Reader {
    /// Up to here values are read.
    at: usize,
    content: Vec<u8>,
    /// Elements still to come of each array, the innermost last.
    open: Vec<i64>,
    failed: bool,
}

impl Reader {
    pub fn read(&mut self, data: &[u8], needle: &Finder<'_>) -> Progress {
        loop {
            match self.read_value(data) {
                Found::Item(()) => {}
                Found::Part => return Progress::More,
                Found::Garbled => return Progress::Garbled,
            }
            while self.open.last() == Some(&0) {
                self.open.pop();
            }
            let Some(count) = self.open.last_mut() else {
                break;
            };
            *count -= 1;
        }
        let outcome = if self.failed { Outcome::BadStatus } else { judge(&self.content, needle) };
        Progress::Whole { outcome, keep: self.at == data.len() }
    }

    pub fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    /// Reads one value, or the head of an array.
    fn read_value(&mut self, data: &[u8]) -> Found<()> {
        let (text, after) = match line(data, self.at) {
            Found::Item(item) => item,
            Found::Part => return Found::Part,
            Found::Garbled => return Found::Garbled,
        };
        let is_first = self.at == 0;
        let Some((kind, rest)) = text.split_first() else {
            return Found::Garbled;
        };
        match (kind, size(rest)) {
            (b'+' | b'-' | b':', _) => {
                self.failed |= is_first && *kind == b'-';
                self.content.extend(rest);
                self.at = after;
            }
            (b'$', Some(size)) => {
                let Ok(size) = usize::try_from(size) else {
                    self.at = after; // none
                    return Found::Item(());
                };
                match block(data, after, size) {
                    Found::Item((value, after)) => {
                        self.content.extend(value);
                        self.at = after;
                    }
                    Found::Part => return Found::Part,
                    Found::Garbled => return Found::Garbled,
                }
            }
            (b'*', Some(count)) if self.open.len() < DEPTH_MAX => {
                self.open.push(count.max(0));
                self.at = after;
            }
            _ => return Found::Garbled,
        }
        Found::Item(())
    }
}
