//! The program: its arguments, its messages, its end.

use std::process::{Command, Output};

use crate::support::eventually;
use crate::support::program::{config, Program};
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::Connection;
use testkit::hold::rss_kib_of;
use testkit::wait::end_of;

fn arbiter(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_arbiter")).args(arguments).output().unwrap()
}

#[test]
fn a_good_file_checks_and_a_bad_one_is_refused_in_one_line() {
    let good = config("127.0.0.1:0", "127.0.0.1:1");
    let path = good.path().to_str().unwrap();
    assert!(arbiter(&["--config", path, "--check"]).status.success());
    std::fs::write(path, "replicas = 1").unwrap();
    for (arguments, text) in [
        (&["--config", path, "--check"][..], "missing field"),
        (&["--config", "/dev/null/arbiter.toml"], "/dev/null/arbiter.toml: cannot read"),
        (&["--confg", path], "unknown argument"),
        (&[], "expected --config FILE"),
    ] {
        let output = arbiter(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(text) && !message.contains("panicked"), "{message}");
    }
}

#[test]
fn the_examples_are_good() {
    let mut checked = vec![];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "toml") {
            let output = Command::new(env!("CARGO_BIN_EXE_arbiter"))
                .args(["--config", path.to_str().unwrap(), "--check"])
                .output()
                .unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{}: {message}", path.display());
            checked.push(path);
        }
    }
    assert!(checked.len() >= 3, "{checked:?}");
}

#[test]
fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = config(&address, "127.0.0.1:1");
    let output = arbiter(&["--config", file.path().to_str().unwrap()]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains(&address) && message.contains("taken"), "{message}");
}

#[tokio::test]
async fn on_sigterm_requests_under_way_are_answered_and_no_new_ones_taken() {
    let server = Upstream::start(Behaviour::Gated(ok("the last"))).await;
    let file = config("127.0.0.1:0", &server.address.to_string());
    let mut program = Program::start(&file);
    let mut client = Connection::open(program.clients).await;
    let mut idle = Connection::open(program.clients).await;
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    eventually("the request at the server", || async {
        (server.requests().len() == 1).then_some(())
    })
    .await;
    program.signal("TERM");
    assert!(idle.is_closed().await, "an idle connection ends");
    server.gate.add_permits(1);
    let reply = client.reply(false).await.unwrap();
    assert_eq!(
        (reply.text().as_str(), reply.field("connection").as_deref()),
        ("the last", Some("close"))
    );
    assert!(end_of(&mut program.child).await.success());
}

#[test]
fn log_lines_are_json_where_that_is_asked_for_and_another_word_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = config(&taken.local_addr().unwrap().to_string(), "127.0.0.1:1");
    let run = |log: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbiter"));
        command.env("SPARECRAFT_LOG", log).arg("--config");
        let output = command.arg(file.path()).output().unwrap();
        (output.status.code(), output.stderr)
    };
    let (code, said) = run("warn,json");
    let line: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!((code, &line["level"]), (Some(3), &"ERROR".into()), "{line}");
    assert!(line["fields"]["message"].is_string(), "{line}");
    assert_eq!(run("off"), (Some(3), vec![]));
    assert_eq!(run("loud").0, Some(2));
}

#[tokio::test]
async fn a_large_reply_leaves_no_large_buffer_with_its_client() {
    const CLIENTS: usize = 24;
    const GROWTH_KIB_MAX: u64 = 12 * 1024;
    let body = "x".repeat(1_500_000);
    let [one, two] = Upstream::pair(Behaviour::Reply(ok(&body))).await;
    let file = config("127.0.0.1:0", &one.address.to_string());
    let text = std::fs::read_to_string(file.path()).unwrap();
    let text = text.replace("replicas = 1", "replicas = 2");
    let second = format!("[[servers]]\nname = \"web-2\"\naddress = \"{}\"\n", two.address);
    std::fs::write(file.path(), text + &second).unwrap();
    let program = Program::start(&file);
    let mut clients = vec![];
    let mut after_first_kib = 0;
    for number in 0..CLIENTS {
        let mut client = Connection::open(program.clients).await;
        assert_eq!(client.get("/").await.body.len(), body.len());
        clients.push(client);
        if number == 0 {
            after_first_kib = rss_kib_of(program.child.id()).unwrap();
        }
    }
    let all_kib = rss_kib_of(program.child.id()).unwrap();
    assert!(
        all_kib < after_first_kib + GROWTH_KIB_MAX,
        "{after_first_kib} KiB after the first client, {all_kib} KiB after {CLIENTS}"
    );
}
