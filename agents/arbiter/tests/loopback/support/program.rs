//! The program in a process of its own.

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use testkit::hold::rss_kib_of;

/// An HTTP arbiter of one token in front of one server.
pub fn config(listen: &str, server: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "protocol = \"http\"\nlisten = \"{listen}\"\nadmin = \"127.0.0.1:0\"\ntier = \"web\"\n\
         policy = \"tad\"\nreplicas = 1\ntokens = 1\nrequest_timeout_ms = 60000\n\
         [[servers]]\nname = \"web-1\"\naddress = \"{server}\"\n"
    );
    std::fs::write(file.path(), text).unwrap();
    file
}

/// A running arbiter, killed when dropped.
pub struct Program {
    pub child: Child,
    pub lines: Lines<BufReader<ChildStderr>>,
    pub clients: SocketAddr,
    pub admin: SocketAddr,
}

impl Program {
    pub fn start(file: &tempfile::NamedTempFile) -> Self {
        Self::start_within(file, "unlimited")
    }

    /// With so many file descriptors at most.
    pub fn start_within(file: &tempfile::NamedTempFile, descriptors: &str) -> Self {
        let limited = match descriptors {
            "unlimited" => "exec \"$0\" \"$@\"".to_owned(),
            most => format!("ulimit -n {most}; exec \"$0\" \"$@\""),
        };
        // Examples use the same support, and have no program.
        let program = option_env!("CARGO_BIN_EXE_arbiter").unwrap_or_default();
        let mut child = Command::new("sh")
            .args(["-c", &limited])
            .args([program, "--config"])
            .arg(file.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Earlier lines, such as a warning of its limits, do not have its address.
        let mut messages = lines.by_ref().map(Result::unwrap);
        let line = messages.find(|line| line.matches(" on ").count() >= 2).unwrap();
        let addresses = line.split(" on ").skip(1);
        let mut addresses = addresses.map(|text| text.split(',').next().unwrap().parse().unwrap());
        Self { child, lines, clients: addresses.next().unwrap(), admin: addresses.next().unwrap() }
    }

    /// Its memory once it grows no more.
    pub async fn rss_kib_settled(&self) -> u64 {
        let (mut rss_kib, mut calm) = (0, 0);
        while calm < 20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = rss_kib_of(self.child.id()).unwrap();
            calm = if now > rss_kib + 256 { 0 } else { calm + 1 };
            rss_kib = rss_kib.max(now);
        }
        rss_kib
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
