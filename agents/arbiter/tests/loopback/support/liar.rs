//! A server of any protocol that says what it is told to for each request, and a proxy that alters
//! what a real server says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The behaviour of a server for one request.
pub struct Answer {
    pub after: Duration,
    pub bytes: Vec<u8>,
    /// It closes the connection then.
    pub closes: bool,
}

impl Answer {
    pub fn whole(bytes: Vec<u8>) -> Self {
        Self {
            after: Duration::ZERO,
            bytes,
            closes: false,
        }
    }
}

/// An HTTP server without bodies in its requests.
pub struct Told {
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Told {
    /// `answer` has the request's head.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        let serving = async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                connections.spawn(async move { talk(stream, &*answer).await });
            }
        };
        Self {
            address,
            task: tokio::spawn(serving),
        }
    }

    /// One that always says the same.
    pub async fn saying(bytes: Vec<u8>) -> Self {
        Self::start(move |_| Answer::whole(bytes.clone())).await
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn talk(mut stream: TcpStream, answer: &(impl Fn(&str) -> Answer + Sync)) -> Option<()> {
    let mut read = vec![];
    loop {
        let end = loop {
            let end = read.windows(4).position(|four| four == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None => {
                    let more = stream.read_buf(&mut read).await.ok()?;
                    (more > 0).then_some(())?;
                }
            }
        };
        let head: Vec<u8> = read.drain(..end).collect();
        let Answer {
            after,
            bytes,
            closes,
        } = answer(&String::from_utf8_lossy(&head));
        tokio::time::sleep(after).await;
        stream.write_all(&bytes).await.ok()?;
        if closes {
            return stream.shutdown().await.ok();
        }
    }
}

/// A proxy of a real server that replaces one text in its replies by another of the same length, as
/// often as it is let.
pub struct Altering {
    pub address: SocketAddr,
    pub altered: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Altering {
    /// `alters` is asked for each reply in which `text` is found.
    pub async fn start(
        server: SocketAddr,
        (text, lie): (&'static str, &'static str),
        alters: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        assert_eq!(text.len(), lie.len());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let altered = Arc::new(AtomicU64::new(0));
        let (count, alters) = (Arc::clone(&altered), Arc::new(alters));
        let serving = async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (count, alters) = (Arc::clone(&count), Arc::clone(&alters));
                connections.spawn(async move {
                    pass(client, server, (text, lie), || {
                        let alters = alters();
                        count.fetch_add(u64::from(alters), SeqCst);
                        alters
                    })
                    .await
                });
            }
        };
        Self {
            address,
            altered,
            task: tokio::spawn(serving),
        }
    }
}

async fn pass(
    client: TcpStream,
    server: SocketAddr,
    (text, lie): (&str, &str),
    alters: impl Fn() -> bool,
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

impl Drop for Altering {
    fn drop(&mut self) {
        self.task.abort();
    }
}
