//! Peers and clients that misbehave. The test plays node 1 of two, and speaks as bytes, not by the
//! server's own code.

use std::net::SocketAddr;
use std::process::Command;

use testkit::stream::stop_listening;
use testkit::wait::{eventually, within_limit};
use testkit::web;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::fleet::{self, Fleet};

/// A node that the test plays: connected, with a cluster's number learnt from the real one.
struct Impostor(TcpStream);

/// Node 0 of two, formed with an impostor. The number of the cluster is the test's to know: what node
/// 1 would say first, taken from a real node 1.
async fn with_impostor() -> (Fleet, Impostor) {
    let mut fleet = Fleet::new("perf", 2, &[]);
    let words = words_of_node_1(&mut fleet).await;
    fleet.start(0);
    let stream = introduce(&fleet, &words).await;
    fleet.until_healthy(0).await;
    (fleet, Impostor(stream))
}

/// The first message of a real node 1, to a node 0 that the test plays.
async fn words_of_node_1(fleet: &mut Fleet) -> Vec<u8> {
    let listener = TcpListener::bind(fleet.machines[0].peer).await.unwrap();
    fleet.start(1);
    let mut words = vec![0; 13];
    within_limit("the first message of a node", async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut words).await.unwrap();
    })
    .await;
    stop_listening(&listener);
    fleet.kill(1);
    words
}

/// A connection on which node 0 has answered; on a busy machine one may be given up before that.
async fn introduce(fleet: &Fleet, words: &[u8]) -> TcpStream {
    eventually("a node that lets another in", || async {
        let mut stream = connect(fleet).await?;
        let mut answer = vec![0; words.len()];
        stream.write_all(words).await.ok()?;
        stream.read_exact(&mut answer).await.ok()?;
        assert_eq!(answer[..12], words[..12]);
        Some(stream)
    })
    .await
}

/// Node 0's port of nodes, from node 1's address; none where it does not listen.
async fn connect(fleet: &Fleet) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    let own = SocketAddr::new(fleet.machines[1].peer.ip(), 0);
    socket.bind(own).unwrap();
    socket.connect(fleet.machines[0].peer).await.ok()
}

impl Impostor {
    async fn say(&mut self, kind: u8, rest: &[u8]) {
        let mut bytes = (rest.len() as u32 + 1).to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(rest);
        self.0.write_all(&bytes).await.unwrap();
    }

    /// "I have this page."
    async fn claim(&mut self, key: &str) {
        let mut rest = 1_u64.to_le_bytes().to_vec();
        rest.push(1);
        rest.extend(1_u32.to_le_bytes());
        rest.extend((key.len() as u16).to_le_bytes());
        rest.extend(key.as_bytes());
        rest.extend(0_u32.to_le_bytes());
        self.say(1, &rest).await;
    }

    /// The next fetch that comes, by its number.
    async fn fetch(&mut self) -> [u8; 8] {
        within_limit("a fetch", async {
            loop {
                let length = self.0.read_u32_le().await.unwrap() as usize;
                let mut message = vec![0; length];
                self.0.read_exact(&mut message).await.unwrap();
                if message[0] == 2 {
                    return message[1..9].try_into().unwrap();
                }
            }
        })
        .await
    }

    async fn until_cut_off(&mut self) {
        // With or without a reset.
        let _ = within_limit("a node that cuts off", self.0.read_to_end(&mut vec![])).await;
    }
}

async fn request_to_impostor() -> (Fleet, Impostor, JoinHandle<web::Reply>, [u8; 8]) {
    let (fleet, mut impostor) = with_impostor().await;
    impostor.claim("page-7.html").await;
    fleet::until("the claim is heard", || async {
        fleet.metric(0, "press_peer_pages{node=\"web-1\"}").await == Some(1)
    })
    .await;
    let reply = tokio::spawn(web::get(fleet.http(0), "/page-7.html"));
    let id = impostor.fetch().await;
    (fleet, impostor, reply, id)
}

async fn assert_read_from_disk(reply: JoinHandle<web::Reply>) {
    let reply = reply.await.unwrap();
    assert_eq!(reply.text(), fleet::page(7));
    assert_eq!(reply.field("x-press-source").as_deref(), Some("disk"));
}

#[tokio::test]
async fn half_a_page_of_a_peer_is_not_served() {
    let (_fleet, mut impostor, reply, id) = request_to_impostor().await;
    let mut half = 20_012_u32.to_le_bytes().to_vec();
    half.push(3);
    half.extend(id);
    half.extend([0; 5_000]);
    impostor.0.write_all(&half).await.unwrap();
    drop(impostor);
    assert_read_from_disk(reply).await;
}

#[tokio::test]
async fn a_page_that_is_another_is_not_served_and_its_sender_is_cut_off() {
    let (_fleet, mut impostor, reply, id) = request_to_impostor().await;
    let mut page = id.to_vec();
    page.extend(0_u32.to_le_bytes());
    page.extend(b"<title>another</title>");
    impostor.say(3, &page).await;
    assert_read_from_disk(reply).await;
    impostor.until_cut_off().await;
}

#[tokio::test]
async fn a_peer_that_sends_garbage_is_cut_off() {
    let (fleet, mut impostor, reply, _) = request_to_impostor().await;
    impostor.say(99, b"garbage").await;
    assert_read_from_disk(reply).await;
    impostor.until_cut_off().await;
    fleet.page(0, 8).await;
}

#[tokio::test]
async fn a_page_that_a_peer_has_no_more_is_read_from_disk() {
    let (_fleet, mut impostor, reply, id) = request_to_impostor().await;
    impostor.say(4, &id).await;
    assert_read_from_disk(reply).await;
}

#[tokio::test]
async fn a_lost_change_is_asked_for() {
    let (fleet, mut impostor) = with_impostor().await;
    let change = |number: u64, is_reset: u8| {
        let mut rest = number.to_le_bytes().to_vec();
        rest.extend([is_reset, 0, 0, 0, 0, 0, 0, 0, 0]);
        rest
    };
    impostor.say(1, &change(1, 1)).await;
    impostor.say(1, &change(3, 0)).await;
    fleet::until("it is noticed", || async {
        fleet.metric(0, "press_changes_missed_total").await == Some(1)
    })
    .await;
}

#[tokio::test]
async fn strangers_on_the_port_of_nodes_are_not_let_in() {
    let (fleet, _impostor) = with_impostor().await;
    for words in ["GET / HTTP/1.1\r\n\r\n", "PRESS/1\n\0\0\0\0\x01", ""] {
        let mut stream = connect(&fleet).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = vec![];
        // A reset is an end, too.
        let _ = within_limit("the end of a stranger", stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
    }
    fleet.page(0, 1).await;
}

#[tokio::test]
async fn a_file_that_vanishes_is_missing_once_nobody_has_it() {
    let fleet = Fleet::up("ha", 2, &[]).await;
    fleet.page(0, 1).await;
    for number in [1, 2] {
        std::fs::remove_file(fleet.root().join(&fleet::path(number)[1..])).unwrap();
    }
    assert_eq!(fleet.page(0, 1).await, "local");
    assert_eq!(web::get(fleet.http(0), &fleet::path(2)).await.status, 404);
    assert_eq!(fleet.metric(0, "press_missing_total").await, Some(1));
}

#[tokio::test]
async fn clients_that_hang_up_leave_their_place_to_others() {
    let small = ["--connections", "4", "--window", "1", "--queue", "1"];
    let fleet = Fleet::up("perf", 2, &small).await;
    let mut client = TcpStream::connect(fleet.http(0)).await.unwrap();
    let first = b"GET /page-0.html HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(first).await.unwrap();
    client.read_exact(&mut [0; 20_000]).await.unwrap();
    fleet.signal(1, "STOP");
    for number in 1..4 {
        let mut client = TcpStream::connect(fleet.http(0)).await.unwrap();
        let request = format!("GET /page-{number}.html HTTP/1.1\r\nHost: a\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        // Asked, not waited for.
        drop(client);
    }
    fleet.signal(1, "CONT");
    for number in 0..20 {
        fleet.page(0, number).await;
    }
    drop(client);
}

#[tokio::test]
async fn bad_requests_get_clear_errors() {
    let fleet = Fleet::up("ha", 1, &[]).await;
    for (request, status) in [
        ("BREW / HTTP/1.1\r\n\r\n", 405),
        ("GET /page-1.html HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        ("GET /../../etc/passwd HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        ("GET /%2e%2e/x HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        ("nonsense\r\n\r\n", 400),
    ] {
        let reply = web::once(fleet.http(0), request.as_bytes()).await;
        assert_eq!(reply.status, status, "{request}");
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9_000));
    let mut client = TcpStream::connect(fleet.http(0)).await.unwrap();
    client.write_all(long.as_bytes()).await.unwrap();
    fleet.page(0, 1).await;
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own() {
    let run = |words: &[&str]| {
        let mut press = Command::new(env!("CARGO_BIN_EXE_press"));
        press.args(words).output().unwrap().status.code()
    };
    assert_eq!(run(&["--help"]), Some(0));
    assert_eq!(run(&["--mode", "fast"]), Some(2));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peers = format!("a={}", listener.local_addr().unwrap());
    let words = ["--name", "a", "--peers", &peers, "--root", "."];
    assert_eq!(run(&words), Some(1));
}
