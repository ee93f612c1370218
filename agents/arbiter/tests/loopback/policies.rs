//! The promises of every policy, over HTTP.

use std::time::Duration;

use crate::support::http::{front, settings};
use crate::support::upstream::{failure, ok, Behaviour, Upstream};
use crate::support::web::get;
use crate::support::{eventually, start};
use policy::Policy;

#[tokio::test]
async fn a_server_that_fails_fast_attracts_no_load_under_any_policy() {
    const REQUESTS: usize = 90;
    for policy in Policy::all().map(Policy::name) {
        let failing = Upstream::start(Behaviour::Reply(failure())).await;
        let [one, two] = Upstream::pair(Behaviour::Reply(ok("well"))).await;
        let arbiter = front(policy, 1, 4, &[&failing, &one, &two]).await;
        for _ in 0..REQUESTS {
            get(arbiter.clients, "/").await;
        }
        let share = failing.requests().len() as f64 / REQUESTS as f64;
        assert!(share < 0.3, "{policy}: {share} of the requests went there");
        let stats = arbiter.stats().await;
        assert!(stats.guarded.ejections > 0 || share < 0.05, "{policy}");
    }
}

#[tokio::test]
async fn a_hedge_is_sent_when_the_first_server_takes_longer_than_usual() {
    let servers = [
        Upstream::start(Behaviour::Gated(ok("0"))).await,
        Upstream::start(Behaviour::Gated(ok("1"))).await,
    ];
    servers.iter().for_each(|server| server.gate.add_permits(1_000));
    let arbiter = front("hedge", 2, 4, &[&servers[0], &servers[1]]).await;
    for _ in 0..60 {
        get(arbiter.clients, "/").await;
    }
    let before = arbiter.all_free().await;
    assert!(before.replicas_sent < 90, "most requests need one server: {}", before.replicas_sent);
    for server in &servers {
        let permits = server.gate.available_permits() as u32;
        server.gate.try_acquire_many(permits).unwrap().forget();
    }
    let counts = servers.each_ref().map(|server| server.requests().len());
    let clients = arbiter.clients;
    let answer = tokio::spawn(async move { get(clients, "/").await });
    eventually("a replica on both servers", || async {
        let reached = servers.iter().zip(counts).all(|(server, n)| server.requests().len() > n);
        reached.then_some(())
    })
    .await;
    servers[1].gate.add_permits(1);
    assert_eq!(answer.await.unwrap().text(), "1");
    let stats = arbiter.stats().await;
    assert_eq!(stats.guarded.hedges, before.guarded.hedges + 1);
    servers[0].gate.add_permits(1);
}

#[tokio::test]
async fn a_read_that_would_be_a_probe_is_answered_by_the_best_server_too() {
    let limps = Upstream::start(Behaviour::Gated(ok("limps"))).await;
    let well = Upstream::start(Behaviour::Gated(ok("well"))).await;
    limps.gate.add_permits(1);
    well.gate.add_permits(1_000);
    let settings = settings("tad", 1, 4) + "observation_age_ms = 3000";
    let arbiter = start(&settings, &[limps.address, well.address]).await;
    for _ in 0..2 {
        get(arbiter.clients, "/").await;
    }
    let before = arbiter.stats().await;
    assert_eq!((before.replicas_sent, before.requests.cloned), (2, 0));
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "well");
    let now = arbiter.stats().await;
    assert_eq!((now.replicas_sent, now.requests.cloned), (4, 1));
    assert!(limps.requests().len() == 2 && well.requests().len() == 2);
}

#[tokio::test]
async fn every_policy_sends_two_replicas_to_two_servers() {
    for policy in Policy::all().map(Policy::name).filter(|name| *name != "hedge") {
        let [one, two] = Upstream::pair(Behaviour::Reply(ok("well"))).await;
        let arbiter = front(policy, 2, 4, &[&one, &two]).await;
        assert_eq!(get(arbiter.clients, "/").await.text(), "well");
        let sent = |stats: &wire::arbiter::Stats| {
            stats.replicas_sent + stats.replicas_not_needed == 2 && stats.tokens.in_use == 0
        };
        arbiter.until("both replicas", sent).await;
        assert!(one.requests().len() <= 1 && two.requests().len() <= 1);
    }
}
