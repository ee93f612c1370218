//! `disk.limp`: the disk's nominal rate divided by a factor, by the block throttle of the role's
//! cgroup.
//!
//! On cgroup v1 this slows reads from the device and direct or synchronous writes; the write-back
//! of the page cache is not attributed to the role and not slowed. On v2 it is.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::parameter::{Parameter, FACTOR};
use super::{Fault, Refusal};
use crate::machine::cgroup::Throttle;
use crate::machine::disk::root_device;
use crate::machine::Machine;

pub struct DiskLimp;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    factor: f64,
    nominal_mbps: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    cgroup: PathBuf,
    device: String,
    nominal: Throttle,
    limping: Throttle,
}

impl Fault for DiskLimp {
    const KIND: &'static str = "disk.limp";
    const SUMMARY: &'static str = "the disk's nominal rate divided by a factor";
    const COMMANDS: &'static str =
        "the role's cgroup: io.max (v1: blkio.throttle.*_bps_device) to the nominal rate / \
         {factor}";
    const UNDO: &'static str =
        "the role's cgroup: io.max (v1: blkio.throttle.*_bps_device) to what it was";
    const PARAMETERS: &'static [Parameter] = &[
        FACTOR,
        Parameter::number(
            "nominal_mbps",
            "the rate to divide; else the machine's own throttle, else the configuration's disk_mbps",
        )
        .in_unit("MB/s")
        .at_least(0.01)
        .at_most(1e6)
        .optional(),
    ];
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        let own = &machine.disk()?.own;
        let device = root_device()?;
        let present = machine.cgroups.read_throttle(own, &device)?;
        machine.cgroups.write_throttle(own, &device, &present)
    }

    fn plan(
        &self,
        machine: &Machine,
        _id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        let disk = machine.disk()?;
        let device = root_device().map_err(|error| Refusal::Unavailable(format!("{error:#}")))?;
        let nominal = machine.cgroups.read_throttle(&disk.own, &device)?;
        let capped = machine.cgroups.read_throttle(&disk.machine, &device)?;
        if !machine.cgroups.unified && nominal != capped {
            return Err(Refusal::Conflict(format!(
                "{} has a throttle for {device} that no active fault set; lift it first",
                disk.own.display()
            )));
        }
        let divide = |cap: Option<u64>| {
            let rate = parameters.nominal_mbps.map(|mbps| mbps * 1e6);
            let rate = rate
                .or(cap.map(|cap| cap as f64))
                .or(machine.config.disk_mbps.map(|mbps| mbps * 1e6));
            rate.map(|rate| (rate / parameters.factor).round().max(1.0) as u64)
                .ok_or_else(|| {
                    Refusal::Invalid(
                        "the disk has no nominal rate here; give the parameter nominal_mbps".into(),
                    )
                })
        };
        let limping = Throttle {
            read_bytes_per_s: Some(divide(capped.read_bytes_per_s)?),
            write_bytes_per_s: Some(divide(capped.write_bytes_per_s)?),
        };
        Ok(Record {
            cgroup: disk.own.clone(),
            device,
            nominal,
            limping,
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        machine
            .cgroups
            .write_throttle(&record.cgroup, &record.device, &record.limping)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        if !record.cgroup.exists() {
            return Ok(());
        }
        machine
            .cgroups
            .write_throttle(&record.cgroup, &record.device, &record.nominal)
    }
}
