//! A real etcd and a real MariaDB, and processes of the lots on them, all gone at the end of a
//! test.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use arbiter::config::Config;
use arbiter::server::Arbiter;
use parking_lot::etcd::Etcd;
use parking_lot::naming::Naming;
use tempfile::TempDir;
use testkit::mariadb::MariaDb;
use testkit::upstream::nobody;
use testkit::wait::eventually;

/// Time limit of a line from the clients; all tests start their programs at once.
const LIMIT: Duration = Duration::from_secs(60);

const INIT: &str = "CREATE DATABASE lots;
CREATE USER lots@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('lots');
GRANT ALL ON lots.* TO lots@'%';
";

/// A process that is killed when it is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Kills the process, as kill -9 does.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The world of this test, which ends here, with a printed reason, where there can be none.
macro_rules! world_or_skip {
    () => {{
        let Some(world) = $crate::world::World::new().await else {
            return;
        };
        world
    }};
}

pub struct World {
    pub etcd: String,
    pub database: String,
    pub folder: TempDir,
    _etcd: Process,
    _mariadb: MariaDb,
}

impl World {
    /// None, with the reason printed, where a program is missing.
    pub async fn new() -> Option<Self> {
        for program in ["etcd", "mariadbd", "mariadb-install-db"] {
            if program_path(program).is_none() {
                println!("skipped: there is no {program} on this machine");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let (client, peer) = (nobody(), nobody());
        let etcd = etcd(folder.path(), client, peer);
        let mariadb = MariaDb::start(INIT, &[]).await.unwrap();
        let world = Self {
            etcd: client.to_string(),
            database: format!("mysql://lots:lots@{}/lots", mariadb.address),
            folder,
            _etcd: etcd,
            _mariadb: mariadb,
        };
        let naming = world.naming("test");
        eventually("an etcd", || async { naming.servers().await.ok() }).await;
        Some(world)
    }

    /// The naming service, as `by` sees it.
    pub fn naming(&self, by: &str) -> Naming {
        Naming::new(Etcd::new(&self.etcd).unwrap(), by)
    }

    /// A server, registered.
    pub async fn serve(&self, name: &str, lease_s: i64) -> Process {
        let before = self.incarnation(name).await;
        let address = nobody().to_string();
        let server = Process::start(
            program("serve")
                .args(["--name", name, "--listen", &address, "--address", &address])
                .args(["--naming", &self.etcd, "--database", &self.database])
                .args(["--lease-s", &lease_s.to_string()]),
        );
        let naming = self.naming("test");
        eventually("a registered server", || async {
            let (servers, _) = naming.servers().await.ok()?;
            servers.into_iter().find(|server| server.name == name && server.incarnation > before)
        })
        .await;
        server
    }

    async fn incarnation(&self, name: &str) -> i64 {
        let (servers, _) = self.naming("test").servers().await.unwrap();
        let own = servers.iter().find(|server| server.name == name);
        own.map_or(0, |server| server.incarnation)
    }

    pub fn manage(&self, name: &str) -> Process {
        let listen = nobody().to_string();
        Process::start(
            program("manage")
                .args(["--name", name, "--listen", &listen, "--naming", &self.etcd])
                .args(["--detection-ms", "100"]),
        )
    }

    /// The address of an arbiter in front of the servers that are registered; it ends with the test.
    pub async fn arbiter(&self) -> String {
        let front = nobody().to_string();
        let mut text = format!(
            "protocol = \"tcp\"\nlisten = \"{front}\"\nadmin = \"127.0.0.1:0\"\ntier = \"lots\"\n\
             replicas = 1\ntokens = 100\n[health_check]\ninterval_ms = 50\ntimeout_ms = 50\n"
        );
        for server in self.naming("test").servers().await.unwrap().0 {
            let (name, address) = (server.name, server.address);
            text += &format!("[[servers]]\nname = \"{name}\"\naddress = \"{address}\"\n");
        }
        let config = Config::parse(&text, "test.toml").unwrap();
        let arbiter = Arbiter::bind(config).await.unwrap();
        tokio::spawn(arbiter.run(std::future::pending()));
        front
    }

    /// Clients, and a channel of who is asked by the first of them.
    pub fn invoke(&self, plan: serde_json::Value) -> (Process, std::sync::mpsc::Receiver<String>) {
        let file = self.folder.path().join("plan.json");
        std::fs::write(&file, plan.to_string()).unwrap();
        let mut invoke = program("invoke");
        invoke.arg("--plan").arg(&file);
        invoke.arg("--records").arg(self.records());
        let mut clients = Process::start(invoke.stdout(Stdio::piped()));
        let lines = BufReader::new(clients.0.stdout.take().unwrap()).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(server) = line.strip_prefix("0 ") {
                    // Nobody may listen any more.
                    let _ = sender.send(server.to_owned());
                }
            }
        });
        (clients, receiver)
    }

    /// The records of clients that have ended, against the database.
    pub fn audit(&self) -> serde_json::Value {
        let mut audit = program("audit");
        audit.arg("--records").arg(self.records());
        let output = audit.args(["--database", &self.database]).output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn records(&self) -> std::path::PathBuf {
        self.folder.path().join("records.jsonl")
    }
}

/// Returns the next line of the clients: the server that they ask now.
pub fn receive(receiver: &std::sync::mpsc::Receiver<String>) -> String {
    receiver.recv_timeout(LIMIT).unwrap()
}

fn program(part: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parking_lot"));
    command.arg(part).stderr(Stdio::null());
    command
}

fn etcd(folder: &Path, client: SocketAddr, peer: SocketAddr) -> Process {
    let words = format!(
        "--listen-client-urls http://{client} --advertise-client-urls http://{client} \
         --listen-peer-urls http://{peer} --initial-advertise-peer-urls http://{peer} \
         --initial-cluster default=http://{peer} --unsafe-no-fsync --logger zap --log-level error"
    );
    let mut etcd = Command::new(program_path("etcd").unwrap());
    etcd.arg("--data-dir").arg(folder.join("etcd"));
    etcd.args(words.split(' '));
    Process::start(etcd.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn program_path(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
