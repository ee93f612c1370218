//! `interference.cpu`: processes that spin at normal priority next to the role (sPARE section 6.1).

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::dose::{rate_reader, DoseReader, Scale};
use super::parameter::Parameter;
use super::{neighbour, Fault, Planned};
use crate::machine::{processes, Machine};

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
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::integer("workers", "spinning processes").at_least(1.0).at_most(64.0)];
    const DOSE: Scale = Scale {
        unit: "cores",
        how: "CPU time of the spinning processes, by /proc, beside what the machine's cap lets as \
              many have alone",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, _machine: &Machine) -> Result<()> {
        Ok(())
    }

    fn plan(&self, _machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        Ok(Record { id: id.into(), workers: parameters.workers })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(machine, &record.id, &vec![Vec::new(); record.workers as usize])
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        let cores = f64::from(record.workers).min(machine.cgroups.cap_cores());
        let pids = neighbour::pids(&record.id);
        rate_reader(Some(cores), move || {
            let pids = pids.iter().copied();
            Ok(pids.filter_map(processes::cpu_s_of_first_thread).sum())
        })
    }
}
