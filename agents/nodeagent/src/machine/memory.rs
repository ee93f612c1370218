//! The machine's memory as its cgroup counts it, and ballast in it.
//!
//! Ballast is a file in a small file system of the agent's own: `tmpfs` where it may be swapped out,
//! `ramfs` where it may not. Its pages are charged to the machine and are no process's, so the
//! kernel, when it runs out, kills what asked for more and not the ballast; and they are gone with
//! the mount, whatever became of the agent that made it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{mount, umount2, MntFlags, MsFlags};

use super::cgroup::Cgroups;
use super::cgroup_place::{read, value_of};
use super::fingerprint::MOUNT_MARK;

/// Bytes written between two looks at the free memory.
const CHUNK_BYTES: usize = 1 << 20;
/// Share of the host's memory that stays free, whatever a machine may use.
const HOST_SPARE_SHARE: f64 = 0.1;

/// The kernel's counts of one cgroup, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Memory in use, without reclaimable page cache.
    pub resident: u64,
    pub shared: u64,
    pub unevictable: u64,
    /// Processes that the kernel killed for lack of memory.
    pub killed: u64,
}

/// The machine's memory cgroup.
#[derive(Debug, Clone)]
pub struct Memory {
    directory: PathBuf,
    unified: bool,
}

impl Memory {
    /// Finds it; refuses a machine without one.
    pub fn of(cgroups: &Cgroups) -> Result<Memory> {
        let directory = cgroups.memory.clone();
        Ok(Memory {
            directory: directory.context("this machine has no memory cgroup that can be read")?,
            unified: cgroups.unified,
        })
    }

    /// The machine's own limit: without one, ballast would be the host's.
    pub fn limit(&self) -> Result<u64> {
        let file = self.limit_file();
        self.own_limit()?
            .with_context(|| format!("the machine has no memory limit of its own ({file})"))
    }

    fn limit_file(&self) -> &'static str {
        if self.unified {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        }
    }

    /// Limit of the cgroup; none for `max` or more than the host has.
    fn own_limit(&self) -> Result<Option<u64>> {
        let text = read(&self.directory.join(self.limit_file()))?;
        let host = host_bytes("MemTotal")?;
        Ok(text.trim().parse().ok().filter(|limit| *limit < host))
    }

    /// The use now.
    pub fn look(&self) -> Result<Use> {
        let (usage, prefix, events) = if self.unified {
            ("memory.current", "", "memory.events")
        } else {
            ("memory.usage_in_bytes", "total_", "memory.oom_control")
        };
        let usage = read(&self.directory.join(usage))?;
        let statistics = read(&self.directory.join("memory.stat"))?;
        let events = read(&self.directory.join(events))?;
        let usage = usage.trim().parse().context("the memory in use")?;
        Ok(usage_of(usage, &statistics, prefix, &events))
    }

    /// Bytes that the machine may still use.
    pub fn room(&self) -> Result<u64> {
        Ok(self.limit()?.saturating_sub(self.look()?.resident))
    }

    /// Room by `room`; for a machine without a limit, the memory that the host can spare.
    pub fn room_or_spare(&self) -> Result<u64> {
        match self.own_limit()? {
            Some(limit) => Ok(limit.saturating_sub(self.look()?.resident)),
            None => host_spare(),
        }
    }
}

fn usage_of(usage: u64, statistics: &str, prefix: &str, events: &str) -> Use {
    let value = |text: &str, key: &str| {
        let value = value_of(text, key).and_then(|value| value.trim().parse::<u64>().ok());
        value.unwrap_or(0)
    };
    let number = |key: &str| value(statistics, &format!("{prefix}{key}"));
    Use {
        resident: usage.saturating_sub(number("active_file") + number("inactive_file")),
        shared: number("shmem"),
        unevictable: number("unevictable"),
        killed: value(events, "oom_kill"),
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn host_bytes(key: &str) -> Result<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let kilobytes: u64 =
        kilobytes.with_context(|| format!("/proc/meminfo has no {key}"))?.trim().parse()?;
    Ok(kilobytes * 1024)
}

/// Memory that the host has available [bytes], less its last tenth.
fn host_spare() -> Result<u64> {
    let reserve = host_bytes("MemTotal")? as f64 * HOST_SPARE_SHARE;
    Ok(host_bytes("MemAvailable")?.saturating_sub(reserve as u64))
}

/// Refuses ballast that would take the host's last tenth.
pub fn host_can_spare(bytes: u64) -> Result<(), String> {
    let spare = host_spare().map_err(|error| format!("{error:#}"))?;
    if bytes > spare {
        return Err(format!(
            "the ballast would be {bytes} bytes, and the host can spare {spare} of its own"
        ));
    }
    Ok(())
}

/// Mounts a file system of this kind at `place` and fills it by `bytes`, or until the machine has
/// no more than `free` bytes left.
pub fn load(memory: &Memory, kind: &str, place: &Path, bytes: u64, free: u64) -> Result<()> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{MOUNT_MARK}{name}");
    mount(Some(&*source), place, Some(kind), MsFlags::empty(), Some("mode=0700"))
        .with_context(|| format!("cannot mount {kind} at {}", place.display()))?;
    let mut file = File::create(place.join("ballast"))?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    let mut rest = bytes;
    while rest > 0 && memory.room()? > free {
        let part = rest.min(CHUNK_BYTES as u64);
        file.write_all(&chunk[..part as usize])
            .with_context(|| format!("cannot write ballast to {}", place.display()))?;
        rest -= part;
    }
    Ok(())
}

/// Gives the memory back; none there is no error.
pub fn unload(place: &Path) -> Result<()> {
    if is_mounted(place) {
        umount2(place, MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", place.display()))?;
    }
    match fs::remove_dir(place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", place.display()))
        }
        _ => Ok(()),
    }
}

/// True if anything is mounted there, as this process sees it.
pub fn is_mounted(place: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let text = place.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_cache_that_can_go_does_not_count_as_held() {
        let v1 = "active_file 9\ntotal_active_file 100\ntotal_inactive_file 50\ntotal_shmem 20\n\
                  total_unevictable 7\n";
        let usage = usage_of(1000, v1, "total_", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        let expected = Use { resident: 850, shared: 20, unevictable: 7, killed: 3 };
        assert_eq!(usage, expected);
        let v2 = "active_file 100\ninactive_file 50\nshmem 20\nunevictable 7\n";
        assert_eq!(usage_of(1000, v2, "", "oom 4\noom_kill 3\n"), expected);
    }

    #[test]
    fn a_machine_without_a_limit_has_what_the_host_can_spare() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(directory.path().join(file), text).unwrap();
        write("memory.current", "300000\n");
        write("memory.stat", "active_file 0\ninactive_file 100000\n");
        write("memory.events", "oom_kill 0\n");
        let memory = Memory { directory: directory.path().into(), unified: true };
        write("memory.max", "1000000\n");
        assert_eq!(memory.room_or_spare().unwrap(), 800_000);
        assert_eq!(memory.room().unwrap(), 800_000);
        write("memory.max", "max\n");
        assert!(memory.room().is_err());
        let host = host_bytes("MemTotal").unwrap();
        let spare = memory.room_or_spare().unwrap();
        assert!(spare > 0 && spare < host);
        write("memory.max", &format!("{}\n", 2 * host));
        assert!(memory.limit().is_err());
        assert!(memory.room_or_spare().is_ok());
    }

    #[test]
    fn the_hosts_last_tenth_is_not_for_ballast() {
        assert_eq!(host_can_spare(1), Ok(()));
        assert!(host_can_spare(host_bytes("MemTotal").unwrap()).is_err());
    }
}
