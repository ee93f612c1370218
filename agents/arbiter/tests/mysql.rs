//! The MySQL arbiter in front of real MariaDB servers, with a real client library.

#![allow(clippy::unwrap_used)]

mod support;

use std::net::SocketAddr;
use std::process::Command;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder};
use support::mariadb::{options, MariaDb};
use support::{eventually, start, Running};
use tokio::io::AsyncReadExt;

async fn servers<const N: usize>() -> [MariaDb; N] {
    let mut started = Vec::new();
    for _ in 0..N {
        started.push(MariaDb::start().await);
    }
    started.try_into().unwrap_or_else(|_| unreachable!())
}

async fn front(policy: &str, replicas: usize, tokens: usize, servers: &[MariaDb]) -> Running {
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let settings = format!(
        "protocol = \"mysql\"\npolicy = \"{policy}\"\nreplicas = {replicas}\ntokens = {tokens}"
    );
    start(&settings, &addresses).await
}

async fn connect(arbiter: &Running) -> Conn {
    Conn::new(options(arbiter.clients)).await.unwrap()
}

async fn number(conn: &mut Conn, sql: &str) -> u64 {
    conn.query_first(sql).await.unwrap().unwrap()
}

fn code(error: &Error) -> u16 {
    match error {
        Error::Server(error) => error.code,
        other => panic!("expected an error of the server, got {other:?}"),
    }
}

/// Waits until the server has seen this text.
async fn seen(server: &MariaDb, text: &str) -> Vec<String> {
    eventually(text, || async {
        let seen = server.seen(text).await;
        (!seen.is_empty()).then_some(seen)
    })
    .await
}

/// Waits until the session is connected to every server: one that connects late skips the reads
/// that were answered before, but never a session statement.
async fn connected_to_all(conn: &mut Conn, servers: &[MariaDb]) {
    conn.query_drop("SET max_sort_length = 2048").await.unwrap();
    for server in servers {
        seen(server, "SET max_sort_length").await;
    }
}

async fn all_free(arbiter: &Running) {
    arbiter
        .until("all tokens", |stats| stats.tokens.in_use == 0)
        .await;
}

#[tokio::test]
async fn the_first_reply_wins_and_the_slow_server_skips_what_is_answered_but_no_session_statement()
{
    let servers: [MariaDb; 2] = servers().await;
    servers[0].run("UPDATE wiki.delay SET seconds = 3").await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    connected_to_all(&mut conn, &servers).await;
    let wins = arbiter.server(0).await.wins;
    let sql = "SELECT @@port FROM delay WHERE SLEEP(seconds) = 0";
    let fast = u64::from(servers[1].address.port());
    assert_eq!(number(&mut conn, sql).await, fast);
    // The slow server is still busy with the first.
    assert_eq!(number(&mut conn, "SELECT @@port /* skipped */").await, fast);
    conn.query_drop("SET group_concat_max_len = 4242")
        .await
        .unwrap();
    assert_eq!(arbiter.server(0).await.wins, wins);
    seen(&servers[0], "SET group_concat_max_len").await;
    assert_eq!(servers[0].seen("/* skipped */").await, Vec::<String>::new());
    let stats = arbiter.stats().await;
    assert_eq!((stats.replicas_wasted, stats.replicas_not_needed), (1, 1));
    assert!(
        stats.wasted_us > 1_000_000,
        "the loser's work is accounted: {}",
        stats.wasted_us
    );
    // Caught up, it takes part again, in the state of the others.
    servers[0].run("UPDATE wiki.delay SET seconds = 0").await;
    servers[1].run("UPDATE wiki.delay SET seconds = 3").await;
    let sql = "SELECT @@port + @@group_concat_max_len FROM delay WHERE SLEEP(seconds) = 0";
    assert_eq!(
        number(&mut conn, sql).await,
        u64::from(servers[0].address.port()) + 4242
    );
}

#[tokio::test]
async fn session_statements_reach_each_held_server() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 2, 4, &servers).await;
    let mut conn = connect(&arbiter).await;
    for sql in [
        "SET NAMES latin1",
        "USE other",
        "BEGIN",
        "COMMIT",
        "SET @a = 5",
    ] {
        conn.query_drop(sql).await.unwrap();
    }
    for server in &servers {
        // In order: who has this has all before it.
        seen(server, "SET @a = 5").await;
        // USE is logged with the database's bare name.
        for text in ["SET NAMES latin1", "other", "BEGIN", "COMMIT", "SET @a = 5"] {
            assert_eq!(
                server.seen(text).await.len(),
                1,
                "{text} at {}",
                server.address
            );
        }
    }
}

#[tokio::test]
async fn a_write_is_sent_once_and_the_session_stays_with_it() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    conn.query_drop("SELECT 1").await.unwrap();
    conn.query_drop("INSERT INTO page (title) VALUES ('New')")
        .await
        .unwrap();
    assert_eq!(conn.last_insert_id(), Some(4));
    for _ in 0..5 {
        assert_eq!(
            number(&mut conn, "SELECT COUNT(*) FROM page").await,
            4,
            "it sees its write"
        );
    }
    assert_eq!(number(&mut conn, "SELECT LAST_INSERT_ID()").await, 4);
    let mut rows = vec![];
    for server in &servers {
        rows.push(number(&mut server.direct().await, "SELECT COUNT(*) FROM page").await);
    }
    rows.sort_unstable();
    assert_eq!(rows, [3, 4]);
    arbiter
        .until("the other server's token", |stats| stats.tokens.in_use == 1)
        .await;
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing_anywhere() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    for sql in [
        "BEGIN",
        "SELECT * FROM page",
        "DELETE FROM page WHERE id = 1",
        "ROLLBACK",
    ] {
        conn.query_drop(sql).await.unwrap();
    }
    // Left open: given back connections must not commit it.
    for sql in ["BEGIN", "DELETE FROM page WHERE id = 2"] {
        conn.query_drop(sql).await.unwrap();
    }
    conn.disconnect().await.unwrap();
    all_free(&arbiter).await;
    for server in &servers {
        let mut direct = server.direct().await;
        assert_eq!(number(&mut direct, "SELECT COUNT(*) FROM page").await, 3);
        direct
            .query_drop("DELETE FROM page WHERE id = 2")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn prepared_statements_and_several_results_work() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 2, 4, &servers).await;
    let mut conn = connect(&arbiter).await;
    let several = "SELECT 1; SELECT 2; SELECT id + 2 FROM page WHERE id = 1";
    let mut results = conn.query_iter(several).await.unwrap();
    for expected in 1..=3_u64 {
        assert_eq!(results.collect::<u64>().await.unwrap(), [expected]);
    }
    drop(results);
    for id in 1..=3_u64 {
        let title: Option<String> = conn
            .exec_first("SELECT title FROM page WHERE id = ?", (id,))
            .await
            .unwrap();
        assert_eq!(title.unwrap(), ["One", "Two", "Three"][id as usize - 1]);
    }
    let missing = conn
        .exec_drop("SELECT nothing FROM page WHERE id = ?", (1,))
        .await;
    assert_eq!(code(&missing.unwrap_err()), 1054);
    conn.exec_drop(
        "INSERT INTO page (title) VALUES (?)",
        ("x".repeat(100_000),),
    )
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
    assert_eq!(
        arbiter.server(0).await.errors,
        0,
        "a client's mistake is not the server's"
    );
    assert!(arbiter.server(0).await.alive);
    connect(&arbiter).await.ping().await.unwrap();
}

#[tokio::test]
async fn a_token_is_held_for_the_life_of_the_connection() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let mut first = connect(&arbiter).await;
    first.query_drop("SELECT 1").await.unwrap();
    let stats = arbiter.stats().await;
    assert_eq!((stats.tokens.in_use, stats.servers[0].tokens_free), (1, 0));
    let address = arbiter.clients;
    let second = tokio::spawn(async move { Conn::new(options(address)).await.unwrap() });
    arbiter
        .until("the second client", |stats| {
            stats.connections.client_open == 2
        })
        .await;
    first.query_drop("SELECT 2").await.unwrap();
    assert!(!second.is_finished(), "one token, one connection");
    first.disconnect().await.unwrap();
    let mut second = second.await.unwrap();
    assert_eq!(number(&mut second, "SELECT 3").await, 3);
    assert_eq!(arbiter.stats().await.token_waits, 1);
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
    let mut second = connect(&arbiter).await;
    assert_eq!(
        number(&mut second, "SELECT CONNECTION_ID()").await,
        same,
        "the same connection"
    );
    assert_eq!(
        second
            .query_first::<String, _>(about)
            .await
            .unwrap()
            .unwrap(),
        fresh
    );
    let variable: Option<Option<u64>> = second.query_first("SELECT @a").await.unwrap();
    assert_eq!(variable, Some(None));
    assert_eq!(
        code(&second.query_drop("SELECT * FROM t").await.unwrap_err()),
        1146
    );
    let server = arbiter.server(0).await;
    // One more was opened to learn the servers' version.
    assert!(
        server.connections_opened <= 2 && server.connections_reused >= 1,
        "{server:?}"
    );
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
    assert_eq!(
        number(&mut idle, "SELECT @@port").await,
        alive,
        "whatever it was connected to"
    );
    servers[0].restart();
    arbiter
        .until("the probe to succeed", |stats| stats.servers[0].alive)
        .await;
    eventually("a reply from the server that is back", || async {
        let mut conn = connect(&arbiter).await;
        (number(&mut conn, "SELECT @@port").await != alive).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_all_servers_dead_a_client_is_told_at_once() {
    let mut servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    conn.query_drop("SELECT 1").await.unwrap();
    servers[0].kill();
    assert_eq!(code(&conn.query_drop("SELECT 1").await.unwrap_err()), 1053);
    let refused = Conn::new(options(arbiter.clients)).await.unwrap_err();
    assert_eq!(code(&refused), 1158);
}

#[tokio::test]
async fn a_server_that_comes_late_is_brought_to_the_session_s_state_first() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let mut holder = connect(&arbiter).await;
    let held = number(&mut holder, "SELECT @@port").await;
    arbiter.put("/v1/replicas", r#"{"replicas": 2}"#).await;
    let mut conn = connect(&arbiter).await;
    for sql in ["SET group_concat_max_len = 4242", "USE other", "BEGIN"] {
        conn.query_drop(sql).await.unwrap();
    }
    conn.query_drop("SELECT 'before'").await.unwrap();
    let late = servers
        .iter()
        .find(|server| u64::from(server.address.port()) == held)
        .unwrap();
    assert_eq!(late.seen("4242").await, Vec::<String>::new());
    holder.disconnect().await.unwrap();
    seen(late, "BEGIN").await;
    // Only the late server answers quickly from now on, and it has the session's state.
    let other = servers
        .iter()
        .find(|server| u64::from(server.address.port()) != held)
        .unwrap();
    other.run("UPDATE wiki.delay SET seconds = 3").await;
    let sql = "SELECT CONCAT_WS(' ', @@port, DATABASE(), @@group_concat_max_len) \
               FROM wiki.delay WHERE SLEEP(seconds) = 0";
    let state: String = conn.query_first(sql).await.unwrap().unwrap();
    assert_eq!(state, format!("{held} other 4242"));
    let order = [
        late.seen("4242").await,
        late.seen("BEGIN").await,
        late.seen("SLEEP").await,
    ];
    assert!(order.iter().all(|lines| lines.len() == 1), "{order:?}");
    assert_eq!(
        late.seen("'before'").await,
        Vec::<String>::new(),
        "answered reads are not replayed"
    );
}

#[tokio::test]
async fn a_server_that_cannot_do_a_session_statement_is_dropped_from_the_session() {
    let servers: [MariaDb; 2] = servers().await;
    servers[1].run("CREATE DATABASE only_there").await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    conn.query_drop("SELECT 1").await.unwrap();
    conn.query_drop("USE only_there").await.unwrap();
    arbiter
        .until("only one server held", |stats| stats.tokens.in_use == 1)
        .await;
    for _ in 0..5 {
        let place: (u64, String) = conn
            .query_first("SELECT @@port, DATABASE()")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            place,
            (
                u64::from(servers[1].address.port()),
                "only_there".to_owned()
            )
        );
    }
    let (failed, wanted) = (&servers[0], "only_there");
    assert_eq!(
        failed.seen(wanted).await.len(),
        1,
        "it is not asked again for this session"
    );
    let nowhere = conn.query_drop("USE nowhere").await.unwrap_err();
    assert_eq!(
        code(&nowhere),
        1049,
        "where all fail, the client hears it and goes on"
    );
    conn.query_drop("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn an_error_reply_reaches_the_client_once_and_the_session_goes_on() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    for _ in 0..3 {
        assert_eq!(
            code(&conn.query_drop("SELECT * FROM nosuch").await.unwrap_err()),
            1146
        );
        assert_eq!(number(&mut conn, "SELECT 5").await, 5);
    }
    let errors: u64 = arbiter
        .stats()
        .await
        .servers
        .iter()
        .map(|server| server.errors)
        .sum();
    assert_eq!(errors, 0, "the statement's error is not the server's");
}

#[tokio::test]
async fn what_is_not_supported_is_refused_in_words() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    let changed = conn
        .change_user(mysql_async::ChangeUserOpts::default())
        .await
        .unwrap_err();
    assert!(
        changed
            .to_string()
            .contains("COM_CHANGE_USER is not supported"),
        "{changed}"
    );
    drop(conn);
    let mut conn = connect(&arbiter).await;
    let killed = conn.query_drop("KILL 1").await.unwrap_err();
    assert!(killed.to_string().contains("KILL"), "{killed}");
    let loaded = conn
        .query_drop("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE page")
        .await
        .unwrap_err();
    assert!(loaded.to_string().contains("LOCAL INFILE"), "{loaded}");
    assert_eq!((code(&killed), code(&loaded)), (1148, 1148));
    assert_eq!(
        number(&mut conn, "SELECT 1").await,
        1,
        "and the session goes on"
    );
}

#[tokio::test]
async fn a_reply_larger_than_the_buffer_is_streamed_whole() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 2, 4, &servers).await;
    let mut conn = connect(&arbiter).await;
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
    all_free(&arbiter).await;
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
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        ["One", "Two", "Three", "delay", "page", "2"]
    );
}

#[tokio::test]
async fn a_client_s_own_reset_gives_a_clean_session_everywhere() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("round-robin", 2, 1, &servers).await;
    let mut conn = connect(&arbiter).await;
    conn.query_drop("SET group_concat_max_len = 77")
        .await
        .unwrap();
    assert!(conn.reset().await.unwrap());
    for _ in 0..6 {
        assert_ne!(number(&mut conn, "SELECT @@group_concat_max_len").await, 77);
    }
    assert_eq!(
        arbiter.stats().await.tokens.in_use,
        2,
        "both servers are still held"
    );
}

/// What MediaWiki 1.39 sends for a page view, in the order observed, shortened.
#[tokio::test]
async fn all_reads_of_a_wiki_page_are_cloned() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 2, 12, &servers).await;
    let mut conn = connect(&arbiter).await;
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
        conn.query_drop("COMMIT /* MediaWiki::preOutputCommit  */ ")
            .await
            .unwrap();
    }
    let stats = arbiter.stats().await;
    assert_eq!((stats.requests.cloned, stats.tokens.in_use), (6, 2));
    conn.disconnect().await.unwrap();
    all_free(&arbiter).await;
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
        greetings.push((
            payload[..version].to_vec(),
            payload[version + 1 + 4 + 8 + 1 + 2],
        ));
    }
    assert_eq!(greetings[0], greetings[1]);
}
