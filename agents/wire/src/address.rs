//! The address of a server: an IP address or a host name, with a port.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest host name, and longest of its parts [bytes].
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// An address. In texts `IP:PORT` or `NAME:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// IP address and port.
    Ip(SocketAddr),
    /// A name that may mean several addresses, and others later.
    Name {
        /// The host's name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// IP address and port, where it is that.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Name { .. } => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let parts = text.rsplit_once(':').filter(|(host, _)| is_name(host));
        match parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
            Some((host, port)) => Ok(Self::Name {
                host: host.to_ascii_lowercase(),
                port,
            }),
            None => Err(format!("expected IP:PORT or NAME:PORT (got {text:?})")),
        }
    }
}

/// True if it is a host name; one that ends in a number would be a broken IP address.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=LABEL_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(plain)
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= NAME_MAX
        && host.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_alike() {
        for text in [
            "127.0.0.1:80",
            "[::1]:80",
            "web.internal:8080",
            "web-1:80",
            "a_b.c1:1",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        assert_eq!("WEB:80".parse::<Address>().unwrap().to_string(), "web:80");
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_was_expected() {
        for text in [
            "",
            "web",
            ":80",
            "web:",
            "web:80000",
            "300.1.1.1:80",
            "1.2.3:80",
            "a b:80",
            "a..b:80",
            "-a:80",
            "::1:80",
            "unix:/run/web.sock",
        ] {
            let refusal = text.parse::<Address>().unwrap_err();
            assert!(refusal.starts_with("expected "), "{text}: {refusal}");
        }
    }
}
