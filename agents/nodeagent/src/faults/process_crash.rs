//! `process.crash`: SIGKILL to the role's whole process tree. The undo starts the role again.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::ServiceState;

use super::{within, Fault, Refusal};
use crate::machine::Machine;

pub struct ProcessCrash;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The role starts again by itself after this time; null: only the undo starts it.
    #[serde(default)]
    restart_after_s: Option<f64>,
}

impl Fault for ProcessCrash {
    const KIND: &'static str = "process.crash";
    type Parameters = Parameters;
    type Record = Parameters;

    fn capability(&self, machine: &Machine) -> Result<(), String> {
        if machine.role.exists() {
            return Ok(());
        }
        Err(format!(
            "this machine has no role: {} is not there",
            machine.role.program().display()
        ))
    }

    fn resource(&self, _wish: &Parameters) -> String {
        "role".into()
    }

    fn plan(&self, machine: &Machine, _id: &str, wish: &Parameters) -> Result<Parameters, Refusal> {
        if let Some(delay_s) = wish.restart_after_s {
            within("restart_after_s", delay_s, 0.0, 600.0)?;
        }
        match machine.role.service() {
            ServiceState::Running => {}
            state => {
                return Err(Refusal::Conflict(format!(
                    "the role is {state:?}; only a running role can crash"
                )))
            }
        }
        Ok(Parameters {
            restart_after_s: wish.restart_after_s,
        })
    }

    fn inject(&self, machine: &Machine, record: &Parameters) -> Result<()> {
        machine
            .role
            .crash(record.restart_after_s.map(Duration::from_secs_f64))
    }

    fn undo(&self, machine: &Machine, _record: &Parameters) -> Result<()> {
        machine.role.recover()
    }
}
