//! An experiment's certificates, and a client of the API that speaks with them.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::Request;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A certificate authority and what it has signed.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        Authority {
            issuer: Issuer::new(parameters, key),
            pem,
        }
    }

    /// A certificate and its key, both PEM.
    pub fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![usage];
        (
            parameters.signed_by(&key, &self.issuer).unwrap().pem(),
            key.serialize_pem(),
        )
    }

    pub fn client(&self) -> (String, String) {
        self.sign("controller", ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// A connection with a certificate of the caller's choice, or none.
pub async fn connect(
    address: SocketAddr,
    ca_pem: &str,
    client: Option<&(String, String)>,
) -> Result<TlsStream<TcpStream>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap())
        .unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    let tcp = TcpStream::connect(address).await;
    let name = ServerName::IpAddress(address.ip().into());
    tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, tcp.map_err(|error| error.to_string())?)
        .await
        .map_err(|error| error.to_string())
}

/// One request on a connection of its own.
pub async fn request(
    address: SocketAddr,
    ca_pem: &str,
    client: Option<&(String, String)>,
    method: &str,
    path: &str,
    body: String,
) -> Result<(u16, Value), String> {
    let fail = |error: &dyn std::fmt::Display| error.to_string();
    let tls = TokioIo::new(connect(address, ca_pem, client).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(tls)
        .await
        .map_err(|error| fail(&error))?;
    let driver = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address.to_string())
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let answered = sender.send_request(request).await;
    let response = match answered {
        Ok(response) => response,
        // The connection's own end says more, e.g. which alert closed it.
        Err(error) => return Err(format!("{error}: {:?}", driver.await)),
    };
    let status = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .map_err(|error| fail(&error))?
        .to_bytes();
    Ok((
        status,
        serde_json::from_slice(&bytes).map_err(|error| fail(&error))?,
    ))
}
