//! Certificates of an authority of its own, and clients that trust it.

#![allow(clippy::unwrap_used, clippy::new_without_default, missing_docs)]

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

/// A certificate and its key, PEM both.
#[derive(Debug, Clone)]
pub struct Identity {
    pub cert: String,
    pub key: String,
}

impl Identity {
    /// Writes them; the two files.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let write = |kind: &str, text: &str| {
            let file = folder.join(format!("{name}.{kind}.pem"));
            std::fs::write(&file, text).unwrap();
            file
        };
        (write("cert", &self.cert), write("key", &self.key))
    }
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    /// Writes its certificate; the file.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let file = folder.join("ca.pem");
        std::fs::write(&file, &self.pem).unwrap();
        file
    }

    /// Identity of a server of this name (or IP address).
    pub fn server(&self, name: &str) -> Identity {
        self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn client(&self) -> Identity {
        self.sign("client", ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![usage];
        Identity {
            cert: parameters.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// A connection that trusts this authority and expects the name.
    pub async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
        own: Option<&Identity>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.pem)).unwrap();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                let chain = vec![certificate(&own.cert)];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let tcp = TcpStream::connect(address).await?;
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, tcp).await
    }
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
