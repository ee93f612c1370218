//! The MySQL arbiter in front of real MariaDB servers, with a real client library.

use std::process::Command;
use std::time::Instant;

use crate::support::mariadb::{
    code, connect, connected_to_all, front, lock, number, options, servers, session,
    until_statement, MariaDb,
};
use crate::support::{errors, eventually};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tokio::io::AsyncReadExt;

#[tokio::test]
async fn the_first_reply_wins_and_the_slow_server_skips_what_is_answered_but_no_session_statement()
{
    let servers: [MariaDb; 2] = servers().await;
    let slow = lock(&servers[0], "delay").await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    connected_to_all(&mut conn, &servers).await;
    let wins = arbiter.server(0).await.wins;
    let sql = "SELECT @@port FROM delay";
    let fast = u64::from(servers[1].address.port());
    assert_eq!(number(&mut conn, sql).await, fast);
    let answered = Instant::now();
    // The slow server is still busy with the first.
    assert_eq!(number(&mut conn, "SELECT @@port /* skipped */").await, fast);
    conn.query_drop("SET group_concat_max_len = 4242").await.unwrap();
    assert_eq!(arbiter.server(0).await.wins, wins);
    let wasted = answered.elapsed();
    slow.disconnect().await.unwrap();
    until_statement(&servers[0], "SET group_concat_max_len").await;
    assert_eq!(servers[0].statements("/* skipped */").await, Vec::<String>::new());
    let stats = arbiter.stats().await;
    assert_eq!((stats.replicas_wasted, stats.replicas_not_needed), (1, 1));
    assert!(u128::from(stats.wasted_us) >= wasted.as_micros(), "{wasted:?}: {stats:?}");
    // Caught up, it takes part again, in the state of the others.
    let _slow = lock(&servers[1], "delay").await;
    let sql = "SELECT @@port + @@group_concat_max_len FROM delay";
    assert_eq!(number(&mut conn, sql).await, u64::from(servers[0].address.port()) + 4242);
}

#[tokio::test]
async fn prepared_statements_and_several_results_work() {
    let (_servers, _arbiter, mut conn) = session::<2>("tad", 2, 4, "").await;
    let several = "SELECT 1; SELECT 2; SELECT id + 2 FROM page WHERE id = 1";
    let mut results = conn.query_iter(several).await.unwrap();
    for expected in 1..=3_u64 {
        assert_eq!(results.collect::<u64>().await.unwrap(), [expected]);
    }
    drop(results);
    for id in 1..=3_u64 {
        let title: Option<String> =
            conn.exec_first("SELECT title FROM page WHERE id = ?", (id,)).await.unwrap();
        assert_eq!(title.unwrap(), ["One", "Two", "Three"][id as usize - 1]);
    }
    let missing = conn.exec_drop("SELECT nothing FROM page WHERE id = ?", (1,)).await;
    assert_eq!(code(&missing.unwrap_err()), 1054);
    conn.exec_drop("INSERT INTO page (title) VALUES (?)", ("x".repeat(100_000),))
        .await
        .unwrap_err();
    assert_eq!(number(&mut conn, "SELECT COUNT(*) FROM page").await, 3);
}

#[tokio::test]
async fn a_wrong_password_user_or_database_is_refused() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let with = |user: &str, password: &str, database: &str| {
        OptsBuilder::from_opts(options(arbiter.clients))
            .user(Some(user))
            .pass(Some(password))
            .db_name(Some(database))
    };
    for (options, expected) in [
        (with("wiki", "wrong", "wiki"), 1045),
        (with("wiki", "", "wiki"), 1045),
        (with("root", "wiki-read", "wiki"), 1045),
        (with("wiki", "wiki-read", "nosuch"), 1049),
    ] {
        assert_eq!(code(&Conn::new(options).await.unwrap_err()), expected);
    }
    assert_eq!(arbiter.server(0).await.errors, 0, "a client's mistake is not the server's");
    assert!(arbiter.server(0).await.alive);
    connect(&arbiter).await.ping().await.unwrap();
}

#[tokio::test]
async fn a_dead_server_is_skipped_and_probed_back_in() {
    let mut servers: [MariaDb; 2] = servers().await;
    let arbiter = front("round-robin", 1, 1, &servers).await;
    for _ in 0..4 {
        connect(&arbiter).await.disconnect().await.unwrap();
    }
    let mut idle = connect(&arbiter).await;
    servers[0].kill();
    let alive = u64::from(servers[1].address.port());
    for _ in 0..4 {
        let mut conn = connect(&arbiter).await;
        assert_eq!(number(&mut conn, "SELECT @@port").await, alive);
        conn.disconnect().await.unwrap();
    }
    assert!(!arbiter.server(0).await.alive);
    assert_eq!(number(&mut idle, "SELECT @@port").await, alive, "whatever it was connected to");
    servers[0].restart();
    arbiter.until_alive(0).await;
    eventually("a reply from the server that is back", || async {
        let mut conn = connect(&arbiter).await;
        (number(&mut conn, "SELECT @@port").await != alive).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_all_servers_dead_a_client_is_told_at_once() {
    let (mut servers, arbiter, mut conn) = session::<1>("tad", 1, 1, "").await;
    conn.query_drop("SELECT 1").await.unwrap();
    servers[0].kill();
    assert_eq!(code(&conn.query_drop("SELECT 1").await.unwrap_err()), 1053);
    let refused = Conn::new(options(arbiter.clients)).await.unwrap_err();
    assert_eq!(code(&refused), 1158);
}

#[tokio::test]
async fn an_error_reply_reaches_the_client_once_and_the_session_goes_on() {
    let (_servers, arbiter, mut conn) = session::<2>("tad", 2, 1, "").await;
    for _ in 0..3 {
        assert_eq!(code(&conn.query_drop("SELECT * FROM nosuch").await.unwrap_err()), 1146);
        assert_eq!(number(&mut conn, "SELECT 5").await, 5);
    }
    let errors = errors(&arbiter.stats().await);
    assert_eq!(errors, 0, "the statement's error is not the server's");
}

#[tokio::test]
async fn what_is_not_supported_is_refused_in_words() {
    let (_servers, arbiter, mut conn) = session::<1>("tad", 1, 1, "").await;
    let changed = conn.change_user(mysql_async::ChangeUserOpts::default()).await.unwrap_err();
    assert!(changed.to_string().contains("COM_CHANGE_USER is not supported"), "{changed}");
    drop(conn);
    let mut conn = connect(&arbiter).await;
    let killed = conn.query_drop("KILL 1").await.unwrap_err();
    assert!(killed.to_string().contains("KILL"), "{killed}");
    let loaded =
        conn.query_drop("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE page").await.unwrap_err();
    assert!(loaded.to_string().contains("LOCAL INFILE"), "{loaded}");
    assert_eq!((code(&killed), code(&loaded)), (1148, 1148));
    assert_eq!(number(&mut conn, "SELECT 1").await, 1, "and the session goes on");
}

#[tokio::test]
async fn a_reply_larger_than_the_buffer_is_streamed_whole() {
    let (_servers, arbiter, mut conn) = session::<2>("tad", 2, 4, "").await;
    let sql =
        "SELECT CONCAT(seq, REPEAT('x', 1000)) FROM wiki.page, seq_1_to_2000 ORDER BY seq, id";
    for _ in 0..3 {
        let rows: Vec<String> = conn.query(sql).await.unwrap();
        assert_eq!(rows.len(), 6000);
        assert!(rows.iter().enumerate().all(|(row, text)| {
            text.starts_with(&format!("{}x", row / 3 + 1)) && text.ends_with('x')
        }));
    }
    conn.disconnect().await.unwrap();
    arbiter.all_free().await;
}

#[tokio::test]
async fn the_command_line_client_works_through_the_arbiter() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 2, 4, &servers).await;
    let port = arbiter.clients.port().to_string();
    let output = tokio::task::spawn_blocking(move || {
        Command::new("mariadb")
            .args([
                "--no-defaults",
                "-h127.0.0.1",
                "-P",
                &port,
                "-uwiki",
                "-pwiki-read",
                "-N",
                "wiki",
            ])
            .args([
                "-e",
                "SET NAMES utf8mb4; SELECT title FROM page; SHOW TABLES; SELECT FOUND_ROWS()",
            ])
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().collect::<Vec<_>>(), ["One", "Two", "Three", "delay", "page", "2"]);
}

/// The statements of MediaWiki 1.39 for a page view, in the order observed, shortened.
#[tokio::test]
async fn all_reads_of_a_wiki_page_are_cloned() {
    let (_servers, arbiter, mut conn) = session::<2>("tad", 2, 12, "").await;
    conn.query_drop(
        "SET /* Wikimedia\\Rdbms\\DatabaseMysqlBase::open  */ group_concat_max_len = 262144, \
         `sql_mode` = ''",
    )
    .await
    .unwrap();
    for _ in 0..2 {
        conn.query_drop("BEGIN /* Wikimedia\\Rdbms\\Database::beginIfImplied (a)  */ ")
            .await
            .unwrap();
        for id in 1..=3 {
            let sql = format!(
                "SELECT /* WikiPage::pageData  */  /*! STRAIGHT_JOIN */ title FROM `page` \
                 WHERE id = {id} AND title <> 'It\\'s; FOR UPDATE' LIMIT 1"
            );
            let title: String = conn.query_first(sql).await.unwrap().unwrap();
            assert_eq!(title, ["One", "Two", "Three"][id - 1]);
        }
        conn.query_drop("COMMIT /* MediaWiki::preOutputCommit  */ ").await.unwrap();
    }
    let stats = arbiter.stats().await;
    assert_eq!(stats.requests.cloned, 6);
    conn.disconnect().await.unwrap();
    arbiter.all_free().await;
}

#[tokio::test]
async fn clients_are_greeted_as_by_the_servers() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let mut greetings = vec![];
    for address in [servers[0].address, arbiter.clients] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut header = [0; 4];
        stream.read_exact(&mut header).await.unwrap();
        let mut payload = vec![0; usize::from(header[0])];
        stream.read_exact(&mut payload).await.unwrap();
        let version = payload.iter().position(|byte| *byte == 0).unwrap();
        // Number, scramble, filler and flags lie between the version and the character set.
        greetings.push((payload[..version].to_vec(), payload[version + 1 + 4 + 8 + 1 + 2]));
    }
    assert_eq!(greetings[0], greetings[1]);
}
