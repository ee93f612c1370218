//! `[tls]`, `[server_tls]` and `[admin_tls]`: PEM files.

use std::path::PathBuf;

use serde::Deserialize;
use wire::arbiter::{Address, Protocol};

use super::checks::{refuse, Impossible};
use super::Config;

/// Towards clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// The certificate that clients see, and those that lead to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Towards servers, but for those on unix sockets.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// The authorities whose certificates count.
    pub ca: PathBuf,
    /// The name that is in the certificates; without it, the host of each server's address.
    pub name: Option<String>,
    /// What servers see of us, where they ask.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// For the admin API: clients without a certificate get a refused handshake and nothing else.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminTls {
    /// The authorities whose clients are let in.
    pub ca: PathBuf,
    /// The certificate that clients see.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Config {
    pub(super) fn validate_tls(&self) -> Result<(), Impossible> {
        for (key, is_set) in [
            ("tls", self.tls.is_some()),
            ("server_tls", self.server_tls.is_some()),
        ] {
            if is_set && self.protocol == Protocol::Mysql {
                let expected = "none with mysql (the arbiter speaks MySQL in plain, to clients \
                                and to servers; where others can listen, use a tunnel)";
                return refuse(key, expected, "one");
            }
        }
        if self.tls.is_some() && matches!(self.listen, Address::Unix(_)) {
            return refuse("tls", "none where clients come by a unix socket", "one");
        }
        match &self.server_tls {
            Some(files) if files.cert.is_some() != files.key.is_some() => {
                refuse("server_tls", "both cert and key, or neither", "one of them")
            }
            _ => Ok(()),
        }
    }
}
