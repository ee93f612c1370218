//! `process.hang`: SIGSTOP to the role's whole process tree; its connections stay open and
//! unanswered.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::ServiceState;

use super::{Fault, Refusal};
use crate::machine::Machine;

pub struct ProcessHang;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl Fault for ProcessHang {
    const KIND: &'static str = "process.hang";
    type Parameters = Nothing;
    type Record = Nothing;

    fn capability(&self, machine: &Machine) -> Result<(), String> {
        if machine.role.exists() {
            return Ok(());
        }
        Err(format!(
            "this machine has no role: {} is not there",
            machine.role.program().display()
        ))
    }

    fn resource(&self, _wish: &Nothing) -> String {
        "role".into()
    }

    fn plan(&self, machine: &Machine, _id: &str, _wish: &Nothing) -> Result<Nothing, Refusal> {
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
}
