//! The machine's cgroup and the one child in it that the agent owns, on cgroup v1 and v2.
//!
//! The role and its interference run in the child, the agent itself does not: so a limit on the
//! child makes the machine limp while the agent stays able to undo it, and role and neighbour share
//! the CPU task by task, as they would on one machine without cgroups.
//!
//! In a container the cgroup file systems are mounted read-only; with `CAP_SYS_ADMIN` the agent
//! mounts its own view under `/run/sparecraft/cgroup`. Two traps of v1: block throttling is not
//! hierarchical (a child escapes its parent's limit, so the parent's limits are copied into the
//! child), and it sees reads and direct or synchronous writes only, not the write-back of the page
//! cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use super::cgroup_place::{
    has_controller, make_child, read, v1_directory, v2_controller, value_of, write, Controller,
};

/// The kernel's least CPU quota and its greatest period.
const QUOTA_US_MIN: f64 = 1_000.0;
const PERIOD_US_MAX: f64 = 1_000_000.0;
/// The machines' period: short, so that a capped machine is slow and not frozen in bursts.
const PERIOD_US: f64 = 10_000.0;

/// A CPU limit as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    pub quota_us: u64,
    pub period_us: u64,
}

/// Bytes per second of one block device, reads and writes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    pub read_bytes_per_s: Option<u64>,
    pub write_bytes_per_s: Option<u64>,
}

/// The controllers, each usable or with the reason why not.
#[derive(Debug)]
pub struct Cgroups {
    pub unified: bool,
    pub cpu: Result<Controller, String>,
    pub disk: Result<Controller, String>,
    /// Directories to read the machine's use from; absent where the controller is.
    pub cpu_usage: Option<PathBuf>,
    pub memory: Option<PathBuf>,
}

impl Quota {
    /// The limit that gives `cores` of CPU time, exact to the kernel's microsecond.
    pub fn for_cores(cores: f64) -> Result<Quota> {
        let period_us = PERIOD_US.max((QUOTA_US_MIN / cores).ceil());
        if period_us > PERIOD_US_MAX {
            bail!("{cores} cores is below what the kernel can set, 1 ms in each 1 s (0.001 cores)");
        }
        Ok(Quota { quota_us: (cores * period_us).round() as u64, period_us: period_us as u64 })
    }

    /// CPU time per wall time.
    pub fn cores(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

impl Cgroups {
    /// Finds the machine's cgroup (mounting it under `mounts`) and makes the child `child` in it.
    pub fn open(mounts: &Path, child: &str) -> Cgroups {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let v1 = |controller: &str| {
            v1_directory(&membership, mounts, controller).map_err(|error| format!("{error:#}"))
        };
        let owned = |controller: &str| {
            v1(controller).and_then(|machine| {
                make_child(&machine, child).map_err(|error| format!("{error:#}"))
            })
        };
        if membership.lines().any(|line| has_controller(line, "cpu")) {
            return Cgroups {
                unified: false,
                cpu: owned("cpu"),
                disk: owned("blkio"),
                cpu_usage: v1("cpuacct").ok(),
                memory: v1("memory").ok(),
            };
        }
        match v2_controller(&membership, mounts, child) {
            Ok(controller) => Cgroups {
                unified: true,
                cpu: Ok(controller.clone()),
                disk: Ok(controller.clone()),
                cpu_usage: Some(controller.machine.clone()),
                memory: Some(controller.machine),
            },
            Err(error) => Cgroups::absent(&format!("{error:#}")),
        }
    }

    /// No cgroups at all, for the reason given.
    pub fn absent(reason: &str) -> Cgroups {
        let missing = || Err(reason.to_owned());
        Cgroups { unified: false, cpu: missing(), disk: missing(), cpu_usage: None, memory: None }
    }

    /// The files to which a process writes `0` to join the child.
    pub fn join_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = [&self.cpu, &self.disk]
            .into_iter()
            .flatten()
            .map(|c| c.own.join("cgroup.procs"))
            .collect();
        files.dedup();
        files
    }

    /// Processes in the child; none where there is no child.
    pub fn members(&self) -> Vec<i32> {
        let Some(file) = self.join_files().into_iter().next() else {
            return Vec::new();
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
    }

    /// The machine's CPU cap in cores: its quota, or every CPU there is.
    pub fn cap_cores(&self) -> f64 {
        let all = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let quota = self.cpu.as_ref().ok().and_then(|c| self.read_quota(&c.machine).ok().flatten());
        quota.map_or(all, |quota| quota.cores())
    }

    /// The limit of a cgroup directory, if it has one.
    pub fn read_quota(&self, directory: &Path) -> Result<Option<Quota>> {
        let (quota, period) = if self.unified {
            let text = read(&directory.join("cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ').context("cpu.max")?;
            (quota.to_owned(), period.to_owned())
        } else {
            (
                read(&directory.join("cpu.cfs_quota_us"))?,
                read(&directory.join("cpu.cfs_period_us"))?,
            )
        };
        let period_us = period.trim().parse().context("the CPU period")?;
        Ok(quota.trim().parse().ok().map(|quota_us| Quota { quota_us, period_us }))
    }

    /// Sets or lifts the child's CPU limit.
    pub fn write_quota(&self, own: &Path, quota: Option<Quota>) -> Result<()> {
        if self.unified {
            let text =
                quota.map_or("max 100000".into(), |q| format!("{} {}", q.quota_us, q.period_us));
            return write(&own.join("cpu.max"), &text);
        }
        // The kernel checks each write against the pair: lift the limit, set the period, then
        // limit.
        write(&own.join("cpu.cfs_quota_us"), "-1")?;
        let period_us = quota.map_or(100_000, |quota| quota.period_us);
        write(&own.join("cpu.cfs_period_us"), &period_us.to_string())?;
        match quota {
            Some(quota) => write(&own.join("cpu.cfs_quota_us"), &quota.quota_us.to_string()),
            None => Ok(()),
        }
    }

    /// The throttle of one device in a cgroup directory.
    pub fn read_throttle(&self, directory: &Path, device: &str) -> Result<Throttle> {
        if self.unified {
            return Ok(parse_io_max(&read(&directory.join("io.max"))?, device));
        }
        let value = |file: &str| -> Result<Option<u64>> {
            Ok(device_value(&read(&directory.join(file))?, device))
        };
        Ok(Throttle {
            read_bytes_per_s: value("blkio.throttle.read_bps_device")?,
            write_bytes_per_s: value("blkio.throttle.write_bps_device")?,
        })
    }

    /// Sets the child's throttle of one device; `None` is no limit.
    pub fn write_throttle(&self, own: &Path, device: &str, throttle: &Throttle) -> Result<()> {
        let (read_limit, write_limit) = (throttle.read_bytes_per_s, throttle.write_bytes_per_s);
        if self.unified {
            let text = |limit: Option<u64>| limit.map_or("max".into(), |limit| limit.to_string());
            let line = format!("{device} rbps={} wbps={}", text(read_limit), text(write_limit));
            return write(&own.join("io.max"), &line);
        }
        let set = |file: &str, limit: Option<u64>| {
            write(&own.join(file), &format!("{device} {}", limit.unwrap_or(0)))
        };
        set("blkio.throttle.read_bps_device", read_limit)?;
        set("blkio.throttle.write_bps_device", write_limit)
    }

    /// Copies the machine's block throttles into the child, which v1 would let escape them.
    pub fn inherit_throttle(&self, device: &str) -> Result<()> {
        let Ok(disk) = &self.disk else { return Ok(()) };
        if self.unified {
            return Ok(());
        }
        let limits = self.read_throttle(&disk.machine, device)?;
        self.write_throttle(&disk.own, device, &limits)
    }

    /// Removes the child; it must be empty.
    pub fn remove(&self) {
        for controller in [&self.cpu, &self.disk].into_iter().flatten() {
            let _ = fs::remove_dir(&controller.own);
        }
    }
}

fn device_value(text: &str, device: &str) -> Option<u64> {
    value_of(text, device)?.trim().parse().ok()
}

fn parse_io_max(text: &str, device: &str) -> Throttle {
    let line = value_of(text, device).unwrap_or("");
    let value = |key: &str| line.split(' ').find_map(|item| item.strip_prefix(key)?.parse().ok());
    Throttle { read_bytes_per_s: value("rbps="), write_bytes_per_s: value("wbps=") }
}

/// Moves this process into the cgroups of these `cgroup.procs` files.
pub fn join(files: &[PathBuf]) -> Result<()> {
    files.iter().try_for_each(|file| write(file, "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_exact_and_never_below_the_kernels_least() {
        for (cores, quota_us, period_us) in [
            (0.6, 6_000, 10_000),
            (0.06, 1_000, 16_667),
            (0.006, 1_000, 166_667),
            (1.5, 15_000, 10_000),
        ] {
            assert_eq!(Quota::for_cores(cores).unwrap(), Quota { quota_us, period_us });
        }
    }

    #[test]
    fn a_share_that_the_kernel_cannot_set_is_refused_with_its_limit() {
        let error = Quota::for_cores(0.0006).unwrap_err().to_string();
        assert!(error.contains("0.001 cores"), "{error}");
    }

    #[test]
    fn the_unified_limits_of_one_device_are_read() {
        let text = "8:0 rbps=max wbps=5\n254:0 rbps=31457280 wbps=max riops=max wiops=max\n";
        let throttle = parse_io_max(text, "254:0");
        assert_eq!(
            throttle,
            Throttle { read_bytes_per_s: Some(31_457_280), write_bytes_per_s: None }
        );
        assert_eq!(device_value("8:0 7\n254:0 9\n", "254:0"), Some(9));
        assert_eq!(device_value("1254:0 9\n", "254:0"), None);
    }

    #[test]
    fn a_unified_limit_is_written_in_the_kernels_form() {
        let directory = tempfile::tempdir().unwrap();
        let cgroups = Cgroups { unified: true, ..Cgroups::absent("test") };
        cgroups
            .write_quota(directory.path(), Some(Quota { quota_us: 1000, period_us: 20_000 }))
            .unwrap();
        assert_eq!(read(&directory.path().join("cpu.max")).unwrap(), "1000 20000");
        assert_eq!(
            cgroups.read_quota(directory.path()).unwrap(),
            Some(Quota { quota_us: 1000, period_us: 20_000 })
        );
        cgroups.write_quota(directory.path(), None).unwrap();
        assert_eq!(cgroups.read_quota(directory.path()).unwrap(), None);
    }
}
