//! `/metrics` and `/health`: for those who watch many services alike.

use std::collections::BTreeMap;

use crate::support::http::{front, settings};
use crate::support::start;
use crate::support::upstream::{nobody, ok, Behaviour, Upstream};
use crate::support::web::get;

/// Every sample by its name and labels; panics where a line is not of the format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut families = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(families.insert(name.to_owned(), kind), None, "{line}");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            let is_part = |end: &str| {
                let whole = family.strip_suffix(end);
                whole.is_some_and(|whole| families.get(whole) == Some(&"histogram"))
            };
            let is_known = families.contains_key(family)
                || ["_bucket", "_sum", "_count"].into_iter().any(is_part);
            assert!(is_known, "{line}");
            let value = value.parse().unwrap();
            assert_eq!(samples.insert(name.to_owned(), value), None, "{line}");
        }
    }
    samples
}

#[tokio::test]
async fn metrics_say_what_happened() {
    let server = Upstream::start(Behaviour::Reply(ok("x"))).await;
    let arbiter = front("tad", 1, 4, &[&server]).await;
    for _ in 0..5 {
        get(arbiter.clients, "/").await;
    }
    arbiter.until("all replies", |stats| stats.requests.answered == 5).await;
    let reply = get(arbiter.admin, "/metrics").await;
    let kind = reply.field("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let samples = samples(&reply.text());
    let table = [
        ("arbiter_requests_total{tier=\"test\",fate=\"answered\"}", 5.0),
        ("arbiter_requests_total{tier=\"test\",fate=\"failed\"}", 0.0),
        ("arbiter_server_up{tier=\"test\",server=\"s0\"}", 1.0),
        ("arbiter_server_requests_total{tier=\"test\",server=\"s0\"}", 5.0),
        ("arbiter_request_latency_seconds_bucket{tier=\"test\",le=\"+Inf\"}", 5.0),
        ("arbiter_request_latency_seconds_count{tier=\"test\"}", 5.0),
        ("arbiter_local_errors_total{tier=\"test\"}", 0.0),
    ];
    for (name, value) in table {
        assert_eq!(samples.get(name), Some(&value), "{name}: {samples:#?}");
    }
    let le = |most: &str| {
        samples[&format!("arbiter_request_latency_seconds_bucket{{tier=\"test\",le=\"{most}\"}}")]
    };
    assert!(le("0.001") <= le("0.1") && le("0.1") <= le("30"));
}

#[tokio::test]
async fn health_is_bad_while_no_server_can_be_asked() {
    let address = nobody();
    let arbiter = start(&settings("tad", 1, 4), &[address]).await;
    let reply = get(arbiter.admin, "/health").await;
    assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"alive":1,"servers":1}"#));
    get(arbiter.clients, "/").await;
    let reply = get(arbiter.admin, "/health").await;
    assert_eq!((reply.status, reply.text().as_str()), (503, r#"{"alive":0,"servers":1}"#));
    let _server = Upstream::start_at(address, Behaviour::Reply(ok("x")));
    arbiter.until_alive(0).await;
    assert_eq!(get(arbiter.admin, "/health").await.status, 200);
}
