//! MySQL clients that go away while a server works for them, with real MariaDB servers.

use crate::mysql_protocol::Raw;
use crate::support::eventually;
use crate::support::mariadb::{connect, connected_to_all, number, servers, start_with, MariaDb};
use mysql_async::prelude::Queryable;

/// Nothing of the arbiter's ends within a test.
const PATIENT: &str = "request_timeout_ms = 600000";

/// Queries that the server works on, without the one that asks.
async fn working(server: &MariaDb) -> u64 {
    let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%SLEEP(600)%' \
               AND id <> CONNECTION_ID()";
    number(&mut server.direct().await, sql).await
}

async fn none_works(server: &MariaDb) {
    eventually("the query to be ended", || async { (working(server).await == 0).then_some(()) })
        .await;
}

#[tokio::test]
async fn a_query_whose_client_goes_away_is_ended_and_is_not_the_server_s_fault() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let servers = &servers[..replicas];
        let arbiter = start_with("tad", replicas, 1, PATIENT, servers).await;
        // One that is cloned, one that pins, one in a transaction.
        for before in ["SELECT 1", "SELECT @a := 1", "BEGIN"] {
            let mut client = connect(&arbiter).await;
            client.query_drop(before).await.unwrap();
            let sent = arbiter.stats().await.replicas_sent;
            let query = tokio::spawn(async move { client.query_drop("SELECT SLEEP(600)").await });
            arbiter.until("the query", |stats| stats.replicas_sent > sent).await;
            eventually("a server that works", || async {
                (working(&servers[0]).await + working(&servers[replicas - 1]).await > 0)
                    .then_some(())
            })
            .await;
            query.abort();
            let stats = arbiter.all_free().await;
            for (server, told) in servers.iter().zip(&stats.servers) {
                none_works(server).await;
                assert_eq!((told.errors, told.alive), (0, true), "{before}: {told:?}");
            }
            arbiter.at_rest().await;
            let mut next = connect(&arbiter).await;
            assert_eq!(number(&mut next, "SELECT 5").await, 5);
            next.disconnect().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_query_that_is_late_is_ended_too() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        let servers = &servers[..replicas];
        let limit = "request_timeout_ms = 5000";
        let arbiter = start_with("tad", replicas, 1, limit, servers).await;
        let mut client = connect(&arbiter).await;
        connected_to_all(&mut client, servers).await;
        client.query_drop("SELECT SLEEP(600)").await.unwrap_err();
        let stats = arbiter.all_free().await;
        for (server, told) in servers.iter().zip(&stats.servers) {
            none_works(server).await;
            assert_eq!((told.errors, told.alive), (1, true), "r = {replicas}");
            assert!(!server.statements("KILL QUERY").await.is_empty());
        }
        servers[0].run("TRUNCATE mysql.general_log").await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_waits_for_no_token() {
    let servers: [MariaDb; 1] = servers().await;
    let arbiter = start_with("tad", 1, 1, PATIENT, &servers).await;
    let (mut owner, mut gone) = (connect(&arbiter).await, connect(&arbiter).await);
    gone.query_drop("SELECT @a := 1").await.unwrap();
    owner.query_drop("BEGIN").await.unwrap();
    let before = arbiter.stats().await.requests;
    let waits = tokio::spawn(async move { gone.query_drop("SELECT 'gone'").await });
    arbiter.until("the command", |stats| stats.requests.received > before.received).await;
    waits.abort();
    arbiter
        .until("its end", |stats| {
            stats.requests.failed > before.failed && stats.connections.client_open == 1
        })
        .await;
    owner.query_drop("COMMIT").await.unwrap();
    arbiter.all_free().await;
    assert_eq!(servers[0].statements("'gone'").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_client_that_leaves_a_large_reply_half_read_leaves_no_work_behind() {
    let servers: [MariaDb; 2] = servers().await;
    // With a clone, the one whose reply is not taken works to its end.
    for (replicas, rest_s) in [(1, 600), (2, 0)] {
        let servers = &servers[..replicas];
        let arbiter = start_with("tad", replicas, 1, PATIENT, servers).await;
        // A driver would read the rest before it leaves.
        let mut client = Raw::log_in(arbiter.clients).await;
        // 60 MB: more than what is on the way can be.
        let sql = format!(
            "SELECT seq, REPEAT('x', 1000), SLEEP(IF(seq > 60000, {rest_s}, 0)) \
             FROM seq_1_to_60001 /* SLEEP(600) */"
        );
        let columns = client.ask(0x03, sql.as_bytes()).await;
        assert_eq!(columns, [3]);
        drop(client);
        let stats = arbiter.all_free().await;
        for server in servers {
            none_works(server).await;
        }
        assert!(stats.servers.iter().all(|server| server.errors == 0));
    }
}
