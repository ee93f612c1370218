//! `disk.hang`: the role's reads, writes or fsyncs do not return while it is held.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::disk_store::{self, Record, OF, RESOURCE};
use super::dose::{Probe, Scale};
use super::parameter::Parameter;
use super::{Fault, Refusal};
use crate::machine::Machine;
use crate::store::io_faults::{Counts, Harm, IoFault, Of};

pub struct DiskHang;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    of: Of,
}

impl Fault for DiskHang {
    const KIND: &'static str = "disk.hang";
    const SUMMARY: &'static str = "the disk's I/Os do not return";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: no answer to {of} I/Os";
    const UNDO: &'static str = disk_store::UNDO;
    const PARAMETERS: &'static [Parameter] = &[OF];
    const DOSE: Scale = Scale {
        unit: "I/Os",
        how: "I/Os that have not returned, counted by the pass-through",
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
        disk_store::plan(machine, id, parameters.of, Harm::Hang, 0)
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
    let held = counts.waiting;
    (None, Some(held as f64), (held > 0).then_some(true))
}
