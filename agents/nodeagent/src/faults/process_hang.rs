//! `process.hang`: SIGSTOP to the role's whole process tree; its connections stay open and
//! unanswered.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::ServiceState;

use super::dose::{DoseReader, Lasted, Reading, Scale};
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
        match machine.role.service() {
            ServiceState::Running => Ok(Nothing {}),
            state => Err(Refusal::Conflict(format!(
                "the role is {state:?}; only a running role can hang"
            ))),
        }
    }

    fn inject(&self, machine: &Machine, _record: &Nothing) -> Result<()> {
        machine.role.freeze()
    }

    fn undo(&self, machine: &Machine, _record: &Nothing) -> Result<()> {
        machine.role.thaw()
    }

    fn dose_reader(&self, machine: &Arc<Machine>, _record: &Nothing) -> Box<dyn DoseReader> {
        Box::new(Stopped {
            processes: machine.role.stopped_processes(),
            lasted: Lasted::default(),
        })
    }
}

/// The role's processes as they were last seen.
struct Stopped {
    processes: Vec<Process>,
    lasted: Lasted,
}

impl DoseReader for Stopped {
    fn look(&mut self, held: Duration) -> Result<()> {
        // One that was killed meanwhile does nothing any more.
        let alive = self.processes.iter().filter_map(|before| {
            let now = processes::find(before.pid)?;
            (now.start_ticks == before.start_ticks && now.is_alive()).then_some((before, now))
        });
        let pairs: Vec<(&Process, Process)> = alive.collect();
        let stood_still = |(before, now): &(&Process, Process)| {
            now.is_stopped() && now.cpu_ticks == before.cpu_ticks
        };
        let all = !pairs.is_empty() && pairs.iter().all(stood_still);
        // One that went on for a while and is stopped again counts anew from here.
        self.processes = pairs.into_iter().map(|(_, now)| now).collect();
        self.lasted.look(held, all);
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.lasted.reading(None)
    }
}
