//! `memory.exhaust` and `memory.pin`: ballast that leaves the machine a stated amount of its own
//! memory (Mendosus). That of the first may be swapped out where the machine has swap; that of the
//! second can be neither swapped out nor reclaimed.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

use super::dose::{DoseReader, Reading, Scale};
use super::parameter::Parameter;
use super::{Fault, Planned, Refusal};
use crate::machine::memory::{host_can_spare, load, unload, Memory, Use};
use crate::machine::Machine;

/// Share of the requested ballast that counts as a bite: if the role grows meanwhile, the ballast
/// shrinks.
const SHARE_MIN: f64 = 0.8;
/// Minimum ballast.
const BALLAST_BYTES_MIN: u64 = 1_000_000;

const FREE_MB: Parameter = Parameter::number("free_mb", "what the machine may have yet")
    .in_unit("MB")
    .at_least(1.0)
    .at_most(1e6);

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    free_mb: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    place: PathBuf,
    bytes: u64,
    free: u64,
    /// The cgroup's memory of that kind before the ballast.
    before: u64,
}

/// A ballast: its file system, and the kernel's count that tells of it.
pub trait Ballast: Send + Sync + 'static {
    const KIND: &'static str;
    const SUMMARY: &'static str;
    const COMMANDS: &'static str;
    const HOW: &'static str;
    const FILE_SYSTEM: &'static str;
    fn bytes_of(usage: &Use) -> u64;
}

pub struct Exhaust;
pub struct Pin;
pub struct Ballasted<B>(PhantomData<B>);
pub const MEMORY_EXHAUST: Ballasted<Exhaust> = Ballasted(PhantomData);
pub const MEMORY_PIN: Ballasted<Pin> = Ballasted(PhantomData);

impl Ballast for Exhaust {
    const KIND: &'static str = "memory.exhaust";
    const SUMMARY: &'static str = "ballast in the machine's memory leaves it little";
    const COMMANDS: &'static str =
        "mount -t tmpfs at the agent's ballast-ID, and write until {free_mb} MB are left";
    const HOW: &'static str = "shared memory resident in the machine's cgroup, by its memory.stat";
    const FILE_SYSTEM: &'static str = "tmpfs";
    fn bytes_of(usage: &Use) -> u64 {
        usage.shared
    }
}

impl Ballast for Pin {
    const KIND: &'static str = "memory.pin";
    const SUMMARY: &'static str = "ballast that cannot be swapped out leaves the machine little";
    const COMMANDS: &'static str =
        "mount -t ramfs at the agent's ballast-ID, and write until {free_mb} MB are left";
    const HOW: &'static str =
        "memory in the machine's cgroup that cannot be evicted, by its memory.stat";
    const FILE_SYSTEM: &'static str = "ramfs";
    fn bytes_of(usage: &Use) -> u64 {
        usage.unevictable
    }
}

impl<B: Ballast> Fault for Ballasted<B> {
    const KIND: &'static str = B::KIND;
    const SUMMARY: &'static str = B::SUMMARY;
    const COMMANDS: &'static str = B::COMMANDS;
    const UNDO: &'static str = "umount of ballast-ID; the role is started if it has ended of it";
    const PARAMETERS: &'static [Parameter] = &[FREE_MB];
    const DOSE: Scale = Scale { unit: "MB", how: B::HOW };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        let memory = Memory::of(&machine.cgroups)?;
        memory.limit()?;
        memory.look()?;
        let kind = B::FILE_SYSTEM;
        let place = machine.config.state_dir.join(format!("try-{kind}"));
        let result = load(&memory, kind, &place, 1, 0);
        result.and(unload(&place))
    }

    /// One resource, because both faults use the same memory.
    fn resource(&self, _parameters: &Parameters) -> String {
        "memory".into()
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let memory = Memory::of(&machine.cgroups)?;
        let (room, free) = (memory.room()?, (parameters.free_mb * 1e6) as u64);
        let bytes = room.saturating_sub(free);
        if bytes < BALLAST_BYTES_MIN {
            return Err(Refusal::Conflict(format!(
                "the machine has {room} bytes left, so no ballast leaves {free} of them"
            )));
        }
        host_can_spare(bytes).map_err(Refusal::Conflict)?;
        Ok(Record {
            place: machine.config.state_dir.join(format!("ballast-{id}")),
            bytes,
            free,
            before: B::bytes_of(&memory.look()?),
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        let memory = Memory::of(&machine.cgroups)?;
        load(&memory, B::FILE_SYSTEM, &record.place, record.bytes, record.free)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        unload(&record.place)?;
        machine.role.revive()
    }

    /// Counts the growth of the cgroup since before the ballast.
    fn dose_reader(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        Box::new(Resident {
            memory: Memory::of(&machine.cgroups),
            bytes_of: B::bytes_of,
            before: record.before,
            asked: record.bytes,
            killed_before: None,
            bytes: None,
        })
    }
}

struct Resident {
    memory: Result<Memory>,
    bytes_of: fn(&Use) -> u64,
    before: u64,
    asked: u64,
    killed_before: Option<u64>,
    bytes: Option<u64>,
}

impl DoseReader for Resident {
    fn look(&mut self, _held: Duration) -> Result<()> {
        let memory = match &self.memory {
            Ok(memory) => memory,
            Err(error) => bail!("{error:#}"),
        };
        let usage = memory.look()?;
        self.bytes = Some((self.bytes_of)(&usage).saturating_sub(self.before));
        let before = *self.killed_before.get_or_insert(usage.killed);
        let killed = usage.killed.saturating_sub(before);
        if killed > 0 {
            bail!("the kernel killed {killed} processes of the machine for want of memory");
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading {
            asked: Some(self.asked as f64 / 1e6),
            measured: self.bytes.map(|bytes| bytes as f64 / 1e6),
            bit: self.bytes.map(|bytes| bytes as f64 >= SHARE_MIN * self.asked as f64),
            ..Reading::default()
        }
    }
}
