//! `disk.limp`: the disk's nominal rate divided by a factor, by the block throttle of the role's
//! cgroup.
//!
//! On cgroup v1 this slows reads from the device and direct or synchronous writes; the write-back
//! of the page cache is not attributed to the role and not slowed. On v2 it is.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::dose::{DoseReader, Reading, Scale};
use super::parameter::{Parameter, FACTOR};
use super::{neighbour, Fault, Planned, Refusal};
use crate::machine::cgroup::Throttle;
use crate::machine::disk::root_device;
use crate::machine::Machine;
use crate::metrics::disk_bytes;

pub struct DiskLimp;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    factor: f64,
    nominal_mbps: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
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
    const DOSE: Scale = Scale {
        unit: "MB/s",
        how: "a direct write of a quarter of a second in the role's cgroup, then the cgroup's own \
              counters, and such a write again where they count more: the fastest",
    };
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

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let disk = machine.disk()?;
        let device = root_device().map_err(|error| Refusal::Unavailable(format!("{error:#}")))?;
        let nominal = machine.cgroups.read_throttle(&disk.own, &device)?;
        let throttle = machine.cgroups.read_throttle(&disk.machine, &device)?;
        if !machine.cgroups.unified && nominal != throttle {
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
            rate.map(|rate| (rate / parameters.factor).round().max(1.0) as u64).ok_or_else(|| {
                Refusal::Invalid(
                    "the disk has no nominal rate here; give the parameter nominal_mbps".into(),
                )
            })
        };
        let limping = Throttle {
            read_bytes_per_s: Some(divide(throttle.read_bytes_per_s)?),
            write_bytes_per_s: Some(divide(throttle.write_bytes_per_s)?),
        };
        Ok(Record { id: id.into(), cgroup: disk.own.clone(), device, nominal, limping })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        machine.cgroups.write_throttle(&record.cgroup, &record.device, &record.limping)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        if record.cgroup.exists() {
            machine.cgroups.write_throttle(&record.cgroup, &record.device, &record.nominal)?;
        }
        neighbour::end_looks(&record.id)
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        neighbour::begin_looks(&record.id);
        Box::new(Written {
            id: record.id.clone(),
            machine: machine.clone(),
            cgroup: record.cgroup.clone(),
            asked: record.limping.write_bytes_per_s.unwrap_or(0) as f64,
            nominal: record.nominal.write_bytes_per_s.map(|rate| rate as f64),
            fastest: None,
            start: Instant::now(),
            last: None,
        })
    }
}

const BLOCK_BYTES: u64 = 4096;
const SAMPLE_S: f64 = 0.25;
/// The throttle works in slices of this length.
const SLICE_S: f64 = 0.1;
const SAMPLE_BLOCKS_MAX: f64 = 2048.0;
/// The largest request. On v1 it is counted when it is made, before the throttle holds it up, so one
/// of them may count in a second although it takes many; several at once still look like a rate.
const REQUEST_BYTES: u64 = 1 << 20;

/// Rates in bytes per second.
struct Written {
    id: String,
    machine: Arc<Machine>,
    cgroup: PathBuf,
    asked: f64,
    nominal: Option<f64>,
    fastest: Option<f64>,
    start: Instant,
    last: Option<(Duration, u64, u64)>,
}

impl Written {
    /// The rate by `dd` of a small write, without the bytes that the throttle lets pass at once.
    fn write(&self) -> Result<f64> {
        let blocks =
            (self.asked * SAMPLE_S / BLOCK_BYTES as f64).clamp(8.0, SAMPLE_BLOCKS_MAX) as u64;
        let file = self.machine.config.state_dir.join("dose");
        let (to, count) = (format!("of={}", file.display()), format!("count={blocks}"));
        let size = format!("bs={BLOCK_BYTES}");
        let words = ["dd", "if=/dev/zero", &to, &size, &count, "oflag=direct"];
        let output = neighbour::run_once(&self.machine, &self.id, &words.map(str::to_owned));
        // It is small, and written over by the next.
        let _ = fs::remove_file(&file);
        let output = output?;
        let seconds = dd_seconds(&output).with_context(|| format!("dd said `{output}`"))?;
        Ok(((blocks * BLOCK_BYTES) as f64 - self.asked * SLICE_S).max(0.0) / seconds)
    }

    /// Twice what was asked, or half-way to the nominal rate where that is less.
    fn most(&self) -> f64 {
        let nearest = self.nominal.map_or(f64::INFINITY, |nominal| (self.asked + nominal) / 2.0);
        nearest.min(2.0 * self.asked)
    }

    fn add(&mut self, bytes_per_s: f64) {
        self.fastest = Some(self.fastest.map_or(bytes_per_s, |most| most.max(bytes_per_s)));
    }
}

impl DoseReader for Written {
    fn look(&mut self, _held: Duration) -> Result<()> {
        if self.last.is_none() {
            let rate = self.write()?;
            self.add(rate);
        }
        let from = self.start.elapsed();
        let (read, written) = disk_bytes(self.machine.cgroups.unified, &self.cgroup)
            .context("the cgroup counts no bytes")?;
        if let Some((start, read_before, written_before)) = self.last {
            let passed_s = (self.start.elapsed() - start).as_secs_f64();
            for (now, before) in [(read, read_before), (written, written_before)] {
                let rate = passed_per_s(now.saturating_sub(before), passed_s);
                let may_wait_yet = rate > self.most();
                self.add(if may_wait_yet { self.write()? } else { rate });
            }
        }
        self.last = Some((from, read, written));
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading {
            asked: Some(self.asked / 1e6),
            measured: self.fastest.map(|rate| rate / 1e6),
            bit: self.fastest.map(|rate| rate <= self.most()),
            ..Reading::default()
        }
    }
}

/// The bytes that the throttle let pass for certain, of those counted meanwhile.
fn passed_per_s(counted: u64, passed_s: f64) -> f64 {
    counted.saturating_sub(REQUEST_BYTES) as f64 / passed_s
}

/// `4096 bytes (4.1 kB, 4.0 KiB) copied, 0.25 s, 16 kB/s`: the seconds.
fn dd_seconds(output: &str) -> Option<f64> {
    let seconds: f64 = output.split(", ").find_map(|part| part.strip_suffix(" s"))?.parse().ok()?;
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_waits_for_its_turn_is_not_taken_for_one_that_passed() {
        assert_eq!(passed_per_s(REQUEST_BYTES, 1.0), 0.0);
        assert_eq!(passed_per_s(3 * REQUEST_BYTES, 2.0), REQUEST_BYTES as f64);
    }

    #[test]
    fn the_seconds_of_dd_are_read() {
        let output = "8+0 records in\n8+0 records out\n32768 bytes (33 kB, 32 KiB) copied, \
                    0.25012 s, 131 kB/s";
        assert_eq!(dd_seconds(output), Some(0.25012));
        assert_eq!(dd_seconds("dd: failed to open"), None);
    }
}
