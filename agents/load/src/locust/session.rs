//! A worker's life with its master, from the first word to the last.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use serde::Serialize;
use thiserror::Error;

use super::message::{
    decode, encode, Exception, FromMaster, Heartbeat, Latencies, Spawn, Stats, Users,
};
use super::zmtp;
use crate::block::Block;
use crate::clock::{monotonic_ns, process_cpu_ns, SECOND};
use crate::plan::Plan;
use crate::record::Start;
use crate::refused::Refused;
use crate::signals;
use crate::tally::Tally;
use crate::target::on_load_machine;

/// Any version: what is said here is of Locust's since 2.0.
const ANY_VERSION: i32 = -1;
const HEARTBEAT_NS: i64 = SECOND;
const REPORT_NS: i64 = 3 * SECOND;
const MASTER_SILENT_NS: i64 = 60 * SECOND;
const LEAVE: Duration = Duration::from_secs(1);
const LEAD_NS: i64 = SECOND / 20;

/// Options of working for a master.
#[derive(Debug)]
pub struct Options {
    /// Host of the master.
    pub host: String,
    /// See `host`.
    pub port: u16,
    /// The block's plan.
    pub plan: PathBuf,
    /// File for records, if any.
    pub records: Option<PathBuf>,
    /// Maximum time of connecting.
    pub connect_timeout: Duration,
}

/// No master was found at its address.
#[derive(Debug, Error)]
#[error("--master {host}:{port}: expected a Locust master within {limit_s} s (got {got})")]
pub struct NoMaster {
    host: String,
    port: u16,
    limit_s: f64,
    got: String,
}

enum Event {
    Master(Vec<u8>),
    MasterGone,
    /// A loop of the block with this number ended.
    LoopEnded(u64),
    End,
}

/// Works for a master until that or the system says that it is enough; prints the totals of each
/// block as a line of JSON.
///
/// # Errors
/// `NoMaster`; the plan is none; the connection is lost.
pub fn work(options: &Options) -> Result<()> {
    let (sender, events) = channel();
    let signal_sender = sender.clone();
    signals::on_end(move || {
        let _ = signal_sender.send(Event::End);
    })?;
    let json = std::fs::read(&options.plan).with_context(|| options.plan.display().to_string())?;
    let plan = Plan::parse(&json, on_load_machine())?;
    if plan.has_sessions() {
        let expected = "none with sessions, of which a worker cannot have a share";
        return Err(Refused::new("plan", expected, "one with sessions").into());
    }
    let node = format!("{}_{}_{:x}", hostname(), std::process::id(), monotonic_ns());
    let master = find(options, &node)?;
    let mut reader = master.try_clone()?;
    let master_sender = sender.clone();
    thread::Builder::new().name("master".into()).spawn(move || {
        while let Ok(message) = zmtp::receive(&mut reader) {
            let _ = master_sender.send(Event::Master(message));
        }
        let _ = master_sender.send(Event::MasterGone);
    })?;
    let mut session = Session {
        options,
        plan,
        node,
        master,
        sender,
        number: None,
        state: "ready",
        users: BTreeMap::new(),
        running: None,
        blocks: 0,
        cpu: (monotonic_ns(), process_cpu_ns()),
        message_ns: monotonic_ns(),
        beat_ns: 0,
        reported_ns: 0,
    };
    let result = session.run(&events);
    if let Err(error) = &result {
        session.explain(error);
    }
    session.leave(&events);
    result
}

/// Tries to connect to the master until it answers or the limit is over.
fn find(options: &Options, node: &str) -> Result<TcpStream> {
    let end_ns = monotonic_ns() + options.connect_timeout.as_nanos() as i64;
    loop {
        match zmtp::connect(&options.host, options.port, node, options.connect_timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) if monotonic_ns() >= end_ns => {
                bail!(NoMaster {
                    host: options.host.clone(),
                    port: options.port,
                    limit_s: options.connect_timeout.as_secs_f64(),
                    got: error.to_string(),
                })
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A block under way, and what is counted of it.
struct Running {
    number: u64,
    block: Block,
    loops: usize,
    tally: Arc<Mutex<Tally>>,
}

struct Session<'a> {
    options: &'a Options,
    plan: Plan,
    node: String,
    master: TcpStream,
    sender: Sender<Event>,
    /// Number among the master's workers.
    number: Option<usize>,
    state: &'static str,
    users: BTreeMap<String, u64>,
    running: Option<Running>,
    /// Blocks so far.
    blocks: u64,
    cpu: (i64, i64),
    message_ns: i64,
    beat_ns: i64,
    reported_ns: i64,
}

impl Session<'_> {
    fn run(&mut self, events: &Receiver<Event>) -> Result<()> {
        self.send("client_ready", &ANY_VERSION)?;
        loop {
            self.beat()?;
            let wait_ns = self.beat_ns + HEARTBEAT_NS - monotonic_ns();
            let wait = Duration::from_nanos(wait_ns.max(0) as u64);
            match events.recv_timeout(wait) {
                Ok(Event::Master(bytes)) => {
                    self.message_ns = monotonic_ns();
                    match decode(&bytes)? {
                        FromMaster::Ack(number) => self.number = Some(number),
                        FromMaster::Spawn(spawn) => self.spawn(spawn)?,
                        FromMaster::Stop => self.stop()?,
                        FromMaster::Quit => return self.end(),
                        FromMaster::Other => {}
                    }
                }
                Ok(Event::LoopEnded(number)) => self.loop_ended(number)?,
                Ok(Event::End) => {
                    self.end()?;
                    return self.send("quit", &());
                }
                Ok(Event::MasterGone) => {
                    self.finish(false)?;
                    bail!("the master is gone");
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn send<T: Serialize>(&mut self, kind: &str, data: &T) -> Result<()> {
        let bytes = encode(kind, data, &self.node)?;
        zmtp::send(&mut self.master, &bytes).with_context(|| format!("{kind} to the master"))
    }

    /// Sends the messages of each second and of each three.
    fn beat(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        if now_ns - self.message_ns > MASTER_SILENT_NS {
            bail!("the master was silent for {} s", MASTER_SILENT_NS / SECOND);
        }
        if now_ns - self.beat_ns < HEARTBEAT_NS {
            return Ok(());
        }
        self.beat_ns = now_ns;
        if self.number.is_none() {
            return self.send("client_ready", &ANY_VERSION);
        }
        let cpu = (now_ns, process_cpu_ns());
        let share = (cpu.1 - self.cpu.1) as f64 / (cpu.0 - self.cpu.0).max(1) as f64;
        self.cpu = cpu;
        let heartbeat = Heartbeat {
            state: self.state,
            current_cpu_usage: (share * 1000.0).round() / 10.0,
            current_memory_usage: resident_bytes(),
        };
        self.send("heartbeat", &heartbeat)?;
        if now_ns - self.reported_ns >= REPORT_NS {
            self.report()?;
        }
        Ok(())
    }

    fn report(&mut self) -> Result<()> {
        self.reported_ns = monotonic_ns();
        let Some(running) = &self.running else {
            return Ok(());
        };
        let report = locked(&running.tally).report();
        let users = self.users.clone();
        let stats = Stats { report, users: Users::of(&users) };
        self.send("stats", &stats)
    }

    fn spawn(&mut self, spawn: Spawn) -> Result<()> {
        self.send("spawning", &())?;
        let is_first = self.state == "ready";
        self.state = "spawning";
        let (number, workers) = (self.number.unwrap_or(0), spawn.workers());
        self.users = spawn.user_classes_count;
        if is_first {
            if number >= workers {
                bail!(
                    "expected a master that knows how many workers share the plan; this is the \
                     {number}th of {workers}, counted from 0: start it with --expect-workers"
                );
            }
            self.begin(number, workers)?;
        }
        let users = self.users.clone();
        self.send("spawning_complete", &Users::of(&users))?;
        self.state = "running";
        Ok(())
    }

    fn begin(&mut self, number: usize, workers: usize) -> Result<()> {
        let now_ns = monotonic_ns();
        self.blocks += 1;
        let block_number = self.blocks;
        let plan = Arc::new(self.plan.clone().share(number, workers));
        let tally = Arc::new(Mutex::new(Tally::new(now_ns)?));
        let sender = self.sender.clone();
        let records = self.options.records.as_deref();
        let block = Block::prepare(&plan, records, Some(Arc::clone(&tally)), move || {
            let _ = sender.send(Event::LoopEnded(block_number));
        })?;
        block.go(Start { t0_ns: monotonic_ns(), start_ns: LEAD_NS });
        self.running = Some(Running { number: block_number, block, loops: plan.workers, tally });
        Ok(())
    }

    /// The block's last loop tells the totals; the worker stays for what the master wants next.
    fn loop_ended(&mut self, number: u64) -> Result<()> {
        match &mut self.running {
            Some(running) if running.number == number && running.loops > 1 => {
                running.loops -= 1;
                Ok(())
            }
            Some(running) if running.number == number => self.finish(true),
            _ => Ok(()), // of a block that was stopped
        }
    }

    /// Ends the block, if there is one; tells its totals, and the master if that is there.
    fn finish(&mut self, tell_master: bool) -> Result<()> {
        let Some(Running { block, tally, .. }) = self.running.take() else {
            return Ok(());
        };
        block.stop();
        let outcome = block.join();
        let (totals, histogram, report) = {
            let mut tally = locked(&tally);
            (tally.totals(), tally.histogram()?, tally.report())
        };
        println!("{}", serde_json::to_string(&totals)?);
        if tell_master {
            let users = self.users.clone();
            let stats = Stats { report, users: Users::of(&users) };
            self.send("stats", &stats)?;
            let latencies =
                Latencies { unit: "us", digits: 3, histogram: STANDARD.encode(histogram), totals };
            self.send("histogram", &latencies)?;
        }
        match outcome.error.or(outcome.unwritten.error) {
            Some(error) => Err(anyhow!(error)),
            None => Ok(()),
        }
    }

    fn stop(&mut self) -> Result<()> {
        self.finish(true)?;
        self.users.clear();
        self.send("client_stopped", &())?;
        self.send("client_ready", &ANY_VERSION)?;
        self.state = "ready";
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.finish(true)
    }

    /// Reports the worker's error to the master, if possible.
    fn explain(&mut self, error: &anyhow::Error) {
        let exception = Exception { msg: format!("{error:#}"), traceback: String::new() };
        let result = self.send("exception", &exception);
        if result.and_then(|()| self.send("quit", &())).is_err() {
            tracing::error!("the master was not told");
        }
    }

    /// Waits until the master has read everything and closes its end.
    fn leave(&mut self, events: &Receiver<Event>) {
        let _ = self.master.shutdown(Shutdown::Write);
        while let Ok(event) = events.recv_timeout(LEAVE) {
            if matches!(event, Event::MasterGone) {
                return;
            }
        }
    }
}

fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Name of this host; empty where it has none.
pub fn hostname() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Resident memory of this process; 0 where it cannot be read.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
