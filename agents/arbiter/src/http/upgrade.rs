//! WebSocket: a connection that changes its protocol (RFC 9110, 7.8).
//!
//! The request goes to one server, as one that may change something. If the server switches, bytes
//! pass both ways from then on, whatever they are, until both sides have ended. The token covers the
//! request only: what follows is nobody's work. It may be silent for `idle_timeout_ms`; whoever means
//! to be silent for longer pings (RFC 6455, 5.5.2). If it does not switch, its
//! reply is like any other. Nothing but `websocket` is passed on: a server that is led to speak h2c
//! would take requests that the arbiter never sees.

use super::answer::{After, Client};
use super::head::{RequestHead, ResponseHead};
use super::relay::Sent;
use super::Front;
use crate::conn::Conn;
use crate::splice::join;

/// Tells the client that the server has switched. What it has said behind its head goes with it.
pub async fn switch(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    sent: Sent,
    mut head: ResponseHead,
) -> After {
    let Sent {
        server,
        lease,
        mut link,
        flight,
        ..
    } = sent;
    flight.good();
    flight.won();
    drop((flight, lease));
    head.close_for(&front.tier.server(server).name, request, true, None);
    let first = link.conn.buffer.split();
    let limit = front.tier.config().request_timeout();
    let told = client.conn.write_both(&head.forward, &first, limit).await;
    head.may_switch = false;
    client.reply = head;
    if told.is_err() {
        front.tier.counters.failed.inc();
        return After::Abort;
    }
    front.tier.counters.answered.inc();
    client.tunnel = Some(link.conn);
    After::Tunnel
}

/// Passes bytes on until both have ended.
pub async fn pass(front: &Front, client: Conn, mut server: Conn) {
    let (mut client, said) = client.into_parts();
    let limit = front.tier.config().request_timeout();
    if server.write(&said, limit).await.is_err() {
        return;
    }
    let (mut server, _) = server.into_parts();
    // An error is an end as well; both connections close then.
    let idle_max = front.tier.config().idle_timeout();
    let _ = join(&mut client, &mut server, idle_max, || {}).await;
}
