//! `/metrics` and `/health`: for those who watch many services alike.

use std::collections::BTreeMap;

use crate::support::http::{front, settings};
use crate::support::upstream::{nobody, ok, Behaviour, Upstream};
use crate::support::web::{get, Connection};
use crate::support::{eventually, start};

/// Every sample by its name and labels; panics where a line is not of the format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut families = BTreeMap::new();
    let mut found = BTreeMap::new();
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
            assert_eq!(found.insert(name.to_owned(), value), None, "{line}");
        }
    }
    found
}

#[tokio::test]
async fn metrics_say_what_happened() {
    let server = Upstream::start(Behaviour::Reply(ok("x"))).await;
    let arbiter = front("tad", 1, 4, &[&server]).await;
    for _ in 0..5 {
        get(arbiter.clients, "/").await;
    }
    arbiter
        .until("all replies", |stats| stats.requests.answered == 5)
        .await;
    let reply = get(arbiter.admin, "/metrics").await;
    let kind = reply.field("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let found = samples(&reply.text());
    for (name, value) in [
        (
            "arbiter_requests_total{tier=\"test\",fate=\"answered\"}",
            5.0,
        ),
        ("arbiter_requests_total{tier=\"test\",fate=\"failed\"}", 0.0),
        ("arbiter_server_up{tier=\"test\",server=\"s0\"}", 1.0),
        (
            "arbiter_server_requests_total{tier=\"test\",server=\"s0\"}",
            5.0,
        ),
        (
            "arbiter_request_latency_seconds_bucket{tier=\"test\",le=\"+Inf\"}",
            5.0,
        ),
        ("arbiter_request_latency_seconds_count{tier=\"test\"}", 5.0),
        ("arbiter_local_errors_total{tier=\"test\"}", 0.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}: {found:#?}");
    }
    let le = |most: &str| {
        found[&format!("arbiter_request_latency_seconds_bucket{{tier=\"test\",le=\"{most}\"}}")]
    };
    assert!(le("0.001") <= le("0.1") && le("0.1") <= le("30"));
}

#[tokio::test]
async fn servers_are_told_who_asked() {
    let server = Upstream::start(Behaviour::Reply(ok("x"))).await;
    let text = settings("tad", 1, 4) + "forwarded = \"replace\"\n";
    let arbiter = start(&text, &[server.address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client
        .send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n")
        .await;
    assert_eq!(client.reply(false).await.unwrap().text(), "x");
    let seen = server.requests().remove(0);
    assert!(
        seen.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n"),
        "{seen}"
    );
    assert!(
        seen.contains("\r\nForwarded: for=127.0.0.1;proto=http\r\n"),
        "{seen}"
    );
    assert!(!seen.contains("9.9.9.9"), "{seen}");
}

#[tokio::test]
async fn each_request_has_a_line_in_the_log() {
    let server = Upstream::start(Behaviour::Reply(ok("x"))).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let text = format!("{}access_log = {path:?}\n", settings("tad", 1, 4));
    let arbiter = start(&text, &[server.address, nobody()]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client
        .send(b"GET /a?b=%22 HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\n\r\n")
        .await;
    assert_eq!(client.reply(false).await.unwrap().text(), "x");
    let post = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
    client.send(post.as_bytes()).await;
    assert_eq!(client.reply(false).await.unwrap().status, 400);
    assert_eq!(get(arbiter.clients, "/d").await.status, 200);
    let lines: Vec<serde_json::Value> = eventually("three lines", || async {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        let lines: Vec<_> = lines.collect::<Result<_, _>>().ok()?;
        (lines.len() == 3).then_some(lines)
    })
    .await;
    assert_eq!(lines[0]["id"], "mine");
    assert_eq!(lines[0]["target"], "/a?b=%22");
    assert_eq!(lines[0]["status"], 200);
    assert_eq!(lines[0]["server"], "s0");
    assert_eq!(lines[0]["client"], "127.0.0.1");
    assert_eq!(
        (&lines[1]["method"], &lines[1]["status"]),
        (&"POST".into(), &400.into())
    );
    assert_eq!(lines[1].get("server"), None);
    let given = lines[2]["id"].as_str().unwrap();
    let seen = server.requests();
    assert!(seen[0].contains("\r\nX-Request-ID: mine\r\n"), "{seen:?}");
    let last = seen.last().unwrap();
    assert!(
        last.contains(&format!("\r\nX-Request-ID: {given}\r\n")),
        "{seen:?}"
    );
}

/// What the unit says, the program knows.
#[test]
fn the_systemd_unit_starts_and_reloads_the_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let unit = std::fs::read_to_string(format!("{folder}/arbiter.service")).unwrap();
    let example = format!("{folder}/web.toml");
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("{key} in the unit"))
    };
    assert_eq!(value("ExecReload="), "/bin/kill -HUP $MAINPID");
    let check = value("ExecStartPre=").replace("/etc/arbiter.toml", &example);
    let start = value("ExecStart=").replace("/etc/arbiter.toml", &example);
    assert_eq!(format!("{start} --check"), check);
    let arguments = check.split(' ').skip(1);
    let checked = std::process::Command::new(env!("CARGO_BIN_EXE_arbiter"))
        .args(arguments)
        .status();
    assert!(checked.unwrap().success());
}

#[tokio::test]
async fn health_is_bad_while_no_server_can_be_asked() {
    let address = nobody();
    let arbiter = start(&settings("tad", 1, 4), &[address]).await;
    let reply = get(arbiter.admin, "/health").await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, r#"{"alive":1,"servers":1}"#)
    );
    get(arbiter.clients, "/").await;
    let reply = get(arbiter.admin, "/health").await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (503, r#"{"alive":0,"servers":1}"#)
    );
    let _server = Upstream::start_at(address, Behaviour::Reply(ok("x")));
    arbiter.until_alive(0).await;
    assert_eq!(get(arbiter.admin, "/health").await.status, 200);
}
