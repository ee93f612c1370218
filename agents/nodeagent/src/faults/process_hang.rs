//! `process.hang`: SIGSTOP to the role's whole process tree; its connections stay open and
//! unanswered.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::ServiceState;

use super::{Fault, Refusal};
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
    type Parameters = Nothing;
    type Record = Nothing;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.role.is_there()
    }

    fn resource(&self, _parameters: &Nothing) -> String {
        "role".into()
    }

    fn plan(
        &self,
        machine: &Machine,
        _id: &str,
        _parameters: &Nothing,
    ) -> Result<Nothing, Refusal> {
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
