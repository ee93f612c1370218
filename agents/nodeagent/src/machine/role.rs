//! The role: the process tree that `start.sh` begins, started, watched, signalled and stopped.
//!
//! The first process is the leader of its own session and joins the agent's child cgroup before
//! `start.sh` runs. The tree is what is in that cgroup, in that session or descends from it,
//! without the interference's processes and the store's. A restarted agent takes over the role that its predecessor
//! left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use wire::agent::ServiceState;

use super::calls::Calls;
use super::cgroup::Cgroups;
use super::closed::Closed;
use super::environment::Environment;
use super::processes::{self, Process};
use super::store::{Store, STORE_MARK};
use super::FAULT_MARK;
use crate::config::Config;

/// Time after SIGTERM at which the role is killed.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Time within which a signal must have reached all of the tree: it may fork meanwhile, and a process
/// of many threads takes a while to end.
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// The role and what is known of its process.
#[derive(Debug)]
pub struct Role {
    program: PathBuf,
    folders: [PathBuf; 3],
    cgroup_dir: PathBuf,
    environment: Environment,
    store: Store,
    calls: Calls,
    record: PathBuf,
    cgroups: Arc<Cgroups>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    leader: Option<Leader>,
    /// The handle of our own child; an adopted role has none.
    child: Option<Child>,
    is_wanted: bool,
    /// True if a fault keeps it down.
    crashed: bool,
    restart_at: Option<Instant>,
    /// True if nothing is started any more.
    retired: bool,
}

/// One start of the role: its pid, and the clock ticks from boot to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started(i32, u64);

/// Identity of the tree's first process, and the settings that it was started with, kept on disk for
/// the next agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Leader {
    pid: i32,
    start_ticks: u64,
    settings: BTreeMap<String, String>,
}

impl Leader {
    fn process(&self) -> Option<Process> {
        processes::find(self.pid)
            .filter(|process| process.start_ticks == self.start_ticks && process.is_alive())
    }
}

impl Role {
    /// Reads the role and adopts a running one, but starts nothing.
    pub fn new(config: &Config, cgroups: Arc<Cgroups>) -> Role {
        let record = config.state_dir.join("role.json");
        let predecessor =
            fs::read_to_string(&record).ok().and_then(|text| serde_json::from_str(&text).ok());
        let leader = predecessor.filter(|leader: &Leader| leader.process().is_some());
        let state = State { is_wanted: leader.is_some(), leader, ..State::default() };
        Role {
            program: config.role_dir.join("start.sh"),
            folders: [&config.role_dir, &config.etc_dir, &config.state_dir].map(Clone::clone),
            cgroup_dir: config.cgroup_dir.clone(),
            environment: Environment::in_directory(&config.etc_dir),
            store: Store::new(config, cgroups.clone()),
            calls: Calls::new(config),
            record,
            cgroups,
            state: Mutex::new(state),
        }
    }

    /// Refuses a machine without a role.
    pub fn is_there(&self) -> Result<()> {
        let program = self.program.display();
        let is_file = self.program.is_file();
        ensure!(is_file, "this machine has no role: {program} is not there");
        Ok(())
    }

    /// The environment of its scripts.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The pass-through that its data may lie under.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The library that may be loaded into it.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Processes of the role.
    pub fn processes(&self) -> Vec<Process> {
        self.tree(&mut self.lock())
    }

    /// Starts the role unless it runs.
    pub fn start(&self) -> Result<()> {
        self.start_locked(&mut self.lock())
    }

    /// Ends the role: SIGTERM to the whole tree, and SIGKILL to what is left after 5 s.
    pub fn stop(&self) -> Result<()> {
        let mut state = self.lock();
        state.is_wanted = false;
        state.restart_at = None;
        self.end_tree(&mut state)
    }

    /// Replaces the settings. A service with other settings is restarted, unless it was stopped or
    /// a fault keeps it down; returns true if it was. Can be repeated after a failure.
    pub fn set(&self, settings: &BTreeMap<String, String>) -> Result<bool> {
        let mut state = self.lock();
        self.environment.set(settings)?;
        let is_stale = |leader: &Leader| leader.settings != *settings;
        let stale = state.leader.as_ref().is_some_and(is_stale);
        if !stale || !state.is_wanted || state.crashed || state.retired {
            return Ok(false);
        }
        self.end_tree(&mut state)?;
        self.start_locked(&mut state)?;
        Ok(true)
    }

    /// Starts nothing any more, because the agent ends.
    pub fn retire(&self) {
        self.lock().retired = true;
    }

    /// Kills the whole tree as a crash would; `restart_after` starts it again by itself.
    pub fn crash(&self, restart_after: Option<Duration>) -> Result<()> {
        let mut state = self.lock();
        self.kill_tree(&mut state)?;
        state.crashed = true;
        state.restart_at = restart_after.map(|delay| Instant::now() + delay);
        Ok(())
    }

    /// Ends a crash: starts the role if it does not run.
    pub fn recover(&self) -> Result<()> {
        let mut state = self.lock();
        state.restart_at = None;
        self.start_locked(&mut state)
    }

    /// Starts a role that ended by itself; one that was stopped, or is kept down by a fault, stays
    /// as it is.
    pub fn revive(&self) -> Result<()> {
        let mut state = self.lock();
        if state.is_wanted && !state.crashed {
            self.start_locked(&mut state)?;
        }
        Ok(())
    }

    /// Stops every process of the tree by SIGSTOP, and those that it forks meanwhile.
    pub fn freeze(&self) -> Result<()> {
        let awake = |process: &Process| !process.is_stopped() && process.state != 'Z';
        self.signal_until_none(&mut self.lock(), Signal::SIGSTOP, awake)
    }

    /// Continues every stopped process of the tree.
    pub fn thaw(&self) -> Result<()> {
        self.signal_until_none(&mut self.lock(), Signal::SIGCONT, Process::is_stopped)
    }

    /// Processes of the tree that are stopped by a signal.
    pub fn stopped_processes(&self) -> Vec<Process> {
        self.tree(&mut self.lock()).into_iter().filter(Process::is_stopped).collect()
    }

    /// Reaps the role and does a restart that is due. Called a few times a second.
    pub fn tick(&self) -> Result<()> {
        let mut state = self.lock();
        reap(&mut state);
        if state.restart_at.is_some_and(|at| at <= Instant::now()) {
            state.restart_at = None;
            self.start_locked(&mut state)?;
        }
        Ok(())
    }

    /// The state of the service right now.
    pub fn service(&self) -> ServiceState {
        let mut state = self.lock();
        reap(&mut state);
        match state.leader.as_ref().and_then(Leader::process) {
            Some(process) if process.is_stopped() => ServiceState::Hung,
            Some(_) => ServiceState::Running,
            None if state.is_wanted => ServiceState::Crashed,
            None => ServiceState::Stopped,
        }
    }

    /// The identity of the role's process: another one after each start. None before the first.
    pub fn started(&self) -> Option<Started> {
        let state = self.lock();
        state.leader.as_ref().map(|leader| Started(leader.pid, leader.start_ticks))
    }

    fn start_locked(&self, state: &mut State) -> Result<()> {
        reap(state);
        let runs = state.leader.as_ref().and_then(Leader::process).is_some();
        if runs || state.retired {
            return Ok(());
        }
        self.kill_tree(state)?;
        if let Some(mut child) = state.child.take() {
            child.wait()?; // killed: it has no more threads
        }
        self.is_there()?;
        let settings = self.environment.settings()?;
        let mut variables = self.environment.variables()?;
        self.store.settle(&variables)?;
        self.calls.settle(&mut variables)?;
        let own = processes::own_program()?;
        let mut command = Command::new(&own);
        command.arg("exec-role").args(self.closed(&own).words());
        for file in self.cgroups.join_files() {
            command.arg("--join").arg(file);
        }
        let child =
            command.arg("--").arg(&self.program).envs(variables).stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("cannot start {}", self.program.display()))?;
        let pid = i32::try_from(child.id())?;
        let start_ticks = processes::find(pid).map_or(0, |process| process.start_ticks);
        let leader = Leader { pid, start_ticks, settings };
        let record = serde_json::to_string(&leader)?;
        *state =
            State { leader: Some(leader), child: Some(child), is_wanted: true, ..State::default() };
        fs::write(&self.record, record)
            .with_context(|| format!("cannot write {}", self.record.display()))
    }

    /// Folders of the agent, and of this program, that are closed to the role.
    fn closed(&self, own: &Path) -> Closed {
        let mut closed = Closed {
            read_only: self.folders.to_vec(),
            writable: vec![self.calls.control().to_owned()],
        };
        closed.read_only.extend(own.parent().map(Path::to_owned));
        // Mounts of their own, in which a role that is root could lift its machine's limits.
        let views = fs::read_dir(&self.cgroup_dir).into_iter().flatten();
        closed.read_only.extend(views.flatten().map(|view| view.path()));
        closed
    }

    /// SIGTERM, and SIGKILL to what is left.
    fn end_tree(&self, state: &mut State) -> Result<()> {
        for process in self.tree(state) {
            processes::signal(process.pid, Signal::SIGTERM)?;
            processes::signal(process.pid, Signal::SIGCONT)?;
        }
        let until = Instant::now() + STOP_LIMIT;
        while Instant::now() < until && !self.tree(state).is_empty() {
            thread::sleep(PAUSE);
        }
        self.kill_tree(state)
    }

    fn kill_tree(&self, state: &mut State) -> Result<()> {
        self.signal_until_none(state, Signal::SIGKILL, |_| true)
    }

    /// Signals the selected processes of the tree, and their forks, until there are none.
    fn signal_until_none(
        &self,
        state: &mut State,
        signal: Signal,
        is_meant: impl Fn(&Process) -> bool,
    ) -> Result<()> {
        let until = Instant::now() + SIGNAL_LIMIT;
        while Instant::now() < until {
            let mut processes = self.tree(state);
            processes.retain(&is_meant);
            if processes.is_empty() {
                return Ok(());
            }
            for process in processes {
                processes::signal(process.pid, signal)?;
            }
            thread::sleep(PAUSE);
        }
        let seconds = SIGNAL_LIMIT.as_secs();
        bail!("the role still had processes to signal after {seconds} s of {signal}")
    }

    fn tree(&self, state: &mut State) -> Vec<Process> {
        reap(state);
        let grouped: BTreeSet<i32> = self.cgroups.members().into_iter().collect();
        let all = processes::list();
        // A leader that is gone may have left a session behind; only its number is left to go by,
        // and only while no other process has been given that number.
        let leader = state
            .leader
            .as_ref()
            .filter(|leader| {
                let holder = processes::find(leader.pid);
                holder.map_or(true, |process| process.start_ticks == leader.start_ticks)
            })
            .map(|leader| leader.pid);
        let mut tree: BTreeSet<i32> = all
            .iter()
            .filter(|process| {
                let is_led = leader.is_some_and(|pid| pid == process.session || pid == process.pid);
                is_led || grouped.contains(&process.pid)
            })
            .map(|process| process.pid)
            .collect();
        while let Some(child) = all
            .iter()
            .find(|process| tree.contains(&process.parent) && !tree.contains(&process.pid))
        {
            tree.insert(child.pid);
        }
        all.into_iter()
            .filter(|process| tree.contains(&process.pid) && process.is_alive())
            .filter(|process| !processes::has_variable(process.pid, FAULT_MARK))
            .filter(|process| !processes::has_variable(process.pid, STORE_MARK))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reap(state: &mut State) {
    let is_over = state.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
    if is_over {
        state.child = None;
    }
}
