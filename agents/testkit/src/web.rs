//! A plain HTTP client, independent of the arbiter's parser.

// A failing test may end in a panic here. The fields say what they are.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the body came to the end that the head announced.
    pub complete: bool,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }

    /// Who answered.
    pub fn server(&self) -> String {
        self.field("x-sparecraft-server").unwrap_or_default()
    }
}

pub struct Connection {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            buffer: vec![],
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
            .await;
        self.reply(false).await.unwrap()
    }

    /// The next reply; none when the connection ended before it.
    pub async fn reply(&mut self, to_head: bool) -> Option<Reply> {
        let end = loop {
            let place = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(place) = place {
                break place + 4;
            }
            if !self.more().await {
                assert!(self.buffer.is_empty(), "cut head");
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply {
            status,
            head,
            body: vec![],
            complete: true,
        };
        if to_head || status == 204 || status == 304 || status == 100 {
            return Some(reply);
        }
        let chunked = reply.field("transfer-encoding").is_some();
        let length = reply
            .field("content-length")
            .map(|length| length.parse().unwrap());
        match (chunked, length) {
            (true, _) => self.chunks(&mut reply).await,
            (false, Some(length)) => reply.complete = self.take(length, &mut reply.body).await,
            (false, None) => {
                while self.more().await {}
                reply.body = std::mem::take(&mut self.buffer);
            }
        }
        Some(reply)
    }

    /// All bytes up to and with `end`.
    pub async fn raw(&mut self, end: &[u8]) -> String {
        loop {
            let place = self.buffer.windows(end.len()).position(|some| some == end);
            if let Some(place) = place {
                let bytes: Vec<u8> = self.buffer.drain(..place + end.len()).collect();
                return String::from_utf8(bytes).unwrap();
            }
            let more = self.more().await;
            assert!(
                more,
                "the connection ended before {:?}: {:?}",
                String::from_utf8_lossy(end),
                String::from_utf8_lossy(&self.buffer)
            );
        }
    }

    /// True when the peer has closed and nothing is left to read.
    pub async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.more().await
    }

    async fn chunks(&mut self, reply: &mut Reply) {
        loop {
            let line = loop {
                if let Some(place) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                    let line: Vec<u8> = self.buffer.drain(..place + 2).collect();
                    break String::from_utf8(line).unwrap();
                }
                if !self.more().await {
                    reply.complete = false;
                    return;
                }
            };
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut end = vec![];
            let whole = self.take(size, &mut reply.body).await && self.take(2, &mut end).await;
            reply.complete = whole;
            if size == 0 || !whole {
                return;
            }
        }
    }

    async fn take(&mut self, length: usize, to: &mut Vec<u8>) -> bool {
        while self.buffer.len() < length {
            if !self.more().await {
                to.append(&mut self.buffer);
                return false;
            }
        }
        to.extend(self.buffer.drain(..length));
        true
    }

    async fn more(&mut self) -> bool {
        let mut bytes = vec![0; 65536];
        let read = self.stream.read(&mut bytes).await.unwrap_or(0);
        self.buffer.extend_from_slice(&bytes[..read]);
        read > 0
    }
}

/// One request on a connection of its own.
pub async fn once(address: SocketAddr, request: &[u8]) -> Reply {
    let mut connection = Connection::open(address).await;
    connection.send(request).await;
    connection
        .reply(request.starts_with(b"HEAD "))
        .await
        .expect("a reply")
}

pub async fn get(address: SocketAddr, path: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    once(address, request.as_bytes()).await
}
