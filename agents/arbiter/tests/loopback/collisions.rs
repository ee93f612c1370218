//! Replicas of one request and their servers in the second tier: a client, an HTTP arbiter, two
//! small applications, a MySQL arbiter, real MariaDB servers.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::support::mariadb::{servers, MariaDb};
use crate::support::upstream::{self, Behaviour};
use crate::support::{app, settings, start, web, Running};

const REQUESTS: u64 = 12;

/// Both tiers with r = 2: the HTTP arbiter and the MySQL arbiter.
async fn chain(policy: &str, avoids: bool, servers: &[MariaDb]) -> (Running, Running) {
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    app::chain((policy, 2, true), (policy, 2, avoids), &addresses).await
}

async fn ask(front: &Running) {
    for _ in 0..REQUESTS {
        let reply = web::get(front.clients, "/").await;
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        let (stamp, title) = body.split_once(' ').unwrap();
        assert_eq!((stamp.len(), title), (18, "Two"), "{body}");
    }
}

#[tokio::test]
async fn siblings_are_kept_on_different_servers_as_the_servers_own_logs_say() {
    let servers: [MariaDb; 4] = servers().await;
    for policy in ["tad", "round-robin"] {
        let (front, back) = chain(policy, true, &servers).await;
        ask(&front).await;
        let stats = back
            .until("both replicas of each", |stats| {
                stats.siblings.requests == REQUESTS && stats.connections.client_open == 0
            })
            .await;
        assert_eq!(stats.siblings.sessions, 2 * REQUESTS);
        assert_eq!((stats.siblings.collided, stats.siblings.avoided), (0, REQUESTS));
    }
    for server in &servers {
        let mut replicas: HashMap<String, Vec<String>> = HashMap::new();
        for line in server.statements("sparecraft-replica=").await {
            let stamp = line.split_once("sparecraft-replica=").unwrap().1;
            let (request, replica) = stamp[..18].split_once('.').unwrap();
            replicas.entry(request.into()).or_default().push(replica.into());
        }
        assert!(!replicas.is_empty());
        assert!(replicas.values().all(|of_one| of_one.len() == 1), "{replicas:?}");
    }
}

#[tokio::test]
async fn collisions_that_cannot_be_avoided_or_must_not_are_counted() {
    let servers: [MariaDb; 4] = servers().await;
    // To the letter TAD takes the servers last seen fastest: siblings, which come together, take the same.
    let (front, back) = chain("tad-paper", false, &servers).await;
    ask(&front).await;
    let stats = back.until("both replicas", |stats| stats.siblings.requests == REQUESTS).await;
    assert_eq!(stats.siblings.avoided, 0);
    assert!(stats.siblings.collided > 0, "{:?}", stats.siblings);
    let (front, back) = chain("round-robin", true, &servers[..3]).await;
    ask(&front).await;
    let stats = back.until("both replicas", |stats| stats.siblings.requests == REQUESTS).await;
    assert_eq!(stats.siblings.collided, REQUESTS, "four on three servers");
}

#[tokio::test]
async fn http_requests_of_siblings_go_to_different_servers_and_their_stamp_no_further() {
    for replicas in [1, 2] {
        let mut servers = vec![];
        for _ in 0..4 {
            servers.push(upstream::Upstream::start(Behaviour::Reply(upstream::ok("found"))).await);
        }
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        // To the letter TAD sends both siblings to the servers last seen fastest.
        let settings = settings("http", "tad-paper", replicas, 50) + "avoid_collisions = true";
        let arbiter = start(&settings, &addresses).await;
        for request in 0..REQUESTS {
            for replica in 0..2 {
                let text = format!(
                    "GET /{request}/{replica}/ HTTP/1.1\r\nHost: a\r\n\
                     X-Sparecraft-Replica: {request:016x}.{replica}\r\nConnection: close\r\n\r\n"
                );
                let reply = web::once(arbiter.clients, text.as_bytes()).await;
                assert_eq!(reply.body, b"found");
            }
        }
        let stats = arbiter
            .until("all replicas", |stats| {
                stats.siblings.requests == REQUESTS
                    && stats.servers.iter().all(|server| server.in_flight == 0)
            })
            .await;
        let counted = (stats.siblings.collided, stats.siblings.avoided);
        assert_eq!(counted, (0, REQUESTS));
        for request in 0..REQUESTS {
            let on = |replica: u64| {
                let target = format!("/{request}/{replica}/");
                servers.iter().enumerate().filter_map(move |(at, server)| {
                    let requests = server.requests();
                    requests.iter().any(|text| text.contains(&target)).then_some(at)
                })
            };
            let (first, second): (Vec<_>, Vec<_>) = (on(0).collect(), on(1).collect());
            assert!(!first.is_empty() && !second.is_empty());
            assert!(first.iter().all(|at| !second.contains(at)), "{first:?} {second:?}");
        }
        let is_passed_on = |text: &String| text.contains(&format!("{:016x}", 1));
        assert!(!servers
            .iter()
            .flat_map(|server| server.requests())
            .any(|text| is_passed_on(&text)));
    }
}

#[tokio::test]
async fn a_client_cannot_stamp_a_request_itself() {
    let server = MariaDb::start().await;
    for replicas in [1, 2] {
        let (front, back) = (("round-robin", replicas, true), ("tad", 1, true));
        let (front, _back) = app::chain(front, back, &[server.address]).await;
        let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Sparecraft-Replica: 0000000000000000.7\r\n\
                       Connection: close\r\n\r\n";
        let reply = web::once(front.clients, request.as_bytes()).await;
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        let stamp = body.split_once(' ').unwrap().0;
        let is_ours = if replicas == 1 {
            stamp == "none"
        } else {
            stamp.len() == 18 && !stamp.starts_with("00000000")
        };
        assert!(is_ours, "{body}");
    }
}
