//! HTTP/2 clients: many requests on one connection, with a client of its own kind, in the open and by
//! TLS.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::certs::Authority;
use crate::support::http::settings;
use crate::support::program::{config, Program};
use crate::support::upstream::{failure, ok, Behaviour, Upstream};
use crate::support::web::get as get_from;
use crate::support::{eventually, start, Running};
use ::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use testkit::stream::field;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{pause, timeout};

async fn meet<T>(stream: T) -> SendRequest<Bytes>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn open(arbiter: &Running) -> SendRequest<Bytes> {
    meet(TcpStream::connect(arbiter.clients).await.unwrap()).await
}

fn get(path: &str) -> Request<()> {
    let uri = format!("http://a.test{path}");
    Request::get(uri).body(()).unwrap()
}

/// The whole reply, its body with room made for all of it.
async fn whole(reply: Response<RecvStream>) -> (u16, HeaderMap, Vec<u8>) {
    let (parts, mut body) = reply.into_parts();
    let mut bytes = vec![];
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    (parts.status.as_u16(), parts.headers, bytes)
}

async fn rest(mut body: RecvStream) -> Result<(), h2::Error> {
    while let Some(piece) = body.data().await {
        piece?;
    }
    Ok(())
}

async fn ask(client: &mut SendRequest<Bytes>, request: Request<()>) -> (u16, HeaderMap, Vec<u8>) {
    poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
    let (reply, _) = client.send_request(request, true).unwrap();
    whole(reply.await.unwrap()).await
}

#[tokio::test]
async fn many_requests_share_a_connection_and_each_is_cloned() {
    let [one, two] = Upstream::pair(Behaviour::Reply(ok("here"))).await;
    let settings = settings("round-robin", 2, 64) + "forwarded = \"replace\"\n";
    let arbiter = start(&settings, &[one.address, two.address]).await;
    let client = open(&arbiter).await;
    let mut asking = JoinSet::new();
    for number in 0..50 {
        let mut client = client.clone();
        asking.spawn(async move { ask(&mut client, get(&format!("/{number}"))).await });
    }
    while let Some(reply) = asking.join_next().await {
        let (status, fields, body) = reply.unwrap();
        assert_eq!((status, &body[..]), (200, &b"here"[..]));
        assert_eq!(fields["content-length"], "4");
        assert!(fields.contains_key("x-sparecraft-server"));
    }
    let stats = arbiter.all_free().await;
    assert_eq!(stats.requests.answered, 50);
    assert_eq!(stats.requests.cloned, 50);
    assert_eq!(stats.connections.client_accepted, 1);
    let told = one.requests().swap_remove(0);
    for (name, value) in [
        ("host", Some("a.test")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("connection", None),
    ] {
        assert_eq!(field(&told, name), value, "{told}");
    }
}

#[tokio::test]
async fn large_bodies_pass_both_ways_with_and_without_a_length() {
    let body: String = (0..3_000_000u32)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nT: 1\r\n\r\n",
        body.len()
    );
    let until_close = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    for behaviour in [
        Behaviour::Reply(ok(&body)),
        Behaviour::Reply(chunked.into_bytes()),
        Behaviour::ReplyAndClose(until_close.into_bytes()),
    ] {
        let one = Upstream::start(behaviour).await;
        let arbiter = start(&settings("tad", 1, 1), &[one.address]).await;
        let mut client = open(&arbiter).await;
        // The server takes its time to find the end of many chunks.
        for (up, has_length) in [(&body[..300_000], false), (&body[..], true)] {
            let mut request = Request::post("http://a.test/up");
            if has_length {
                request = request.header("content-length", up.len());
            }
            poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
            let request = request.body(()).unwrap();
            let (reply, mut send) = client.send_request(request, false).unwrap();
            let mut rest = Bytes::from(up.to_owned());
            while !rest.is_empty() {
                send.reserve_capacity(rest.len());
                let room = poll_fn(|cx| send.poll_capacity(cx)).await.unwrap().unwrap();
                let piece = rest.split_to(room.min(rest.len()));
                send.send_data(piece, rest.is_empty()).unwrap();
            }
            let (status, fields, received) = whole(reply.await.unwrap()).await;
            assert_eq!(status, 200);
            assert!(received == body.as_bytes(), "{} bytes", received.len());
            assert!(!fields.contains_key("transfer-encoding"));
        }
        let with_length = one.requests().pop().unwrap();
        assert!(with_length.ends_with(&body));
    }
}

#[tokio::test]
async fn heads_and_errors_are_as_ever() {
    let one = Upstream::start(Behaviour::Reply(failure())).await;
    let arbiter = start(&settings("tad", 1, 1), &[one.address]).await;
    let mut client = open(&arbiter).await;
    let head = Request::head("http://a.test/").body(()).unwrap();
    let (status, fields, body) = ask(&mut client, head).await;
    assert_eq!((status, body.len()), (500, 0));
    assert_eq!(fields["content-length"], "6");
    assert_eq!(ask(&mut client, get("/")).await.2, b"failed");
    drop(one);
    let (status, _, body) = ask(&mut client, get("/")).await;
    assert_eq!(status, 502);
    assert!(body.starts_with(b"arbiter: "));
}

#[tokio::test]
async fn a_stream_that_is_reset_is_a_client_that_has_gone() {
    let one = Upstream::start(Behaviour::Silent).await;
    let arbiter = start(&settings("tad", 1, 1), &[one.address]).await;
    let mut client = open(&arbiter).await;
    let (reply, mut send) = client.send_request(get("/"), true).unwrap();
    eventually("the request at the server", || async {
        (one.requests().len() == 1).then_some(())
    })
    .await;
    assert_eq!(arbiter.stats().await.tokens.in_use, 1);
    send.send_reset(Reason::CANCEL);
    drop(reply);
    arbiter.all_free().await;
    assert_eq!(
        arbiter.stats().await.connections.client_open,
        1,
        "it goes on"
    );
}

#[tokio::test]
async fn a_reply_that_is_cut_resets_its_stream_only() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec();
    let one = Upstream::start(Behaviour::ReplyAndClose(cut)).await;
    let arbiter = start(&settings("tad", 1, 1), &[one.address]).await;
    let mut client = open(&arbiter).await;
    for _ in 0..2 {
        poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        let (reply, _) = client.send_request(get("/"), true).unwrap();
        let ended = match reply.await {
            Ok(reply) => rest(reply.into_body()).await,
            // The head of it is not sent any more.
            Err(error) => Err(error),
        };
        let reason = ended.expect_err("a whole body").reason();
        assert_eq!(reason, Some(Reason::INTERNAL_ERROR));
    }
}

#[tokio::test]
async fn by_tls_the_client_chooses() {
    let authority = Authority::new();
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let settings = settings("tad", 1, 1)
        + "forwarded = \"replace\"\n"
        + &format!("tls = {{ {} }}\n", authority.server("a.test").toml());
    let arbiter = start(&settings, &[one.address]).await;
    let stream = authority
        .connect_for(arbiter.clients, "a.test", &[b"h2"])
        .await;
    let stream = stream.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = meet(stream).await;
    let request = Request::get("https://a.test/").body(()).unwrap();
    assert_eq!(ask(&mut client, request).await.2, b"one");
    let told = one.requests().swap_remove(0);
    assert_eq!(field(&told, "x-forwarded-proto"), Some("https"));
    let stream = authority
        .connect_for(arbiter.clients, "a.test", &[b"http/1.1"])
        .await;
    let stream = stream.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

/// The types of these frames.
fn kinds(mut said: &[u8]) -> Vec<u8> {
    let mut kinds = vec![];
    while let [a, b, c, kind, ..] = *said {
        kinds.push(kind);
        said = &said[9 + u32::from_be_bytes([0, a, b, c]) as usize..];
    }
    kinds
}

#[tokio::test]
async fn an_idle_client_that_answers_no_ping_is_told_and_then_left() {
    let one = Upstream::start(Behaviour::Silent).await;
    let arbiter = start(&settings("tad", 1, 1), &[one.address]).await;
    let mut client = TcpStream::connect(arbiter.clients).await.unwrap();
    // It begins, with settings that set nothing, and says no more.
    let begins = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    client.write_all(begins).await.unwrap();
    let mut said = vec![];
    client.read_buf(&mut said).await.unwrap();
    // From here on waiting takes no time.
    pause();
    let end = timeout(Duration::from_secs(3600), client.read_to_end(&mut said)).await;
    end.expect("the connection's end within an hour").unwrap();
    let kinds = kinds(&said);
    let (ping, go_away) = (6, 7);
    assert!(
        kinds.contains(&ping) && kinds.contains(&go_away),
        "{kinds:?}"
    );
}

/// A client that opens 100 streams with windows as large as can be, and reads nothing.
async fn greedy(arbiter: SocketAddr) -> TcpStream {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = &(payload.len() as u32).to_be_bytes()[1..];
        [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    const WINDOW_MAX: u32 = (1 << 31) - 1;
    let window = WINDOW_MAX.to_be_bytes();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend(frame(4, 0, 0, &[&[0, 4], &window[..]].concat()));
    said.extend(frame(8, 0, 0, &(WINDOW_MAX - 65_535).to_be_bytes()));
    for stream in 0..100 {
        // GET, http, /, authority a; the end of the head and of the stream.
        let head = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
        said.extend(frame(1, 5, 2 * stream + 1, &head));
    }
    let mut client = TcpStream::connect(arbiter).await.unwrap();
    client.write_all(&said).await.unwrap();
    client
}

#[tokio::test]
async fn clients_that_open_many_streams_and_read_nothing_take_a_bounded_memory() {
    // Together four times what may be held.
    let one = Upstream::start(Behaviour::Reply(ok(&"x".repeat(2 << 20)))).await;
    let file = config("127.0.0.1:0", &one.address.to_string());
    let text = std::fs::read_to_string(file.path()).unwrap();
    let text = text.replace("\"tad\"", "\"round-robin\"").replace(
        "tokens = 1\n",
        "tokens = 1\nheld_mib_max = 64\nconnect_timeout_ms = 10000\n",
    );
    std::fs::write(file.path(), text).unwrap();
    let program = Program::start(&file);
    let mut clients = vec![];
    for _ in 0..8 {
        clients.push(greedy(program.clients).await);
    }
    eventually("the streams that are each client's own", || async {
        let stats = get_from(program.admin, "/v1/stats").await;
        let stats: wire::arbiter::Stats = serde_json::from_slice(&stats.body).unwrap();
        (stats.requests.received >= 8 * 16).then_some(())
    })
    .await;
    // A quarter of held_mib_max, 4 MiB for each, and the program.
    let rss_kib = program.rss_kib_settled().await;
    assert!(rss_kib < 64 * 1024, "{rss_kib} KiB");
    assert_eq!(clients.len(), 8, "all are there");
}

#[tokio::test]
async fn a_stream_that_finds_no_memory_is_refused_so_that_it_may_be_asked_again() {
    let one = Upstream::start(Behaviour::Gated(ok("here"))).await;
    // A quarter has room for one stream beyond a connection's own 16.
    let settings = settings("round-robin", 1, 1) + "held_mib_max = 1\n";
    let arbiter = start(&settings, &[one.address]).await;
    let client = open(&arbiter).await;
    let mut asking = JoinSet::new();
    for number in 0..30 {
        let mut client = client.clone();
        asking.spawn(async move {
            poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
            let (reply, _) = client
                .send_request(get(&format!("/{number}")), true)
                .unwrap();
            Ok::<_, h2::Error>(whole(reply.await?).await.2)
        });
    }
    for _ in 0..13 {
        let refused = asking.join_next().await.unwrap().unwrap();
        assert_eq!(refused.unwrap_err().reason(), Some(Reason::REFUSED_STREAM));
    }
    one.gate.add_permits(30);
    while let Some(reply) = asking.join_next().await {
        assert_eq!(reply.unwrap().unwrap(), b"here");
    }
    assert_eq!(ask(&mut client.clone(), get("/again")).await.2, b"here");
}
