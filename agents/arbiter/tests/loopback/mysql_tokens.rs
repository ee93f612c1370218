//! A token of the MySQL arbiter covers the server's work, and the locks that a session has there.

use std::sync::Arc;

use crate::support::mariadb::{code, connect, front, lock, number, servers, start_with, MariaDb};
use crate::support::Running;
use mysql_async::prelude::Queryable;
use mysql_async::Conn;
use tokio::task::JoinHandle;

const PAGES: &str = "SELECT COUNT(*) FROM page";

/// Asks in a task of its own.
fn ask(mut conn: Conn, sql: &'static str) -> JoinHandle<(Conn, Result<Option<u64>, u16>)> {
    tokio::spawn(async move {
        let got = conn.query_first(sql).await;
        let got = got.map_err(|error| code(&error));
        (conn, got)
    })
}

async fn in_use(arbiter: &Running, tokens: u64) {
    arbiter.until("tokens in use", |stats| stats.tokens.in_use == tokens).await;
}

async fn received(arbiter: &Running, more: u64, before: u64) {
    arbiter.until("a command", |stats| stats.requests.received == before + more).await;
}

#[tokio::test]
async fn idle_sessions_keep_their_server_and_no_token() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = front("tad", replicas, 1, &servers).await;
        let mut idle = vec![];
        for n in 0..6_u64 {
            let mut conn = connect(&arbiter).await;
            // Pinned, but for two of them.
            let sql = ["SET @a = ", "SELECT @a := "][usize::from(n > 1)];
            conn.query_drop(format!("{sql}{n}")).await.unwrap();
            idle.push(conn);
        }
        arbiter.all_free().await;
        for (n, conn) in (0..).zip(&mut idle) {
            assert_eq!(number(conn, "SELECT @a").await, n, "r = {replicas}");
        }
        let stats = arbiter.all_free().await;
        assert!(stats.servers.iter().all(|server| server.tokens_free == 1));
        assert_eq!(stats.requests.failed, 0);
    }
}

#[tokio::test]
async fn to_the_letter_of_the_paper_a_session_keeps_its_tokens_until_its_connection_ends() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = Arc::new(front("tad-paper", replicas, 1, &servers).await);
        let mut held = vec![];
        for _ in replicas..=2 {
            let mut conn = connect(&arbiter).await;
            number(&mut conn, "SELECT 1").await;
            held.push(conn);
        }
        in_use(&arbiter, 2).await;
        let before = arbiter.stats().await;
        let late = Arc::clone(&arbiter);
        let late = tokio::spawn(async move { connect(&late).await });
        // Who has a token goes on without another wait.
        number(&mut held[0], "SELECT SLEEP(0.05)").await;
        assert!(!late.is_finished(), "r = {replicas}: both tokens are held");
        held.remove(0).disconnect().await.unwrap();
        held.push(late.await.unwrap());
        let waits = arbiter.stats().await.token_waits - before.token_waits;
        assert_eq!(waits, 1, "r = {replicas}: that of who came late");
        for conn in held {
            conn.disconnect().await.unwrap();
        }
        arbiter.all_free().await;
    }
}

#[tokio::test]
async fn a_command_waits_while_its_server_s_tokens_work() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    for statement in ["SELECT 1", "SELECT @a := 1"] {
        let (mut first, mut second) = (connect(&arbiter).await, connect(&arbiter).await);
        for conn in [&mut first, &mut second] {
            conn.query_drop(statement).await.unwrap();
        }
        let before = arbiter.all_free().await;
        let gate = lock(&servers[0], "page").await;
        let first = ask(first, PAGES);
        in_use(&arbiter, 1).await;
        let second = ask(second, "SELECT 2 /* in turn */");
        received(&arbiter, 2, before.requests.received).await;
        assert_eq!(servers[0].statements("in turn").await, Vec::<String>::new());
        assert!(!second.is_finished());
        gate.disconnect().await.unwrap();
        assert_eq!(first.await.unwrap().1, Ok(Some(3)));
        assert_eq!(second.await.unwrap().1, Ok(Some(2)), "{statement}");
        assert_eq!(arbiter.stats().await.token_waits, before.token_waits + 1);
        servers[0].run("TRUNCATE mysql.general_log").await;
    }
}

#[tokio::test]
async fn a_session_goes_on_elsewhere_while_its_server_s_tokens_work() {
    let servers: [MariaDb; 2] = servers().await;
    let arbiter = front("tad", 1, 1, &servers).await;
    let ports = servers.each_ref().map(|it| u64::from(it.address.port()));
    // Of three sessions two are at the same server.
    let mut at = [vec![], vec![]];
    for _ in 0..3 {
        let mut conn = connect(&arbiter).await;
        let port = number(&mut conn, "SELECT @@port").await;
        at[usize::from(port != ports[0])].push(conn);
    }
    let busy = usize::from(at[0].len() < 2);
    let (first, mut second) = (at[busy].pop().unwrap(), at[busy].pop().unwrap());
    second.query_drop("SET group_concat_max_len = 4242").await.unwrap();
    let gate = lock(&servers[busy], "page").await;
    let first = ask(first, PAGES);
    in_use(&arbiter, 1).await;
    let sum = number(&mut second, "SELECT @@port + @@group_concat_max_len").await;
    assert_eq!(sum, ports[1 - busy] + 4242, "in the same state");
    gate.disconnect().await.unwrap();
    assert_eq!(first.await.unwrap().1, Ok(Some(3)));
}

#[tokio::test]
async fn who_waits_for_a_lock_cannot_keep_its_owner_from_a_token() {
    let servers: [MariaDb; 1] = servers().await;
    for (locks, unlocks) in [
        ("BEGIN", "COMMIT"),
        ("SET autocommit = 0", "COMMIT"),
        ("LOCK TABLES page WRITE", "UNLOCK TABLES"),
    ] {
        let arbiter = front("tad", 1, 1, &servers).await;
        let (mut owner, other) = (connect(&arbiter).await, connect(&arbiter).await);
        owner.query_drop(locks).await.unwrap();
        let change = "UPDATE page SET title = CONCAT(title, '.') WHERE id = 1";
        owner.query_drop(change).await.unwrap();
        let before = arbiter.stats().await;
        assert_eq!(before.tokens.in_use, 1, "{locks}");
        let other = ask(other, change);
        received(&arbiter, 1, before.requests.received).await;
        owner.query_drop(change).await.unwrap();
        owner.query_drop(unlocks).await.unwrap();
        if locks.starts_with("LOCK") {
            // Named locks may be left, for all that the arbiter knows.
            owner.disconnect().await.unwrap();
        }
        let (other, changed) = other.await.unwrap();
        assert_eq!((changed, other.affected_rows()), (Ok(None), 1), "{locks}");
        assert_eq!(arbiter.stats().await.requests.failed, 0);
    }
}

#[tokio::test]
async fn a_silent_transaction_gives_its_token_back_and_goes_on_without_one() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = start_with("tad", 1, 1, "request_timeout_ms = 5000", &servers).await;
    let (mut owner, other) = (connect(&arbiter).await, connect(&arbiter).await);
    let change = "UPDATE page SET title = 'changed' WHERE id = 1";
    for sql in ["BEGIN", change] {
        owner.query_drop(sql).await.unwrap();
    }
    in_use(&arbiter, 1).await;
    in_use(&arbiter, 0).await;
    // Has the only token, and waits for the lock.
    let other = ask(other, change);
    in_use(&arbiter, 1).await;
    owner.query_drop("COMMIT").await.unwrap();
    assert_eq!(other.await.unwrap().1, Ok(None));
    assert_eq!(arbiter.all_free().await.requests.failed, 0);
}

/// A pinned session that waits for the only token, its connection's number at the server, and who
/// has the token.
async fn waiting(arbiter: &Running) -> (JoinHandle<(Conn, Result<Option<u64>, u16>)>, u64, Conn) {
    let (mut owner, mut other) = (connect(arbiter).await, connect(arbiter).await);
    other.query_drop("SELECT @a := 1").await.unwrap();
    let number = number(&mut other, "SELECT CONNECTION_ID()").await;
    owner.query_drop("BEGIN").await.unwrap();
    let before = arbiter.stats().await.requests.received;
    let waits = ask(other, "SELECT 2");
    received(arbiter, 1, before).await;
    (waits, number, owner)
}

#[tokio::test]
async fn who_waits_at_a_server_that_is_taken_out_or_closes_need_not_wait_for_its_token() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let arbiter = front("tad", replicas, 1, &servers).await;
        arbiter.put("/v1/servers/s1", r#"{"up": false}"#).await;
        let (waits, number, owner) = waiting(&arbiter).await;
        let kill = format!("KILL {number}");
        servers[0].run(&kill).await;
        assert_eq!(waits.await.unwrap().1, Err(1053), "r = {replicas}");
        in_use(&arbiter, 1).await;
        owner.disconnect().await.unwrap();
        arbiter.all_free().await;
        let (waits, _, owner) = waiting(&arbiter).await;
        arbiter.put("/v1/servers/s0", r#"{"up": false}"#).await;
        assert_eq!(waits.await.unwrap().1, Ok(Some(2)), "r = {replicas}");
        in_use(&arbiter, 1).await;
        owner.disconnect().await.unwrap();
    }
}

#[tokio::test]
async fn a_command_without_a_token_in_time_gets_an_error_and_the_session_goes_on() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = start_with("tad", 1, 1, "request_timeout_ms = 5000", &servers).await;
    let (mut owner, mut other) = (connect(&arbiter).await, connect(&arbiter).await);
    other.query_drop("SELECT @a := 7").await.unwrap();
    owner.query_drop("BEGIN").await.unwrap();
    let (ends, mut ended) = tokio::sync::oneshot::channel();
    let busy = tokio::spawn(async move {
        while ended.try_recv().is_err() {
            owner.query_drop("SELECT 1").await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        owner.query_drop("COMMIT").await.unwrap();
    });
    let refused = other.query_drop("SELECT @a /* unsent */").await;
    assert_eq!(code(&refused.unwrap_err()), 1969);
    assert_eq!(servers[0].statements("unsent").await, Vec::<String>::new());
    ends.send(()).unwrap();
    busy.await.unwrap();
    assert_eq!(number(&mut other, "SELECT @a").await, 7);
    let server = arbiter.server(0).await;
    assert_eq!((server.errors, server.alive), (0, true));
}
