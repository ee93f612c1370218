//! The arbiter under test: its process, its configuration file and its admin API.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, Instant};

use super::Plan;
use crate::random::Random;
use crate::web;

/// Servers that answer again have to be in use, and tokens of clients that have gone free, within this time.
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// An arbiter's process.
pub struct Subject {
    pub child: Child,
    pub pid: u32,
    pub clients: SocketAddr,
    admin: SocketAddr,
}

impl Subject {
    pub async fn start(
        plan: &Plan,
        protocol: &'static str,
        folder: &Path,
        servers: &[SocketAddr],
        settings: &str,
    ) -> Result<Self> {
        let config = folder.join("arbiter.toml");
        write(&config, plan, protocol, (servers, settings))?;
        let mut child = Command::new(&plan.arbiter)
            .arg("--config")
            .arg(&config)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{}: cannot start", plan.arbiter.display()))?;
        let pid = child.id().context("no process")?;
        let stderr = child.stderr.take().context("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let line = lines.next_line().await?.context("the arbiter said nothing")?;
        let mut addresses = line.split(" on ").skip(1).map(|text| {
            let address = text.split(',').next().unwrap_or_default();
            address.parse().with_context(|| line.clone())
        });
        let mut next = || addresses.next().context("no address")?;
        let (clients, admin) = (next()?, next()?);
        // Its later lines are shown, and never fill the pipe.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("soak: the arbiter says: {line}");
            }
        });
        Ok(Self { child, pid, clients, admin })
    }

    pub async fn put(&self, path: &str, body: &str) -> Result<()> {
        let reply = web::put(self.admin, path, body).await;
        ensure!(reply.status == 200, "{path} {body}: {}", reply.text());
        Ok(())
    }

    /// `/v1/stats`.
    pub async fn stats(&self) -> Result<Value> {
        let reply = web::get(self.admin, "/v1/stats").await;
        ensure!(reply.status == 200, "/v1/stats: {}", reply.text());
        Ok(serde_json::from_slice(&reply.body)?)
    }

    /// Waits until all servers are in use. One that is ejected is probed by clients' reads only, so where no client
    /// is left it has to be alive.
    pub async fn all_back(&self) -> Result<()> {
        self.until("all servers in use", |stats| {
            let is_asked = stats["connections"]["client_open"] != 0;
            let is_back = |server: &Value| {
                server["alive"] == true && (server["ejected"] == false || !is_asked)
            };
            stats["servers"].as_array().is_some_and(|servers| servers.iter().all(is_back))
        })
        .await
    }

    /// Waits until nobody holds a token.
    pub async fn all_free(&self) -> Result<()> {
        self.until("no token in use", |stats| stats["tokens"]["in_use"] == 0).await
    }

    async fn until(&self, expected: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let start = Instant::now();
        loop {
            let stats = self.stats().await?;
            if is_so(&stats) {
                return Ok(());
            }
            ensure!(
                start.elapsed() < BACK_WITHIN,
                "expected {expected} within {BACK_WITHIN:?} (got {stats})"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn cpu_s(&self) -> Result<f64> {
        const TICKS_PER_S: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let after_name = stat.rsplit(") ").next().context("no stat")?;
        let ticks: f64 = after_name
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|text| text.parse::<f64>().ok())
            .sum();
        Ok(ticks / TICKS_PER_S)
    }

    /// SIGTERM, and the arbiter has to end well.
    pub async fn end(mut self) -> Result<()> {
        signal(self.pid, "TERM").await?;
        let status = self.child.wait().await?;
        ensure!(status.success(), "the arbiter ended with {status}");
        Ok(())
    }
}

/// Sends a signal to a process.
pub async fn signal(pid: u32, name: &str) -> Result<()> {
    let pid = pid.to_string();
    let status = Command::new("kill").args(["-s", name, &pid]).status().await?;
    ensure!(status.success(), "process {pid} takes no signal");
    Ok(())
}

/// Stops a process for less than a second: shorter than a request may take, or longer.
pub async fn hang(pid: u32, random: &mut Random) -> Result<()> {
    signal(pid, "STOP").await?;
    sleep(Duration::from_millis(200 + random.below(600))).await;
    signal(pid, "CONT").await
}

fn write(
    path: &Path,
    plan: &Plan,
    protocol: &str,
    (servers, settings): (&[SocketAddr], &str),
) -> Result<()> {
    let mut text = format!(
        "protocol = \"{protocol}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         tier = \"soak\"\nthreads = {}\nconnect_timeout_ms = 200\nobservation_age_ms = 1000\n\
         {settings}\n",
        plan.threads
    );
    for (number, address) in servers.iter().enumerate() {
        text += &format!("[[servers]]\nname = \"s{number}\"\naddress = \"{address}\"\n");
    }
    Ok(std::fs::write(path, text)?)
}
