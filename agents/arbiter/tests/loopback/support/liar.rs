//! A server of any protocol that says what it is told to for each request, and a proxy that alters
//! what a real server says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use testkit::stream::{Buffered, Served};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The behaviour of a server for one request.
pub struct Answer {
    pub after: Duration,
    pub bytes: Vec<u8>,
    /// It closes the connection then.
    pub closes: bool,
}

impl Answer {
    pub fn whole(bytes: Vec<u8>) -> Self {
        Self { after: Duration::ZERO, bytes, closes: false }
    }
}

/// An HTTP server without bodies in its requests.
pub struct ScriptedServer {
    pub address: SocketAddr,
    _server: Served,
}

impl ScriptedServer {
    /// `answer` has the request's head.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        let server = Served::start(move |stream| talk(stream, Arc::clone(&answer)));
        Self { address: server.address, _server: server }
    }

    /// One that always says the same.
    pub async fn saying(bytes: Vec<u8>) -> Self {
        Self::start(move |_| Answer::whole(bytes.clone())).await
    }
}

async fn talk(stream: TcpStream, answer: Arc<impl Fn(&str) -> Answer>) -> Option<()> {
    let mut client = Buffered::new(stream);
    loop {
        let head = client.head().await?;
        let Answer { after, bytes, closes } = answer(&head);
        tokio::time::sleep(after).await;
        client.stream.write_all(&bytes).await.ok()?;
        if closes {
            return client.stream.shutdown().await.ok();
        }
    }
}

/// A proxy of a real server that replaces one text in its replies by another of the same length, as
/// often as it is let.
pub struct Altering {
    pub address: SocketAddr,
    pub altered: Arc<AtomicU64>,
    _server: Served,
}

impl Altering {
    /// `alters` is asked for each reply in which `text` is found.
    pub async fn start(
        server: SocketAddr,
        (text, lie): (&'static str, &'static str),
        alters: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        assert_eq!(text.len(), lie.len());
        let altered = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&altered);
        let alters = Arc::new(move || {
            let alters = alters();
            count.fetch_add(u64::from(alters), SeqCst);
            alters
        });
        let proxy = Served::start(move |client| pass(client, server, (text, lie), alters.clone()));
        Self { address: proxy.address, altered, _server: proxy }
    }
}

async fn pass(
    client: TcpStream,
    server: SocketAddr,
    (text, lie): (&str, &str),
    alters: Arc<impl Fn() -> bool>,
) -> Option<()> {
    let server = TcpStream::connect(server).await.ok()?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut bytes = vec![0; 65536];
    loop {
        let read = from_server.read(&mut bytes).await.ok()?;
        (read > 0).then_some(())?;
        let piece = &mut bytes[..read];
        for at in 0..read.saturating_sub(text.len() - 1) {
            if piece[at..].starts_with(text.as_bytes()) && alters() {
                piece[at..at + lie.len()].copy_from_slice(lie.as_bytes());
            }
        }
        to_client.write_all(piece).await.ok()?;
    }
}
