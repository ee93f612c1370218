//! The soak: full load on an arbiter, while servers die, hang and come back, the settings change by
//! the admin API (all policies, r, tokens, guardrails), and clients misuse
//! the protocol, stall or read slowly. It ends with a verdict: no wrong reply, enough requests, which went on
//! all the time, no more errors than the faults account for, and memory that does not grow.
//!
//! Beside it, more quietly, go the soaks of a Redis arbiter (`redis`) and of a MySQL arbiter (`mysql`), also with
//! current clients of other languages (`clients`).
//!
//! Memory is compared between *quiet points*: the same load of the same clients goes on, all servers
//! are in use, the settings are [`faults::BASELINE`], and what the faults left has had time to go.

mod clients;
mod faults;
mod mysql;
mod redis;
mod subject;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use serde::Serialize;
use serde_json::Value;
use tokio::signal::unix::{signal, Signal, SignalKind};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, Instant};

use self::faults::{Faults, BASELINE, POLICIES};
use self::subject::Subject;
use crate::hold::rss_kib_of;
use crate::keyed::Behaviour;
use crate::load::{check, Counts, Style, Tally};
use crate::misuse::misuse;
use crate::slow::{read_slowly, stall};

const SERVERS: usize = 4;
/// Faults per thousand requests at a server.
const FAULTS_PER_MILLE: u64 = 4;
/// A quiet point begins with this: idle connections give their buffers back after 1 s, losers end
/// within the request time-out.
const QUIET: Duration = Duration::from_secs(3);
/// Its memory is the median of so many samples, between which so much time passes.
const QUIET_SAMPLES: usize = 11;
const QUIET_STEP: Duration = Duration::from_millis(200);
/// Checking clients by how they send.
const STYLES: [(usize, Style); 4] =
    [(16, style(16, false)), (12, style(4, false)), (12, style(1, false)), (2, style(1, true))];
const MISUSING: usize = 2;
const STALLING: usize = 2;
const READING_SLOWLY: usize = 4;

/// HTTP replies for each Redis and each MySQL reply that has to be checked.
const REDIS_SHARE: u64 = 1_000;
const MYSQL_SHARE: u64 = 10_000;
/// Errors, and requests without a reply, of one in so many at most: a run of 18 minutes had them of one in
/// 42 with Redis, and in 144 with MySQL.
const BESIDE_SPOILT_SHARE: u64 = 10;
/// Names in the order of [`Quiet::checked`].
const PROTOCOLS: [&str; 3] = ["HTTP", "Redis", "MySQL"];
/// From one quiet point to the next more replies are checked than this share of the best such stretch's,
/// by rate.
const STRETCH_SHARE: f64 = 0.1;
/// Shorter ones are not judged: a MariaDB that was killed takes 17 s to be back on a busy host.
const STRETCH_LEAST_S: u64 = 30;

/// The results of the clients of HTTP, Redis and MySQL.
type Tallies = [Arc<Tally>; 3];

const fn style(pipelined: usize, bytewise: bool) -> Style {
    Style { pipelined, bytewise }
}

/// The settings of a soak.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The arbiter's program.
    pub arbiter: PathBuf,
    /// Its threads.
    pub threads: usize,
    /// The folder of `ci/clients`; none: without its clients.
    pub clients: Option<PathBuf>,
    /// Minimum time of load.
    pub duration: Duration,
    /// It goes on until so many replies were checked, and each arbiter beside met a kill and a hang,
    pub requests_least: u64,
    /// but no longer than this.
    pub duration_most: Duration,
    /// A quiet point comes so often.
    pub settled: Duration,
    /// Seed of all random draws.
    pub seed: u64,
}

/// A quiet point.
#[derive(Debug, Serialize)]
pub struct Quiet {
    /// Since the load began.
    pub second: u64,
    /// The arbiter's resident memory.
    pub rss_kib: u64,
    /// The samples that this is the median of.
    pub rss_kib_samples: Vec<u64>,
    /// Connections of clients.
    pub client_open: u64,
    /// Replies checked so far, of HTTP, Redis and MySQL.
    pub checked: [u64; 3],
}

/// The outcome.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Seconds of load.
    pub seconds: f64,
    /// The clients' results.
    pub counts: Counts,
    /// Errors and cut replies that the faults account for, see [`Report::spoilt_most`].
    pub spoilt_most: u64,
    /// Times that a server was killed.
    pub kills: u64,
    /// Times that a server hung.
    pub hangs: u64,
    /// Times that all servers were dead.
    pub all_down: u64,
    /// Changes by the admin API.
    pub changes: u64,
    /// Number of times that each policy came into force.
    pub policies: BTreeMap<&'static str, u64>,
    /// The guardrails' actions.
    pub guarded: Value,
    /// The quiet points; the last is at the end.
    pub quiet: Vec<Quiet>,
    /// Growth of memory from the second third of them to the last, by their medians.
    pub growth_percent: f64,
    /// The arbiter's resident memory, each second of faults.
    pub rss_kib: Vec<u64>,
    /// The largest of these.
    pub rss_kib_max: u64,
    /// Core seconds of the arbiter.
    pub arbiter_cpu_s: f64,
    /// Beside it, the Redis arbiter,
    pub redis: Option<ProtocolReport>,
    /// and the MySQL arbiter.
    pub mysql: Option<ProtocolReport>,
}

/// The outcome of an arbiter of another protocol, beside.
#[derive(Debug, Serialize)]
pub struct ProtocolReport {
    /// The results of the soak's own clients.
    pub counts: Counts,
    /// The results of current clients of other languages.
    pub clients: BTreeMap<&'static str, Counts>,
    /// Times that a server was killed.
    pub kills: u64,
    /// Times that a server was stopped for a while.
    pub hangs: u64,
}

impl ProtocolReport {
    fn failures(&self, name: &str, least: u64) -> Vec<String> {
        let clients = self.clients.iter().flat_map(|(name, counts)| judge(name, counts, 1));
        judge(name, &self.counts, least).into_iter().chain(clients).collect()
    }
}

/// The complaints about clients, or about a client.
fn judge(name: &str, counts: &Counts, least: u64) -> Vec<String> {
    let mut failures = Vec::new();
    let (wrong, checked) = (counts.wrong, counts.checked);
    if wrong > 0 || checked < least {
        let first = counts.described.join("; ");
        failures.push(format!(
            "{name}: {wrong} of {checked} replies wrong, {least} to be checked: {first}"
        ));
    }
    let spoilt = counts.spoilt() + counts.unanswered;
    if spoilt * BESIDE_SPOILT_SHARE > counts.replies() + counts.unanswered {
        let causes = &counts.errors_by_cause;
        failures.push(format!(
            "{name}: expected errors of one request in {BESIDE_SPOILT_SHARE} at most (got \
             {spoilt} beside {checked} checked replies: {causes:?})"
        ));
    }
    failures
}

impl Report {
    /// The promises that do not hold, in words.
    pub fn failures(&self, requests_least: u64, growth_percent_most: f64) -> Vec<String> {
        let mut failures = Vec::new();
        if self.counts.wrong > 0 {
            let first = self.counts.described.join("; ");
            failures.push(format!("{} wrong replies: {first}", self.counts.wrong));
        }
        if self.counts.checked < requests_least {
            let checked = self.counts.checked;
            failures.push(format!("expected {requests_least} checked replies (got {checked})"));
        }
        let (spoilt, most) = (self.counts.spoilt(), self.spoilt_most);
        if spoilt > most {
            let causes = &self.counts.errors_by_cause;
            failures.push(format!(
                "expected {most} errors and cut replies at most while a server was there (got \
                 {spoilt}: {causes:?})"
            ));
        }
        let reports = [("Redis", &self.redis, REDIS_SHARE), ("MySQL", &self.mysql, MYSQL_SHARE)];
        for (name, report, share) in reports {
            if let Some(report) = report {
                failures.extend(report.failures(name, requests_least / share));
            }
        }
        for (place, name) in PROTOCOLS.iter().enumerate() {
            failures.extend(stalled(name, &self.rates_per_s(place)));
        }
        if let Some(policy) = POLICIES.iter().find(|name| !self.policies.contains_key(*name)) {
            failures.push(format!("the policy {policy} was never in force"));
        }
        if self.growth_percent > growth_percent_most {
            let growth = self.growth_percent;
            failures.push(format!(
                "expected memory to grow by {growth_percent_most} % at most (got {growth:.1} %)"
            ));
        }
        failures
    }

    /// Checked replies of a protocol a second, from one quiet point to the next, once its servers have
    /// started.
    fn rates_per_s(&self, protocol: usize) -> Vec<f64> {
        let rate = |pair: &[Quiet]| {
            let checked = pair[1].checked[protocol] - pair[0].checked[protocol];
            checked as f64 / (pair[1].second - pair[0].second) as f64
        };
        let is_judged = |pair: &&[Quiet]| {
            pair[0].checked[protocol] > 0 && pair[1].second >= pair[0].second + STRETCH_LEAST_S
        };
        let stretches = self.quiet.windows(2).filter(is_judged);
        stretches.map(rate).collect()
    }

    /// Maximum replies that the faults may spoil while at least one server is there: those that
    /// servers spoil on purpose (at r = 1 the client sees it), and one request of each client for
    /// each kill, each hang and each death of all servers.
    fn spoilt_most(&self) -> u64 {
        let clients: u64 = STYLES.iter().map(|(count, _)| *count as u64).sum();
        let faults = self.kills + self.hangs + self.all_down;
        self.counts.replies() * FAULTS_PER_MILLE / 1000 + faults * (clients + MISUSING as u64)
    }
}

/// Runs the soak.
///
/// # Errors
/// When something cannot be started, the arbiter ends before it is told to, or does not take all
/// servers back; on SIGINT and SIGTERM, with nothing left running.
pub fn run(plan: &Plan) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let mut faults = Faults::start(plan.seed)?;
    let tallies = Tallies::default();
    let [http, redis, mysql] = &tallies;
    let runtime = runtime()?;
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    let [interrupt, terminate] = runtime.block_on(async { kinds.map(signal) });
    let mut signals = [interrupt?, terminate?];
    let starting = Subject::start(plan, "http", folder.path(), &faults.addresses, BASELINE);
    let mut subject = runtime.block_on(starting)?;
    let clients = {
        let (tally, address, seed) = (Arc::clone(http), subject.clients, plan.seed);
        std::thread::spawn(move || load(address, seed, &tally))
    };
    let redis = spawn(plan, redis, |plan, tally| block_on(redis::run(plan, tally)));
    let mysql = spawn(plan, mysql, |plan, tally| block_on(mysql::run(plan, tally)));
    let has_one_beside_ended = || redis.is_finished() || mysql.is_finished();
    let report = runtime.block_on(async {
        tokio::select! {
            report = inject_faults(
                plan, &mut faults, &mut subject, &tallies, &has_one_beside_ended,
            ) => report,
            name = interrupted(&mut signals) => bail!("{name}: the soak ends"),
        }
    });
    for tally in &tallies {
        tally.stop.store(true, Relaxed);
    }
    let (redis, mysql) = (joined(redis), joined(mysql));
    joined(clients)?;
    let (redis, mysql) = (redis?, mysql?); // such an error is why the faults ended
    let mut report = report?;
    // Not before the clients have gone: a connection that is not yet accepted is reset then.
    runtime.block_on(subject.end())?;
    report.counts = http.counts();
    report.redis = Some(redis);
    report.mysql = Some(mysql);
    report.spoilt_most = report.spoilt_most();
    Ok(report)
}

/// Waits for a signal that ends the soak, and returns its name.
async fn interrupted([interrupt, terminate]: &mut [Signal; 2]) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}

/// Another arbiter's soak, on a thread of its own.
fn spawn(
    plan: &Plan,
    tally: &Arc<Tally>,
    run: fn(&Plan, &Arc<Tally>) -> Result<ProtocolReport>,
) -> JoinHandle<Result<ProtocolReport>> {
    let (plan, tally) = (plan.clone(), Arc::clone(tally));
    std::thread::spawn(move || run(&plan, &tally))
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| bail!("the clients panicked"))
}

fn block_on<T>(running: impl Future<Output = Result<T>>) -> Result<T> {
    runtime()?.block_on(running)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

fn behaviour(seed: u64) -> Behaviour {
    Behaviour { faults_per_mille: FAULTS_PER_MILLE, stall: Duration::from_millis(900), seed }
}

/// All clients, on a thread of their own, until the tally says stop.
fn load(address: SocketAddr, seed: u64, tally: &Arc<Tally>) -> Result<()> {
    runtime()?.block_on(async {
        let mut clients = JoinSet::new();
        let mut number = seed << 8;
        for (count, style) in STYLES {
            for _ in 0..count {
                number += 1;
                let tally = Arc::clone(tally);
                clients.spawn(async move { check(address, style, number, &tally).await });
            }
        }
        for _ in 0..MISUSING {
            number += 1;
            let tally = Arc::clone(tally);
            clients.spawn(async move { misuse(address, number, &tally).await });
        }
        for _ in 0..STALLING {
            number += 1;
            let tally = Arc::clone(tally);
            clients.spawn(async move { stall(address, number, &tally).await });
        }
        for _ in 0..READING_SLOWLY {
            number += 1;
            let tally = Arc::clone(tally);
            clients.spawn(async move { read_slowly(address, number, &tally).await });
        }
        clients.join_all().await;
    });
    Ok(())
}

/// Fault after fault and quiet point after quiet point.
async fn inject_faults(
    plan: &Plan,
    faults: &mut Faults,
    subject: &mut Subject,
    tallies: &Tallies,
    has_one_beside_ended: &impl Fn() -> bool,
) -> Result<Report> {
    let tally = &tallies[0];
    let start = Instant::now();
    let (mut rss_kib, mut quiet) = (Vec::new(), Vec::new());
    let is_over = |elapsed: Duration| {
        let enough = tally.checked.load(Relaxed) >= plan.requests_least
            && tallies[1..].iter().all(|tally| tally.faulted.load(Relaxed));
        elapsed >= plan.duration && (enough || elapsed >= plan.duration_most)
    };
    let mut quiet_due = plan.settled;
    while !is_over(start.elapsed()) {
        let next = Instant::now() + Duration::from_secs(1);
        faults.inject(subject, tally).await?;
        sleep_until(next).await;
        let status = subject.child.try_wait()?;
        ensure!(status.is_none(), "the arbiter ended: {status:?}");
        ensure!(!has_one_beside_ended(), "an arbiter beside ended");
        rss_kib.push(rss_kib_of(subject.pid)?);
        if start.elapsed() >= quiet_due {
            quiet.push(quiet_point(faults, subject, (start, tallies)).await?);
            quiet_due += plan.settled;
            let count = tally.checked.load(Relaxed);
            eprintln!("soak: {} s, {count} replies checked", start.elapsed().as_secs());
        }
    }
    quiet.push(quiet_point(faults, subject, (start, tallies)).await?);
    let rss: Vec<u64> = quiet.iter().map(|point| point.rss_kib).collect();
    Ok(Report {
        seconds: start.elapsed().as_secs_f64(),
        counts: tally.counts(),
        spoilt_most: 0,
        kills: faults.kills,
        hangs: faults.hangs,
        all_down: faults.all_down,
        changes: faults.changes,
        policies: faults.policies.clone(),
        guarded: subject.stats().await?["guarded"].take(),
        quiet,
        growth_percent: growth_percent(&rss),
        rss_kib_max: rss_kib.iter().copied().max().unwrap_or(0),
        rss_kib,
        arbiter_cpu_s: subject.cpu_s()?,
        redis: None,
        mysql: None,
    })
}

async fn quiet_point(
    faults: &mut Faults,
    subject: &Subject,
    (start, tallies): (Instant, &Tallies),
) -> Result<Quiet> {
    faults.baseline(subject).await?;
    sleep(QUIET).await;
    let mut samples = Vec::with_capacity(QUIET_SAMPLES);
    for _ in 0..QUIET_SAMPLES {
        samples.push(rss_kib_of(subject.pid)?);
        sleep(QUIET_STEP).await;
    }
    let stats = subject.stats().await?;
    Ok(Quiet {
        second: start.elapsed().as_secs(),
        rss_kib: median(&samples),
        rss_kib_samples: samples,
        client_open: stats["connections"]["client_open"].as_u64().unwrap_or(0),
        checked: tallies.each_ref().map(|tally| tally.checked.load(Relaxed)),
    })
}

/// The complaint about a protocol of these rates, if there is one.
fn stalled(name: &str, rates_per_s: &[f64]) -> Option<String> {
    let best = rates_per_s.iter().copied().fold(0.0, f64::max);
    let over = best * STRETCH_SHARE;
    let (place, rate) = (rates_per_s.iter().enumerate()).find(|(_, rate)| **rate <= over)?;
    Some(format!(
        "{name}: expected more than {over:.0} checked replies a second in each stretch between quiet \
         points (got {rate:.0} in that after point {place})"
    ))
}

/// Of one after the other; the first third is what an arbiter takes until it has seen everything, which
/// is sooner on a quick host, so nothing is held against it.
fn growth_percent(rss_kib: &[u64]) -> f64 {
    let third = (rss_kib.len() / 3).max(1);
    let (before, last) = rss_kib.split_at(rss_kib.len().saturating_sub(third));
    let (_, before) = before.split_at(before.len().saturating_sub(third));
    if before.is_empty() {
        return 0.0;
    }
    (median(last) as f64 / median(before) as f64 - 1.0) * 100.0
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS_LEAST: u64 = 10_000_000;

    /// 18 minutes without a fault.
    fn honest() -> Report {
        let checked = |minute: u64| [9_000, 4_000, 300].map(|rate_per_s| 60 * minute * rate_per_s);
        let point = |minute| Quiet {
            second: 60 * minute,
            rss_kib: 30_000,
            rss_kib_samples: vec![],
            client_open: 48,
            checked: checked(minute),
        };
        let counts = checked(19).map(|checked| Counts {
            checked,
            errors_by_cause: [("an error".to_owned(), checked / 50)].into(),
            ..Tally::default().counts()
        });
        let [http, redis, mysql] = counts;
        let report = |counts: Counts, client| {
            let clients = [(client, counts.clone())].into();
            Some(ProtocolReport { counts, clients, kills: 1, hangs: 1 })
        };
        Report {
            seconds: 1_140.0,
            counts: http,
            spoilt_most: u64::MAX,
            kills: 1,
            hangs: 1,
            all_down: 1,
            changes: 1,
            policies: POLICIES.map(|policy| (policy, 1)).into(),
            guarded: Value::Null,
            quiet: (1..=19).map(point).collect(),
            growth_percent: 0.0,
            rss_kib: vec![],
            rss_kib_max: 0,
            arbiter_cpu_s: 0.0,
            redis: report(redis, "a client of Redis"),
            mysql: report(mysql, "a client of MySQL"),
        }
    }

    /// Names of the protocols that fail.
    fn failing(report: &Report) -> Vec<String> {
        let failures = report.failures(REQUESTS_LEAST, 5.0).into_iter();
        failures.map(|text| text.split(':').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_protocol_that_stalls_fails_the_run_however_much_it_had_checked() {
        assert_eq!(failing(&honest()), Vec::<String>::new());
        for (place, name) in PROTOCOLS.iter().enumerate() {
            // From the first quiet point on, as after a first kill; from the second on; for a minute.
            for (first, last) in [(1, 18), (2, 18), (7, 7)] {
                let mut report = honest();
                for point in first..=last {
                    report.quiet[point].checked[place] = report.quiet[first - 1].checked[place];
                }
                assert_eq!(failing(&report), [*name], "{first} to {last}");
            }
        }
    }

    #[test]
    fn servers_may_take_their_time_to_start() {
        let mut report = honest();
        (report.quiet[0].checked[2], report.quiet[1].checked[2]) = (0, 1);
        assert_eq!(failing(&report), Vec::<String>::new());
    }

    #[test]
    fn errors_beside_are_bounded() {
        let mut report = honest();
        for report in [&mut report.redis, &mut report.mysql] {
            let counts = &mut report.as_mut().unwrap().counts;
            counts.unanswered = counts.checked / 10;
        }
        assert_eq!(failing(&report), ["Redis", "MySQL"]);
    }

    #[test]
    fn a_client_of_another_language_is_judged_by_itself() {
        let spoil: [fn(&mut Counts); 3] = [
            |counts| counts.wrong = 1,
            |counts| counts.checked = 0,
            |counts| counts.unanswered = counts.checked / 8,
        ];
        for spoil in spoil {
            let mut report = honest();
            for report in [&mut report.redis, &mut report.mysql].into_iter().flatten() {
                report.clients.values_mut().for_each(spoil);
            }
            let names: Vec<_> = failing(&report);
            let expected = ["a client of Redis", "a client of MySQL"];
            assert!(expected.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
        }
    }

    #[test]
    fn growth_is_that_of_the_last_third() {
        let risen = [10, 20, 30, 40, 40, 40, 41, 42, 40];
        assert!((growth_percent(&risen) - 2.5).abs() < 1e-9);
        let rising: Vec<u64> = (0..15).map(|minute| 1_000 + 20 * minute).collect();
        assert!(growth_percent(&rising) > 8.0);
        assert!((growth_percent(&[10, 11]) - 10.0).abs() < 1e-9);
        assert!(growth_percent(&[7]).abs() < 1e-9);
    }
}
