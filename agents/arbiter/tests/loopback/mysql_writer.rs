//! MySQL's writes, reads after them, and prepared statements, with real MariaDB servers.

use mysql_async::prelude::Queryable;
use mysql_async::Conn;

use crate::support::mariadb::{
    code, connect, connected_to_all, number, servers, session, start_with, MariaDb,
};
use crate::support::Running;

const FIRST: &str = "mysql.primary = \"first\"\n";
const REPLICAS: &str = "mysql.primary = \"first\"\nmysql.reads_after_write = \"replicas\"\n";
const COUNT: &str = "SELECT COUNT(*) FROM page";

async fn count(server: &MariaDb) -> u64 {
    number(&mut server.direct().await, COUNT).await
}

async fn cloned(arbiter: &Running) -> u64 {
    arbiter.stats().await.requests.cloned
}

async fn insert(conn: &mut Conn) {
    let sql = "INSERT INTO page (title) VALUES ('new')";
    conn.query_drop(sql).await.unwrap();
}

#[tokio::test]
async fn without_a_primary_no_write_is_sent_to_one_of_several_servers() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = start_with("round-robin", replicas, 4, "", &servers).await;
        let mut conn = connect(&arbiter).await;
        for sql in [
            "INSERT INTO page (title) VALUES ('x')",
            "SELECT 1; DELETE FROM page",
            "CREATE TABLE t (a INT)",
        ] {
            let error = conn.query_drop(sql).await.unwrap_err();
            assert_eq!(code(&error), 1290, "{sql}");
        }
        let error = conn.exec_drop("DELETE FROM page WHERE id = ?", (1,)).await;
        assert_eq!(code(&error.unwrap_err()), 1290);
        assert_eq!(number(&mut conn, COUNT).await, 3, "the session goes on");
        assert_eq!(arbiter.stats().await.pinned.times, 0);
        for server in &servers {
            assert_eq!(server.statements("DELETE").await, Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn writes_go_to_the_primary_and_who_wrote_reads_there() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let before = count(&servers[0]).await;
        let arbiter = start_with("round-robin", replicas, 8, FIRST, &servers).await;
        for written in 1..=10 {
            let mut conn = connect(&arbiter).await;
            insert(&mut conn).await;
            assert_eq!(number(&mut conn, COUNT).await, before + written);
        }
        assert_eq!((count(&servers[0]).await, count(&servers[1]).await), (before + 10, 3));
        let mut reader = connect(&arbiter).await;
        let mut counts = vec![];
        for _ in 0..4 {
            counts.push(number(&mut reader, COUNT).await);
        }
        assert!(counts.iter().all(|rows| [3, before + 10].contains(rows)), "{counts:?}");
        assert_eq!(arbiter.stats().await.pinned.times, 0);
    }
}

#[tokio::test]
async fn who_wrote_reads_from_replicas_again_where_that_is_wanted() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 8, REPLICAS).await;
    connected_to_all(&mut conn, &servers).await;
    insert(&mut conn).await;
    let before = cloned(&arbiter).await;
    for _ in 0..20 {
        conn.query_drop("SELECT 1 FROM page").await.unwrap();
    }
    assert_eq!(cloned(&arbiter).await, before + 20);
    let id = number(&mut conn, "SELECT LAST_INSERT_ID()").await;
    assert_eq!(id, 4, "of the server that wrote");
}

#[tokio::test]
async fn a_transaction_is_the_primary_s_and_reads_after_it_are_cloned() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 8, REPLICAS).await;
    for (begin, end) in [("BEGIN", "COMMIT"), ("SET autocommit = 0", "ROLLBACK")] {
        let before = (count(&servers[0]).await, cloned(&arbiter).await);
        conn.query_drop(begin).await.unwrap();
        insert(&mut conn).await;
        assert_eq!(number(&mut conn, COUNT).await, before.0 + 1);
        assert_eq!(cloned(&arbiter).await, before.1, "{begin}");
        conn.query_drop(end).await.unwrap();
        conn.query_drop("SELECT 2 FROM page").await.unwrap();
        assert_eq!(cloned(&arbiter).await, before.1 + 1, "{begin}");
    }
    assert_eq!((count(&servers[0]).await, count(&servers[1]).await), (4, 3));
}

#[tokio::test]
async fn what_the_session_was_told_both_know() {
    let (_servers, _arbiter, mut conn) = session::<2>("round-robin", 2, 8, REPLICAS).await;
    let limit = "SELECT @@max_sort_length";
    conn.query_drop("SET max_sort_length = 2048").await.unwrap();
    insert(&mut conn).await;
    conn.query_drop("BEGIN").await.unwrap();
    assert_eq!(number(&mut conn, limit).await, 2048, "told when it came");
    conn.query_drop("SET max_sort_length = 4096").await.unwrap();
    conn.query_drop("COMMIT").await.unwrap();
    for _ in 0..4 {
        assert_eq!(number(&mut conn, limit).await, 4096, "told by the other");
    }
    conn.query_drop("SET max_sort_length = 8192").await.unwrap();
    conn.query_drop("BEGIN").await.unwrap();
    assert_eq!(number(&mut conn, limit).await, 8192, "told with the others");
}

#[tokio::test]
async fn prepared_reads_are_cloned_and_prepared_writes_go_to_the_primary() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = start_with("round-robin", replicas, 8, REPLICAS, &servers).await;
        let mut conn = connect(&arbiter).await;
        if replicas == 2 {
            connected_to_all(&mut conn, &servers).await;
        }
        let before = (cloned(&arbiter).await, count(&servers[0]).await);
        let title = conn.prep("SELECT title FROM page WHERE id = ?").await.unwrap();
        let add = conn.prep("INSERT INTO page (title) VALUES (?)").await.unwrap();
        for round in 0..20_u64 {
            let id = 1 + round % 3;
            let got: Option<String> = conn.exec_first(&title, (id,)).await.unwrap();
            assert_eq!(got.unwrap(), ["One", "Two", "Three"][round as usize % 3]);
            conn.exec_drop(&add, ("more",)).await.unwrap();
        }
        let reads = if replicas == 2 { 20 } else { 0 };
        assert_eq!(cloned(&arbiter).await, before.0 + reads);
        assert_eq!((count(&servers[0]).await, count(&servers[1]).await), (before.1 + 20, 3));
        conn.close(title).await.unwrap();
        let missing = conn.exec_drop("SELECT nothing FROM page WHERE id = ?", (1,)).await;
        assert_eq!(code(&missing.unwrap_err()), 1054);
        assert_eq!(number(&mut conn, "SELECT 7").await, 7);
        assert_eq!(arbiter.stats().await.pinned.times, 0);
    }
}

#[tokio::test]
async fn a_server_that_joins_later_has_the_session_s_prepared_statements() {
    let mut servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = start_with("round-robin", replicas, 8, "", &servers).await;
        let mut conn = connect(&arbiter).await;
        let title = conn.prep("SELECT title FROM page WHERE id = ?").await.unwrap();
        for (place, server) in servers.iter_mut().enumerate() {
            server.kill();
            let got: Option<String> = conn.exec_first(&title, (2,)).await.unwrap();
            assert_eq!(got.as_deref(), Some("Two"));
            server.restart();
            server.until_ready().await;
            arbiter.until_alive(place).await;
        }
    }
}

#[tokio::test]
async fn a_statement_s_own_error_ejects_no_server() {
    let (_servers, arbiter, mut conn) = session::<1>("tad", 1, 4, FIRST).await;
    for _ in 0..30 {
        let error = conn.query_drop("SHOW CREATE VIEW page").await.unwrap_err();
        assert_eq!(code(&error), 1347, "its state is HY000");
    }
    let stats = arbiter.stats().await;
    assert_eq!((stats.guarded.ejections, stats.servers[0].errors), (0, 0));
}

#[tokio::test]
async fn a_text_that_may_end_elsewhere_in_its_character_set_is_sent_to_one_server() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 4, "").await;
    connected_to_all(&mut conn, &servers).await;
    conn.query_drop("SET NAMES gbk").await.unwrap();
    let sql = b"SELECT '\xbf\x5c', GET_LOCK(0x6c6b, 0) /* ' */";
    conn.query_drop(&sql[..]).await.unwrap();
    let stats = arbiter.stats().await;
    assert_eq!(stats.requests.cloned, 0);
    let wire::arbiter::Pinned { clients, times, commands } = stats.pinned;
    assert_eq!((clients, times, commands), (1, 1, 2));
    let mut free = 0;
    for server in &servers {
        free += number(&mut server.direct().await, "SELECT IS_FREE_LOCK('lk')").await;
    }
    assert_eq!(free, 1, "one of the two servers has the lock");
}

/// As sysbench does it: also the begin and the end of its transactions are prepared.
#[tokio::test]
async fn prepared_transactions_are_cloned_until_their_first_write() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = start_with("round-robin", replicas, 8, REPLICAS, &servers).await;
        let mut conn = connect(&arbiter).await;
        if replicas == 2 {
            connected_to_all(&mut conn, &servers).await;
        }
        let before = (cloned(&arbiter).await, count(&servers[0]).await);
        let begin = conn.prep("BEGIN").await.unwrap();
        let end = conn.prep("COMMIT").await.unwrap();
        let title = conn.prep("SELECT title FROM page WHERE id = ?");
        let title = title.await.unwrap();
        let add = conn.prep("INSERT INTO page (title) VALUES (?)");
        let add = add.await.unwrap();
        for _ in 0..5 {
            conn.exec_drop(&begin, ()).await.unwrap();
            for id in [1, 2, 3] {
                conn.exec_drop(&title, (id,)).await.unwrap();
            }
            conn.exec_drop(&add, ("new",)).await.unwrap();
            let id = conn.last_insert_id().unwrap();
            let got: Option<String> = conn.exec_first(&title, (id,)).await.unwrap();
            assert_eq!(got.as_deref(), Some("new"), "it reads what it wrote");
            assert_eq!(count(&servers[0]).await, before.1, "not visible yet");
            conn.query_drop("ROLLBACK").await.unwrap();
            conn.exec_drop(&begin, ()).await.unwrap();
            conn.exec_drop(&title, (1,)).await.unwrap();
            conn.exec_drop(&end, ()).await.unwrap();
        }
        let reads = if replicas == 2 { 20 } else { 0 };
        assert_eq!(cloned(&arbiter).await, before.0 + reads);
        assert_eq!(count(&servers[0]).await, before.1, "all rolled back");
        assert_eq!(arbiter.stats().await.pinned.times, 0);
    }
}

#[tokio::test]
async fn a_savepoint_before_the_first_write_is_known_where_that_goes() {
    let servers: [MariaDb; 2] = servers().await;
    for (replicas, begin) in [(1, "BEGIN"), (2, "BEGIN"), (2, "SET autocommit = 0")] {
        let before = count(&servers[0]).await;
        let arbiter = start_with("tad", replicas, 1, REPLICAS, &servers).await;
        let mut conn = connect(&arbiter).await;
        for sql in [
            begin,
            "SELECT title FROM page WHERE id = 1",
            "SAVEPOINT early",
            "SELECT title FROM page WHERE id = 2",
            "INSERT INTO page (title) VALUES ('kept')",
            "SAVEPOINT late",
            "INSERT INTO page (title) VALUES ('not kept')",
            "ROLLBACK TO late",
            "COMMIT",
        ] {
            conn.query_drop(sql).await.unwrap();
        }
        assert_eq!(count(&servers[0]).await, before + 1, "{begin}");
        conn.query_drop("BEGIN").await.unwrap();
        insert(&mut conn).await;
        conn.query_drop("ROLLBACK").await.unwrap();
        assert_eq!(count(&servers[0]).await, before + 1, "{begin}");
    }
    assert_eq!(count(&servers[1]).await, 3);
}

/// One token: what the readers hold of the primary would keep the write waiting for ever.
#[tokio::test]
async fn a_transaction_s_reads_hold_no_token_of_the_server_that_it_then_writes_to() {
    let servers: [MariaDb; 1] = servers().await;
    for begin in ["BEGIN", "SET autocommit = 0"] {
        let arbiter = start_with("tad", 1, 1, REPLICAS, &servers).await;
        let mut conn = connect(&arbiter).await;
        for sql in [begin, "SELECT title FROM page"] {
            conn.query_drop(sql).await.unwrap();
        }
        insert(&mut conn).await;
        conn.query_drop("ROLLBACK").await.unwrap();
    }
    assert_eq!(count(&servers[0]).await, 3);
}

#[tokio::test]
async fn a_transaction_that_only_reads_is_cloned_and_a_write_in_it_is_refused() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 8, FIRST).await;
    connected_to_all(&mut conn, &servers).await;
    let before = cloned(&arbiter).await;
    let begin = "START TRANSACTION READ ONLY";
    for (begin, clones) in [
        (begin, 1),
        ("BEGIN", 0),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", 0),
        ("SET SESSION TRANSACTION READ ONLY", 1),
        ("SET SESSION TRANSACTION READ WRITE", 1),
    ] {
        let before = cloned(&arbiter).await;
        conn.query_drop(begin).await.unwrap();
        conn.query_drop("SELECT 1 FROM page").await.unwrap();
        conn.query_drop("COMMIT").await.unwrap();
        assert_eq!(cloned(&arbiter).await, before + clones, "{begin}");
    }
    assert_eq!(cloned(&arbiter).await, before + 3);
    conn.query_drop(begin).await.unwrap();
    let error = conn.query_drop("DELETE FROM page").await.unwrap_err();
    assert_eq!(code(&error), 1792);
    conn.query_drop("ROLLBACK").await.unwrap();
    insert(&mut conn).await;
    assert_eq!((count(&servers[0]).await, count(&servers[1]).await), (4, 3));
}

#[tokio::test]
async fn a_locking_read_is_the_primary_s_until_its_transaction_ends() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 8, REPLICAS).await;
    connected_to_all(&mut conn, &servers).await;
    conn.query_drop("BEGIN").await.unwrap();
    let lock = "SELECT title FROM page WHERE id = 1 FOR UPDATE";
    conn.query_drop(lock).await.unwrap();
    let mut other = servers[0].direct().await;
    let waits = "SELECT title FROM page WHERE id = 1 FOR UPDATE NOWAIT";
    assert_eq!(code(&other.query_drop(waits).await.unwrap_err()), 1205);
    conn.query_drop("COMMIT").await.unwrap();
    other.query_drop(waits).await.unwrap();
    let before = cloned(&arbiter).await;
    conn.query_drop("SELECT 1 FROM page").await.unwrap();
    assert_eq!(cloned(&arbiter).await, before + 1);
    assert_eq!(arbiter.stats().await.pinned.times, 0);
    assert_eq!(servers[1].statements("FOR UPDATE").await, Vec::<String>::new());
}

/// A driver's cache of statements: Connector/J's is often made 250 large.
#[tokio::test]
async fn a_client_with_hundreds_of_prepared_statements_still_writes() {
    let (_servers, arbiter, mut conn) = session::<2>("round-robin", 2, 8, REPLICAS).await;
    let mut last = None;
    for number in 0..250 {
        let sql = format!("SELECT title, {number} FROM page WHERE id = ?");
        last = Some(conn.prep(sql).await.unwrap());
    }
    insert(&mut conn).await;
    let got: Option<(String, u32)> = conn.exec_first(last.unwrap(), (2,)).await.unwrap();
    assert_eq!(got, Some(("Two".to_owned(), 249)));
    assert_eq!(arbiter.stats().await.pinned.times, 0);
}
