//! Very many client connections: each asks once, then all stay idle; then all ask at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::stream::Buffered;

/// Connections that are made, or ask, at a time while the others are idle.
const AT_A_TIME: usize = 256;

/// The buffers of quiet connections are gone after this.
const QUIET: Duration = Duration::from_secs(3);

/// Memory of the process that holds the other ends, and what was answered.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Client connections.
    pub connections: usize,
    /// Memory before the first connection.
    pub rss_kib_before: u64,
    /// Memory with all connections open and idle.
    pub rss_kib_idle: u64,
    /// Memory after all asked at once.
    pub rss_kib_busy: u64,
    /// Peak memory.
    pub rss_kib_peak: u64,
    /// Replies of status 200 when all asked at once.
    pub answered: usize,
}

/// Holds connections to `address` and looks at the memory of process `pid`.
pub async fn measure(
    pid: u32,
    address: SocketAddr,
    path: &str,
    connections: usize,
) -> Result<Report> {
    let rss_kib_before = rss_kib_of(pid)?;
    let mut clients = Clients::open(address, path, connections).await?;
    tokio::time::sleep(QUIET).await;
    let rss_kib_idle = rss_kib_of(pid)?;
    let replies = clients.ask(connections).await?;
    Ok(Report {
        connections,
        rss_kib_before,
        rss_kib_idle,
        rss_kib_busy: rss_kib_of(pid)?,
        rss_kib_peak: memory_kib(pid, "VmHWM:")?,
        answered: replies,
    })
}

/// Resident memory of a process.
pub fn rss_kib_of(pid: u32) -> Result<u64> {
    memory_kib(pid, "VmRSS:")
}

fn memory_kib(pid: u32, key: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    Ok(number.with_context(|| format!("no {key}"))?.parse()?)
}

/// Connections and the request that they send.
struct Clients(Vec<TcpStream>, Arc<[u8]>);

impl Clients {
    /// Opens `connections` and asks once on each.
    async fn open(address: SocketAddr, path: &str, connections: usize) -> Result<Self> {
        let request: Arc<[u8]> =
            format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes().into();
        let mut streams = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await;
            streams.push(stream.with_context(|| {
                format!("connection {} of {connections} failed", streams.len() + 1)
            })?);
        }
        let mut clients = Self(streams, request);
        let replies = clients.ask(AT_A_TIME).await?;
        ensure!(replies == connections, "{replies} replies of {connections}");
        Ok(clients)
    }

    /// Asks once on each connection, at most `at_a_time` at once; how many were answered with 200.
    async fn ask(&mut self, at_a_time: usize) -> Result<usize> {
        let places = Arc::new(Semaphore::new(at_a_time));
        let mut tasks = JoinSet::new();
        for stream in self.0.drain(..) {
            let (places, request) = (Arc::clone(&places), Arc::clone(&self.1));
            tasks.spawn(async move {
                let _place = places.acquire_owned().await?;
                let mut server = Buffered::new(stream);
                server.stream.write_all(&request).await?;
                let head = server.head().await.context("cut")?;
                server.body(&head).await.context("cut")?;
                anyhow::Ok((server.stream, head.starts_with("HTTP/1.1 200")))
            });
        }
        let mut count = 0;
        while let Some(result) = tasks.join_next().await {
            let (stream, is_good) = result??;
            count += usize::from(is_good);
            self.0.push(stream);
        }
        Ok(count)
    }
}
