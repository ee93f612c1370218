//! `process.hang`: SIGSTOP to the role's whole process tree; its connections stay open and
//! unanswered.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::ServiceState;

use super::dose::{duration_reader, DoseReader, Scale};
use super::{Fault, Planned, Refusal};
use crate::machine::processes::{self, Process};
use crate::machine::Machine;

pub struct ProcessHang;

#[derive(Serialize, Deserialize)]
pub struct Nothing {}

impl Fault for ProcessHang {
    const KIND: &'static str = "process.hang";
    const SUMMARY: &'static str = "SIGSTOP to the role's whole process tree";
    const COMMANDS: &'static str = "kill -STOP every process of the role";
    const UNDO: &'static str = "kill -CONT every process of the role";
    const STOPS_SERVICE: bool = true;
    const DOSE: Scale = Scale {
        unit: "s",
        how: "time in which every process of the role was stopped and got no CPU time, by /proc",
    };
    type Parameters = Nothing;
    type Record = Nothing;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.role.is_there()
    }

    fn resource(&self, _parameters: &Nothing) -> String {
        "role".into()
    }

    fn plan(&self, machine: &Machine, _id: &str, _parameters: &Nothing) -> Planned<Nothing> {
        if let Some(process) = machine.role.stopped_processes().first() {
            return Err(Refusal::Conflict(format!(
                "process {} ({}) of the role is stopped already, and not by the agent; \
                 continue it first",
                process.pid, process.name
            )));
        }
        refuse_unless_running(machine, "hang")?;
        Ok(Nothing {})
    }

    fn inject(&self, machine: &Machine, _record: &Nothing) -> Result<()> {
        machine.role.freeze()
    }

    fn undo(&self, machine: &Machine, _record: &Nothing) -> Result<()> {
        machine.role.thaw()
    }

    fn dose_reader(&self, machine: &Arc<Machine>, _record: &Nothing) -> Box<dyn DoseReader> {
        let mut processes = machine.role.stopped_processes();
        duration_reader(None, move || Ok(stand_still(&mut processes)))
    }
}

/// Refuses a role that does not run.
pub fn refuse_unless_running(machine: &Machine, action: &str) -> Result<(), Refusal> {
    match machine.role.service() {
        ServiceState::Running => Ok(()),
        state => Err(Refusal::Conflict(format!(
            "the role is {state:?}; only a running role can {action}"
        ))),
    }
}

/// True if all processes are stopped and got no CPU time since the last look. A killed one is
/// ignored; one that was continued and stopped again counts from here.
fn stand_still(processes: &mut Vec<Process>) -> bool {
    let alive = processes.iter().filter_map(|before| {
        let now = processes::find(before.pid)?;
        (now.start_ticks == before.start_ticks && now.is_alive()).then_some((before, now))
    });
    let pairs: Vec<(&Process, Process)> = alive.collect();
    let stood_still =
        |(before, now): &(&Process, Process)| now.is_stopped() && now.cpu_ticks == before.cpu_ticks;
    let all = !pairs.is_empty() && pairs.iter().all(stood_still);
    *processes = pairs.into_iter().map(|(_, now)| now).collect();
    all
}
