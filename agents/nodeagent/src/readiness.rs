//! Asks the role's own `ready.sh` for an answer. It may what the role may and no more: it lies
//! where a role that is root can write.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::task::spawn_blocking;
use wire::agent::ServiceState;

use crate::machine::processes::own_program;
use crate::machine::role::Started;
use crate::machine::{processes, Machine};

const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The probe, and the start of the role that was ready when it was asked last.
#[derive(Debug)]
pub struct Readiness {
    program: PathBuf,
    ready: Mutex<Option<Started>>,
    one_at_a_time: tokio::sync::Mutex<()>,
}

impl Readiness {
    /// Starts not ready, until a check succeeds.
    pub fn new(program: PathBuf) -> Readiness {
        Readiness { program, ready: Mutex::new(None), one_at_a_time: tokio::sync::Mutex::new(()) }
    }

    /// True if the last result is of this start of the role, and says that it is ready.
    pub fn last(&self, started: Option<Started>) -> bool {
        started.is_some() && *self.ready.lock().unwrap_or_else(PoisonError::into_inner) == started
    }

    /// Asks now. A role that does not run is not asked; one without a probe is ready when it runs.
    pub async fn check(&self, machine: &Arc<Machine>) -> bool {
        let _turn = self.one_at_a_time.lock().await;
        let shared = machine.clone();
        // The role may be in the midst of a stop, which takes seconds.
        let state = spawn_blocking(move || (shared.role.started(), shared.role.service())).await;
        let (started, service) = state.unwrap_or((None, ServiceState::Stopped));
        let runs = service == ServiceState::Running;
        let ready = runs && (!self.program.is_file() || self.probe(machine).await);
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = started.filter(|_| ready);
        ready
    }

    async fn probe(&self, machine: &Machine) -> bool {
        let (Ok(variables), Ok(own)) = (machine.role.environment().variables(), own_program())
        else {
            return false;
        };
        // A session of its own, which the role's start has too: a group by which it can be ended.
        let mut command = Command::new(own);
        command
            .args(["exec-role", "--"])
            .arg(&self.program)
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut child) = command.kill_on_drop(true).spawn() else {
            return false;
        };
        let group = child.id().and_then(|pid| i32::try_from(pid).ok());
        let status = tokio::time::timeout(TIME_LIMIT, child.wait()).await;
        if let (Err(_), Some(group)) = (&status, group) {
            // Its children too; the probe is reaped when it is dropped.
            let _ = processes::signal(-group, Signal::SIGKILL);
        }
        matches!(status, Ok(Ok(status)) if status.success())
    }
}
