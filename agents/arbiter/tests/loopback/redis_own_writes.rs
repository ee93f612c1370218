//! Read your writes, with a real Redis replica whose stream from the primary is held back.

use std::net::SocketAddr;

use crate::support::keyvalue::{encode, string, Client, Server};
use crate::support::{eventually, settings, start, Running};
use testkit::stream::Served;
use testkit::wait::{LIMIT, POLL};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, Instant};

/// A way to a server of which the bytes that come back are held as long as it is closed.
struct Sluice {
    address: SocketAddr,
    open: watch::Sender<bool>,
    _server: Served,
}

impl Sluice {
    async fn to(server: SocketAddr) -> Self {
        let open = watch::Sender::new(true);
        let opened = open.subscribe();
        let way = Served::start(move |stream| pass(stream, server, opened.clone()));
        Self { address: way.address, open, _server: way }
    }
}

async fn pass(near: TcpStream, server: SocketAddr, mut open: watch::Receiver<bool>) -> Option<()> {
    let far = TcpStream::connect(server).await.ok()?;
    let ((mut near_reads, mut near_writes), (mut far_reads, mut far_writes)) =
        (near.into_split(), far.into_split());
    let up = async { tokio::io::copy(&mut near_reads, &mut far_writes).await.ok() };
    let down = async {
        let mut bytes = [0; 4096];
        loop {
            let read = far_reads.read(&mut bytes).await.ok()?;
            open.wait_for(|open| *open).await.ok()?;
            near_writes.write_all(&bytes[..read]).await.ok()?;
        }
    };
    let _: (Option<u64>, Option<()>) = tokio::join!(up, down);
    Some(())
}

struct Lagging {
    primary: Server,
    replica: Server,
    sluice: Sluice,
    arbiter: Running,
}

impl Lagging {
    /// A primary, and a replica that has caught up and then gets nothing more.
    async fn start(own_writes: bool) -> Self {
        let primary = Server::redis().await;
        let sluice = Sluice::to(primary.address).await;
        let replica = Server::replica_behind(sluice.address).await;
        let settings = settings("redis", "round-robin", 1, 64)
            + &format!("redis = {{ read_your_writes = {own_writes} }}\n");
        let arbiter = start(&settings, &[primary.address, replica.address]).await;
        let mut client = Client::open(arbiter.clients).await;
        assert_eq!(client.redis("SET k old").await, "+OK\r\n");
        let direct = &replica;
        eventually("the first value at the replica", || async {
            let value = direct.direct().await.redis("GET k").await;
            (value == string("old")).then_some(())
        })
        .await;
        sluice.open.send_replace(false);
        Self { primary, replica, sluice, arbiter }
    }

    /// Reads what was written until the replica was asked more than so often.
    async fn until_used(&self, client: &mut Client, before: u64) {
        let deadline = Instant::now() + LIMIT;
        while self.replica.calls("get").await == before {
            assert!(Instant::now() < deadline, "the replica is not used again");
            assert_eq!(client.redis("GET k").await, string("new"));
            sleep(POLL).await;
        }
    }
}

#[tokio::test]
async fn a_client_s_reads_see_its_write_while_a_replica_lags_and_others_may_not() {
    let tier = Lagging::start(true).await;
    let mut client = Client::open(tier.arbiter.clients).await;
    let mut other = Client::open(tier.arbiter.clients).await;
    assert_eq!(client.redis("SET k new").await, "+OK\r\n");
    let mut of_others = vec![];
    for _ in 0..20 {
        assert_eq!(client.redis("GET k").await, string("new"));
        of_others.push(other.redis("GET k").await);
    }
    assert!(of_others.contains(&string("old")), "who has not written may read it");
    // Also in one pipeline.
    let mut bytes = encode("SET k newer");
    bytes.extend(encode("GET k"));
    bytes.extend(encode("GET k"));
    client.send(&bytes).await;
    assert_eq!(client.reply().await, "+OK\r\n");
    for _ in 0..2 {
        assert_eq!(client.reply().await, string("newer"));
    }
}

#[tokio::test]
async fn a_writer_comes_back_to_the_replica_once_that_has_the_write() {
    let tier = Lagging::start(true).await;
    let mut client = Client::open(tier.arbiter.clients).await;
    client.redis("SET k new").await;
    let before = tier.replica.calls("get").await;
    for _ in 0..10 {
        assert_eq!(client.redis("GET k").await, string("new"));
    }
    assert_eq!(tier.replica.calls("get").await, before);
    tier.sluice.open.send_replace(true);
    tier.until_used(&mut client, before).await;
}

#[tokio::test]
async fn a_replica_that_comes_back_with_less_is_not_asked_by_a_writer() {
    let mut tier = Lagging::start(true).await;
    let mut client = Client::open(tier.arbiter.clients).await;
    client.redis("SET k new").await;
    let before = tier.replica.calls("get").await;
    tier.sluice.open.send_replace(true);
    tier.until_used(&mut client, before).await;
    // It has no file to begin with, and its primary cannot be heard.
    tier.sluice.open.send_replace(false);
    tier.replica.kill();
    tier.replica.restart();
    tier.replica.ready().await;
    tier.arbiter.until_alive(1).await;
    for _ in 0..20 {
        assert_eq!(client.redis("GET k").await, string("new"));
    }
    assert_eq!(tier.replica.direct().await.redis("GET k").await, "$-1\r\n");
}

#[tokio::test]
async fn without_it_a_client_may_read_what_was_before_its_write() {
    let tier = Lagging::start(false).await;
    let mut client = Client::open(tier.arbiter.clients).await;
    client.redis("SET k new").await;
    let mut values = vec![];
    for _ in 0..4 {
        values.push(client.redis("GET k").await);
    }
    assert!(values.contains(&string("old")), "{values:?}");
}

#[tokio::test]
async fn while_the_primary_is_away_a_writer_gets_an_error_rather_than_what_was_before() {
    let mut tier = Lagging::start(true).await;
    let mut client = Client::open(tier.arbiter.clients).await;
    let mut other = Client::open(tier.arbiter.clients).await;
    client.redis("SET k new").await;
    tier.primary.kill();
    for _ in 0..5 {
        let reply = client.redis("GET k").await;
        assert!(reply.starts_with("-ERR arbiter: "), "{reply}");
    }
    assert_eq!(other.redis("GET k").await, string("old"));
}
