//! A Redis server that is slower than its clients ask: who is told what, and what reaches it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::eventually;
use crate::support::keyvalue::{
    addresses, before_steady, encode, front_within, string, Client, Server,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const NOT_EXECUTED: &str =
    "-ERR arbiter: too many requests wait for a server; it was not executed\r\n";
/// Of those that wait when their link is given up.
const NOT_REACHED: &str = "-ERR arbiter: no server could be reached; it was not executed\r\n";
const PERHAPS_EXECUTED: &str =
    "-ERR arbiter: the server did not reply in time; it may have been executed\r\n";

/// A loop of 3 s, twice as long as a request may take; where time stands still in a script, as in
/// later releases, of ten million calls.
const BUSY: &str = "local\tfunction\tnow_ms()
\tlocal\tnow=redis.call('TIME')
\treturn\tnow[1]*1000+now[2]/1000
end
local\tstart=now_ms()
for\tcall=1,10000000\tdo
\tif\tnow_ms()-start>3000\tthen\tbreak\tend
end
return\t1";

#[tokio::test]
async fn a_write_behind_a_slow_script_may_have_been_executed() {
    const TRIES_MAX: u32 = 10;
    let servers = [Server::redis().await];
    let arbiter = front_within(1_500, "redis", 1, &addresses(&servers)).await;
    let mut writes = 0;
    loop {
        let mut slow = Client::open(arbiter.clients).await;
        let mut other = Client::open(arbiter.clients).await;
        slow.send(&encode(&format!("EVAL {BUSY} 0"))).await;
        let runs = |stats: &wire::arbiter::Stats| stats.servers[0].in_flight == 1;
        arbiter.until("the script at the server", runs).await;
        let reply = other.redis("INCR n").await;
        writes += 1;
        if reply == PERHAPS_EXECUTED {
            assert_eq!(slow.reply().await, PERHAPS_EXECUTED);
            break;
        }
        // A host that stops lets the script end first.
        assert!(reply.starts_with(':') && writes < TRIES_MAX, "{reply}");
        slow.reply().await;
    }
    // As it was: it stands behind the script.
    eventually("the write", || async {
        let n = servers[0].direct().await.redis("GET n").await;
        (n == string(&writes.to_string())).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_given_up_before_it_is_sent_never_arrives() {
    // Ten times what the kernel takes for a server that is stopped.
    const CLIENTS: usize = 40;
    let servers = [Server::redis().await];
    // Half of it is what a server has to answer something once the first is given up.
    let arbiter = front_within(6_000, "redis", 1, &addresses(&servers)).await;
    assert_eq!(Client::open(arbiter.clients).await.redis("SET k v").await, "+OK\r\n");
    servers[0].freeze();
    let (told, mut all_told) = mpsc::unbounded_channel();
    for number in 0..CLIENTS {
        let (address, told) = (arbiter.clients, told.clone());
        tokio::spawn(async move {
            let set = format!("SET key{number} {}", "x".repeat(1 << 20));
            let reply = Client::open(address).await.redis(&set).await;
            told.send((number, reply)).unwrap();
        });
    }
    drop(told);
    // It resumes as soon as one is given up, before the link is.
    let mut replies = vec![all_told.recv().await.unwrap()];
    servers[0].thaw();
    while let Some(reply) = all_told.recv().await {
        replies.push(reply);
    }
    let mut direct = servers[0].direct().await;
    for (number, reply) in &replies {
        let is_there = direct.redis(&format!("EXISTS key{number}")).await;
        match reply.as_str() {
            "+OK\r\n" => assert_eq!(is_there, ":1\r\n"),
            NOT_EXECUTED | NOT_REACHED => assert_eq!(is_there, ":0\r\n"),
            PERHAPS_EXECUTED => {}
            other => panic!("{other}"),
        }
    }
    let count = |wanted| replies.iter().filter(|(_, reply)| reply == wanted).count();
    let (done, dropped) = (count("+OK\r\n"), count(NOT_EXECUTED));
    assert!(done > 0 && dropped > 0, "{done} {dropped}");
}

/// Asks until it is answered; how often, if it was.
async fn persist(arbiter: SocketAddr) -> Option<usize> {
    const TRIES_MAX: usize = 25;
    let mut client = Client::open(arbiter).await;
    for number in 1..=TRIES_MAX {
        if client.redis("GET k").await == "$1\r\nx\r\n" {
            return Some(number);
        }
    }
    None
}

#[tokio::test]
async fn who_asks_again_is_answered_though_all_ask_at_once() {
    // 200 commands take 4 s, one may take 1.5 s. What is given up is asked again, so that more is asked
    // than is answered until most have their answer; would all of it be sent, none were in time.
    let (tries, stats) = before_steady(Duration::from_millis(20), 1_500, |arbiter| async move {
        let mut clients = JoinSet::new();
        for _ in 0..200 {
            clients.spawn(persist(arbiter.clients));
        }
        (clients.join_all().await, arbiter.stats().await)
    })
    .await;
    assert!(tries.iter().all(Option::is_some), "{tries:?}");
    let tries: usize = tries.into_iter().flatten().sum();
    assert!(tries > 200, "it was asked more than it could answer: {tries}");
    assert_eq!(stats.servers[0].connections_opened, 1);
    assert!(stats.servers[0].alive);
}
