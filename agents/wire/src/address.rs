//! The address of a listener: an IP address, a host name, or a unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const UNIX: &str = "unix:";
/// Longest path of a unix socket that the kernel takes [bytes].
const PATH_MAX: usize = 107;
/// Longest host name, and longest of its parts [bytes].
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// An address. In texts `IP:PORT`, `NAME:PORT` or `unix:/PATH`.
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
    /// The path of a unix socket.
    Unix(String),
}

impl Address {
    /// IP address and port, where it is that.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Name { .. } | Self::Unix(_) => None,
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
            Self::Unix(path) => write!(f, "{UNIX}{path}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |expected: &str| Err(format!("expected {expected}, got {text:?}"));
        if let Some(path) = text.strip_prefix(UNIX) {
            return match path.starts_with('/') && path.len() <= PATH_MAX && !path.contains('\0') {
                true => Ok(Self::Unix(path.to_owned())),
                false => refuse("unix:/PATH of at most 107 bytes"),
            };
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let parts = text.rsplit_once(':').filter(|(host, _)| is_name(host));
        match parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
            Some((host, port)) => Ok(Self::Name {
                host: host.to_ascii_lowercase(),
                port,
            }),
            None => refuse("IP:PORT, NAME:PORT or unix:/PATH"),
        }
    }
}

/// Whether it is a host name; what ends in a number would be an IP address that is none.
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
            "unix:/run/web.sock",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        assert_eq!("WEB:80".parse::<Address>().unwrap().to_string(), "web:80");
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_was_expected() {
        let long = format!("unix:/{}", "x".repeat(PATH_MAX));
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
            "unix:",
            "unix:run/x",
            &long,
        ] {
            let refusal = text.parse::<Address>().unwrap_err();
            assert!(refusal.starts_with("expected "), "{text}: {refusal}");
        }
    }
}
