//! Servers by host names. Names are the real resolver's: the program sees a hosts file of its own, in a mount namespace.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::support::program::Program;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, Connection};
use crate::support::{eventually, settings};
use arbiter::config::Config;

/// The program with this hosts file in place of the system's; none where that is not allowed here.
fn with_hosts(config: &tempfile::NamedTempFile, hosts: &Path) -> Option<Program> {
    let allowed = Command::new("unshare").args(["-rm", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        println!("skipped: no mount namespace can be made here (unshare -rm)");
        return None;
    }
    let within = format!(
        "exec unshare -rm sh -c 'mount --bind {} /etc/hosts && exec \"$0\" \"$@\"' \"$0\" \"$@\"",
        hosts.display()
    );
    Some(Program::start_by(config, &within))
}

fn file(servers: &[(&str, String)]) -> tempfile::NamedTempFile {
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"web\"\nresolve_every_ms = 100\n\
         connect_timeout_ms = 1000\n{}",
        settings("http", "round-robin", 1, 4)
    );
    for (name, address) in servers {
        text += &format!("[[servers]]\nname = \"{name}\"\naddress = \"{address}\"\n");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Two servers at one port of two loopback addresses.
async fn at_one_port() -> [Upstream; 2] {
    that_do(Behaviour::Reply).await
}

async fn that_do(behaviour: fn(Vec<u8>) -> Behaviour) -> [Upstream; 2] {
    let one = Upstream::start(behaviour(ok("one"))).await;
    let port = one.address.port();
    let other = SocketAddr::from(([127, 0, 0, 2], port));
    [one, Upstream::start_at(other, behaviour(ok("two")))]
}

async fn stats(program: &Program) -> wire::arbiter::Stats {
    serde_json::from_slice(&get(program.admin, "/v1/stats").await.body).unwrap()
}

#[tokio::test]
async fn a_name_s_change_takes_the_traffic_and_a_name_that_is_lost_does_not() {
    let [one, two] = at_one_port().await;
    let port = one.address.port();
    let hosts = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(hosts.path(), "127.0.0.1 web.test\n").unwrap();
    let config = file(&[("w", format!("web.test:{port}"))]);
    let Some(program) = with_hosts(&config, hosts.path()) else {
        return;
    };
    // One client's connection: it does not notice.
    let mut client = Connection::open(program.clients).await;
    assert_eq!(client.get("/").await.text(), "one");
    let first = stats(&program).await;
    assert_eq!(
        first.servers[0].address.to_string(),
        format!("web.test:{port}")
    );
    assert_eq!(first.servers[0].resolved, [one.address]);
    std::fs::write(hosts.path(), "127.0.0.2 web.test\n").unwrap();
    let meant = |wanted: Vec<SocketAddr>| {
        let program = &program;
        eventually("the name's other addresses", move || {
            let wanted = wanted.clone();
            async move { (stats(program).await.servers[0].resolved == wanted).then_some(()) }
        })
    };
    meant(vec![two.address]).await;
    assert_eq!(client.get("/").await.text(), "two");
    std::fs::write(hosts.path(), "127.0.0.2 web.test\n127.0.0.1 web.test\n").unwrap();
    meant(vec![one.address, two.address]).await;
    let opened = stats(&program).await.servers[0].connections_opened;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(
        stats(&program).await.servers[0].connections_opened,
        opened + 1,
        "a connection of before is not used again"
    );
    std::fs::write(hosts.path(), "127.0.0.1 other.test\n").unwrap();
    let lost = program_says(program, "cannot be resolved").await;
    assert_eq!(get(lost.clients, "/").await.status, 200);
    assert!(stats(&lost).await.servers[0].alive);
}

/// Waits for a line of the program's; reading blocks, so that it is done elsewhere.
async fn program_says(mut program: Program, words: &'static str) -> Program {
    let reading = tokio::task::spawn_blocking(move || {
        let found = program.lines.by_ref().map(Result::unwrap);
        assert!(found.into_iter().any(|line| line.contains(words)));
        program
    });
    reading.await.unwrap()
}

#[tokio::test]
async fn of_a_name_s_addresses_one_that_refuses_is_passed_over() {
    let [one, two] = that_do(Behaviour::Gated).await;
    let port = one.address.port();
    let hosts = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        hosts.path(),
        "127.0.0.1 web.test\n127.0.0.2 web.test\n127.0.0.3 web.test\n",
    )
    .unwrap();
    let config = file(&[("w", format!("web.test:{port}"))]);
    let Some(program) = with_hosts(&config, hosts.path()) else {
        return;
    };
    let mut clients = vec![];
    for _ in 0..6 {
        let mut client = Connection::open(program.clients).await;
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        clients.push(client);
    }
    // All at once: each goes by a connection of its own.
    eventually("six connections", || async {
        let told = stats(&program).await;
        (told.servers[0].in_flight == 6).then_some(())
    })
    .await;
    for server in [&one, &two] {
        server.gate.add_permits(6);
    }
    let mut texts = vec![];
    for mut client in clients {
        texts.push(client.reply(false).await.unwrap().text());
    }
    let count = |name: &str| texts.iter().filter(|text| *text == name).count();
    assert!(count("one") > 0 && count("two") > 0, "{texts:?}");
    let server = stats(&program).await.servers.swap_remove(0);
    assert!(server.alive && server.errors == 0, "{server:?}");
    drop((one, two));
}

#[tokio::test]
async fn a_name_that_means_nothing_yet_is_a_dead_server_until_it_does() {
    let [one, _two] = at_one_port().await;
    let hosts = tempfile::NamedTempFile::new().unwrap();
    let config = file(&[("w", format!("late.test:{}", one.address.port()))]);
    let Some(program) = with_hosts(&config, hosts.path()) else {
        return;
    };
    assert_eq!(get(program.clients, "/").await.status, 502);
    std::fs::write(hosts.path(), "127.0.0.1 late.test\n").unwrap();
    eventually("the server", || async {
        (get(program.clients, "/").await.text() == "one").then_some(())
    })
    .await;
}

#[test]
fn what_is_no_address_is_refused_with_its_line() {
    let good = format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"t\"\n{}\
         [[servers]]\nname = \"a\"\naddress = \"web.test:80\"\n",
        settings("http", "tad", 1, 1)
    );
    assert!(Config::parse(&good, "a.toml").is_ok());
    for (old, new, expected) in [
        ("web.test:80", "web.test", "expected IP:PORT or NAME:PORT"),
        (
            "listen = \"127.0.0.1:0\"",
            "listen = \"a.test:1\"",
            "invalid socket address",
        ),
        (
            "tier",
            "resolve_every_ms = 1\ntier",
            "resolve_every_ms: expected 100 to",
        ),
    ] {
        let refusal = Config::parse(&good.replace(old, new), "a.toml").unwrap_err();
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
}
