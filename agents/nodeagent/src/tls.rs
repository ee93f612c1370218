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
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
const HEADER_LIMIT: Duration = Duration::from_secs(30);
const CONNECTIONS_MAX: usize = 128;
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

/// Serves until the task is dropped. Connections beyond the bound wait.
pub async fn serve(listener: TcpListener, acceptor: TlsAcceptor, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, router) = (acceptor.clone(), router.clone());
                tokio::spawn(async move {
                    serve_one(stream, acceptor, router).await;
                    drop(place);
                });
            }
            // Out of file descriptors, most likely: give some time to free them.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_one(stream: TcpStream, acceptor: TlsAcceptor, router: Router) {
    let handshake = tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = handshake else { return };
    // A connection that breaks is the client's to notice.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
}
