//! Certificates of an authority of its own, and clients that trust it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Files {
    /// As TOML values.
    pub fn toml(&self) -> String {
        format!("cert = {:?}, key = {:?}", self.cert, self.key)
    }
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
    pub ca: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca.pem");
        std::fs::write(&ca, parameters.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            issuer: Issuer::new(parameters, key),
            directory,
            ca,
        }
    }

    /// Of a server of this name (or IP address).
    pub fn server(&self, name: &str) -> Files {
        self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn client(&self) -> Files {
        self.sign("client", ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Files {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![usage];
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        let at = |kind: &str| self.directory.path().join(format!("{name}.{kind}.pem"));
        let files = Files {
            cert: at("cert"),
            key: at("key"),
        };
        std::fs::write(&files.cert, signed.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.ca).unwrap())
            .unwrap();
        roots
    }

    /// A connection that trusts this authority and expects the name.
    pub async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
        own: Option<&Files>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let (chain, key) = read(files);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        shake_hands(config, address, name).await
    }
}

async fn shake_hands(
    config: ClientConfig,
    address: SocketAddr,
    name: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let tcp = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, tcp).await
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn read(files: &Files) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let cert: &Path = &files.cert;
    (
        vec![CertificateDer::from_pem_file(cert).unwrap()],
        PrivateKeyDer::from_pem_file(&files.key).unwrap(),
    )
}

/// A request on a connection of its own, and the whole of what comes back up to the end, which has to
/// be told (`close_notify`).
pub async fn ask(
    stream: &mut TlsStream<TcpStream>,
    method: &str,
    path: &str,
) -> io::Result<String> {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
