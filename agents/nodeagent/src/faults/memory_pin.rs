//! `memory.pin`: the ballast of `memory.exhaust`, which can be neither swapped out nor reclaimed.

use std::sync::Arc;

use anyhow::Result;

use super::dose::{Probe, Scale};
use super::memory_ballast::{self, Parameters, Record, FREE_MB, RESOURCE};
use super::parameter::Parameter;
use super::{Fault, Refusal};
use crate::machine::memory::Use;
use crate::machine::Machine;

const FILE_SYSTEM: &str = "ramfs";

pub struct MemoryPin;

impl Fault for MemoryPin {
    const KIND: &'static str = "memory.pin";
    const SUMMARY: &'static str = "ballast that cannot be swapped out leaves the machine little";
    const COMMANDS: &'static str =
        "mount -t ramfs at the agent's ballast-ID, and write until {free_mb} MB are left";
    const UNDO: &'static str = "umount of ballast-ID; the role is started if it has ended of it";
    const PARAMETERS: &'static [Parameter] = &[FREE_MB];
    const DOSE: Scale = Scale {
        unit: "MB",
        how: "memory in the machine's cgroup that cannot be evicted, by its memory.stat",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        memory_ballast::can(machine, FILE_SYSTEM)
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
        memory_ballast::plan(machine, id, parameters, counted)
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        memory_ballast::inject(machine, FILE_SYSTEM, record)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        memory_ballast::undo(machine, record)
    }

    fn probe(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn Probe> {
        memory_ballast::probe(machine, record, counted)
    }
}

fn counted(seen: &Use) -> u64 {
    seen.unevictable
}
