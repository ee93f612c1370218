//! `disk.full`: the file system of the role's data has a stated room left, and then none (ENOSPC).

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::disk_store::{self, Record, RESOURCE};
use super::dose::{Probe, Scale};
use super::parameter::{Default, Parameter};
use super::{Fault, Refusal};
use crate::machine::Machine;
use crate::store::io_faults::{Counts, Harm, IoFault, Of};

pub struct DiskFull;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    free_mb: f64,
}

impl Fault for DiskFull {
    const KIND: &'static str = "disk.full";
    const SUMMARY: &'static str = "the file system of the role's data is full";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: ENOSPC to what grows by more than {free_mb} MB";
    const UNDO: &'static str = disk_store::UNDO;
    const PARAMETERS: &'static [Parameter] = &[Parameter::number("free_mb", "room that is left")
        .in_unit("MB")
        .at_least(0.0)
        .at_most(1e6)
        .or(Default::Number(0.0))];
    const DOSE: Scale = Scale {
        unit: "writes",
        how: "writes that got ENOSPC, counted by the pass-through",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        disk_store::can(machine)
    }

    fn resource(&self, _parameters: &Parameters) -> String {
        RESOURCE.into()
    }

    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        let harm = Harm::Full {
            bytes: (parameters.free_mb * 1e6) as u64,
        };
        disk_store::plan(machine, id, Of::All, harm, 0)
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        disk_store::inject(machine, record)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        disk_store::undo(machine, record)
    }

    fn probe(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn Probe> {
        disk_store::probe(machine, record, told)
    }
}

fn told(_: &IoFault, counts: &Counts) -> (Option<f64>, Option<f64>, Option<bool>) {
    (
        None,
        Some(counts.hit as f64),
        (counts.hit > 0).then_some(true),
    )
}
