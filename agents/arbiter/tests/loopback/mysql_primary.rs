//! The primary that MySQL servers name by `read_only`, with real MariaDB servers.

use mysql_async::prelude::Queryable;
use mysql_async::Conn;
use wire::arbiter::Stats;

use crate::support::mariadb::{code, connect, number, servers, start_with, MariaDb};
use crate::support::Running;

const DETECTED: &str = "mysql.primary = \"detected\"\n";
const COUNT: &str = "SELECT COUNT(*) FROM page";
const INSERT: &str = "INSERT INTO page (title) VALUES ('new')";

async fn set(server: &MariaDb, primary: bool) {
    server.run(&format!("SET GLOBAL read_only = {}", u8::from(!primary))).await;
}

async fn until_primary(arbiter: &Running, wanted: Option<&str>) {
    let is_wanted = |stats: &Stats| stats.primary.as_ref().unwrap().server.as_deref() == wanted;
    arbiter.until("the primary", is_wanted).await;
}

async fn rows(server: &MariaDb) -> u64 {
    number(&mut server.direct().await, COUNT).await
}

/// Two servers of which the second is the primary.
async fn tier(replicas: usize) -> ([MariaDb; 2], Running, Conn) {
    let servers: [MariaDb; 2] = servers().await;
    set(&servers[0], false).await;
    let arbiter = start_with("round-robin", replicas, 8, DETECTED, &servers).await;
    until_primary(&arbiter, Some("s1")).await;
    let conn = connect(&arbiter).await;
    (servers, arbiter, conn)
}

#[tokio::test]
async fn writes_follow_the_server_that_may_be_written_to() {
    for replicas in [1, 2] {
        let (servers, arbiter, mut conn) = tier(replicas).await;
        conn.query_drop(INSERT).await.unwrap();
        assert_eq!((rows(&servers[0]).await, rows(&servers[1]).await), (3, 4));
        set(&servers[1], false).await;
        until_primary(&arbiter, None).await;
        let error = conn.query_drop(INSERT).await.unwrap_err();
        assert_eq!(code(&error), 1290);
        set(&servers[0], true).await;
        until_primary(&arbiter, Some("s0")).await;
        // The same session, outside of a transaction.
        conn.query_drop(INSERT).await.unwrap();
        assert_eq!(number(&mut conn, COUNT).await, 4, "it reads where it wrote");
        assert_eq!((rows(&servers[0]).await, rows(&servers[1]).await), (4, 4));
        assert_eq!(arbiter.stats().await.primary.unwrap().changes, 1);
    }
}

#[tokio::test]
async fn two_servers_that_may_be_written_to_get_no_write() {
    let (servers, arbiter, mut conn) = tier(1).await;
    set(&servers[0], true).await;
    until_primary(&arbiter, None).await;
    assert_eq!(code(&conn.query_drop(INSERT).await.unwrap_err()), 1290);
    assert_eq!((rows(&servers[0]).await, rows(&servers[1]).await), (3, 3));
    assert_eq!(number(&mut conn, "SELECT 1").await, 1, "the session goes on");
}

#[tokio::test]
async fn a_transaction_that_wrote_ends_with_its_primary() {
    let (mut servers, arbiter, mut conn) = tier(1).await;
    conn.query_drop("BEGIN").await.unwrap();
    conn.query_drop(INSERT).await.unwrap();
    // A second one: which of the two is right is not known.
    set(&servers[0], true).await;
    until_primary(&arbiter, None).await;
    assert_eq!(code(&conn.query_drop(INSERT).await.unwrap_err()), 1290);
    servers[1].kill();
    until_primary(&arbiter, Some("s0")).await;
    assert_eq!(code(&conn.query_drop("COMMIT").await.unwrap_err()), 1053);
    assert!(conn.ping().await.is_err(), "the connection is closed");
    assert_eq!(rows(&servers[0]).await, 3);
}

#[tokio::test]
async fn a_killed_primary_is_replaced_by_the_one_that_is_promoted() {
    let (mut servers, arbiter, mut conn) = tier(1).await;
    conn.query_drop(INSERT).await.unwrap();
    servers[1].kill();
    until_primary(&arbiter, None).await;
    assert_eq!(code(&conn.query_drop(INSERT).await.unwrap_err()), 1290);
    set(&servers[0], true).await;
    until_primary(&arbiter, Some("s0")).await;
    conn.query_drop(INSERT).await.unwrap();
    assert_eq!(rows(&servers[0]).await, 4);
}
