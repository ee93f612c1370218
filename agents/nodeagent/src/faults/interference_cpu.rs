//! `interference.cpu`: processes that spin at normal priority next to the role (sPARE section 6.1).

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::parameter::Parameter;
use super::{neighbour, Fault, Refusal};
use crate::machine::Machine;

pub struct InterferenceCpu;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    workers: u32,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    workers: u32,
}

impl Fault for InterferenceCpu {
    const KIND: &'static str = "interference.cpu";
    const SUMMARY: &'static str = "processes that spin next to the role";
    const COMMANDS: &'static str = "{workers} x nodeagent neighbour, spinning in the role's cgroup";
    const UNDO: &'static str = "kill -KILL the neighbours that carry the fault's id";
    const PARAMETERS: &'static [Parameter] = &[Parameter::integer("workers", "spinning processes")
        .at_least(1.0)
        .at_most(64.0)];
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, _machine: &Machine) -> Result<()> {
        Ok(())
    }

    fn plan(
        &self,
        _machine: &Machine,
        id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        Ok(Record {
            id: id.into(),
            workers: parameters.workers,
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(
            machine,
            &record.id,
            &vec![Vec::new(); record.workers as usize],
        )
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }
}
