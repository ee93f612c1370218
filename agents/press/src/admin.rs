//! The API for operators: health of the node, and its counters.

use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::core::membership::Membership;
use crate::core::node::{Node, Stall};
use crate::engine::Engine;
use crate::http::{next, Reply};

/// Time-out of a request and its answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Answers operators, one at a time, for ever.
pub async fn listen(engine: Rc<Engine>, listener: TcpListener) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let engine = Rc::clone(&engine);
            spawn_local(async move { timeout(TIMEOUT, serve(&engine, stream)).await });
        } else {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn serve(engine: &Engine, mut stream: TcpStream) -> std::io::Result<()> {
    let reply = match next(&mut stream, &mut BytesMut::new()).await {
        Ok(None) => return Ok(()),
        Ok(Some(request)) => match request.path.as_str() {
            "health" => health(engine),
            "metrics" => Reply::text("200 OK", engine.look(|node| metrics(engine, node))),
            _ => Reply::text("404 Not Found", "expected /health or /metrics\n"),
        },
        Err(refusal) => {
            let (status, text) = refusal.status();
            Reply::text(status, text)
        }
    };
    reply.write(&mut stream, false, false).await
}

fn health(engine: &Engine) -> Reply {
    let names = &engine.config.peers;
    engine.look(|node| match (node.membership().serves(), node.stall()) {
        (false, _) => Reply::text("503 Service Unavailable", "the cluster is not formed\n"),
        (true, Some(Stall::Pages)) => Reply::text("503 Service Unavailable", "waits for pages\n"),
        (true, Some(Stall::Peer(peer))) => {
            let text = format!("waits for {}\n", names[peer].name);
            Reply::text("503 Service Unavailable", text)
        }
        (true, None) => Reply::text("200 OK", "ok\n"),
    })
}

/// Returns the metrics in Prometheus' text format.
fn metrics(engine: &Engine, node: &Node) -> String {
    let mut out = String::new();
    let count = node.counters();
    for (source, value) in [("local", count.local), ("peer", count.peer), ("disk", count.disk)] {
        line(&mut out, "press_pages_total", &[("source", source)], value);
    }
    for (name, value) in [
        ("press_missing_total", count.missing),
        ("press_failed_total", count.failed),
        ("press_evicted_total", count.evicted),
        ("press_fetches_gone_total", count.gone),
        ("press_fetches_served_total", count.served),
        ("press_changes_missed_total", count.gaps),
        ("press_links_broken_total", count.broken),
        ("press_cache_bytes", node.cache().bytes()),
        ("press_cache_pages", node.cache().len() as u64),
        ("press_pages_awaited", node.pending() as u64),
        ("press_serves", u64::from(node.membership().serves())),
        ("press_stalled", u64::from(node.stall().is_some())),
    ] {
        line(&mut out, name, &[], value);
    }
    if let Membership::Monitored(monitor) = node.membership() {
        line(&mut out, "press_view_epoch", &[], monitor.view().id.epoch);
        let master = engine.config.peers[monitor.view().id.master].name.as_str();
        line(&mut out, "press_master", &[("node", master)], 1);
    }
    for (peer, entry) in engine.config.peers.iter().enumerate() {
        let labels = [("node", entry.name.as_str())];
        line(&mut out, "press_member", &labels, node.membership().members().contains(peer).into());
        if let Some(link) = node.link(peer) {
            line(&mut out, "press_link_unacknowledged", &labels, link.unacknowledged().into());
            line(&mut out, "press_link_waiting", &labels, link.waiting() as u64);
            line(&mut out, "press_peer_pages", &labels, node.directory().keys_of(peer) as u64);
        }
    }
    out
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", labels.join(",")),
    };
    // A String takes whatever it is given.
    let _ = writeln!(out, "{name}{labels} {value}");
}
