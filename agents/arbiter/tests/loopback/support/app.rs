//! A small application between two tiers: for each HTTP request it opens a connection to the
//! database tier, says in a comment which replica it serves, and replies with what it read.

use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::Router;
use mysql_async::prelude::Queryable;
use mysql_async::Conn;
use tokio::net::TcpListener;

use super::mariadb::options;
use super::{settings, start, Running};

/// Two tiers: an HTTP arbiter, two applications, and a MySQL arbiter. Each tier has a policy, a number
/// of replicas, and whether it avoids collisions.
pub async fn chain(
    front: (&str, usize, bool),
    back: (&str, usize, bool),
    servers: &[SocketAddr],
) -> (Running, Running) {
    let of = |protocol: &str, (policy, replicas, avoids): (&str, usize, bool)| {
        let settings = settings(protocol, policy, replicas, 50);
        settings + &format!("avoid_collisions = {avoids}\n")
    };
    let back = start(&of("mysql", back), servers).await;
    let apps = [serve(back.clients).await, serve(back.clients).await];
    (start(&of("http", front), &apps).await, back)
}

/// Starts one; it ends with the runtime.
async fn serve(database: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().fallback(move |head: HeaderMap| page(head, database));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// The stamp of the request, and the title of a page.
async fn page(head: HeaderMap, database: SocketAddr) -> String {
    let mut stamps = head.get_all("x-sparecraft-replica").iter();
    let stamp = stamps.next().map_or("none", |stamp| stamp.to_str().unwrap());
    assert_eq!(stamps.next(), None, "one stamp");
    let mut conn = Conn::new(options(database)).await.unwrap();
    let sql = format!("SELECT /* app sparecraft-replica={stamp} */ title FROM page WHERE id = 2");
    let title: Option<String> = conn.query_first(sql).await.unwrap();
    conn.disconnect().await.unwrap();
    format!("{stamp} {}", title.unwrap())
}
