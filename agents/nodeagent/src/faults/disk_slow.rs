//! `disk.slow`: the role's reads, writes or fsyncs, or one of so many, take a stated time longer.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::disk_store::{self, delay_bit, mean_wait_s, Record, OF, RESOURCE, SEED};
use super::dose::{Probe, Scale};
use super::parameter::{Default, Parameter};
use super::{Fault, Refusal};
use crate::machine::Machine;
use crate::store::io_faults::{Counts, Harm, IoFault, Of};

pub struct DiskSlow;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    delay_ms: f64,
    one_of: u64,
    of: Of,
    seed: u64,
}

impl Fault for DiskSlow {
    const KIND: &'static str = "disk.slow";
    const SUMMARY: &'static str = "each of the disk's I/Os, or one of so many, takes longer";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: {delay_ms} ms before one of {one_of} {of} I/Os, by {seed}";
    const UNDO: &'static str = disk_store::UNDO;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("delay_ms", "how much longer it takes")
            .in_unit("ms")
            .at_least(0.1)
            .at_most(600_000.0),
        Parameter::integer("one_of", "of so many I/Os one is slow, at random")
            .at_least(1.0)
            .at_most(1e9)
            .or(Default::Number(1.0)),
        OF,
        SEED,
    ];
    const DOSE: Scale = Scale {
        unit: "ms",
        how: "mean wait of the I/Os that it held up and that went on, by the pass-through's clock",
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
        let harm = Harm::Slow {
            share: 1.0 / parameters.one_of as f64,
            delay_s: parameters.delay_ms / 1e3,
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
    let Harm::Slow { delay_s, .. } = trouble.harm else {
        return (None, None, None);
    };
    let measured = mean_wait_s(counts).map(|seconds| 1e3 * seconds);
    (Some(1e3 * delay_s), measured, delay_bit(delay_s, counts))
}
