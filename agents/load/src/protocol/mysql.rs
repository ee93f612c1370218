//! MySQL's and MariaDB's protocol, statements as text. The content of a reply is that of its rows,
//! without rows the number of those that it changed; the server's refusal is `bad_status`.
//!
//! A log-in proves its password by `mysql_native_password`; a server that wants another method has
//! refused it.

use memchr::memmem::Finder;
use sha1::{Digest, Sha1};

use super::{judge, Progress, REPLY_BYTES_MAX};
use crate::account::Account;
use crate::outcome::Outcome;

const NATIVE: &[u8] = b"mysql_native_password";
/// Long passwords, protocol 4.1, transactions, proof of 20 bytes, methods have names.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
const WITH_DATABASE: u32 = 0x8;
const UTF8MB4: u8 = 45;
const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;
const QUERY: u8 = 3;

const OK: u8 = 0x00;
const LOCAL_FILE: u8 = 0xfb;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// A statement.
pub fn request(text: &str) -> Option<Vec<u8>> {
    let mut payload = vec![QUERY];
    payload.extend(text.as_bytes());
    (!text.is_empty() && text.len() < 1 << 20).then(|| packet(0, &payload))
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    // Payloads are far below 2^24 bytes.
    let mut bytes = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    bytes.push(sequence);
    bytes.extend(payload);
    bytes
}

/// The packet at `at`: its sequence number, its payload and the place after it.
fn packet_at(data: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let head = data.get(at..at + 4)?;
    let size = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    let end = at + 4 + size;
    Some((head[3], data.get(at + 4..end)?, end))
}

/// Next step of a login.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for more.
    More,
    /// Send this.
    Send(Vec<u8>),
    /// Logged in.
    Done,
    /// The server says no.
    Refused,
    /// Bytes that the protocol does not allow.
    Garbled,
}

/// The connection phase of one connection.
#[derive(Debug, Default)]
pub struct Login {
    at: usize,
    greeted: bool,
}

impl Login {
    /// Continues with all bytes since the connection was made.
    pub fn read(&mut self, data: &[u8], account: &Account) -> Step {
        let Some((sequence, payload, after)) = packet_at(data, self.at) else {
            return Step::More;
        };
        self.at = after;
        let Some((&kind, rest)) = payload.split_first() else {
            return Step::Garbled;
        };
        let next = sequence.wrapping_add(1);
        match kind {
            ERROR => Step::Refused,
            10 if !self.greeted => {
                self.greeted = true;
                match nonce_of(rest) {
                    Some(nonce) => Step::Send(packet(next, &answer(account, &nonce))),
                    None => Step::Garbled,
                }
            }
            OK if self.greeted => Step::Done,
            END if self.greeted => match rest.strip_prefix(NATIVE) {
                Some([0, nonce @ ..]) => {
                    let nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce);
                    Step::Send(packet(next, &proof(&account.password, nonce)))
                }
                _ => Step::Refused,
            },
            _ => Step::Garbled,
        }
    }
}

/// The nonce of a greeting without its first byte.
fn nonce_of(rest: &[u8]) -> Option<Vec<u8>> {
    let version = rest.iter().position(|byte| *byte == 0)?;
    let fixed = rest.get(version + 1..)?;
    // Connection number 4, nonce 8, 0, capabilities 2, character set 1, status 2, capabilities 2,
    // length 1, unused 10, nonce.
    let mut nonce = fixed.get(4..12)?.to_vec();
    nonce.extend(fixed.get(31..43)?);
    Some(nonce)
}

fn answer(account: &Account, nonce: &[u8]) -> Vec<u8> {
    let with_database = !account.database.is_empty();
    let capabilities = CAPABILITIES | if with_database { WITH_DATABASE } else { 0 };
    let mut bytes = capabilities.to_le_bytes().to_vec();
    bytes.extend(PACKET_BYTES_MAX.to_le_bytes());
    bytes.push(UTF8MB4);
    bytes.extend([0; 23]);
    bytes.extend(account.user.as_bytes());
    bytes.push(0);
    let proof = proof(&account.password, nonce);
    bytes.push(proof.len() as u8); // 0 or 20
    bytes.extend(proof);
    if with_database {
        bytes.extend(account.database.as_bytes());
        bytes.push(0);
    }
    bytes.extend(NATIVE);
    bytes.push(0);
    bytes
}

/// SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))); nothing for no password.
fn proof(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return vec![];
    }
    let once = Sha1::digest(password.as_bytes());
    let mask = Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once)).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// Part of a reply that is read next.
#[derive(Debug, Default, Clone, Copy)]
enum Part {
    #[default]
    First,
    /// Definitions of so many columns, and the packet that ends them.
    Columns(u64),
    Rows,
}

/// Reads one reply.
#[derive(Debug, Default)]
pub struct Reader {
    at: usize,
    part: Part,
    content: Vec<u8>,
}

impl Reader {
    pub fn read(&mut self, data: &[u8], needle: &Finder<'_>) -> Progress {
        while let Some((_, payload, after)) = packet_at(data, self.at) {
            self.at = after;
            let Some((&kind, rest)) = payload.split_first() else {
                return Progress::Garbled;
            };
            let is_end = kind == END && payload.len() < 9;
            self.part = match (self.part, kind) {
                (_, ERROR) => return self.whole(data, Outcome::BadStatus),
                (Part::First, OK) => {
                    let rows = number(rest).unwrap_or(0);
                    self.content.extend(rows.to_string().bytes());
                    return self.whole(data, judge(&self.content, needle));
                }
                (Part::First, LOCAL_FILE | END) => return Progress::Garbled,
                (Part::First, _) => match number(payload) {
                    Some(count) => Part::Columns(count),
                    None => return Progress::Garbled,
                },
                (Part::Columns(0), END) if is_end => Part::Rows,
                (Part::Columns(0), _) => return Progress::Garbled,
                (Part::Columns(left), _) => Part::Columns(left - 1),
                (Part::Rows, _) if is_end => {
                    return self.whole(data, judge(&self.content, needle));
                }
                (Part::Rows, _) if self.content.len() + payload.len() > REPLY_BYTES_MAX => {
                    return Progress::Garbled;
                }
                (Part::Rows, _) => {
                    self.content.extend(payload);
                    Part::Rows
                }
            };
        }
        Progress::More
    }

    pub fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    fn whole(&self, data: &[u8], outcome: Outcome) -> Progress {
        Progress::Whole { outcome, keep: self.at == data.len() }
    }
}

/// A number of one to nine bytes.
fn number(bytes: &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    let size = match first {
        0..=0xfa => return Some(u64::from(*first)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let mut full = [0; 8];
    full[..size].copy_from_slice(rest.get(..size)?);
    Some(u64::from_le_bytes(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_that_of_the_server_s_own_client() {
        // SHA1("wiki-read") ^ SHA1(nonce + SHA1(SHA1("wiki-read"))) undone by the mask is SHA1.
        let nonce = [7; 20];
        let once = Sha1::digest(b"wiki-read");
        let mask = Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once)).finalize();
        let digest: Vec<u8> =
            proof("wiki-read", &nonce).iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(digest, once.to_vec());
        assert!(proof("", &nonce).is_empty());
    }

    #[test]
    fn a_greeting_in_two_pieces_is_answered_once_and_a_refusal_is_one() {
        let mut greeting = vec![10];
        greeting.extend(b"10.11.6\0");
        greeting.extend([0; 31]);
        greeting.extend([5; 13]);
        let data = packet(0, &greeting);
        let account = Account::default();
        let mut login = Login::default();
        assert_eq!(login.read(&data[..20], &account), Step::More);
        assert!(matches!(login.read(&data, &account), Step::Send(_)));
        assert_eq!(login.read(&data, &account), Step::More);
        let mut more = data.clone();
        more.extend(packet(2, &[ERROR, 1, 2]));
        assert_eq!(login.read(&more, &account), Step::Refused);
    }
}
