//! `memory.alloc_failure`: a share of the role's allocations gets no memory (ENOMEM; Mendosus).

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::disk_io::SEED;
use super::dose::{Probe, Scale};
use super::libc_interposer::{self, MALLOC, NULL, PERCENT, RESOURCE};
use super::parameter::Parameter;
use super::{Fault, Refusal};
use crate::machine::calls::Altered;
use crate::machine::Machine;

pub struct MemoryAllocFailure;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    percent: f64,
    seed: u64,
}

impl Fault for MemoryAllocFailure {
    const KIND: &'static str = "memory.alloc_failure";
    const SUMMARY: &'static str = "a share of the role's allocations fails";
    const COMMANDS: &'static str =
        "the library in the role's processes: NULL from malloc, calloc and realloc in {percent} % of calls, by {seed}";
    const UNDO: &'static str = libc_interposer::UNDO;
    const PARAMETERS: &'static [Parameter] = &[PERCENT, SEED];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "calls that were altered, of those that may be, counted by the library",
    };
    type Parameters = Parameters;
    type Record = Altered;

    fn capability(&self, machine: &Machine) -> Result<()> {
        libc_interposer::can(machine)
    }

    fn resource(&self, _parameters: &Parameters) -> String {
        RESOURCE.into()
    }

    fn plan(
        &self,
        machine: &Machine,
        _id: &str,
        parameters: &Parameters,
    ) -> Result<Altered, Refusal> {
        let altered = Altered {
            calls: MALLOC,
            harm: NULL,
            error: 0,
            share: parameters.percent / 100.0,
            seed: parameters.seed,
        };
        libc_interposer::plan(machine, altered)
    }

    fn inject(&self, machine: &Machine, record: &Altered) -> Result<()> {
        libc_interposer::inject(machine, record)
    }

    fn undo(&self, machine: &Machine, _record: &Altered) -> Result<()> {
        libc_interposer::undo(machine)
    }

    fn probe(&self, machine: &Arc<Machine>, record: &Altered) -> Box<dyn Probe> {
        libc_interposer::probe(machine, record)
    }
}
