//! A plain HTTP client, independent of the arbiter's parser.

// A failing test may end in a panic here. The fields say what they are.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::stream::{field, is_framed, Buffered};
use crate::wait::within_limit;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// True if the body came to the end that the head announced; it is empty otherwise.
    pub complete: bool,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> Option<String> {
        field(&self.head, name).map(str::to_owned)
    }

    /// The server that answered.
    pub fn server(&self) -> String {
        self.field("x-sparecraft-server").unwrap_or_default()
    }
}

pub struct Connection(pub Buffered);

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = within_limit("a connection", TcpStream::connect(address)).await;
        Self(Buffered::new(stream.unwrap()))
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        within_limit("a server that reads", self.0.stream.write_all(bytes)).await.unwrap();
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await;
        self.reply(false).await.unwrap()
    }

    /// The next reply; none when the connection ended before it.
    pub async fn reply(&mut self, to_head: bool) -> Option<Reply> {
        within_limit("an HTTP reply", self.read_reply(to_head)).await
    }

    async fn read_reply(&mut self, to_head: bool) -> Option<Reply> {
        let Some(head) = self.0.head().await else {
            assert!(self.0.is_empty(), "cut head");
            return None;
        };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = match status {
            100..=199 | 204 | 304 => Some(vec![]),
            _ if to_head => Some(vec![]),
            _ if is_framed(&head) => self.0.body(&head).await,
            _ => Some(self.0.rest().await),
        };
        Some(Reply { status, head, complete: body.is_some(), body: body.unwrap_or_default() })
    }

    /// All bytes up to and with `end`.
    pub async fn raw(&mut self, end: &[u8]) -> String {
        let bytes = within_limit("bytes up to the end", self.0.until(end)).await;
        let bytes = bytes.expect("bytes up to the end");
        String::from_utf8(bytes).unwrap()
    }

    /// True when the peer has closed and nothing is left to read.
    pub async fn is_closed(&mut self) -> bool {
        self.0.is_empty() && !within_limit("the end of a connection", self.0.more()).await
    }
}

/// One request on a connection of its own.
pub async fn once(address: SocketAddr, request: &[u8]) -> Reply {
    let mut connection = Connection::open(address).await;
    connection.send(request).await;
    connection.reply(request.starts_with(b"HEAD ")).await.expect("a reply")
}

pub async fn get(address: SocketAddr, path: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    once(address, request.as_bytes()).await
}

pub async fn put(address: SocketAddr, path: &str, body: &str) -> Reply {
    let request = format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    once(address, request.as_bytes()).await
}
