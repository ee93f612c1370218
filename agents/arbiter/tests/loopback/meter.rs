//! `/v1/stats` and `/v1/latency` of requests that really went through.

use crate::support::upstream::{failure, ok, Behaviour, Upstream};
use crate::support::web::{get, Connection};
use crate::support::{settings, start, Running};
use wire::arbiter::{LatencyReport, Stats};

async fn front(replicas: usize, servers: &[&Upstream]) -> Running {
    let settings = settings("http", "tad", replicas, 1) + "server_cores = 0.5";
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    start(&settings, &addresses).await
}

async fn report(arbiter: &Running) -> LatencyReport {
    serde_json::from_slice(&get(arbiter.admin, "/v1/latency").await.body).unwrap()
}

#[tokio::test]
async fn every_request_connection_token_and_replica_is_measured_once() {
    let first = Upstream::start(Behaviour::Reply(ok("first"))).await;
    let second = Upstream::start(Behaviour::Reply(ok("second"))).await;
    let arbiter = front(2, &[&first, &second]).await;
    let mut client = Connection::open(arbiter.clients).await;
    for _ in 0..30 {
        assert_eq!(client.get("/page").await.status, 200);
    }
    let all_back = |stats: &Stats| stats.tokens.in_use == 0 && stats.recent.latency.count == 30;
    let stats = arbiter.until("the end of the second", all_back).await;
    assert!(stats.recent.latency.p50_us.is_some(), "15 lie beyond");
    assert_eq!(stats.recent.latency.p95_us, None, "1 lies beyond");
    assert!(stats.recent.requests_per_s.unwrap() > 0.0);
    assert!(stats.recent.connections_per_s.unwrap() > 0.0);
    let granted = 60;
    assert_eq!(stats.token_holds, granted);
    assert!(stats.token_hold_us_total >= stats.busy_us);
    let processed: u64 = stats.servers.iter().map(|s| s.processing_count).sum();
    assert_eq!(processed, stats.replicas_sent);
    for server in &stats.servers {
        // One at a time at half a core each; both sums are cut to whole microseconds.
        let twice = server.processing_us_sum * 2;
        let slack_us = 4 * server.processing_count;
        assert!(twice.abs_diff(server.busy_us) <= slack_us, "{server:?}");
    }
    let wasted = stats.wasted_percent.unwrap();
    assert!((0.0..100.0).contains(&wasted));
    assert_eq!(wasted > 0.0, stats.wasted_us > 0);
    let report = report(&arbiter).await;
    assert_eq!(report.windows.iter().map(|w| w.requests).sum::<u64>(), 30);
    assert_eq!(report.windows.iter().map(|w| w.connections).sum::<u64>(), 1);
    assert_eq!(report.buckets.iter().map(|b| b.count).sum::<u64>(), 30);
    assert!(report.buckets.is_sorted_by(|a, b| a.us < b.us));
}

#[tokio::test]
async fn what_fails_takes_time_and_says_nothing_of_processing() {
    let broken = Upstream::start(Behaviour::Reply(failure())).await;
    let arbiter = front(1, &[&broken]).await;
    for _ in 0..3 {
        assert_eq!(get(arbiter.clients, "/page").await.status, 500);
    }
    let stats = arbiter.until("three requests", |stats| stats.recent.latency.count == 3).await;
    assert_eq!(stats.servers[0].processing_count, 0);
    assert_eq!(stats.servers[0].processing_us_sum, 0);
    assert!(stats.servers[0].busy_us > 0);
    assert_eq!(stats.token_holds, 3);
}
