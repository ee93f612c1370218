//! The soak: full load on an arbiter, while servers die, hang and come back, the settings change by
//! the admin API and by SIGHUP, and rude clients do what they do. It ends with a verdict: no wrong
//! reply, enough requests, and memory that does not grow.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, Instant};

use crate::hold::rss_kib_of;
use crate::keyed::{Manners, Server};
use crate::load::{be_rude, check, Counts, Style, Tally};
use crate::random::Random;
use crate::web;

const SERVERS: usize = 4;
/// All servers die together once in so many troubles.
const ALL_DOWN_ONE_IN: u64 = 40;
/// Memory is compared between means over this many samples, of one second each.
const SAMPLES: usize = 10;

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The arbiter's program.
    pub arbiter: PathBuf,
    /// Its threads.
    pub threads: usize,
    /// How long the load lasts at least.
    pub duration: Duration,
    /// It goes on until so many replies were checked,
    pub requests_least: u64,
    /// but no longer than this.
    pub duration_most: Duration,
    /// Memory at the end is compared with memory at this time.
    pub settled: Duration,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Seconds of load.
    pub seconds: f64,
    /// What the clients saw.
    pub counts: Counts,
    /// Times that a server was killed.
    pub kills: u64,
    /// Times that a server hung.
    pub hangs: u64,
    /// Times that all servers were dead.
    pub all_down: u64,
    /// Changes by the admin API, and by SIGHUP.
    pub changes: u64,
    /// Those by SIGHUP.
    pub reloads: u64,
    /// The arbiter's resident memory when it had settled, and at the end: means over 10 s.
    pub settled_rss_kib: f64,
    /// See `settled_rss_kib`.
    pub end_rss_kib: f64,
    /// How much larger the end is.
    pub growth_percent: f64,
    /// The largest sample.
    pub rss_kib_max: u64,
    /// Core seconds of the arbiter.
    pub arbiter_cpu_s: f64,
}

impl Report {
    /// What is not as it must be, in words.
    pub fn failures(&self, requests_least: u64, growth_percent_most: f64) -> Vec<String> {
        let mut failures = Vec::new();
        if self.counts.wrong > 0 {
            let first = self.counts.described.join("; ");
            failures.push(format!("{} wrong replies: {first}", self.counts.wrong));
        }
        if self.counts.checked < requests_least {
            let checked = self.counts.checked;
            failures.push(format!(
                "expected {requests_least} checked replies, got {checked}"
            ));
        }
        if self.growth_percent > growth_percent_most {
            let growth = self.growth_percent;
            failures.push(format!(
                "expected memory to grow by {growth_percent_most} % at most, got {growth:.1} %"
            ));
        }
        failures
    }
}

/// An arbiter's process.
struct Subject {
    child: Child,
    pid: u32,
    clients: SocketAddr,
    admin: SocketAddr,
    config: PathBuf,
}

/// Runs the soak.
///
/// # Errors
/// When something cannot be started, or the arbiter ends before it is told to.
pub fn run(plan: &Plan) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let servers = (0..SERVERS as u64)
        .map(|number| Server::start("127.0.0.1:0".parse()?, manners(plan.seed + number)))
        .collect::<Result<Vec<_>>>()?;
    let tally = Arc::new(Tally::default());
    let runtime = runtime()?;
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let subject = runtime.block_on(Subject::start(plan, folder.path(), &addresses))?;
    let clients = {
        let (tally, address, seed) = (Arc::clone(&tally), subject.clients, plan.seed);
        std::thread::spawn(move || load(address, seed, &tally))
    };
    let report = runtime.block_on(torment(plan, servers, subject, &tally));
    tally.stop.store(true, Relaxed);
    match clients.join() {
        Ok(done) => done?,
        Err(_) => anyhow::bail!("the clients panicked"),
    }
    let mut report = report?;
    report.counts = tally.counts();
    Ok(report)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

fn manners(seed: u64) -> Manners {
    Manners {
        trouble_per_mille: 4,
        stall: Duration::from_millis(900),
        seed,
    }
}

/// All clients, on a thread of their own, until the tally says stop.
fn load(address: SocketAddr, seed: u64, tally: &Arc<Tally>) -> Result<()> {
    let style = |pipelined, bytewise| Style {
        pipelined,
        bytewise,
    };
    let styles = [
        (16, style(16, false)),
        (12, style(4, false)),
        (12, style(1, false)),
        (2, style(1, true)),
    ];
    runtime()?.block_on(async {
        let mut clients = JoinSet::new();
        let mut number = seed << 8;
        for (count, style) in styles {
            for _ in 0..count {
                number += 1;
                let tally = Arc::clone(tally);
                clients.spawn(async move { check(address, style, number, &tally).await });
            }
        }
        for _ in 0..2 {
            number += 1;
            let tally = Arc::clone(tally);
            clients.spawn(async move { be_rude(address, number, &tally).await });
        }
        clients.join_all().await;
    });
    Ok(())
}

/// Does to servers and arbiter what happens in a bad week, and watches the arbiter's memory.
async fn torment(
    plan: &Plan,
    servers: Vec<Server>,
    mut subject: Subject,
    tally: &Tally,
) -> Result<Report> {
    let start = Instant::now();
    let mut week = Week {
        addresses: servers.iter().map(|server| server.address).collect(),
        servers: servers.into_iter().map(Some).collect(),
        random: Random::new(plan.seed),
        kills: 0,
        hangs: 0,
        all_down: 0,
        changes: 0,
        reloads: 0,
    };
    let mut rss_kib = Vec::new();
    let mut second = start;
    let is_over = |elapsed: Duration| {
        let enough = tally.checked.load(Relaxed) >= plan.requests_least;
        elapsed >= plan.duration && (enough || elapsed >= plan.duration_most)
    };
    while !is_over(start.elapsed()) {
        week.trouble(plan, &subject).await?;
        second += Duration::from_secs(1);
        sleep_until(second).await;
        let ended = subject.child.try_wait()?;
        ensure!(ended.is_none(), "the arbiter ended: {ended:?}");
        rss_kib.push(rss_kib_of(subject.pid)?);
        if rss_kib.len() % 60 == 0 {
            let seen = tally.checked.load(Relaxed);
            eprintln!("soak: {} s, {seen} replies checked", rss_kib.len());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let settled = (plan.settled.as_secs() as usize).clamp(SAMPLES, rss_kib.len());
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len() as f64;
    let settled_rss_kib = mean(&rss_kib[settled - SAMPLES..settled]);
    let end_rss_kib = mean(&rss_kib[rss_kib.len() - SAMPLES..]);
    let arbiter_cpu_s = subject.cpu_s()?;
    tally.stop.store(true, Relaxed);
    week.heal()?;
    subject.end().await?;
    Ok(Report {
        seconds,
        counts: tally.counts(),
        kills: week.kills,
        hangs: week.hangs,
        all_down: week.all_down,
        changes: week.changes,
        reloads: week.reloads,
        settled_rss_kib,
        end_rss_kib,
        growth_percent: (end_rss_kib / settled_rss_kib - 1.0) * 100.0,
        rss_kib_max: rss_kib.into_iter().max().unwrap_or(0),
        arbiter_cpu_s,
    })
}

struct Week {
    addresses: Vec<SocketAddr>,
    /// None while it is dead.
    servers: Vec<Option<Server>>,
    random: Random,
    kills: u64,
    hangs: u64,
    all_down: u64,
    changes: u64,
    reloads: u64,
}

impl Week {
    /// One trouble, of less than a second.
    async fn trouble(&mut self, plan: &Plan, subject: &Subject) -> Result<()> {
        self.heal()?;
        let victim = self.random.below(SERVERS as u64) as usize;
        if self.random.one_in(ALL_DOWN_ONE_IN) {
            self.servers.fill_with(|| None);
            self.all_down += 1;
            sleep(Duration::from_millis(400)).await;
            return self.heal();
        }
        match self.random.below(5) {
            0 => {
                self.servers[victim] = None;
                self.kills += 1;
            }
            1 => {
                self.servers[victim] = None;
                self.kills += 1;
                sleep(Duration::from_millis(200)).await;
                self.heal()?;
            }
            2 => {
                self.hang(victim, true);
                self.hangs += 1;
                sleep(Duration::from_millis(300)).await;
                self.hang(victim, false);
            }
            3 => self.change(subject).await?,
            _ => {
                let settings = self.settings();
                subject.write_config(plan, &self.addresses, &settings)?;
                subject.signal("HUP").await?;
                self.changes += 1;
                self.reloads += 1;
            }
        }
        Ok(())
    }

    fn hang(&self, victim: usize, hangs: bool) {
        if let Some(server) = &self.servers[victim] {
            server.hang(hangs);
        }
    }

    /// Dead servers come back at their address.
    fn heal(&mut self) -> Result<()> {
        for (place, server) in self.servers.iter_mut().enumerate() {
            if server.is_none() {
                let manners = manners(self.random.bits());
                *server = Some(Server::start(self.addresses[place], manners)?);
            }
        }
        Ok(())
    }

    async fn change(&mut self, subject: &Subject) -> Result<()> {
        let replicas = self.replicas();
        subject
            .put("/v1/replicas", &format!("{{\"replicas\":{replicas}}}"))
            .await?;
        let (policy, tokens) = (self.policy(), 4 + self.random.below(60));
        let body = format!("{{\"policy\":\"{policy}\",\"tokens\":{tokens}}}");
        subject.put("/v1/policy", &body).await?;
        self.changes += 2;
        Ok(())
    }

    /// Few more often than many.
    fn replicas(&mut self) -> u64 {
        let mut draw = || 1 + self.random.below(SERVERS as u64);
        draw().min(draw())
    }

    fn policy(&mut self) -> &'static str {
        ["tad", "round-robin"][self.random.below(2) as usize]
    }

    fn settings(&mut self) -> String {
        format!(
            "policy = \"{}\"\nreplicas = {}\ntokens = {}\nrequest_timeout_ms = {}",
            self.policy(),
            self.replicas(),
            4 + self.random.below(60),
            400 + self.random.below(400),
        )
    }
}

impl Subject {
    async fn start(plan: &Plan, folder: &Path, servers: &[SocketAddr]) -> Result<Self> {
        let config = folder.join("arbiter.toml");
        let settings = "policy = \"tad\"\nreplicas = 2\ntokens = 32\nrequest_timeout_ms = 500";
        write(&config, plan, servers, settings)?;
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
        let line = lines
            .next_line()
            .await?
            .context("the arbiter said nothing")?;
        let mut addresses = line.split(" on ").skip(1).map(|text| {
            let address = text.split(',').next().unwrap_or_default();
            address.parse().with_context(|| line.clone())
        });
        let mut next = || addresses.next().context("no address")?;
        let (clients, admin) = (next()?, next()?);
        // What it says later is shown, and never fills the pipe.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if !line.ends_with("is in force") {
                    eprintln!("soak: the arbiter says: {line}");
                }
            }
        });
        Ok(Self {
            child,
            pid,
            clients,
            admin,
            config,
        })
    }

    fn write_config(&self, plan: &Plan, servers: &[SocketAddr], settings: &str) -> Result<()> {
        write(&self.config, plan, servers, settings)
    }

    async fn put(&self, path: &str, body: &str) -> Result<()> {
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let reply = web::once(self.admin, request.as_bytes()).await;
        ensure!(reply.status == 200, "{path} {body}: {}", reply.text());
        Ok(())
    }

    async fn signal(&self, name: &str) -> Result<()> {
        let pid = self.pid.to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .await?;
        ensure!(sent.success(), "the arbiter takes no signal");
        Ok(())
    }

    fn cpu_s(&self) -> Result<f64> {
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
    async fn end(mut self) -> Result<()> {
        self.signal("TERM").await?;
        let ended = self.child.wait().await?;
        ensure!(ended.success(), "the arbiter ended with {ended}");
        Ok(())
    }
}

fn write(path: &Path, plan: &Plan, servers: &[SocketAddr], settings: &str) -> Result<()> {
    let mut text = format!(
        "protocol = \"http\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"soak\"\n\
         threads = {}\nconnect_timeout_ms = 200\nobservation_age_ms = 1000\n{settings}\n",
        plan.threads
    );
    for (number, address) in servers.iter().enumerate() {
        text += &format!("[[servers]]\nname = \"s{number}\"\naddress = \"{address}\"\n");
    }
    // Renamed into place, so that nobody reads half of it.
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text)?;
    Ok(std::fs::rename(&fresh, path)?)
}
