//! Process 1: runs the agent as its child, passes the wish to end on to it and reaps every orphan.
//!
//! Two processes instead of one, so that reaping orphans never races with the agent's own waiting,
//! and so that a killed agent is restarted, finds its journal and undoes its faults. A stopped
//! agent (a role that is root may stop it) is continued, because a lease must end.

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::machine::processes::own_program;

/// An agent that dies this often within this time is not started again.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(60);
/// Exit code of an agent that cannot work with its configuration: starting it again would not help.
pub const EXIT_USAGE: i32 = 2;

/// Signals that end the agent; it gets SIGTERM.
const ENDINGS: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// Runs until the agent ends for good; returns its exit code.
pub fn run(arguments: &[String]) -> Result<i32> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    for signal in ENDINGS {
        signals.add(signal);
    }
    signals.thread_block().context("cannot block signals")?;
    let mut deaths: VecDeque<Instant> = VecDeque::new();
    let mut asked_to_end = false;
    loop {
        let code = run_once(arguments, &signals, &mut asked_to_end)?;
        if asked_to_end || code == 0 || code == EXIT_USAGE {
            return Ok(code);
        }
        let now = Instant::now();
        deaths.push_back(now);
        while deaths.front().is_some_and(|death| now.duration_since(*death) > RESTARTS_WITHIN) {
            deaths.pop_front();
        }
        if deaths.len() > RESTARTS_MAX {
            tracing::error!("the agent ended {} times in a minute; giving up", deaths.len());
            return Ok(code);
        }
        tracing::warn!("the agent ended with {code}; starting it again");
    }
}

fn run_once(arguments: &[String], signals: &SigSet, asked_to_end: &mut bool) -> Result<i32> {
    let child =
        Command::new(own_program()?).args(arguments).spawn().context("cannot start the agent")?;
    let agent = Pid::from_raw(child.id().try_into()?);
    loop {
        match signals.wait().context("cannot wait for a signal")? {
            Signal::SIGCHLD => {
                if let Some(code) = reap(agent) {
                    return Ok(code);
                }
            }
            _ => {
                *asked_to_end = true;
                // It may have ended just now; then SIGCHLD follows.
                let _ = kill(agent, Signal::SIGTERM);
            }
        }
    }
}

/// Reaps ended processes, and continues a stopped agent. Returns the agent's exit code if it ended.
fn reap(agent: Pid) -> Option<i32> {
    let mut status = None;
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == agent => status = Some(code),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == agent => {
                status = Some(128 + signal as i32)
            }
            Ok(WaitStatus::Stopped(pid, _)) if pid == agent => {
                // It may have been killed meanwhile; then SIGCHLD follows.
                let _ = kill(agent, Signal::SIGCONT);
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return status,
            Ok(_) => {}
        }
    }
}
