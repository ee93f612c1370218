//! A small application between two tiers: for each HTTP request it opens a connection to the
//! database tier, says in a comment which replica it serves, and replies with what it read.

use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use mysql_async::Conn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::mariadb::options;

/// Starts one; it ends with the runtime.
pub async fn start(database: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, database));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, database: SocketAddr) {
    let mut head = Vec::new();
    loop {
        head.clear();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let body = page(&String::from_utf8_lossy(&head), database).await;
        let reply = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The stamp of the request, and the title of a page.
async fn page(head: &str, database: SocketAddr) -> String {
    let mut stamps = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("x-sparecraft-replica")
            .then_some(value)
    });
    let stamp = stamps.next().unwrap_or("none").to_owned();
    assert_eq!(stamps.next(), None, "one stamp");
    let mut conn = Conn::new(options(database)).await.unwrap();
    let sql = format!("SELECT /* app sparecraft-replica={stamp} */ title FROM page WHERE id = 2");
    let title: Option<String> = conn.query_first(sql).await.unwrap();
    conn.disconnect().await.unwrap();
    format!("{stamp} {}", title.unwrap())
}
