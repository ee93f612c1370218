//! Proof of a password: `mysql_native_password` and `caching_sha2_password`.
//!
//! Native: SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))). Caching: SHA256(password) XOR
//! SHA256(SHA256(SHA256(password)) + nonce). A server that has the password's hash in its cache
//! is content with that (the fast path); otherwise it wants the password itself, without TLS
//! encrypted for its RSA key (the full path). The arbiter knows the password and so never needs
//! the full path of a client; it takes it towards servers.

use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::OsRng;
use rsa::{Oaep, RsaPublicKey};
use serde::Deserialize;
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// caching_sha2_password: the proof is accepted, and an OK follows.
pub const FAST_PATH_TAKEN: [u8; 2] = [1, 3];
/// caching_sha2_password: the password is requested, over TLS or encrypted.
pub const FULL_PATH_WANTED: [u8; 2] = [1, 4];

/// Length of a nonce in bytes.
pub const NONCE: usize = 20;
/// Maximum RSA key [bytes of its PEM text]: 16384 bits need 2.8 kB.
const KEY_TEXT_MAX: usize = 4_096;

/// A method of proving a password.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Method {
    /// mysql_native_password, of MySQL since 4.1 and of MariaDB.
    #[default]
    #[serde(rename = "mysql_native_password")]
    Native,
    /// caching_sha2_password, of MySQL since 8.0.
    #[serde(rename = "caching_sha2_password")]
    CachingSha2,
}

impl Method {
    /// Name in the protocol.
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Native => b"mysql_native_password",
            Self::CachingSha2 => b"caching_sha2_password",
        }
    }

    /// The method with this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        [Self::Native, Self::CachingSha2].into_iter().find(|method| method.name() == name)
    }

    /// Proof of the password for this nonce; empty for an empty password.
    pub fn token(self, password: &[u8], nonce: &[u8]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Native => {
                let once = Sha1::digest(password);
                let twice = Sha1::digest(once);
                let mask = Sha1::new().chain_update(nonce).chain_update(twice);
                xor(&once, &mask.finalize())
            }
            Self::CachingSha2 => {
                let once = Sha256::digest(password);
                let twice = Sha256::digest(once);
                let mask = Sha256::new().chain_update(twice).chain_update(nonce);
                xor(&once, &mask.finalize())
            }
        }
    }
}

/// Exclusive or of the bytes with the repeated mask.
fn xor(bytes: &[u8], mask: &[u8]) -> Vec<u8> {
    let mask = mask.iter().cycle();
    bytes.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The password, encrypted with a server's RSA key (PEM): the full path of caching_sha2_password
/// without TLS. None for an invalid key.
pub fn encrypted(password: &[u8], nonce: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(key.get(..key.len().min(KEY_TEXT_MAX))?).ok()?;
    let key = RsaPublicKey::from_public_key_pem(text.trim_end_matches('\0').trim()).ok()?;
    let plain = xor(&[password, b"\0"].concat(), nonce);
    key.encrypt(&mut OsRng, Oaep::new::<Sha1>(), &plain).ok()
}

/// Compares two proofs in constant time.
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// A random nonce without zero bytes.
pub fn nonce() -> Result<[u8; NONCE], getrandom::Error> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)?;
    // Clients read it as text that ends with a zero byte; '$' is avoided by servers as well.
    Ok(nonce.map(|byte| b'A' + byte % 26 + if byte & 0x80 == 0 { 0 } else { 32 }))
}

#[cfg(test)]
mod tests {
    use rsa::pkcs8::{EncodePublicKey, LineEnding};
    use rsa::RsaPrivateKey;

    use super::*;

    #[test]
    fn the_token_is_that_of_the_published_algorithm() {
        // SHA1("a") ^ SHA1(nonce + SHA1(SHA1("a"))), from a second implementation (Python's
        // hashlib).
        let nonce: Vec<u8> = (1..=20).collect();
        let hex: String =
            Method::Native.token(b"a", &nonce).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "d638af1707b664cffe85d6bcb29b9d06f14258aa");
        assert!(Method::Native.token(b"", &nonce).is_empty());
    }

    #[test]
    fn the_caching_token_is_that_of_the_published_algorithm() {
        let nonce: Vec<u8> = (1..=20).collect();
        let hex: String = Method::CachingSha2
            .token(b"a", &nonce)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // From a second implementation (Python's hashlib).
        assert_eq!(hex, "4b35c367d25d0add742519e3573e0c83360f85bb66e6882d81d21120e6d581e4");
        assert!(Method::CachingSha2.token(b"", &nonce).is_empty());
    }

    #[test]
    fn the_full_path_s_password_can_be_read_by_the_key_s_owner_only_with_the_nonce() {
        let private = RsaPrivateKey::new(&mut OsRng, 512).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        let nonce = nonce().unwrap();
        let sent = encrypted(b"wiki-read", &nonce, pem.as_bytes()).unwrap();
        let read = private.decrypt(Oaep::new::<Sha1>(), &sent).unwrap();
        assert_eq!(xor(&read, &nonce), b"wiki-read\0");
        assert_ne!(read, b"wiki-read\0");
        assert_eq!(encrypted(b"wiki-read", &nonce, b"no key"), None);
    }

    #[test]
    fn a_nonce_has_no_zero_byte_and_is_not_repeated() {
        let first = nonce().unwrap();
        assert!(first.iter().all(u8::is_ascii_alphabetic));
        assert_ne!(first, nonce().unwrap());
    }
}
