//! The place of the machine's cgroups: found by this process's membership, in mounts of the agent's
//! own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use nix::mount::{mount, MsFlags};
use nix::unistd::Pid;

/// One controller: the machine's own directory and our child in it.
#[derive(Debug, Clone)]
pub struct Controller {
    pub machine: PathBuf,
    pub own: PathBuf,
}

/// True if a line of `/proc/PID/cgroup` is of the v1 hierarchy with this controller.
pub fn has_controller(line: &str, controller: &str) -> bool {
    line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == controller))
}

/// The machine's directory of one v1 controller, in a mount of our own.
pub fn v1_directory(membership: &str, mounts: &Path, controller: &str) -> Result<PathBuf> {
    let line =
        membership.lines().find(|line| has_controller(line, controller)).with_context(|| {
            format!("this kernel has no cgroup v1 controller `{controller}` for this process")
        })?;
    let mut parts = line.splitn(3, ':').skip(1);
    let (together, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or("/"));
    let place = mounts.join(together);
    mount_once(&place, "cgroup", Some(together))?;
    Ok(below(&place, path))
}

fn below(mount: &Path, cgroup: &str) -> PathBuf {
    match cgroup.trim_start_matches('/') {
        "" => mount.to_owned(),
        inner => mount.join(inner),
    }
}

/// v2: a cgroup with controllers for its children may hold no processes itself, so those that are
/// there (the agent, process 1) move into a leaf of their own first. The child is thus the role's
/// alone.
pub fn v2_controller(membership: &str, mounts: &Path, child: &str) -> Result<Controller> {
    let path =
        membership.lines().find_map(|line| line.strip_prefix("0::")).context("no cgroup v2")?;
    let leaf = format!("{child}-agent");
    let place = mounts.join("unified");
    mount_once(&place, "cgroup2", None)?;
    let mut machine = below(&place, path);
    if machine.file_name().is_some_and(|name| name == leaf.as_str()) {
        machine.pop();
    }
    let available = read(&machine.join("cgroup.controllers"))?;
    for controller in ["cpu", "io"] {
        if !available.split_whitespace().any(|name| name == controller) {
            bail!(
                "the machine's cgroup v2 has no `{controller}` controller (it has: {})",
                available.trim()
            );
        }
    }
    let leaf = machine.join(leaf);
    fs::create_dir_all(&leaf).with_context(|| format!("cannot make {}", leaf.display()))?;
    for pid in read(&machine.join("cgroup.procs"))?.lines() {
        // A process that ended meanwhile is no concern.
        let _ = fs::write(leaf.join("cgroup.procs"), pid);
    }
    write(&machine.join("cgroup.subtree_control"), "+cpu +io")?;
    make_child(&machine, child)
}

/// Makes our child cgroup, if it is not there.
pub fn make_child(machine: &Path, child: &str) -> Result<Controller> {
    let own = machine.join(child);
    fs::create_dir_all(&own).with_context(|| {
        format!("cannot make the cgroup {} (needs a writable cgroup mount)", own.display())
    })?;
    Ok(Controller { machine: machine.to_owned(), own })
}

fn mount_once(place: &Path, kind: &str, options: Option<&str>) -> Result<()> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let text = place.to_string_lossy();
    if mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*text)) {
        return Ok(());
    }
    mount(Some("none"), place, Some(kind), MsFlags::empty(), options).with_context(|| {
        format!(
            "cannot mount {kind} {} at {text} as process {} (needs CAP_SYS_ADMIN)",
            options.unwrap_or_default(),
            Pid::this()
        )
    })
}

/// Reads a control file, naming it when that fails.
pub fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The rest of the line that begins with this key and a space.
pub fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

/// Writes a control file, naming it when that fails.
pub fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write `{text}` to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_found_when_it_is_mounted_together_with_another() {
        assert!(has_controller("4:cpu,cpuacct:/docker/x", "cpu"));
        assert!(!has_controller("4:cpuset:/", "cpu"));
        assert!(!has_controller("0::/", "cpu"));
    }
}
