//! Interference as processes of their own: `nodeagent neighbour` joins the role's cgroup and spins
//! or runs a program. It carries the episode's id in its environment, by which the undo finds it.
//! It ends by itself when the agent that started it is gone or the longest lease has passed.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use wire::agent::LEASE_S_MAX;

use crate::machine::processes::own_program;
use crate::machine::{cgroup, processes, Machine, FAULT_MARK};

/// Time after which a program counts as started; iperf3 stops trying to connect before.
const SETTLE: Duration = Duration::from_millis(400);
const RUN_LIMIT: Duration = Duration::from_secs(5);
const PASSES_MAX: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);
/// Iterations between two looks at the clock.
const SPINS: u64 = 1_000_000;
/// The episodes whose dose readers may start a program.
static LOOKED_AT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Starts one neighbour for each program of the episode `id` (an empty one spins), and returns when
/// all of them have stayed alive for a moment.
pub fn start_all(machine: &Machine, id: &str, programs: &[Vec<String>]) -> Result<()> {
    let mut children = Vec::new();
    for program in programs {
        children.push((program, start(machine, id, program)?));
    }
    let until = Instant::now() + SETTLE;
    while Instant::now() < until {
        for (program, child) in &mut children {
            if let Some(status) =
                child.try_wait().context("cannot wait for the neighbour process")?
            {
                bail!("{} ended at once ({status}): {}", describe(program), error_output(child));
            }
        }
        thread::sleep(PAUSE);
    }
    for (_, child) in children {
        // A thread of its own reaps it and keeps its error output from filling the pipe.
        thread::spawn(move || child.wait_with_output());
    }
    Ok(())
}

fn start(machine: &Machine, id: &str, program: &[String]) -> Result<Child> {
    let mut command = Command::new(own_program()?);
    command.arg("neighbour");
    for file in machine.cgroups.join_files() {
        command.arg("--join").arg(file);
    }
    command.arg("--").args(program);
    command.env(FAULT_MARK, id).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().context("cannot start the neighbour process")
}

/// Kills every process of the episode `id`; none is no error.
pub fn stop(id: &str) -> Result<()> {
    let mut empty_passes = 0;
    for _ in 0..PASSES_MAX {
        let survivors = pids(id);
        // In the midst of its exec a process shows no environment, so once is not enough.
        empty_passes = if survivors.is_empty() { empty_passes + 1 } else { 0 };
        if empty_passes == 2 {
            return Ok(());
        }
        for pid in survivors {
            processes::signal(pid, Signal::SIGKILL)?;
        }
        thread::sleep(PAUSE);
    }
    bail!("interference {id} still had processes after {PASSES_MAX} rounds of SIGKILL")
}

/// Allows the dose reader of episode `id` to run programs, until `end_looks`.
pub fn begin_looks(id: &str) {
    looked_at().insert(id.into());
}

/// Ends programs of the dose reader of episode `id`; it starts no more.
pub fn end_looks(id: &str) -> Result<()> {
    looked_at().remove(id);
    stop(id)
}

fn looked_at() -> MutexGuard<'static, BTreeSet<String>> {
    LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program in the role's cgroup to its end, for at most `RUN_LIMIT`, for the dose reader of
/// the episode `id`. Returns its standard error.
pub fn run_once(machine: &Machine, id: &str, program: &[String]) -> Result<String> {
    let mut child = {
        let allowed = looked_at(); // until it runs, so that `end_looks` finds it
        if !allowed.contains(id) {
            bail!("{id} is being undone");
        }
        start(machine, id, program)?
    };
    let until = Instant::now() + RUN_LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            stop(id)?;
            let _ = child.wait();
            bail!("{} did not end within {RUN_LIMIT:?}", describe(program));
        }
        thread::sleep(PAUSE);
    }
    Ok(error_output(&mut child))
}

/// The processes of the episode `id` that are alive.
pub fn pids(id: &str) -> Vec<i32> {
    let marker = format!("{FAULT_MARK}={id}");
    processes::list()
        .into_iter()
        .filter(|process| process.is_alive())
        .map(|process| process.pid)
        .filter(|pid| processes::has_environment(*pid, &marker))
        .collect()
}

/// Refuses a program that cannot be run.
pub fn can_run(program: &str) -> Result<()> {
    crate::machine::command::run(program, &["--version"]).map(drop)
}

/// The body of `nodeagent neighbour`.
pub fn run(joins: &[PathBuf], program: &[String]) -> Result<i32> {
    let agent = getppid();
    let deadline = Instant::now() + Duration::from_secs_f64(LEASE_S_MAX);
    cgroup::join(joins)?;
    let over = || Instant::now() > deadline || getppid() != agent;
    let Some((name, arguments)) = program.split_first() else {
        while !over() {
            for spin in 0..SPINS {
                std::hint::black_box(spin);
            }
        }
        return Ok(0);
    };
    let mut child =
        Command::new(name).args(arguments).spawn().with_context(|| format!("cannot run {name}"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(1));
        }
        if over() {
            child.kill()?;
            child.wait()?;
            return Ok(0);
        }
        thread::sleep(PAUSE * 5);
    }
}

fn describe(program: &[String]) -> String {
    if program.is_empty() {
        return "the spinning process".into();
    }
    program.join(" ")
}

fn error_output(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        // Lines that cannot be read are not shown.
        let _ = stderr.read_to_string(&mut text);
    }
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
