//! Real processes: nodes are killed, stopped and started again; clients and peers misbehave.

#![allow(clippy::unwrap_used)]

mod fleet;
mod trouble;

use fleet::{Fleet, FAILS_SOON};

/// Every page from every node; what is then in memory.
async fn ask_all(fleet: &Fleet, nodes: &[usize], pages: std::ops::Range<usize>) {
    for number in pages {
        for &node in nodes {
            fleet.page(node, number).await;
        }
    }
}

#[tokio::test]
async fn what_one_node_has_read_the_others_do_not_read_again() {
    for mode in ["perf", "ha"] {
        let fleet = Fleet::up(mode, 4, &[]).await;
        assert_eq!(fleet.page(0, 1).await, "disk");
        assert_eq!(fleet.page(0, 1).await, "local");
        for node in 1..4 {
            fleet::until("the change is told", || async {
                fleet.metric(node, "press_peer_pages{node=\"web-0\"}").await == Some(1)
            })
            .await;
            assert_eq!(fleet.page(node, 1).await, "peer");
            assert_eq!(fleet.page(node, 1).await, "local");
        }
    }
}

#[tokio::test]
async fn memory_is_bounded_by_bytes_and_four_hold_more_than_one() {
    // 60 pages of 20 kB: one MiB holds 52 of them at the most.
    let fleet = Fleet::up("ha", 4, &["--cache-mib", "1"]).await;
    ask_all(&fleet, &[0], 0..60).await;
    assert!(fleet.metric(0, "press_cache_bytes").await.unwrap() <= 1 << 20);
    assert!(fleet.metric(0, "press_evicted_total").await.unwrap() > 0);
    ask_all(&fleet, &[0, 1, 2, 3], 0..60).await;
    for node in 0..4 {
        assert!(fleet.metric(node, "press_cache_bytes").await.unwrap() <= 1 << 20);
    }
}

#[tokio::test]
async fn perf_stands_still_while_one_node_hangs_and_then_goes_on() {
    let fleet = Fleet::up("perf", 4, &["--window", "4", "--queue", "4"]).await;
    fleet.signal(3, "STOP");
    // More changes than the window and the queue of node 3 take.
    let ask = |number| {
        let http = fleet.http(0);
        tokio::spawn(async move { testkit::web::get(http, &fleet::path(number)).await })
    };
    let requests: Vec<_> = (0..12).map(ask).collect();
    assert_eq!(fleet.until_unhealthy(0).await, "waits for web-3\n");
    fleet.signal(3, "CONT");
    for (number, reply) in requests.into_iter().enumerate() {
        assert_eq!(reply.await.unwrap().text(), fleet::page(number));
    }
    fleet.until_healthy(0).await;
    ask_all(&fleet, &[0, 1, 2, 3], 0..20).await;
    fleet.until_members(0, &[true; 4]).await;
}

#[tokio::test]
async fn perf_goes_on_without_a_crashed_node_and_needs_a_restart_of_all_to_have_it_back() {
    let mut fleet = Fleet::up("perf", 4, &FAILS_SOON).await;
    fleet.kill(2);
    for node in [0, 1, 3] {
        fleet.until_members(node, &[true, true, false, true]).await;
    }
    ask_all(&fleet, &[0, 1, 3], 0..10).await;
    fleet.start(2);
    let reason = fleet.until_unhealthy(2).await;
    assert_eq!(reason, "the cluster is not formed\n");
    ask_all(&fleet, &[0, 1, 3], 10..20).await;
    assert_eq!(fleet.health(2).await.unwrap().0, 503);
    (0..4).for_each(|node| fleet.kill(node));
    (0..4).for_each(|node| fleet.start(node));
    for node in 0..4 {
        fleet.until_healthy(node).await;
    }
    ask_all(&fleet, &[0, 1, 2, 3], 0..10).await;
}

#[tokio::test]
async fn ha_goes_on_without_a_hung_node_and_takes_it_in_again() {
    let small = [&["--window", "4", "--queue", "4"][..], &FAILS_SOON].concat();
    let fleet = Fleet::up("ha", 4, &small).await;
    fleet.signal(3, "STOP");
    for node in 0..3 {
        fleet.until_members(node, &[true, true, true, false]).await;
    }
    ask_all(&fleet, &[0, 1, 2], 0..30).await;
    fleet.signal(3, "CONT");
    for node in 0..4 {
        fleet.until_members(node, &[true; 4]).await;
    }
    ask_all(&fleet, &[0, 1, 2, 3], 0..40).await;
}

#[tokio::test]
async fn ha_has_a_new_master_when_the_old_one_dies_and_one_when_it_is_back() {
    let mut fleet = Fleet::up("ha", 4, &FAILS_SOON).await;
    let master = fleet.master(0).await.unwrap();
    fleet.kill(master);
    let rest: Vec<usize> = (0..4).filter(|&node| node != master).collect();
    let mut members = [true; 4];
    members[master] = false;
    for &node in &rest {
        fleet.until_members(node, &members).await;
    }
    fleet::until("there is another master", || async {
        let now = fleet.master(rest[0]).await;
        now.is_some_and(|other| other != master)
    })
    .await;
    ask_all(&fleet, &rest, 0..10).await;
    fleet.start(master);
    for node in 0..4 {
        fleet.until_members(node, &[true; 4]).await;
    }
    fleet::until("all have the same master", || async {
        let first = fleet.master(0).await;
        let mut all = true;
        for node in 1..4 {
            all &= fleet.master(node).await == first;
        }
        all
    })
    .await;
}

#[tokio::test]
async fn after_all_nodes_were_down_they_serve_again() {
    for mode in ["perf", "ha"] {
        let mut fleet = Fleet::up(mode, 4, &[]).await;
        (0..4).for_each(|node| fleet.kill(node));
        for node in [2, 0, 3, 1] {
            fleet.start(node);
        }
        for node in 0..4 {
            fleet.until_healthy(node).await;
            fleet.until_members(node, &[true; 4]).await;
        }
        ask_all(&fleet, &[0, 1, 2, 3], 0..5).await;
    }
}

#[tokio::test]
async fn shed_says_so_at_once_where_the_others_let_clients_wait() {
    let small = ["--window", "1", "--queue", "1"];
    let fleet = Fleet::up("shed", 2, &small).await;
    fleet.signal(1, "STOP");
    let mut statuses = vec![];
    for number in 0..8 {
        let reply = testkit::web::get(fleet.http(0), &fleet::path(number)).await;
        statuses.push(reply.status);
    }
    assert_eq!((statuses[0], statuses[7]), (200, 503), "{statuses:?}");
    fleet.signal(1, "CONT");
    fleet.until_healthy(0).await;
    fleet.page(0, 9).await;
}
