//! `cpu.limp`: the machine's CPU cap divided by a factor, on the cgroup of the role and its
//! neighbours.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::dose::{DoseReader, Reading, Scale};
use super::parameter::{Parameter, FACTOR};
use super::{Fault, Planned, Refusal};
use crate::machine::cgroup::Quota;
use crate::machine::cgroup_place::read;
use crate::machine::{processes, Machine};
use crate::metrics::{cpu_s, throttling};

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
    const DOSE: Scale = Scale {
        unit: "cores",
        how: "CPU time of the role's cgroup while the kernel throttled it, by its own counters",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        let own = &machine.cpu()?.own;
        let present = machine.cgroups.read_quota(own)?;
        machine.cgroups.write_quota(own, present)
    }

    fn plan(&self, machine: &Machine, _id: &str, parameters: &Parameters) -> Planned<Record> {
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
        Ok(Record { cgroup: cpu.own.clone(), limping })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        machine.cgroups.write_quota(&record.cgroup, Some(record.limping))
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        if !record.cgroup.exists() {
            return Ok(());
        }
        machine.cgroups.write_quota(&record.cgroup, None)
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        Box::new(Throttled {
            usage: Usage { machine: machine.clone(), cgroup: record.cgroup.clone() },
            cap: machine.cgroups.cap_cores(),
            asked: record.limping.cores(),
            start: Instant::now(),
            last: None,
            throttled: Stretch::default(),
            free: Stretch::default(),
        })
    }
}

/// Seconds of two looks' difference, and the CPU seconds in them.
#[derive(Debug, Default, Clone, Copy)]
struct Stretch {
    wall_s: f64,
    cpu_s: f64,
}

impl Stretch {
    fn cores(self) -> f64 {
        self.cpu_s / self.wall_s
    }
}

struct Throttled {
    usage: Usage,
    cap: f64,
    asked: f64,
    start: Instant,
    last: Option<(Duration, u64, f64)>,
    throttled: Stretch,
    free: Stretch,
}

/// The kernel counts processes in ticks, and each may be one off at either end.
const TICK_S: f64 = 0.01;
/// Minimum throttled time for a judgement.
const WALL_S_MIN: f64 = 0.2;
/// Minimum throttled time for a judgement against the fault; a shorter one may be a late look.
const WALL_S_AGAINST: f64 = 2.0;

impl Throttled {
    /// Maximum use of a limping role: nearer to the cap, or half as much again as requested, is too
    /// much.
    fn cores_max(&self, over: Stretch) -> f64 {
        let nearest = (self.asked + self.cap) / 2.0;
        nearest.min(1.5 * self.asked) + 2.0 * TICK_S / over.wall_s
    }

    /// Adds a look from `from` to `to`: its counts fell at most between the beginning of the one
    /// before and its end.
    fn add(&mut self, from: Duration, to: Duration, times: u64, cpu_s: f64) {
        if let Some((before, times_before, cpu_before)) = self.last {
            let into = if times > times_before { &mut self.throttled } else { &mut self.free };
            into.wall_s += to.saturating_sub(before).as_secs_f64();
            into.cpu_s += (cpu_s - cpu_before).max(0.0);
        }
        self.last = Some((from, times, cpu_s));
    }
}

impl DoseReader for Throttled {
    fn look(&mut self, _held: Duration) -> Result<()> {
        let from = self.start.elapsed();
        let (times, cpu_s) = self.usage.look()?;
        self.add(from, self.start.elapsed(), times, cpu_s);
        Ok(())
    }

    /// Judges the dose: it bit if the kernel throttled the role and it got about the quota. A role
    /// that wanted less is no evidence; one that got more for 2 s was not bitten.
    fn reading(&self) -> Reading {
        let stretches = [self.throttled, self.free];
        let too_much = |over: &&Stretch| over.cores() > self.cores_max(**over);
        let long = |over: &&Stretch| over.wall_s >= WALL_S_AGAINST;
        let against = stretches.iter().filter(long).find(too_much);
        let over = stretches.iter().find(|over| over.wall_s >= WALL_S_MIN);
        let held_back = self.throttled.wall_s >= WALL_S_MIN && !too_much(&&self.throttled);
        Reading {
            asked: Some(self.asked),
            measured: against.or(over).map(|over| over.cores()),
            bit: (against.is_some() || held_back).then_some(against.is_none()),
            seconds: Some(self.throttled.wall_s + self.free.wall_s),
            ..Reading::default()
        }
    }
}

/// Throttled periods of a cgroup, and the CPU seconds of its processes.
struct Usage {
    machine: Arc<Machine>,
    cgroup: PathBuf,
}

impl Usage {
    fn look(&self) -> Result<(u64, f64)> {
        let (_, times) = throttling(&read(&self.cgroup.join("cpu.stat"))?)
            .context("cpu.stat has no nr_throttled")?;
        let cgroups = &self.machine.cgroups;
        let cgroup_s = cpu_s(cgroups.unified, &self.cgroup);
        // cgroup v1 may have mounted `cpu` without `cpuacct`.
        let sum = || {
            let members = cgroups.members().into_iter().filter_map(processes::find);
            members.map(|process| process.cpu_ticks as f64 * TICK_S).sum()
        };
        Ok((times, cgroup_s.unwrap_or_else(sum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::example_in;
    use crate::machine::cgroup::Cgroups;
    use crate::machine::role::Role;

    /// A tenth of 0.6 cores; looks are seconds, times throttled and CPU seconds so far.
    fn dose_of(looks: &[(f64, u64, f64)]) -> Reading {
        let config = example_in(std::path::Path::new("/nowhere"));
        let cgroups = Arc::new(Cgroups::absent("a unit test"));
        let role = Role::new(&config, cgroups.clone());
        let machine = Machine {
            config,
            data: Err("a unit test".into()),
            cgroups,
            role,
            workers: crate::machine::workers::Workers::default(),
        };
        let mut throttled = Throttled {
            usage: Usage { machine: Arc::new(machine), cgroup: PathBuf::new() },
            cap: 0.6,
            asked: 0.06,
            start: Instant::now(),
            last: None,
            throttled: Stretch::default(),
            free: Stretch::default(),
        };
        for (held_s, times, cpu_s) in looks {
            let at = Duration::from_secs_f64(*held_s);
            throttled.add(at, at, *times, *cpu_s);
        }
        throttled.reading()
    }

    #[test]
    fn a_role_that_is_held_back_to_its_quota_was_bitten() {
        let reading = dose_of(&[(0.0, 0, 5.0), (1.0, 40, 5.06), (2.0, 90, 5.12)]);
        assert_eq!(reading.bit, Some(true));
        assert!((reading.measured.unwrap() - 0.06).abs() < 1e-9, "{reading:?}");
    }

    #[test]
    fn a_role_that_gets_what_it_had_before_was_not() {
        assert_eq!(dose_of(&[(0.0, 0, 5.0), (2.0, 0, 6.2)]).bit, Some(false));
        assert_eq!(dose_of(&[(0.0, 0, 5.0), (2.0, 1, 6.2)]).bit, Some(false));
        let lifted = dose_of(&[(0.0, 0, 5.0), (1.0, 40, 5.06), (3.0, 40, 6.2)]);
        assert_eq!(lifted.bit, Some(false));
        assert!(lifted.measured.unwrap() > 0.5, "{lifted:?}");
    }

    #[test]
    fn a_role_that_wants_less_than_its_quota_says_nothing() {
        assert_eq!(dose_of(&[(0.0, 3, 5.0), (2.0, 3, 5.01)]).bit, None);
        assert_eq!(dose_of(&[(0.0, 3, 5.0)]).bit, None);
    }
}
