//! Another server may do it: reads that break off, replies that say nothing of the
//! request.

use crate::support::http::front;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, once};

#[tokio::test]
async fn a_read_goes_to_another_server_where_one_breaks_off_before_its_reply() {
    for broken in [&b""[..], b"HTTP/1.1 200", b"this is not HTTP\r\n\r\n"] {
        let bad = Upstream::start(Behaviour::ReplyAndClose(broken.to_vec())).await;
        let good = Upstream::start(Behaviour::Reply(ok("good"))).await;
        let arbiter = front("round-robin", 1, 1, &[&bad, &good]).await;
        for _ in 0..4 {
            assert_eq!(get(arbiter.clients, "/").await.text(), "good", "{broken:?}");
        }
        assert!(!bad.requests().is_empty(), "it was asked");
        assert_eq!(arbiter.stats().await.requests.failed, 0);
    }
}

#[tokio::test]
async fn a_race_whose_replicas_all_break_off_goes_on_elsewhere() {
    let [one, two] = Upstream::pair(Behaviour::ReplyAndClose(Vec::new())).await;
    let good = Upstream::start(Behaviour::Reply(ok("good"))).await;
    let arbiter = front("round-robin", 2, 1, &[&one, &two, &good]).await;
    for _ in 0..3 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "good");
    }
}

#[tokio::test]
async fn what_is_no_read_is_not_sent_twice() {
    let bad = Upstream::start(Behaviour::ReplyAndClose(Vec::new())).await;
    let good = Upstream::start(Behaviour::Reply(ok("good"))).await;
    let arbiter = front("round-robin", 1, 1, &[&bad, &good]).await;
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(once(arbiter.clients, post).await.status, 502);
    assert_eq!(good.requests().len(), 0);
}

#[tokio::test]
async fn a_reply_that_says_nothing_of_the_request_does_not_win_and_is_no_fault() {
    for status in [408, 421, 425, 429] {
        let reply = format!("HTTP/1.1 {status} Later\r\nContent-Length: 5\r\n\r\nlater");
        let fast = Upstream::start(Behaviour::Reply(reply.clone().into())).await;
        let slow = Upstream::start(Behaviour::Gated(ok("well"))).await;
        let arbiter = front("round-robin", 2, 1, &[&fast, &slow]).await;
        let client = tokio::spawn(get(arbiter.clients, "/"));
        let is_ended = |stats: &wire::arbiter::Stats| {
            let [fast, slow] = [&stats.servers[0], &stats.servers[1]];
            fast.requests == 1 && fast.in_flight == 0 && slow.in_flight == 1
        };
        arbiter.until("the fast reply", is_ended).await;
        slow.gate.add_permits(1);
        assert_eq!(client.await.unwrap().text(), "well", "{status}");
        let server = arbiter.server(0).await;
        assert_eq!((server.errors, server.latency_count), (0, 0));

        let alone = Upstream::start(Behaviour::Reply(reply.into())).await;
        let arbiter = front("round-robin", 2, 1, &[&fast, &alone]).await;
        let reply = get(arbiter.clients, "/").await;
        assert_eq!((reply.status, reply.text().as_str()), (status, "later"));
    }
}

#[tokio::test]
async fn a_trace_that_may_go_no_further_comes_back() {
    let server = Upstream::start(Behaviour::Reply(ok("seen"))).await;
    let arbiter = front("round-robin", 1, 1, &[&server]).await;
    let trace = b"TRACE /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nCookie: c\r\n\r\n";
    let reply = once(arbiter.clients, trace).await;
    assert_eq!(reply.field("content-type").as_deref(), Some("message/http"));
    let back = "TRACE /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n";
    assert_eq!((reply.status, reply.text().as_str()), (200, back));
    assert_eq!(server.requests().len(), 0);
}
