//! Decisions of an arbiter, made again by the simulator from its trace.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::upstream::{failure, ok, Behaviour, Upstream};
use crate::support::web::get;
use crate::support::{eventually, start, Running};
use simulator::{arrivals_s, replay, Ended, Replay};
use testkit::wait::end_of;

async fn traced(more: &str, trace: &Path, servers: &[SocketAddr]) -> Running {
    let settings = format!(
        "protocol = \"http\"\nreplicas = 2\ntokens = 1\ntrace = {trace:?}\n{more}\n\
         guardrails.extra_load_max = 0.9"
    );
    start(&settings, servers).await
}

/// Many at a time, so that some wait for a token.
async fn ask(clients: SocketAddr, count: usize) {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..count {
        asking.spawn(async move { get(clients, "/").await });
    }
    while let Some(reply) = asking.join_next().await {
        reply.unwrap();
    }
}

/// The trace of an arbiter that has stopped.
async fn complete(trace: &Path) -> String {
    eventually("a trace with its last line", || async {
        let text = std::fs::read_to_string(trace).unwrap();
        text.contains("\n{\"end\"").then_some(text)
    })
    .await
}

fn again(text: &str) -> Replay {
    replay("a.trace", text.as_bytes()).unwrap()
}

/// A run in which a server dies and comes back, one fails, and the settings change.
async fn run_with_faults(policy: &str, threads: usize) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web.trace");
    let failing = Upstream::start(Behaviour::Reply(failure())).await;
    let killed = Upstream::start(Behaviour::ReplyAndClose(ok("killed"))).await;
    let (one, two) = (
        Upstream::start(Behaviour::Gated(ok("well"))).await,
        Upstream::start(Behaviour::Reply(ok("well"))).await,
    );
    one.gate.add_permits(1_000);
    let servers = [&failing, &killed, &one, &two].map(|server| server.address);
    let more = format!("policy = \"{policy}\"\nthreads = {threads}");
    let arbiter = traced(&more, &path, &servers).await;
    for _ in 0..5 {
        ask(arbiter.clients, 12).await;
    }
    if policy == "hedge" {
        stall_until_hedged(&arbiter, &one).await;
    }
    let place = killed.address;
    drop(killed);
    let alive = |stats: &wire::arbiter::Stats| stats.servers[1].alive;
    for _ in 0..20 {
        ask(arbiter.clients, 12).await;
        if !alive(&arbiter.stats().await) {
            break;
        }
    }
    arbiter.until("the server's death", |it| !alive(it)).await;
    arbiter.put("/v1/policy", "{\"policy\":\"tad\",\"tokens\":2}").await;
    ask(arbiter.clients, 12).await;
    arbiter.put("/v1/guardrails", "{\"consecutive_failures\":2}").await;
    let back = Upstream::start_at(place, Behaviour::Reply(ok("killed")));
    arbiter.until("the server's return", alive).await;
    let policy = format!("{{\"policy\":\"{policy}\"}}");
    arbiter.put("/v1/policy", &policy).await;
    ask(arbiter.clients, 24).await;
    drop(arbiter);
    let text = complete(&path).await;
    drop((failing, one, two, back));
    text
}

/// One server stalls until a request that it has was sent to another, too.
async fn stall_until_hedged(arbiter: &Running, one: &Upstream) {
    let open = one.gate.available_permits();
    one.gate.forget_permits(open);
    let clients = arbiter.clients;
    let asking = tokio::spawn(async move { ask(clients, 12).await });
    let hedged = |stats: &wire::arbiter::Stats| stats.guarded.hedges > 0;
    arbiter.until("a hedge", hedged).await;
    one.gate.add_permits(1_000);
    asking.await.unwrap();
}

#[tokio::test]
async fn the_simulator_decides_as_the_arbiter_did_under_every_kind_of_policy() {
    let (tad, c3, hedge, random) = tokio::join!(
        run_with_faults("tad", 1),
        run_with_faults("c3", 1),
        run_with_faults("hedge", 2),
        run_with_faults("random", 2)
    );
    for (policy, text) in [("tad", tad), ("c3", c3), ("hedge", hedge), ("random", random)] {
        for call in ["down", "up", "policy", "tokens", "guardrails", "error"] {
            assert!(text.contains(&format!("{{\"{call}\":")), "{policy}: no {call:?}");
        }
        let is_kind = |it: &str| match policy {
            "hedge" => it.contains("{\"hedge\":") && it.contains("{\"found\":true}"),
            "tad" => it.contains("{\"release\":") && !it.contains("\"grants\":[]"),
            _ => it.contains("\"exclude\":[],\"avoid\":[]}"),
        };
        assert!(text.lines().any(is_kind), "{policy}: its own way to give");
        let done = again(&text);
        assert_eq!(done.first_difference, None, "{policy}");
        assert_eq!((done.policy, done.ended), (policy, Ended::Exit));
        assert_eq!(done.equal, done.compared);
        assert!(done.compared > 300 && done.grants > 90, "{done:?}");
        assert!(arrivals_s("a.trace", text.as_bytes()).unwrap().len() >= 96);
    }
}

#[tokio::test]
async fn an_altered_decision_is_named_by_its_line() {
    let text = run_with_faults("tad", 1).await;
    let first_line = |wanted: &str| {
        let place = text.lines().position(|line| line.contains(wanted));
        place.unwrap() + 1
    };
    let line = first_line("\"grants\":[[3,");
    let altered = change(&text, line, |it| it.replace("\"grants\":[[3,", "\"grants\":[[4,"));
    let difference = again(&altered).first_difference.unwrap();
    assert_eq!(difference.line, line as u64);
    assert!(difference.recorded.contains("\"grants\":[[4,"), "{difference:?}");
    assert!(difference.replayed.contains("\"grants\":[[3,"), "{difference:?}");
    let done = again(&altered);
    assert_eq!(done.compared - done.equal, 1, "one outcome was altered");

    // A cause that is altered shows later.
    let down = first_line("{\"down\":");
    let altered = change(&text, down, |it| it.replace("{\"down\":", "{\"up\":"));
    let difference = again(&altered).first_difference.unwrap();
    assert!(difference.line > down as u64, "{difference:?}");
}

fn change(text: &str, line: usize, how: impl Fn(&str) -> String) -> String {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(place, it)| if place + 1 == line { how(it) } else { it.to_owned() });
    lines.map(|it| it + "\n").collect()
}

#[tokio::test]
async fn a_trace_ends_at_its_limit_and_the_arbiter_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web.trace");
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let settings = "policy = \"tad\"\ntrace_lines_max = 10";
    let other = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let arbiter = traced(settings, &path, &[server.address, other.address]).await;
    ask(arbiter.clients, 20).await;
    let text = complete(&path).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "here");
    let last = "{\"end\":{\"reason\":\"full\",\"calls\":10}}";
    assert_eq!(text.lines().last(), Some(last));
    let done = again(&text);
    assert_eq!((done.compared, done.ended), (10, Ended::Full));
    assert_eq!(done.first_difference, None);
}

#[tokio::test]
async fn the_program_completes_its_trace_at_sigterm_and_refuses_one_it_cannot_write() {
    let directory = tempfile::tempdir().unwrap();
    let (file, trace) = (directory.path().join("a.toml"), directory.path().join("a.trace"));
    let config = |trace: &Path| {
        let text = format!(
            "protocol = \"http\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
             tier = \"web\"\nreplicas = 1\ntokens = 1\nseed = 7\ntrace = {trace:?}\n\
             [[servers]]\nname = \"web-1\"\naddress = \"127.0.0.1:1\"\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbiter"));
        command.arg("--config").arg(&file).stderr(Stdio::piped());
        command
    };
    config(&trace);
    let mut child = program().spawn().unwrap();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut String::new()).unwrap();
    let signalled = Command::new("kill").arg(child.id().to_string()).status();
    assert!(signalled.unwrap().success());
    assert!(end_of(&mut child).await.success());
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(
        text.contains("\"seed\":7,") && text.ends_with("{\"reason\":\"exit\",\"calls\":0}}\n"),
        "{text}"
    );
    config(&directory.path().join("missing/a.trace"));
    let output = program().output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("a.trace\": cannot be written"), "{message}");
}
