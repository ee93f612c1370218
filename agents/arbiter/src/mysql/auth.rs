//! mysql_native_password: SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))).

use sha1::{Digest, Sha1};

/// The plugin's name in the protocol.
pub const NATIVE: &[u8] = b"mysql_native_password";
/// Bytes of a nonce.
pub const NONCE: usize = 20;

/// What proves the password for this nonce; empty for an empty password.
pub fn token(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new()
        .chain_update(nonce)
        .chain_update(twice)
        .finalize();
    once.iter()
        .zip(mask)
        .map(|(byte, mask)| byte ^ mask)
        .collect()
}

/// Whether two proofs are equal, in a time that does not depend on where they differ.
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// A nonce without zero bytes.
///
/// # Errors
/// When the system has no randomness.
pub fn nonce() -> Result<[u8; NONCE], getrandom::Error> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)?;
    // Clients read it as text that ends with a zero byte; '$' is avoided by servers as well.
    Ok(nonce.map(|byte| b'A' + byte % 26 + if byte & 0x80 == 0 { 0 } else { 32 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_that_of_the_published_algorithm() {
        // SHA1("a") ^ SHA1(nonce + SHA1(SHA1("a"))), from a second implementation (Python's
        // hashlib).
        let nonce: Vec<u8> = (1..=20).collect();
        let hex: String = token(b"a", &nonce)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "d638af1707b664cffe85d6bcb29b9d06f14258aa");
        assert!(token(b"", &nonce).is_empty());
    }

    #[test]
    fn a_nonce_has_no_zero_byte_and_is_not_repeated() {
        let one = nonce().unwrap();
        assert!(one.iter().all(u8::is_ascii_alphabetic));
        assert_ne!(one, nonce().unwrap());
    }
}
