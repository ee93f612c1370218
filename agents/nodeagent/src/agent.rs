//! The agent's lifecycle: prepare the machine, undo left faults, run the role, serve, and end in
//! order.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep, Instant, MissedTickBehavior};
use wire::agent::{Fault, FaultState, RevertReason};

use crate::api::{self, Agent};
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::Engine;
use crate::influx::{Buffer, Outcome, Writer};
use crate::journal::Journal;
use crate::machine::cgroup::Cgroups;
use crate::machine::disk::root_device;
use crate::machine::network::DataInterface;
use crate::machine::role::Role;
use crate::machine::workers::Workers;
use crate::machine::{fingerprint, guard, Machine};
use crate::readiness::Readiness;
use crate::{faults, metrics};

/// Docker attaches the networks about when the machine starts.
const NETWORK_LIMIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(100);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const READY_EVERY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
const CHILD_CGROUP: &str = "sparecraft";

/// Runs until SIGTERM or SIGINT.
pub async fn run(config: Config) -> Result<()> {
    let clock = Clock::start();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let acceptor = config.tls.acceptor("tls")?;
    let writer = Writer::of(&config)?;
    let listener = bind(config.listen).await?;
    let agent = spawn_blocking(move || prepare(config, clock)).await??;
    let agent = Arc::new(agent);
    spawn_blocking({
        let agent = agent.clone();
        move || start_role(&agent)
    })
    .await?;
    tracing::info!("{} serves {}", agent.machine.config.machine, agent.machine.config.listen);
    let tasks = [
        tokio::spawn(mtls::serve(listener, Some(acceptor), api::router(agent.clone()))),
        tokio::spawn(watch(agent.clone())),
        tokio::spawn(ask_readiness(agent.clone())),
        tokio::spawn(report_metrics(agent.clone(), writer)),
    ];
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    for task in &tasks {
        task.abort();
    }
    spawn_blocking(move || end(&agent)).await.context("the agent's end was cut short")
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    let until = Instant::now() + NETWORK_LIMIT;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if Instant::now() > until => {
                return Err(error).with_context(|| format!("cannot listen on {address}"))
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Order matters: undo what was left, then the agent's own shaping, then the baseline.
fn prepare(config: Config, clock: Clock) -> Result<Agent> {
    let journal = Journal::open(config.state_dir.join("journal"))?;
    let cgroups = Arc::new(Cgroups::open(&config.cgroup_dir, CHILD_CGROUP));
    let data = find_data_interface(&config).map_err(|error| format!("{error:#}"));
    let role = Role::new(&config, cgroups.clone());
    let readiness = Readiness::new(config.role_dir.join("ready.sh"));
    let machine = Arc::new(Machine {
        config,
        data,
        cgroups: cgroups.clone(),
        role,
        workers: Workers::default(),
    });
    let mut engine = Engine::new(machine.clone(), faults::all(), journal);
    for message in engine.replay(clock.now())? {
        tracing::error!("{message}; what it was to undo may be left, see the fingerprint");
    }
    report_undone(&engine.list());
    report_failure("the data interface", shape(&machine));
    report_failure("the control address's guard", shut_control(&machine));
    if let Ok(device) = root_device() {
        report_failure("the disk throttle", cgroups.inherit_throttle(&device));
    }
    engine.try_kinds();
    let file = machine.config.state_dir.join("baseline.json");
    let baseline =
        fingerprint::baseline(&file, &cgroups).map_err(|error| format!("no baseline: {error:#}"));
    report_failure("the fingerprint", baseline.as_ref().map(drop));
    let buffer = Mutex::new(Buffer::default());
    Ok(Agent { machine, engine, readiness, baseline, buffer, clock })
}

fn find_data_interface(config: &Config) -> Result<DataInterface> {
    let until = std::time::Instant::now() + NETWORK_LIMIT;
    loop {
        match DataInterface::find(config.data_address, config.listen.ip()) {
            Err(error) if std::time::Instant::now() > until => return Err(error),
            // Waiting does not part two addresses that are on one interface.
            Err(error) if error.to_string().contains("of its own") => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
            found => return found,
        }
    }
}

fn shape(machine: &Machine) -> Result<()> {
    let data = machine.data()?;
    match machine.nominal_bucket()? {
        Some(bucket) => data.shape(&bucket),
        None => Ok(()),
    }
}

fn shut_control(machine: &Machine) -> Result<()> {
    let config = &machine.config;
    guard::shut(machine.data()?, config.data_address, config.listen.ip())
}

fn report_failure(about: &str, result: Result<(), impl Display>) {
    if let Err(reason) = result {
        tracing::error!("{about}: {reason:#}");
    }
}

fn start_role(agent: &Agent) {
    if agent.machine.role.is_there().is_ok() {
        report_failure("the role", agent.machine.role.start());
    }
}

/// Ends leases and restarts the role, several times a second.
async fn watch(agent: Arc<Agent>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let agent = agent.clone();
        let result = spawn_blocking(move || {
            report_undone(&agent.engine.expire(agent.clock.now()));
            report_failure("the role's restart", agent.machine.role.tick());
        });
        report_failure("the watch", result.await);
    }
}

/// Asks the role's readiness every second, and every five once it is ready.
async fn ask_readiness(agent: Arc<Agent>) {
    loop {
        let ready = agent.readiness.check(&agent.machine).await;
        sleep(if ready { READY_EVERY } else { SAMPLE_EVERY }).await;
    }
}

/// Takes samples whatever becomes of those before, and delivers them.
async fn report_metrics(agent: Arc<Agent>, writer: Option<Writer>) {
    let Some(writer) = writer else {
        return;
    };
    let sampled = Notify::new();
    tokio::join!(sample(&agent, &sampled), deliver(&agent.buffer, &writer, &sampled));
}

async fn sample(agent: &Agent, sampled: &Notify) {
    let config = &agent.machine.config;
    let interface = agent.machine.data().map(|data| data.name.clone()).ok();
    let cgroups = &agent.machine.cgroups;
    let read = |uptime| metrics::read_counters(cgroups, interface.as_deref(), uptime);
    let mut before = read(agent.clock.now().uptime);
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let now = agent.clock.now();
        let after = read(now.uptime);
        let gauges = metrics::Gauges {
            wall_ms: now.wall_ms,
            memory_mb: metrics::memory_mb(cgroups),
            cap_cores: cgroups.cap_cores(),
            faults_active: agent.engine.active(),
        };
        lock(&agent.buffer).push(metrics::host_line(config, &before, &after, &gauges));
        before = after;
        sampled.notify_one();
    }
}

async fn deliver(buffer: &Mutex<Buffer>, writer: &Writer, sampled: &Notify) {
    loop {
        sampled.notified().await;
        let body = lock(buffer).batch();
        let outcome = writer.send(body).await.unwrap_or(Outcome::Away);
        lock(buffer).settle(outcome);
    }
}

fn lock(buffer: &Mutex<Buffer>) -> std::sync::MutexGuard<'_, Buffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report_undone(faults: &[Fault]) {
    for fault in faults {
        match (fault.state, &fault.error) {
            (FaultState::RevertFailed, Some(error)) => {
                tracing::error!(fault = %fault.id, "{} could not be undone: {error}", fault.kind);
            }
            _ => tracing::info!(
                fault = %fault.id,
                reason = ?fault.revert_reason,
                "{} is undone",
                fault.kind
            ),
        }
    }
}

/// Undoes faults first, so that the role ends as without them; then ends the role; then removes our
/// own traces. No undo starts the role any more.
fn end(agent: &Agent) {
    agent.machine.role.retire();
    report_undone(&agent.engine.revert_all(RevertReason::Sigterm, || agent.clock.now()));
    report_failure("the role", agent.machine.role.stop());
    report_failure("the store", agent.machine.role.store().end());
    if let Ok(data) = agent.machine.data() {
        report_failure("the data interface", data.unshape());
        report_failure("the control address's guard", guard::remove());
    }
    agent.machine.cgroups.remove();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::example_in;

    /// An agent without role and faults, whose database is at this address.
    fn agent_of(directory: &std::path::Path, database: SocketAddr) -> Agent {
        let mut config = example_in(directory);
        config.influxdb = Some(format!("http://{database}"));
        let journal = Journal::open(config.state_dir.join("journal")).unwrap();
        let cgroups = Arc::new(Cgroups::absent("a unit test"));
        let machine = Arc::new(Machine {
            data: Err("a unit test".into()),
            role: Role::new(&config, cgroups.clone()),
            cgroups,
            workers: Workers::default(),
            config,
        });
        Agent {
            engine: Engine::new(machine.clone(), vec![], journal),
            readiness: Readiness::new("ready.sh".into()),
            baseline: Err("a unit test".into()),
            buffer: Mutex::default(),
            clock: Clock::start(),
            machine,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_takes_connections_and_never_answers_costs_no_sample() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let agent = Arc::new(agent_of(directory.path(), silent.local_addr().unwrap()));
        let writer = Writer::of(&agent.machine.config).unwrap();
        let minute = Duration::from_millis(60_500);
        let reporting = report_metrics(agent.clone(), writer);
        tokio::time::timeout(minute, reporting).await.unwrap_err();
        assert_eq!(lock(&agent.buffer).counts().buffered, 60);
    }
}
