//! `[admin_tls]`: PEM files.

use std::path::PathBuf;

use serde::Deserialize;

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
