//! The state that a session of the MySQL arbiter carries to its real MariaDB servers, and leaves there.

use crate::support::mariadb::{
    code, connect, connected_to_all, front, lock, number, servers, session, start_with,
    until_statement, MariaDb,
};
use mysql_async::prelude::Queryable;

const FIRST: &str = "mysql.primary = \"first\"\n";

#[tokio::test]
async fn session_statements_reach_each_held_server() {
    let (servers, _arbiter, mut conn) = session::<2>("tad", 2, 4, "").await;
    for sql in ["SET NAMES latin1", "USE other", "BEGIN", "COMMIT", "SET @a = 5"] {
        conn.query_drop(sql).await.unwrap();
    }
    for server in &servers {
        // In order: who has this has all before it.
        until_statement(server, "SET @a = 5").await;
        // USE is logged with the database's bare name.
        for text in ["SET NAMES latin1", "other", "BEGIN", "COMMIT", "SET @a = 5"] {
            assert_eq!(server.statements(text).await.len(), 1, "{text} at {}", server.address);
        }
    }
}

#[tokio::test]
async fn a_write_is_sent_once_and_the_session_reads_where_it_was() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 1, FIRST).await;
    conn.query_drop("SELECT 1").await.unwrap();
    conn.query_drop("INSERT INTO page (title) VALUES ('New')").await.unwrap();
    assert_eq!(conn.last_insert_id(), Some(4));
    for _ in 0..5 {
        assert_eq!(number(&mut conn, "SELECT COUNT(*) FROM page").await, 4, "it sees its write");
    }
    assert_eq!(number(&mut conn, "SELECT LAST_INSERT_ID()").await, 4);
    let mut rows = vec![];
    for server in &servers {
        rows.push(number(&mut server.direct().await, "SELECT COUNT(*) FROM page").await);
    }
    rows.sort_unstable();
    assert_eq!(rows, [3, 4]);
    arbiter.all_free().await;
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing_anywhere() {
    let (servers, arbiter, mut conn) = session::<2>("round-robin", 2, 1, FIRST).await;
    for sql in ["BEGIN", "SELECT * FROM page", "DELETE FROM page WHERE id = 1", "ROLLBACK"] {
        conn.query_drop(sql).await.unwrap();
    }
    // Left open: given back connections must not commit it.
    for sql in ["BEGIN", "DELETE FROM page WHERE id = 2"] {
        conn.query_drop(sql).await.unwrap();
    }
    conn.disconnect().await.unwrap();
    arbiter.all_free().await;
    for server in &servers {
        let mut direct = server.direct().await;
        assert_eq!(number(&mut direct, "SELECT COUNT(*) FROM page").await, 3);
        direct.query_drop("DELETE FROM page WHERE id = 2").await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_reset_before_another_client_gets_it() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let about = "SELECT CONCAT_WS(' ', DATABASE(), @@character_set_client, @@sql_mode, \
                 @@group_concat_max_len)";
    let mut first = connect(&arbiter).await;
    let fresh: String = first.query_first(about).await.unwrap().unwrap();
    let same = number(&mut first, "SELECT CONNECTION_ID()").await;
    for sql in [
        "SET NAMES latin1",
        "SET sql_mode = ''",
        "SET group_concat_max_len = 77",
        "USE other",
        "SET @a = 5",
        "CREATE TEMPORARY TABLE t (a INT)",
    ] {
        first.query_drop(sql).await.unwrap();
    }
    first.disconnect().await.unwrap();
    arbiter.all_gone().await;
    let mut second = connect(&arbiter).await;
    assert_eq!(number(&mut second, "SELECT CONNECTION_ID()").await, same, "the same connection");
    assert_eq!(second.query_first::<String, _>(about).await.unwrap().unwrap(), fresh);
    let variable: Option<Option<u64>> = second.query_first("SELECT @a").await.unwrap();
    assert_eq!(variable, Some(None));
    assert_eq!(code(&second.query_drop("SELECT * FROM t").await.unwrap_err()), 1146);
    let server = arbiter.server(0).await;
    // One more was opened to learn the servers' version.
    assert!(server.connections_opened <= 2 && server.connections_reused >= 1, "{server:?}");
}

#[tokio::test]
async fn of_mysql_s_own_servers_a_connection_of_another_character_set_is_not_used_again() {
    // It only says so; clients come with utf8mb4_general_ci.
    const LATIN: &[&str] = &["--version=8.0.36", "--character-set-server=latin1"];
    const UTF8: &[&str] = &[
        "--version=8.0.36",
        "--character-set-server=utf8mb4",
        "--collation-server=utf8mb4_general_ci",
    ];
    for (arguments, again) in [(LATIN, false), (UTF8, true)] {
        let servers = [MariaDb::start_with(arguments).await];
        let arbiter = front("tad", 1, 1, &servers).await;
        let mut numbers = vec![];
        for _ in 0..2 {
            let mut conn = connect(&arbiter).await;
            numbers.push(number(&mut conn, "SELECT CONNECTION_ID()").await);
            conn.disconnect().await.unwrap();
            arbiter.all_gone().await;
        }
        assert_eq!(numbers[0] == numbers[1], again, "{arguments:?}");
    }
}

#[tokio::test]
async fn a_server_that_comes_late_is_brought_to_the_session_s_state_first() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let mut holder = connect(&arbiter).await;
    let held = number(&mut holder, "SELECT @@port").await;
    holder.query_drop("START TRANSACTION").await.unwrap();
    arbiter.put("/v1/replicas", r#"{"replicas": 2}"#).await;
    let mut conn = connect(&arbiter).await;
    for sql in ["SET group_concat_max_len = 4242", "USE other", "BEGIN"] {
        conn.query_drop(sql).await.unwrap();
    }
    conn.query_drop("SELECT 'before'").await.unwrap();
    let late = servers.iter().find(|server| u64::from(server.address.port()) == held).unwrap();
    assert_eq!(late.statements("4242").await, Vec::<String>::new());
    holder.disconnect().await.unwrap();
    until_statement(late, "BEGIN").await;
    // Only the late server answers quickly from now on, and it has the session's state.
    let other = servers.iter().find(|server| u64::from(server.address.port()) != held).unwrap();
    let _slow = lock(other, "delay").await;
    let sql = "SELECT CONCAT_WS(' ', @@port, DATABASE(), @@group_concat_max_len) \
               FROM wiki.delay";
    let state: String = conn.query_first(sql).await.unwrap().unwrap();
    assert_eq!(state, format!("{held} other 4242"));
    let order = [
        late.statements("4242").await,
        late.statements("BEGIN").await,
        late.statements("CONCAT_WS").await,
    ];
    assert!(order.iter().all(|lines| lines.len() == 1), "{order:?}");
    assert_eq!(
        late.statements("'before'").await,
        Vec::<String>::new(),
        "answered reads are not replayed"
    );
}

#[tokio::test]
async fn a_transaction_that_a_setting_ended_is_not_begun_again_elsewhere() {
    for replicas in [1, 2] {
        let mut servers: [MariaDb; 2] = servers().await;
        let arbiter = front("tad", replicas, 4, &servers).await;
        let mut conn = connect(&arbiter).await;
        for sql in ["SET autocommit = 0", "BEGIN", "SELECT * FROM page", "SET autocommit = 1"] {
            conn.query_drop(sql).await.unwrap();
        }
        let at = number(&mut conn, "SELECT @@port").await;
        let at = usize::from(u64::from(servers[1].address.port()) == at);
        let state = "SELECT @@autocommit * 10 + @@in_transaction";
        servers[at].kill();
        assert_eq!(number(&mut conn, state).await, 10, "r = {replicas}");
        if replicas == 2 {
            // The other was there before; this one will be new.
            servers[at].restart();
            servers[at].until_ready().await;
            arbiter.until_alive(at).await;
            connected_to_all(&mut conn, &servers).await;
            servers[1 - at].kill();
            assert_eq!(number(&mut conn, state).await, 10, "r = {replicas}");
        }
    }
}

#[tokio::test]
async fn a_session_of_one_server_has_one_also_where_that_was_not_seen_for_long() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = start_with("tad", 1, 4, "observation_age_ms = 1", &servers).await;
    for _ in 0..25 {
        let mut conn = connect(&arbiter).await;
        for _ in 0..2 {
            conn.query_drop("SELECT SLEEP(0.002)").await.unwrap();
        }
        conn.disconnect().await.unwrap();
    }
    let stats = arbiter.all_free().await;
    assert_eq!((stats.requests.cloned, stats.replicas_sent), (0, 50));
}

#[tokio::test]
async fn a_server_that_cannot_do_a_session_statement_is_dropped_from_the_session() {
    let servers: [MariaDb; 2] = servers().await;
    servers[1].run("CREATE DATABASE only_there").await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    conn.query_drop("SELECT 1").await.unwrap();
    conn.query_drop("USE only_there").await.unwrap();
    for _ in 0..5 {
        let place: (u64, String) =
            conn.query_first("SELECT @@port, DATABASE()").await.unwrap().unwrap();
        assert_eq!(place, (u64::from(servers[1].address.port()), "only_there".to_owned()));
    }
    let statements = until_statement(&servers[0], "only_there").await;
    assert_eq!(statements.len(), 1, "it is not asked again for this session");
    let nowhere = conn.query_drop("USE nowhere").await.unwrap_err();
    assert_eq!(code(&nowhere), 1049, "where all fail, the client hears it and goes on");
    conn.query_drop("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_client_s_own_reset_gives_a_clean_session_everywhere() {
    let (servers, _arbiter, mut conn) = session::<2>("round-robin", 2, 1, "").await;
    conn.query_drop("SET group_concat_max_len = 77").await.unwrap();
    assert!(conn.reset().await.unwrap());
    for _ in 0..6 {
        assert_ne!(number(&mut conn, "SELECT @@group_concat_max_len").await, 77);
    }
    // Both servers are still in the session.
    connected_to_all(&mut conn, &servers).await;
}
