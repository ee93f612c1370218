//! The packets of the connection phase, both ways.

use bytes::BufMut;

use super::packet::Fields;
use super::reply::AUTOCOMMIT;
use crate::mysql_auth::{Method, NONCE};

const LONG_PASSWORD: u32 = 1;
const FOUND_ROWS: u32 = 1 << 1;
const LONG_FLAG: u32 = 1 << 2;
const CONNECT_WITH_DB: u32 = 1 << 3;
const IGNORE_SPACE: u32 = 1 << 8;
const PROTOCOL_41: u32 = 1 << 9;
const INTERACTIVE: u32 = 1 << 10;
const SSL: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_STATEMENTS: u32 = 1 << 16;
const MULTI_RESULTS: u32 = 1 << 17;
const PS_MULTI_RESULTS: u32 = 1 << 18;
const PLUGIN_AUTH: u32 = 1 << 19;
const CONNECT_ATTRS: u32 = 1 << 20;
const PLUGIN_AUTH_LENENC: u32 = 1 << 21;

/// Capabilities that clients are offered. TLS, compression, LOCAL INFILE, DEPRECATE_EOF, session
/// tracking and MariaDB's extensions are not (LONG_PASSWORD means "not MariaDB" there), because
/// they change the form of replies.
const OFFERED: u32 = LONG_PASSWORD
    | FOUND_ROWS
    | LONG_FLAG
    | CONNECT_WITH_DB
    | IGNORE_SPACE
    | PROTOCOL_41
    | INTERACTIVE
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENENC;

/// Client flags that servers must know, because they change the meaning of statements.
const PASSED_ON: u32 = FOUND_ROWS | IGNORE_SPACE | MULTI_STATEMENTS;
/// Capabilities that servers are always told.
const ALWAYS: u32 = LONG_PASSWORD
    | LONG_FLAG
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH;

/// Key of interchangeable server connections: the client's flags and character set (which some
/// resets do not restore: [`ServerGreeting::reset_restores`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    flags: u32,
    collation: u8,
}

/// Collations of character sets with a byte that may look like a quote or backslash: big5, sjis,
/// gbk, cp932, gb18030.
const AMBIGUOUS: [u8; 11] = [1, 84, 13, 88, 28, 87, 95, 96, 248, 249, 250];

impl Key {
    /// True if the arbiter may misread the ends of this client's texts.
    pub fn may_be_misread(self) -> bool {
        AMBIGUOUS.contains(&self.collation)
    }
}

impl Default for Key {
    /// Key of a probe, with utf8mb4_general_ci.
    fn default() -> Self {
        Self { flags: FOUND_ROWS, collation: 45 }
    }
}

/// A client's answer to the greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// Key of the server connection that it needs.
    pub key: Key,
    /// User name.
    pub user: Vec<u8>,
    /// Password proof.
    pub token: Vec<u8>,
    /// Database.
    pub database: Option<Vec<u8>>,
    /// Method of the proof.
    pub plugin: Option<Vec<u8>>,
}

/// The arbiter's greeting, which looks like that of the server `like`.
pub fn greeting(
    like: &ServerGreeting,
    connection: u32,
    nonce: &[u8; NONCE],
    method: Method,
) -> Vec<u8> {
    let mut payload = vec![10];
    payload.extend_from_slice(&like.version);
    payload.push(0);
    payload.put_u32_le(connection);
    payload.extend_from_slice(&nonce[..8]);
    payload.push(0);
    payload.put_u16_le((OFFERED & 0xffff) as u16);
    payload.push(like.collation);
    payload.put_u16_le(AUTOCOMMIT);
    payload.put_u16_le((OFFERED >> 16) as u16);
    payload.push(NONCE as u8 + 1);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(&nonce[8..]);
    payload.push(0);
    payload.extend_from_slice(method.name());
    payload.push(0);
    payload
}

/// Parses a client's answer.
///
/// # Errors
/// The feature that is not supported, for the client.
pub fn handshake_response(payload: &[u8]) -> Result<HandshakeResponse, &'static str> {
    const SHORT: &str = "the handshake response is cut short";
    let mut fields = Fields(payload);
    let flags = fields.integer(4).ok_or(SHORT)? as u32;
    if flags & PROTOCOL_41 == 0 || flags & SECURE_CONNECTION == 0 {
        return Err("clients older than MySQL 4.1 are not supported");
    }
    fields.integer(4).ok_or(SHORT)?;
    let collation = fields.integer(1).ok_or(SHORT)? as u8;
    fields.bytes(23).ok_or(SHORT)?;
    if flags & SSL != 0 && fields.0.is_empty() {
        return Err("TLS is not offered by the arbiter; connect without it");
    }
    let user = fields.until_zero().ok_or(SHORT)?.to_vec();
    let length = if flags & PLUGIN_AUTH_LENENC == 0 { fields.integer(1) } else { fields.lenenc() };
    let length = usize::try_from(length.ok_or(SHORT)?).map_err(|_| SHORT)?;
    let token = fields.bytes(length).ok_or(SHORT)?.to_vec();
    let mut text = |flag| (flags & flag != 0).then(|| fields.until_zero()).flatten();
    let database = text(CONNECT_WITH_DB).filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
    let plugin = text(PLUGIN_AUTH).map(<[u8]>::to_vec);
    let key = Key { flags: flags & PASSED_ON, collation };
    Ok(HandshakeResponse { key, user, token, database, plugin })
}

/// Requests a proof by this method.
pub fn switch_to(method: Method, nonce: &[u8; NONCE]) -> Vec<u8> {
    [b"\xfe", method.name(), b"\0", &nonce[..], b"\0"].concat()
}

/// A server's greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerGreeting {
    /// Version, as clients see it.
    pub version: Vec<u8>,
    /// Number of the connection.
    pub thread: u32,
    /// Character set, which some clients adopt (PHP's).
    pub collation: u8,
    /// Nonce for the proof.
    pub nonce: Vec<u8>,
    /// Preferred method; none for an unknown one.
    pub method: Option<Method>,
}

impl ServerGreeting {
    /// True if a reset makes a connection of this kind as new. MySQL's servers, unlike MariaDB's,
    /// then take the server's character set, not the login's.
    pub fn reset_restores(&self, key: Key) -> bool {
        let is_mariadb = self.version.windows(7).any(|part| part == b"MariaDB");
        is_mariadb || key.collation == self.collation
    }
}

/// Parses a server's greeting.
pub fn server_greeting(payload: &[u8]) -> Option<ServerGreeting> {
    let mut fields = Fields(payload);
    if fields.integer(1)? != 10 {
        return None;
    }
    let version = fields.until_zero()?.to_vec();
    let thread = fields.integer(4)? as u32;
    let mut nonce = fields.bytes(8)?.to_vec();
    fields.bytes(1 + 2)?;
    let collation = fields.integer(1)? as u8;
    fields.bytes(2 + 2 + 1 + 10)?;
    nonce.extend_from_slice(fields.until_zero()?);
    let plugin = fields.until_zero().unwrap_or(fields.0);
    Some(ServerGreeting { version, thread, collation, nonce, method: Method::named(plugin) })
}

/// The arbiter's answer to a server's greeting.
pub struct LogIn<'a> {
    /// Kind of connection.
    pub key: Key,
    /// Account.
    pub user: &'a [u8],
    /// Method of the proof.
    pub method: Method,
    /// Password proof.
    pub token: &'a [u8],
    /// Initial database.
    pub database: Option<&'a [u8]>,
    /// Maximum packet that the arbiter accepts.
    pub packet_bytes_max: u32,
}

impl LogIn<'_> {
    /// Encodes it as a packet's payload.
    pub fn payload(&self) -> Vec<u8> {
        let with_database = if self.database.is_some() { CONNECT_WITH_DB } else { 0 };
        let mut payload = Vec::with_capacity(128);
        payload.put_u32_le(ALWAYS | self.key.flags | with_database);
        payload.put_u32_le(self.packet_bytes_max);
        payload.push(self.key.collation);
        payload.extend_from_slice(&[0; 23]);
        payload.extend_from_slice(self.user);
        payload.push(0);
        payload.push(self.token.len() as u8);
        payload.extend_from_slice(self.token);
        if let Some(database) = self.database {
            payload.extend_from_slice(database);
            payload.push(0);
        }
        payload.extend_from_slice(self.method.name());
        payload.push(0);
        payload
    }
}

/// Parses a server's request for another proof: method and nonce. None for an unknown method or
/// another request.
pub fn method_switch(payload: &[u8]) -> Option<(Method, &[u8])> {
    let mut fields = Fields(payload);
    (fields.integer(1)? == 0xfe).then_some(())?;
    let method = Method::named(fields.until_zero()?)?;
    Some((method, fields.0.strip_suffix(b"\0").unwrap_or(fields.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_greeting_is_read_back() {
        let nonce = *b"abcdefghijklmnopqrst";
        let version = b"5.5.5-10.11.6-MariaDB".to_vec();
        let like = ServerGreeting {
            version,
            thread: 7,
            collation: 63,
            nonce: nonce.to_vec(),
            method: Some(Method::CachingSha2),
        };
        let sent = greeting(&like, 7, &nonce, Method::CachingSha2);
        assert_eq!(server_greeting(&sent), Some(like));
    }

    #[test]
    fn a_reset_of_mysql_restores_only_the_server_s_own_character_set() {
        let greeting = |version: &[u8]| ServerGreeting {
            version: version.to_vec(),
            thread: 7,
            collation: 255,
            nonce: Vec::new(),
            method: None,
        };
        let key = |collation| Key { flags: 0, collation };
        assert!(greeting(b"8.0.36").reset_restores(key(255)));
        assert!(!greeting(b"8.0.36").reset_restores(key(45)));
        assert!(greeting(b"5.5.5-10.11.6-MariaDB").reset_restores(key(45)));
    }

    #[test]
    fn a_login_is_read_back_and_every_cut_of_it_refused() {
        let key = Key { flags: FOUND_ROWS, collation: 33 };
        let payload = LogIn {
            key,
            user: b"wiki",
            method: Method::Native,
            token: &[1; 20],
            database: Some(b"db"),
            packet_bytes_max: 1 << 24,
        }
        .payload();
        let response = handshake_response(&payload).unwrap();
        assert_eq!(
            (response.key, &response.user[..], response.token),
            (key, &b"wiki"[..], vec![1; 20])
        );
        assert_eq!(response.database.as_deref(), Some(&b"db"[..]));
        assert_eq!(response.plugin.as_deref(), Some(Method::Native.name()));
        for length in 0..32 + 5 + 21 {
            assert!(handshake_response(&payload[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn tls_is_refused_in_plain_words() {
        let mut request = vec![0; 32];
        request[..4].copy_from_slice(&(PROTOCOL_41 | SECURE_CONNECTION | SSL).to_le_bytes());
        assert!(handshake_response(&request).unwrap_err().contains("TLS"));
    }

    #[test]
    fn a_switch_to_a_method_that_is_not_known_is_not_followed() {
        for method in [Method::Native, Method::CachingSha2] {
            assert_eq!(
                method_switch(&switch_to(method, &[b'n'; 20])),
                Some((method, &[b'n'; 20][..]))
            );
        }
        assert_eq!(method_switch(b"\xfeed25519\0nonce\0"), None);
    }
}
