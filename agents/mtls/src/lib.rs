//! HTTP by mutual TLS: a client without a certificate of the authority gets a refused handshake and
//! nothing else. The node agent's API and the arbiter's admin API are served by it.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
pub use tokio_rustls::TlsAcceptor;

use handshake_limiter::{HandshakeLimiter, Place};

mod handshake_limiter;

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
const HEADER_LIMIT: Duration = Duration::from_secs(30);
/// Connections that are let in; one beyond is closed.
const SESSIONS_MAX: usize = 128;
/// Pause before accepting again without a file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// PEM files of one side.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The authorities whose clients are let in.
    pub ca: PathBuf,
    /// The certificate that clients see.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Error of files that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadFiles(String);

impl Files {
    /// Reads them; `table` is their name in the configuration.
    ///
    /// # Errors
    /// [`BadFiles`] says the key, the file, what was expected and what was got.
    pub fn acceptor(&self, table: &str) -> Result<TlsAcceptor, BadFiles> {
        let refusal = |key: &str, file: &Path, expected: &str, got: &dyn Display| {
            let file = file.display();
            BadFiles(format!("{table}.{key}: {file}: expected {expected} (got {got})"))
        };
        let chain = |key: &str, file: &Path| -> Result<Vec<CertificateDer<'static>>, BadFiles> {
            let certificates = CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| refusal(key, file, "certificates in PEM", &error))?;
            if certificates.is_empty() {
                return Err(refusal(key, file, "certificates in PEM", &"none"));
            }
            Ok(certificates)
        };
        let no_authority = |got: &dyn Display| refusal("ca", &self.ca, "an authority", got);
        let mut roots = RootCertStore::empty();
        for certificate in chain("ca", &self.ca)? {
            roots.add(certificate).map_err(|error| no_authority(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| no_authority(&error))?;
        let cert = chain("cert", &self.cert)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| refusal("key", &self.key, "a private key in PEM", &error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BadFiles(format!("{table}: {error}")))?
            .with_client_cert_verifier(clients)
            .with_single_cert(cert, key)
            .map_err(|error| {
                let (cert, key) = (self.cert.display(), self.key.display());
                BadFiles(format!("{table}: expected {key} to be the key of {cert} (got {error})"))
            })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Serves until it is dropped; plainly where there is no acceptor. Before its handshake is done a
/// connection is bounded by the limiter, then by `SESSIONS_MAX`.
pub async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, router: Router) {
    let limiter = Arc::new(HandshakeLimiter::default());
    let sessions = Arc::new(Semaphore::new(SESSIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // A socket that refuses the option still works; without it a reply of two writes is delayed.
        let _ = stream.set_nodelay(true);
        let (acceptor, router) = (acceptor.clone(), router.clone());
        let (limiter, sessions) = (limiter.clone(), sessions.clone());
        connections.spawn(async move {
            let Some(acceptor) = acceptor else {
                return serve_one(stream, router, &sessions).await;
            };
            let place = limiter.enter(peer.ip());
            if let Some(stream) = shake_hands(place, acceptor, stream).await {
                limiter.remember(peer.ip());
                serve_one(stream, router, &sessions).await;
            }
        });
    }
}

async fn shake_hands(
    mut place: Place,
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> Option<TlsStream<TcpStream>> {
    tokio::select! {
        shaken = timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)) => shaken.ok()?.ok(),
        () = place.revocation() => None,
    }
}

async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    sessions: &Semaphore,
) {
    let Ok(_session) = sessions.try_acquire() else {
        return;
    };
    // A connection that breaks is the client's to notice.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
}
