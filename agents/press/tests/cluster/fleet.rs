//! Real processes on the loopback, with pages in a folder of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use tempfile::TempDir;
use testkit::wait::eventually;
use testkit::web;

pub struct Machine {
    pub name: String,
    pub peer: SocketAddr,
    pub http: SocketAddr,
    pub admin: SocketAddr,
    pub process: Option<Child>,
}

pub struct Fleet {
    pub machines: Vec<Machine>,
    pub root: TempDir,
    mode: &'static str,
    extra: Vec<&'static str>,
}

/// The time of silence after which a node has failed, where a test waits for it; elsewhere it is
/// longer than a host may stall.
pub const FAILS_SOON: [&str; 2] = ["--fail-after-ms", "3000"];

pub fn page(number: usize) -> String {
    format!("<title>page-{number}</title>{}", "x".repeat(20_000))
}

pub fn path(number: usize) -> String {
    format!("/page-{number}.html")
}

/// Nodes in a fleet, at the most.
const NODES_MAX: u8 = 4;

/// Number of fleets of this process so far.
static FLEETS: AtomicU8 = AtomicU8::new(0);

/// A part of the loopback's network that no other test has: there no port is anybody else's.
fn addresses() -> impl Fn(usize) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let first = FLEETS.fetch_add(1, Ordering::Relaxed) * NODES_MAX + 1;
    move |index| Ipv4Addr::new(127, 64 + high % 128, low, first + index as u8)
}

impl Fleet {
    /// `count` nodes, none of which runs.
    pub fn new(mode: &'static str, count: usize, extra: &[&'static str]) -> Self {
        let root = TempDir::new().unwrap();
        for number in 0..60 {
            std::fs::write(root.path().join(&path(number)[1..]), page(number)).unwrap();
        }
        let address = addresses();
        let machine = |index| {
            let address = address(index);
            let at = |port| SocketAddr::from((address, port));
            Machine {
                name: format!("web-{index}"),
                peer: at(8090),
                http: at(8080),
                admin: at(8081),
                process: None,
            }
        };
        Self { machines: (0..count).map(machine).collect(), root, mode, extra: extra.to_vec() }
    }

    /// Nodes that all run and serve.
    pub async fn up(mode: &'static str, count: usize, extra: &[&'static str]) -> Self {
        let mut fleet = Self::new(mode, count, extra);
        for node in 0..count {
            fleet.start(node);
        }
        for node in 0..count {
            fleet.until_healthy(node).await;
            fleet.until_members(node, &vec![true; count]).await;
        }
        fleet
    }

    pub fn start(&mut self, node: usize) {
        let pair = |machine: &Machine| format!("{}={}", machine.name, machine.peer);
        let peers: Vec<String> = self.machines.iter().map(pair).collect();
        let machine = &self.machines[node];
        let words = format!(
            "--name {} --peers {} --mode {} --listen {} --admin {} --beat-ms 100 --query-ms 200 \
             --fail-after-ms 60000",
            machine.name,
            peers.join(","),
            self.mode,
            machine.http,
            machine.admin
        );
        let process = Command::new(env!("CARGO_BIN_EXE_press"))
            .args(words.split(' '))
            .arg("--root")
            .arg(self.root.path())
            .args(&self.extra)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        self.machines[node].process = Some(process);
    }

    pub fn kill(&mut self, node: usize) {
        let mut process = self.machines[node].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// `STOP` or `CONT`.
    pub fn signal(&self, node: usize, signal: &str) {
        let process = self.machines[node].process.as_ref().unwrap();
        let words = [format!("-{signal}"), process.id().to_string()];
        assert!(Command::new("kill").args(words).status().unwrap().success());
    }

    pub fn http(&self, node: usize) -> SocketAddr {
        self.machines[node].http
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A page, which is the right one, and where it came from.
    pub async fn page(&self, node: usize, number: usize) -> String {
        let reply = web::get(self.http(node), &path(number)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.text(), page(number));
        reply.field("x-press-source").unwrap()
    }

    pub async fn health(&self, node: usize) -> Option<(u16, String)> {
        self.ask(node, "/health").await
    }

    async fn ask(&self, node: usize, path: &str) -> Option<(u16, String)> {
        // A node that is not there refuses, which the plain client takes for an error of the test.
        tokio::net::TcpStream::connect(self.machines[node].admin).await.ok()?;
        let reply = web::get(self.machines[node].admin, path).await;
        Some((reply.status, reply.text()))
    }

    /// One of its counters.
    pub async fn metric(&self, node: usize, name: &str) -> Option<u64> {
        let (_, text) = self.ask(node, "/metrics").await?;
        let value = |line: &'_ str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned());
        let line = text.lines().find_map(value);
        line.map(|value| value.parse().unwrap())
    }

    pub async fn until_healthy(&self, node: usize) {
        until("it is healthy", || async {
            self.health(node).await.is_some_and(|(code, _)| code == 200)
        })
        .await;
    }

    pub async fn until_unhealthy(&self, node: usize) -> String {
        until("it is not healthy", || async {
            self.health(node).await.is_some_and(|(code, _)| code == 503)
        })
        .await;
        self.health(node).await.unwrap().1
    }

    /// Until `node` works with exactly these.
    pub async fn until_members(&self, node: usize, members: &[bool]) {
        until("the members are these", || async {
            for (peer, &is_member) in members.iter().enumerate() {
                let name = &self.machines[peer].name;
                let member = format!("press_member{{node=\"{name}\"}}");
                let pages = format!("press_peer_pages{{node=\"{name}\"}}");
                let value = self.metric(node, &member).await;
                let is_linked = self.metric(node, &pages).await.is_some();
                if value != Some(is_member.into()) || (peer != node && is_linked != is_member) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Whom `node` takes for the master.
    pub async fn master(&self, node: usize) -> Option<usize> {
        for (peer, machine) in self.machines.iter().enumerate() {
            let name = format!("press_master{{node=\"{}\"}}", machine.name);
            if self.metric(node, &name).await == Some(1) {
                return Some(peer);
            }
        }
        None
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for machine in &mut self.machines {
            if let Some(process) = &mut machine.process {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

pub async fn until<F: std::future::Future<Output = bool>>(state: &str, is: impl Fn() -> F) {
    let look = || {
        let check = is();
        async move { check.await.then_some(()) }
    };
    eventually(state, look).await;
}
