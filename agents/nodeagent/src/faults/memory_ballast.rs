//! Shared part of `memory.exhaust` and `memory.pin`: ballast that leaves a machine a stated amount.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

use super::dose::{Probe, Reading};
use super::parameter::Parameter;
use super::Refusal;
use crate::machine::memory::{host_can_spare, load, unload, Memory, Use};
use crate::machine::Machine;

/// Of the ballast that was asked; the role may have grown meanwhile, which takes as much from it.
const SHARE_MIN: f64 = 0.8;
/// Less ballast than this is none.
const BALLAST_BYTES_MIN: u64 = 1_000_000;

pub const FREE_MB: Parameter = Parameter::number("free_mb", "what the machine may have yet")
    .in_unit("MB")
    .at_least(1.0)
    .at_most(1e6);

/// Both faults hold the one memory there is.
pub const RESOURCE: &str = "memory";

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    free_mb: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    place: PathBuf,
    bytes: u64,
    free: u64,
    /// What the cgroup had of that kind before the ballast came.
    before: u64,
}

/// Which of the kernel's counts tells of the ballast.
pub type Counted = fn(&Use) -> u64;

/// Whether a file system of this kind can be mounted and filled here.
pub fn can(machine: &Machine, kind: &str) -> Result<()> {
    let memory = Memory::of(&machine.cgroups)?;
    memory.limit()?;
    memory.look()?;
    let place = machine.config.state_dir.join(format!("try-{kind}"));
    let tried = load(&memory, kind, &place, 1, 0);
    tried.and(unload(&place))
}

pub fn plan(
    machine: &Machine,
    id: &str,
    parameters: &Parameters,
    counted: Counted,
) -> Result<Record, Refusal> {
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
        before: counted(&memory.look()?),
    })
}

pub fn inject(machine: &Machine, kind: &str, record: &Record) -> Result<()> {
    let memory = Memory::of(&machine.cgroups)?;
    load(&memory, kind, &record.place, record.bytes, record.free)
}

pub fn undo(machine: &Machine, record: &Record) -> Result<()> {
    unload(&record.place)?;
    machine.role.revive()
}

/// Counts what the cgroup has more of than before the ballast came.
pub fn probe(machine: &Arc<Machine>, record: &Record, counted: Counted) -> Box<dyn Probe> {
    Box::new(Resident {
        memory: Memory::of(&machine.cgroups),
        counted,
        before: record.before,
        asked: record.bytes,
        killed_before: None,
        bytes: None,
        samples: 0,
        held: Duration::ZERO,
    })
}

struct Resident {
    memory: Result<Memory>,
    counted: Counted,
    before: u64,
    asked: u64,
    killed_before: Option<u64>,
    bytes: Option<u64>,
    samples: u64,
    held: Duration,
}

impl Probe for Resident {
    fn look(&mut self, held: Duration) -> Result<()> {
        let memory = match &self.memory {
            Ok(memory) => memory,
            Err(why) => bail!("{why:#}"),
        };
        let seen = memory.look()?;
        self.bytes = Some((self.counted)(&seen).saturating_sub(self.before));
        self.samples += 1;
        self.held = held;
        let before = *self.killed_before.get_or_insert(seen.killed);
        let killed = seen.killed.saturating_sub(before);
        if killed > 0 {
            bail!("the kernel killed {killed} processes of the machine for want of memory");
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading {
            asked: Some(self.asked as f64 / 1e6),
            measured: self.bytes.map(|bytes| bytes as f64 / 1e6),
            bit: self
                .bytes
                .map(|bytes| bytes as f64 >= SHARE_MIN * self.asked as f64),
            samples: self.samples,
            seconds: self.held.as_secs_f64(),
        }
    }
}
