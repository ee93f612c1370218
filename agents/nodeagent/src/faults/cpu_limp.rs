//! `cpu.limp`: the machine's CPU cap divided by a factor, on the cgroup of the role and its
//! neighbours.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::parameter::{Parameter, FACTOR};
use super::{Fault, Refusal};
use crate::machine::cgroup::Quota;
use crate::machine::Machine;

pub struct CpuLimp;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    factor: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    cgroup: PathBuf,
    limping: Quota,
}

impl Fault for CpuLimp {
    const KIND: &'static str = "cpu.limp";
    const SUMMARY: &'static str = "the role's CPU cap divided by a factor";
    const COMMANDS: &'static str =
        "the role's cgroup: cpu.max (v1: cpu.cfs_quota_us) to its CPU cap / {factor}";
    const UNDO: &'static str = "the role's cgroup: cpu.max to max (v1: cpu.cfs_quota_us to -1)";
    const PARAMETERS: &'static [Parameter] = &[FACTOR];
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        let own = &machine.cpu()?.own;
        let present = machine.cgroups.read_quota(own)?;
        machine.cgroups.write_quota(own, present)
    }

    fn plan(
        &self,
        machine: &Machine,
        _id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        let cpu = machine.cpu()?;
        if let Some(foreign) = machine.cgroups.read_quota(&cpu.own)? {
            return Err(Refusal::Conflict(format!(
                "{} has a limit of {} cores that no active fault set; lift it first",
                cpu.own.display(),
                foreign.cores()
            )));
        }
        let limping = Quota::for_cores(machine.cgroups.cap_cores() / parameters.factor)
            .map_err(|error| Refusal::Invalid(format!("factor {}: {error}", parameters.factor)))?;
        Ok(Record {
            cgroup: cpu.own.clone(),
            limping,
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        machine
            .cgroups
            .write_quota(&record.cgroup, Some(record.limping))
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        if !record.cgroup.exists() {
            return Ok(());
        }
        machine.cgroups.write_quota(&record.cgroup, None)
    }
}
