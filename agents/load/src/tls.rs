//! TLS to a server: trusted certificates, and the handshake of a connection.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use serde::Deserialize;

use crate::refused::Refused;

/// The part of a plan on it.
#[derive(Debug, Deserialize)]
pub struct TlsOptions {
    /// The name that certificates are for.
    name: String,
    /// Trusted authorities, PEM.
    roots: String,
    /// True if any certificate is accepted.
    insecure: bool,
}

/// The clients of one server.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Takes in the certificates.
    pub fn new(options: &TlsOptions) -> Result<Self, Refused> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Refused::new("tls", "versions of TLS", error))?;
        let mut config = if options.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
                .with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            let certificates = CertificateDer::pem_slice_iter(options.roots.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| Refused::new("tls", "certificates in PEM", error))?;
            if roots.add_parsable_certificates(certificates).0 == 0 {
                return Err(Refused::new("tls", "certificates that are trusted", "none"));
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(options.name.clone())
            .map_err(|_| Refused::new("tls.name", "the name of a TLS server", &options.name))?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// A connection that has still to shake hands.
    pub fn begin(&self) -> Result<Box<ClientConnection>, Error> {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        // A body is taken whole; the plan bounds it.
        connection.set_buffer_limit(None);
        Ok(Box::new(connection))
    }
}

/// Returns the reason of a failed handshake, in few words.
pub fn describe(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => "certificate: not trusted",
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "certificate: expired",
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "certificate: of another name",
        Error::InvalidCertificate(_) => "certificate",
        _ => "TLS",
    }
}

/// Takes any certificate.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
