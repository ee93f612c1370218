//! `disk.error`: a share of the role's reads, writes or fsyncs gets EIO (Mendosus).

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::disk_store::{self, share_bit, Record, OF, RESOURCE, SEED};
use super::dose::{Probe, Scale};
use super::parameter::Parameter;
use super::{Fault, Refusal};
use crate::machine::Machine;
use crate::store::io_faults::{Counts, Harm, IoFault, Of};

pub struct DiskError;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    percent: f64,
    of: Of,
    seed: u64,
}

impl Fault for DiskError {
    const KIND: &'static str = "disk.error";
    const SUMMARY: &'static str = "a share of the disk's I/Os fails with EIO";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: EIO to {percent} % of {of} I/Os, by {seed}";
    const UNDO: &'static str = disk_store::UNDO;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("percent", "share of I/Os that fail")
            .in_unit("%")
            .above(0.0)
            .at_most(100.0),
        OF,
        SEED,
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "I/Os that got EIO, of those that it may meet, counted by the pass-through",
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
        let harm = Harm::Fail {
            share: parameters.percent / 100.0,
        };
        disk_store::plan(machine, id, parameters.of, harm, parameters.seed)
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

fn told(trouble: &IoFault, counts: &Counts) -> (Option<f64>, Option<f64>, Option<bool>) {
    let Harm::Fail { share } = trouble.harm else {
        return (None, None, None);
    };
    let measured = (counts.seen > 0).then(|| 100.0 * counts.hit as f64 / counts.seen as f64);
    (Some(100.0 * share), measured, share_bit(share, counts))
}
