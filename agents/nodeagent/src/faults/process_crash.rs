//! `process.crash`: SIGKILL to the role's whole process tree. The undo starts the role again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::{ServiceState, LEASE_S_MAX};

use super::dose::{duration_reader, DoseReader, Scale};
use super::parameter::Parameter;
use super::process_hang::refuse_unless_running;
use super::{Fault, Planned};
use crate::machine::Machine;

pub struct ProcessCrash;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    restart_after_s: Option<f64>,
}

impl Fault for ProcessCrash {
    const KIND: &'static str = "process.crash";
    const SUMMARY: &'static str = "SIGKILL to the role's whole process tree";
    const COMMANDS: &'static str = "kill -KILL every process of the role";
    const UNDO: &'static str = "start.sh of the role is started again";
    const STOPS_SERVICE: bool = true;
    const DOSE: Scale =
        Scale { unit: "s", how: "time in which the role's first process was dead, by /proc" };
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::number("restart_after_s", "the role starts again by itself after this time")
            .in_unit("s")
            .at_least(0.0)
            .at_most(LEASE_S_MAX)
            .optional()];
    type Parameters = Parameters;
    type Record = Parameters;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.role.is_there()
    }

    fn resource(&self, _parameters: &Parameters) -> String {
        "role".into()
    }

    fn plan(&self, machine: &Machine, _id: &str, parameters: &Parameters) -> Planned<Parameters> {
        refuse_unless_running(machine, "crash")?;
        Ok(Parameters { restart_after_s: parameters.restart_after_s })
    }

    fn inject(&self, machine: &Machine, record: &Parameters) -> Result<()> {
        machine.role.crash(record.restart_after_s.map(Duration::from_secs_f64))
    }

    fn undo(&self, machine: &Machine, _record: &Parameters) -> Result<()> {
        machine.role.recover()
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Parameters) -> Box<dyn DoseReader> {
        let machine = machine.clone();
        duration_reader(record.restart_after_s, move || {
            Ok(machine.role.service() == ServiceState::Crashed)
        })
    }
}
