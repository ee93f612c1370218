//! Server connections of requests that are no reads.

use crate::support::http::{front, settings};
use crate::support::start;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::Connection;
use testkit::stream::Served;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";

#[tokio::test]
async fn one_after_the_other_they_take_few_connections() {
    let server = Upstream::start(Behaviour::Reply(ok("done"))).await;
    let arbiter = front("round-robin", 1, 1, &[&server]).await;
    let mut client = Connection::open(arbiter.clients).await;
    for _ in 0..50 {
        client.send(POST).await;
        assert_eq!(client.reply(false).await.unwrap().status, 200);
    }
    let stats = arbiter.server(0).await;
    // On a busy host one may have been idle for a second.
    assert!(stats.connections_opened < 25, "{stats:?}");
    assert_eq!(server.requests().len(), 50);
}

#[tokio::test]
async fn none_is_lost_or_doubled_where_the_server_closes_what_is_idle() {
    let (count, mut counted) = tokio::sync::mpsc::unbounded_channel();
    let server = Served::start(move |mut stream| {
        let count = count.clone();
        async move {
            let mut request = [0; 4096];
            // Announces that it keeps the connection, and closes it with the reply.
            if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                let _ = count.send(());
                let _ = stream.write_all(&ok("done")).await;
            }
        }
    });
    let arbiter = start(&settings("round-robin", 1, 1), &[server.address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    let mut good = 0;
    for turn in 0..200 {
        client.send(POST).await;
        let reply = client.reply(false).await.unwrap();
        good += u64::from(reply.status == 200);
        if turn < 2 {
            // Until it is known to be hasty it may be met in the act; what that costs is an error.
            assert!([200, 502].contains(&reply.status));
            continue;
        }
        assert_eq!(reply.status, 200, "request {turn}");
    }
    let mut count = 0;
    while counted.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, good, "each that was answered was done once");
}
