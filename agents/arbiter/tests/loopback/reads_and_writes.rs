//! How many requests read and how many write, as each protocol tells it.

use mysql_async::prelude::Queryable;

use crate::support::keyvalue::{addresses, front, Client, Server};
use crate::support::mariadb::{connect, servers, start_with, MariaDb};
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::once;
use crate::support::{settings, start, Running};

async fn reads_and_writes(arbiter: &Running) -> (u64, u64) {
    let requests = arbiter.stats().await.requests;
    (requests.reads, requests.writes)
}

#[tokio::test]
async fn http_tells_by_the_method() {
    let server = Upstream::start(Behaviour::Reply(ok("done"))).await;
    let arbiter = crate::support::http::front("round-robin", 1, 1, &[&server]).await;
    for (start, body, expected) in [
        ("GET /", "", (1, 0)),
        ("GET /", "hello", (2, 0)),
        ("OPTIONS /", "", (3, 0)),
        ("POST /", "hello", (3, 1)),
        ("DELETE /", "", (3, 2)),
        ("PROPFIND /", "", (3, 3)),
    ] {
        let head = format!("{start} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
        let length = match body.len() {
            0 => String::new(),
            bytes => format!("Content-Length: {bytes}\r\n"),
        };
        once(arbiter.clients, format!("{head}{length}\r\n{body}").as_bytes()).await;
        assert_eq!(reads_and_writes(&arbiter).await, expected, "{start} {body}");
    }
    let own = b"OPTIONS / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 0\r\n\r\n";
    once(arbiter.clients, own).await;
    let counts = reads_and_writes(&arbiter).await;
    assert_eq!(counts, (3, 3), "the arbiter's own answer");
}

#[tokio::test]
async fn mysql_tells_by_the_statement_as_text_or_prepared() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let primary = "mysql.primary = \"first\"\n";
        let arbiter = start_with("round-robin", replicas, 8, primary, &servers).await;
        let mut conn = connect(&arbiter).await;
        let before = reads_and_writes(&arbiter).await;
        for (sql, reads, writes) in [
            ("SELECT title FROM page", 1, 0),
            ("SHOW TABLES", 1, 0),
            ("SELECT title FROM page FOR UPDATE", 1, 0),
            ("SET max_sort_length = 2048", 0, 0),
            ("BEGIN", 0, 0),
            ("UPDATE page SET title = 'One' WHERE id = 1", 0, 1),
            ("COMMIT", 0, 0),
            ("INSERT INTO page (title) VALUES (@a)", 0, 1),
        ] {
            let before = reads_and_writes(&arbiter).await;
            conn.query_drop(sql).await.unwrap();
            let after = reads_and_writes(&arbiter).await;
            assert_eq!((after.0 - before.0, after.1 - before.1), (reads, writes), "{sql}");
        }
        let title = conn.prep("SELECT title FROM page WHERE id = ?");
        let title = title.await.unwrap();
        let delete = conn.prep("DELETE FROM page WHERE id > ?").await.unwrap();
        for _ in 0..5 {
            conn.exec_drop(&title, (1,)).await.unwrap();
        }
        conn.exec_drop(&delete, (3,)).await.unwrap();
        let after = reads_and_writes(&arbiter).await;
        assert_eq!((after.0 - before.0, after.1 - before.1), (3 + 5, 2 + 1));
    }
    let arbiter = start_with("round-robin", 1, 8, "", &servers).await;
    let mut conn = connect(&arbiter).await;
    let before = reads_and_writes(&arbiter).await;
    let refused = conn.query_drop("DELETE FROM page").await;
    assert!(refused.is_err());
    assert_eq!(reads_and_writes(&arbiter).await, before, "it was not sent");
}

#[tokio::test]
async fn mysql_s_reads_after_a_write_are_the_primary_s_where_nothing_else_is_wanted() {
    let servers: [MariaDb; 2] = servers().await;
    for (after, bound) in [("primary", 3), ("replicas", 0)] {
        let more = format!("mysql.primary = \"first\"\nmysql.reads_after_write = \"{after}\"\n");
        let arbiter = start_with("round-robin", 1, 8, &more, &servers).await;
        let mut conn = connect(&arbiter).await;
        let read = "SELECT title FROM page WHERE id = 1";
        conn.query_drop(read).await.unwrap();
        assert_eq!(arbiter.stats().await.requests.reads_of_one, 0);
        conn.query_drop("DELETE FROM page WHERE id > 3").await.unwrap();
        for _ in 0..3 {
            conn.query_drop(read).await.unwrap();
        }
        assert_eq!(arbiter.stats().await.requests.reads_of_one, bound, "{after}");
    }
}

#[tokio::test]
async fn redis_tells_by_the_command_of_pinned_clients_too() {
    let servers = [Server::redis().await];
    let arbiter = front("redis", 1, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    for (words, expected) in [
        (&["GET k", "TTL k", "SCAN 0", "INFO"][..], (4, 2, 0)),
        (&["SET k v", "EVAL return(1) 0"], (0, 0, 2)),
        (&["HELLO 2", "CLIENT SETNAME me", "SELECT 0"], (0, 0, 0)),
        (&["SHUTDOWN"], (0, 0, 0)),
        (&["MULTI", "INCR n", "GET n", "EXEC"], (1, 1, 1)),
        (&["SUBSCRIBE c"], (0, 0, 0)),
    ] {
        let before = arbiter.stats().await.requests;
        for command in words {
            client.redis(command).await;
        }
        let after = arbiter.stats().await.requests;
        let counts = (
            after.reads - before.reads,
            after.reads_of_one - before.reads_of_one,
            after.writes - before.writes,
        );
        assert_eq!(counts, expected, "{words:?}");
    }
}

#[tokio::test]
async fn memcached_tells_by_the_command() {
    let servers = [Server::memcached().await, Server::memcached().await];
    let arbiter = front("memcached", 2, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    for (line, expected) in [
        ("get a", (1, 0)),
        ("gets a", (2, 0)),
        ("version", (3, 0)),
        ("set a 0 0 1\r\n1", (3, 1)),
        ("incr a 1", (3, 2)),
        ("cas a 0 0 1 99\r\n2", (3, 3)),
        ("gat 0 a", (3, 4)),
        ("mn", (3, 4)),
        // Quiet ones, which are told apart as well.
        ("mg a q\r\nmg b q\r\nmn", (5, 4)),
        ("md a q\r\nms b 1 q\r\n2\r\nmn", (5, 6)),
        ("gat 0 a\r\nbogus", (5, 7)),
    ] {
        client.send(format!("{line}\r\n").as_bytes()).await;
        arbiter
            .until(&format!("{expected:?} of {line}"), |stats| {
                (stats.requests.reads, stats.requests.writes) == expected
            })
            .await;
    }
    let of_one = arbiter.stats().await.requests.reads_of_one;
    assert_eq!(of_one, 2, "gets and version");
}

#[tokio::test]
async fn connections_that_are_passed_through_tell_nothing() {
    let servers = [Server::redis().await];
    let arbiter = start(&settings("tcp", "round-robin", 1, 4), &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.redis("SET k v").await, "+OK\r\n");
    let requests = arbiter.stats().await.requests;
    let counts = (requests.received, requests.reads, requests.writes);
    assert_eq!(counts, (1, 0, 0));
}
