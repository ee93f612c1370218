//! TLS: towards clients, towards servers, and for the admin API, where both sides prove themselves.
//!
//! The files are read at the start and again at SIGHUP; connections that are there keep what they
//! began with. Where it is off nothing of it is in the way of a byte.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use wire::arbiter::{Address, Protocol};

use crate::config::tls::{AdminTls, ClientTls, ServerTls};
use crate::config::Config;

/// What is spoken inside, where the protocol has a name for it.
const HTTP: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// What this arbiter shows and asks for.
pub struct Tls {
    current: RwLock<Arc<Keys>>,
}

/// The files of one reading.
struct Keys {
    clients: Option<TlsAcceptor>,
    servers: Option<Towards>,
    admin: Option<TlsAcceptor>,
}

/// How servers are met.
#[derive(Clone)]
struct Towards {
    connector: TlsConnector,
    /// What their certificates must be of, where that is not the address's host.
    name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// The key, the file, and what is wrong with it.
    pub fn read(config: &Config) -> Result<Self, String> {
        let current = RwLock::new(Arc::new(Keys::read(config)?));
        Ok(Self { current })
    }

    /// Takes over another's files.
    pub fn set(&self, other: Self) {
        let fresh = other.keys();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    /// How clients are met, if by TLS.
    pub fn clients(&self) -> Option<TlsAcceptor> {
        self.keys().clients.clone()
    }

    /// How the admin API's clients are met, if by TLS.
    pub fn admin(&self) -> Option<TlsAcceptor> {
        self.keys().admin.clone()
    }

    /// Whether servers are met by TLS.
    pub fn is_towards_servers(&self) -> bool {
        self.keys().servers.is_some()
    }

    /// Shakes hands with a server at this address.
    ///
    /// # Errors
    /// What the server, or its certificate, lacks.
    pub async fn meet(
        &self,
        address: &Address,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let servers = self.keys().servers.clone();
        let Towards { connector, name } = servers.ok_or(std::io::ErrorKind::Unsupported)?;
        let name = match name {
            Some(name) => name,
            None => ServerName::try_from(address.host()).map_err(std::io::Error::other)?,
        };
        Ok(connector.connect(name, stream).await?.into())
    }

    fn keys(&self) -> Arc<Keys> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Keys {
    fn read(config: &Config) -> Result<Self, String> {
        let (offered, inside) = match config.protocol {
            Protocol::Http => (vec![HTTP2.to_vec(), HTTP.to_vec()], vec![HTTP.to_vec()]),
            _ => (vec![], vec![]),
        };
        let clients = config.tls.as_ref().map(|files| clients(files, offered));
        let servers = config
            .server_tls
            .as_ref()
            .map(|files| servers(files, inside));
        let admin = config.admin_tls.as_ref().map(admin);
        Ok(Self {
            clients: clients.transpose()?,
            servers: servers.transpose()?,
            admin: admin.transpose()?,
        })
    }
}

fn clients(files: &ClientTls, inside: Vec<Vec<u8>>) -> Result<TlsAcceptor, String> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?
        .with_no_client_auth();
    let mut config = builder
        .with_single_cert(chain("tls.cert", &files.cert)?, key("tls.key", &files.key)?)
        .map_err(|error| mismatch("tls", &files.cert, &files.key, &error))?;
    config.alpn_protocols = inside;
    Ok(TlsAcceptor::from(Arc::new(config)))
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

fn servers(files: &ServerTls, inside: Vec<Vec<u8>>) -> Result<Towards, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("server_tls: {error}"))?
        .with_root_certificates(roots("server_tls.ca", &files.ca)?);
    let mut config = match (&files.cert, &files.key) {
        (Some(cert), Some(own)) => builder
            .with_client_auth_cert(chain("server_tls.cert", cert)?, key("server_tls.key", own)?)
            .map_err(|error| mismatch("server_tls", cert, own, &error))?,
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = inside;
    let name = files.name.clone().map(|name| {
        ServerName::try_from(name.clone())
            .map_err(|_| format!("server_tls.name: expected a host name or an IP, got {name:?}"))
    });
    Ok(Towards {
        connector: TlsConnector::from(Arc::new(config)),
        name: name.transpose()?,
    })
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

fn bad(name: &str, file: &Path, expected: &str, came: &dyn std::fmt::Display) -> String {
    format!(
        "{name}: {}: expected {expected}, got {came}",
        file.display()
    )
}

fn mismatch(table: &str, cert: &Path, key: &Path, error: &rustls::Error) -> String {
    let (cert, key) = (cert.display(), key.display());
    format!("{table}: expected {key} to be the key of {cert}, got {error}")
}
