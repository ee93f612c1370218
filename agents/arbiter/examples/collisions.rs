//! How often replicas of one request meet on a server of the second tier (sPARE Eq. 1), measured:
//! clients, an HTTP arbiter at r1 = 2, two small applications, a MySQL arbiter at r2, M2 MariaDB
//! servers. Prints one line of JSON per case; `bench/collisions.py` sets them beside the equation.
//!
//! `cargo run -p arbiter --example collisions -- REQUESTS POLICY...`

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::net::SocketAddr;

use support::mariadb::MariaDb;
use support::{app, start, web, Running};

const CLIENTS: u64 = 4;
const SERVERS_MAX: usize = 6;

async fn chain(policy: &str, avoids: bool, r2: usize, servers: &[SocketAddr]) -> [Running; 2] {
    let settings = |protocol: &str, policy: &str, r: usize, avoids: bool| {
        format!(
            "protocol = \"{protocol}\"\npolicy = \"{policy}\"\nreplicas = {r}\ntokens = 50\n\
             avoid_collisions = {avoids}"
        )
    };
    let back = start(&settings("mysql", policy, r2, avoids), servers).await;
    let apps = [
        app::start(back.clients).await,
        app::start(back.clients).await,
    ];
    let front = start(&settings("http", "round-robin", 2, true), &apps).await;
    [front, back]
}

/// Requests that two replicas of reached the second tier, and those that collided.
async fn measure([front, back]: &[Running; 2], requests: u64) -> (u64, u64) {
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
    let stats = back
        .until("both replicas", |stats| stats.siblings.requests == sent)
        .await;
    (stats.siblings.requests, stats.siblings.collided)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let requests = arguments.next().expect("REQUESTS").parse().unwrap();
    let policies: Vec<String> = arguments.collect();
    let mut servers = vec![];
    for _ in 0..SERVERS_MAX {
        servers.push(MariaDb::start().await);
    }
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    for m2 in 4..=SERVERS_MAX {
        for r2 in [1, 2] {
            for policy in &policies {
                for avoids in [false, true] {
                    let chain = chain(policy, avoids, r2, &addresses[..m2]).await;
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
