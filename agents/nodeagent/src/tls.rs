//! Mutual TLS: a client without a certificate from the experiment's CA gets a refused handshake and
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;
use crate::handshake_limiter::{HandshakeLimiter, Place};

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
const HEADER_LIMIT: Duration = Duration::from_secs(30);
/// Connections that have authenticated; one beyond is closed.
const SESSIONS_MAX: usize = 128;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reads the PEM files.
pub fn acceptor(files: &Tls) -> Result<TlsAcceptor> {
    let shown = |file: &std::path::Path| format!("no usable PEM in {}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&files.ca).with_context(|| shown(&files.ca))? {
        roots
            .add(certificate.with_context(|| shown(&files.ca))?)
            .with_context(|| shown(&files.ca))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .with_context(|| shown(&files.ca))?;
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| shown(&files.cert))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).with_context(|| shown(&files.key))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .with_context(|| {
            format!(
                "{} and {} do not match",
                files.cert.display(),
                files.key.display()
            )
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until the task is dropped. Before the handshake is done a connection is bounded by the
/// limiter, then by `SESSIONS_MAX`.
pub async fn serve(listener: TcpListener, acceptor: TlsAcceptor, router: Router) {
    let limiter = Arc::new(HandshakeLimiter::default());
    let sessions = Arc::new(Semaphore::new(SESSIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let place = limiter.enter(peer.ip());
                let (acceptor, router) = (acceptor.clone(), router.clone());
                let (limiter, sessions) = (limiter.clone(), sessions.clone());
                tokio::spawn(async move {
                    let Some(stream) = shake_hands(place, acceptor, stream).await else {
                        return;
                    };
                    limiter.know(peer.ip());
                    if let Ok(_session) = sessions.try_acquire() {
                        serve_one(stream, router).await;
                    }
                });
            }
            // Out of file descriptors, most likely: give some time to free them.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn shake_hands(
    mut place: Place,
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> Option<TlsStream<TcpStream>> {
    tokio::select! {
        shaken = timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)) => shaken.ok()?.ok(),
        () = place.lost() => None,
    }
}

async fn serve_one(stream: TlsStream<TcpStream>, router: Router) {
    // A connection that breaks is the client's to notice.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
