//! memcached's text protocol: one command, one reply.
//!
//! A request is a command with spaces between: `get entry:000017`, `set entry:000017 1000`; a
//! write's last word is the size of its value, which begins with the key. A miss is `bad_content`,
//! and so is a reply which belongs to another request. An error of the server is `bad_status`.

use memchr::memmem::Finder;

use super::text::{block, line, size, size_of, value, Found};
use super::{judge, Progress};
use crate::outcome::Outcome;

/// The command in the protocol's form.
pub fn request(text: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        [command, key] => Some(format!("{command} {key}\r\n").into_bytes()),
        [command, key, size] => {
            let value = value(key, size_of(size)?);
            let mut bytes = format!("{command} {key} 0 0 {}\r\n", value.len()).into_bytes();
            bytes.extend(value);
            bytes.extend(b"\r\n");
            Some(bytes)
        }
        _ => None,
    }
}

/// Reads one reply.
#[derive(Debug, Default)]
pub struct Reader {
    /// Up to here values are read.
    at: usize,
    content: Vec<u8>,
}

impl Reader {
    pub fn read(&mut self, data: &[u8], needle: &Finder<'_>) -> Progress {
        loop {
            let (text, after) = match line(data, self.at) {
                Found::Item(item) => item,
                Found::Part => return Progress::More,
                Found::Garbled => return Progress::Garbled,
            };
            if !text.starts_with(b"VALUE ") {
                return self.judge(text, after == data.len(), needle);
            }
            let field = text.split(|byte| *byte == b' ').nth(3).and_then(size);
            let Some(size) = field.and_then(|size| usize::try_from(size).ok()) else {
                return Progress::Garbled;
            };
            match block(data, after, size) {
                Found::Item((value, after)) => {
                    self.content.extend(value);
                    self.at = after;
                }
                Found::Part => return Progress::More,
                Found::Garbled => return Progress::Garbled,
            }
        }
    }

    pub fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    fn judge(&self, last: &[u8], keep: bool, needle: &Finder<'_>) -> Progress {
        let errors: [&[u8]; 3] = [b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR"];
        let outcome = match last {
            _ if errors.iter().any(|error| last.starts_with(error)) => Outcome::BadStatus,
            b"END" | b"STORED" | b"NOT_STORED" if self.content.is_empty() => judge(last, needle),
            b"END" | b"STORED" | b"NOT_STORED" => judge(&self.content, needle),
            _ => return Progress::Garbled,
        };
        Progress::Whole { outcome, keep }
    }
}
