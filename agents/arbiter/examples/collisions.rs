//! How often replicas of one request meet on a server of the second tier (sPARE Eq. 1), measured:
//! clients, an HTTP arbiter at r1 = 2, two small applications, a MySQL arbiter at r2, M2 MariaDB
//! servers. Prints one line of JSON per case; `bench/collisions.py` sets them beside the equation.
//!
//! `cargo run -p arbiter --example collisions -- REQUESTS POLICY...`

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/loopback/support/mod.rs"]
mod support;

use std::net::SocketAddr;

use support::mariadb::{servers, MariaDb};
use support::{app, web, Running};

const CLIENTS: u64 = 4;
const SERVERS_MAX: usize = 6;

/// Requests that two replicas of reached the second tier, and those that collided.
async fn measure((front, back): &(Running, Running), requests: u64) -> (u64, u64) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let address = front.clients;
            tokio::spawn(async move {
                for _ in 0..requests / CLIENTS {
                    assert_eq!(web::get(address, "/").await.status, 200);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let sent = requests / CLIENTS * CLIENTS;
    let stats = back.until("both replicas", |stats| stats.siblings.requests == sent).await;
    (stats.siblings.requests, stats.siblings.collided)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let requests = arguments.next().expect("REQUESTS").parse().unwrap();
    let policies: Vec<String> = arguments.collect();
    let servers: [MariaDb; SERVERS_MAX] = servers().await;
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    for m2 in 4..=SERVERS_MAX {
        for r2 in [1, 2] {
            for policy in &policies {
                for avoids in [false, true] {
                    let (front, back) = (("round-robin", 2, true), (policy.as_str(), r2, avoids));
                    let chain = app::chain(front, back, &addresses[..m2]).await;
                    let (several, collided) = measure(&chain, requests).await;
                    println!(
                        "{{\"m2\": {m2}, \"r2\": {r2}, \"policy\": \"{policy}\", \"avoids\": \
                         {avoids}, \"requests\": {several}, \"collided\": {collided}}}"
                    );
                }
            }
        }
    }
}
