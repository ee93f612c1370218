//! MySQL servers that cannot be reached for a while, and what that means to sessions.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use crate::support::mariadb::{connect, number, session, MariaDb};
use crate::support::{eventually, settings, start};
use mysql_async::prelude::Queryable;
use testkit::stream::Served;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// In front of a server: so many of the next connections are taken and left without a word.
struct Door {
    address: SocketAddr,
    late: Arc<AtomicUsize>,
    _server: Served,
}

impl Door {
    async fn of(server: SocketAddr) -> Self {
        let late = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&late);
        let door = Served::start(move |client| pass(client, server, Arc::clone(&left)));
        Self { address: door.address, late, _server: door }
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, late: Arc<AtomicUsize>) {
    let fewer = |left: usize| left.checked_sub(1);
    if late.fetch_update(SeqCst, SeqCst, fewer).is_ok() {
        return std::future::pending().await;
    }
    let mut server = TcpStream::connect(server).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[tokio::test]
async fn a_server_that_is_late_while_it_answers_others_is_tried_again_and_stays_alive() {
    let server = MariaDb::start().await;
    for replicas in [1, 2] {
        let mut doors = vec![];
        for _ in 0..replicas {
            doors.push(Door::of(server.address).await);
        }
        let addresses: Vec<_> = doors.iter().map(|door| door.address).collect();
        let settings = settings("mysql", "tad", replicas, 4) + "connect_timeout_ms = 3000\n";
        let arbiter = start(&settings, &addresses).await;
        let mut others = connect(&arbiter).await;
        others.query_drop("SELECT 1").await.unwrap();
        let others = tokio::spawn(async move {
            loop {
                others.query_drop("SELECT 2").await.unwrap();
                sleep(Duration::from_millis(20)).await;
            }
        });
        doors.iter().for_each(|door| door.late.store(1, SeqCst));
        let mut conn = connect(&arbiter).await;
        assert_eq!(number(&mut conn, "SELECT 3").await, 3);
        conn.query_drop("SET max_sort_length = 2048").await.unwrap();
        eventually("all its connections", || async {
            let statements = server.statements("max_sort_length").await;
            (statements.len() == replicas).then_some(())
        })
        .await;
        assert!(doors.iter().all(|door| door.late.load(SeqCst) == 0));
        for server in arbiter.stats().await.servers {
            assert_eq!((server.errors, server.alive), (0, true), "r = {replicas}");
        }
        others.abort();
        server.run("TRUNCATE mysql.general_log").await;
    }
}

#[tokio::test]
async fn a_session_goes_on_where_another_server_takes_it_in_time() {
    let server = MariaDb::start().await;
    for (policy, replicas) in [("round-robin", 1), ("hedge", 2)] {
        let doors = [Door::of(server.address).await, Door::of(server.address).await];
        let addresses = doors.each_ref().map(|door| door.address);
        let settings = settings("mysql", policy, replicas, 4) + "connect_timeout_ms = 1000\n";
        let arbiter = start(&settings, &addresses).await;
        let mut others = vec![];
        for _ in &doors {
            let mut other = connect(&arbiter).await;
            others.push(tokio::spawn(async move {
                loop {
                    other.query_drop("SELECT 2").await.unwrap();
                    sleep(Duration::from_millis(20)).await;
                }
            }));
        }
        doors[0].late.store(usize::MAX, SeqCst);
        for _ in 0..4 {
            let mut conn = connect(&arbiter).await;
            assert_eq!(number(&mut conn, "SELECT 3").await, 3, "{policy}");
        }
        others.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test]
async fn a_server_that_failed_once_serves_the_session_when_it_is_back() {
    let (mut servers, arbiter, mut conn) = session::<2>("round-robin", 1, 1, "").await;
    let ports = servers.each_ref().map(|it| u64::from(it.address.port()));
    let first = usize::from(number(&mut conn, "SELECT @@port").await == ports[1]);
    // It is the first one's turn again.
    let _other = connect(&arbiter).await;
    servers[first].kill();
    assert_eq!(number(&mut conn, "SELECT @@port").await, ports[1 - first]);
    assert_eq!(arbiter.server(first).await.errors, 1, "it was tried");
    servers[first].restart();
    servers[first].until_ready().await;
    arbiter.until_alive(first).await;
    servers[1 - first].kill();
    assert_eq!(number(&mut conn, "SELECT @@port").await, ports[first]);
}
