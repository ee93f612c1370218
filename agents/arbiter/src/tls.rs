//! TLS of the admin API, where both sides prove themselves.
//!
//! The files are read at the start and again at SIGHUP; connections that are there keep what they
//! began with.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::tls::AdminTls;
use crate::config::Config;

/// Spoken inside.
const HTTP: &[u8] = b"http/1.1";

/// The keys of the admin API, which a reload may change; none where it is spoken to plainly.
pub struct Tls {
    admin: RwLock<Option<TlsAcceptor>>,
}

impl Tls {
    /// Reads the files that the configuration names.
    pub fn read(config: &Config) -> Result<Self, String> {
        let admin = config.admin_tls.as_ref().map(admin).transpose()?;
        let admin = RwLock::new(admin);
        Ok(Self { admin })
    }

    /// Takes over another's files.
    pub fn set(&self, other: Self) {
        let fresh = other.admin.into_inner();
        *self.admin.write().unwrap_or_else(PoisonError::into_inner) =
            fresh.unwrap_or_else(PoisonError::into_inner);
    }

    /// How the admin API's clients are met, if by TLS.
    pub fn admin(&self) -> Option<TlsAcceptor> {
        let admin = self.admin.read();
        admin.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn admin(files: &AdminTls) -> Result<TlsAcceptor, String> {
    let roots = Arc::new(roots("admin_tls.ca", &files.ca)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| format!("admin_tls.ca: {}: {error}", files.ca.display()))?;
    let chain = chain("admin_tls.cert", &files.cert)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("admin_tls: {error}"))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key("admin_tls.key", &files.key)?)
        .map_err(|error| mismatch("admin_tls", &files.cert, &files.key, &error))?;
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(name: &str, file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(name, file)? {
        roots
            .add(certificate)
            .map_err(|error| bad(name, file, "a certificate", &error))?;
    }
    Ok(roots)
}

fn chain(name: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| bad(name, file, "certificates in PEM", &error))?;
    if certificates.is_empty() {
        return Err(bad(name, file, "certificates in PEM", &"none"));
    }
    Ok(certificates)
}

fn key(name: &str, file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| bad(name, file, "a private key in PEM", &error))
}

fn bad(name: &str, file: &Path, expected: &str, got: &dyn std::fmt::Display) -> String {
    format!(
        "{name}: {}: expected {expected} (got {got})",
        file.display()
    )
}

fn mismatch(table: &str, cert: &Path, key: &Path, error: &rustls::Error) -> String {
    let (cert, key) = (cert.display(), key.display());
    format!("{table}: expected {key} to be the key of {cert} (got {error})")
}
