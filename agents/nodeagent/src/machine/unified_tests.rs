//! cgroup v2 for real: limits that the kernel takes, keeps and enforces on a hierarchy of its own.
//!
//! Needs root and a kernel whose `cpu`, `io` and `memory` controllers are on v2 and not on v1;
//! elsewhere it prints why it is skipped. `README.md` of the crate says how to run it on any Linux
//! host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{mount, umount2, MntFlags, MsFlags};

use super::cgroup::{Cgroups, Quota, Throttle};
use super::cgroup_place::{has_controller, read, write};
use super::memory::{load, unload, Memory};
use crate::metrics::{cpu_s, disk_bytes, throttling};

const LIMIT_BYTES: u64 = 256 << 20;
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A cgroup as a platform gives a machine one, with this process in it until it is dropped.
struct Place {
    mounts: tempfile::TempDir,
    root: PathBuf,
    before: PathBuf,
    own: PathBuf,
}

impl Place {
    fn make() -> Result<Place, String> {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        if membership.lines().any(|line| has_controller(line, "cpu")) {
            return Err("this kernel has its controllers on cgroup v1".into());
        }
        let mounts = tempfile::tempdir().unwrap();
        let root = mounts.path().join("root");
        fs::create_dir(&root).unwrap();
        mount(Some("none"), &root, Some("cgroup2"), MsFlags::empty(), None::<&str>)
            .map_err(|error| format!("cannot mount cgroup2: {error}"))?;
        let path = membership.lines().find_map(|line| line.strip_prefix("0::/"));
        let place = Place {
            before: root.join(path.unwrap_or_default()),
            own: root.join(format!("tst-unified-{}", std::process::id())),
            root,
            mounts,
        };
        write(&place.root.join("cgroup.subtree_control"), "+cpu +io +memory")
            .and_then(|()| Ok(fs::create_dir(&place.own)?))
            .and_then(|()| write(&place.own.join("memory.max"), &LIMIT_BYTES.to_string()))
            .and_then(|()| write(&place.own.join("cgroup.procs"), "0"))
            .map_err(|error| format!("{error:#}"))?;
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), "0");
        let inner = self.mounts.path().join("agent/unified");
        for leaf in ["child-agent", "child"] {
            let _ = fs::remove_dir(self.own.join(leaf));
        }
        let _ = fs::remove_dir(&self.own);
        for mounted in [&inner, &self.root] {
            let _ = umount2(mounted, MntFlags::MNT_DETACH);
        }
    }
}

/// A process in the child cgroup, killed when it goes out of scope.
struct Member(Child);

impl Member {
    fn start(cgroups: &Cgroups, script: &str) -> Member {
        let files = cgroups.join_files();
        assert_eq!(files.len(), 1, "cpu and disk are one cgroup: {files:?}");
        let script = format!("echo 0 > {} && {script}", files[0].display());
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stderr(Stdio::null());
        Member(command.spawn().unwrap())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(state: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{state} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn cpu_is_limited_and_let_go(cgroups: &Cgroups) {
    let own = &cgroups.cpu.as_ref().unwrap().own;
    let spinning = Member::start(cgroups, "while :; do :; done");
    let pid = i32::try_from(spinning.0.id()).unwrap();
    wait_for("the member", || cgroups.members().contains(&pid));
    let throttled = || throttling(&read(&own.join("cpu.stat")).unwrap()).unwrap().1;
    assert_eq!(throttled(), 0);
    let tenth = Quota::for_cores(0.1).unwrap();
    cgroups.write_quota(own, Some(tenth)).unwrap();
    assert_eq!(cgroups.read_quota(own).unwrap(), Some(tenth));
    wait_for("20 throttled periods", || throttled() > 20);
    let (start, before) = (Instant::now(), cpu_s(true, own).unwrap());
    wait_for("a second of throttled time", || start.elapsed() > Duration::from_secs(1));
    let cores = (cpu_s(true, own).unwrap() - before) / start.elapsed().as_secs_f64();
    assert!(cores < 0.3, "a tenth of a core was {cores}");
    cgroups.write_quota(own, None).unwrap();
    assert_eq!(cgroups.read_quota(own).unwrap(), None);
    let (at, start_s) = (throttled(), cpu_s(true, own).unwrap());
    wait_for("a second of CPU time", || cpu_s(true, own).unwrap() > start_s + 1.0);
    assert!(throttled() <= at + 1);
}

fn a_disk_is_limited_and_let_go(cgroups: &Cgroups) {
    let own = &cgroups.disk.as_ref().unwrap().own;
    let Some((node, device)) = disk() else {
        eprintln!("skipped: no block device here, io.max is not tried");
        return;
    };
    let free = cgroups.read_throttle(own, &device).unwrap();
    let slow = Throttle { read_bytes_per_s: Some(1 << 20), write_bytes_per_s: Some(2 << 20) };
    cgroups.write_throttle(own, &device, &slow).unwrap();
    assert_eq!(cgroups.read_throttle(own, &device).unwrap(), slow);
    let (start, before) = (Instant::now(), disk_bytes(true, own).unwrap_or((0, 0)).0);
    let reading = format!("dd if={} of=/dev/null bs=262144 count=16 iflag=direct", node.display());
    assert!(Member::start(cgroups, &reading).0.wait().unwrap().success());
    assert!(start.elapsed() > Duration::from_secs(3), "4 MiB at 1 MiB/s");
    assert!(disk_bytes(true, own).unwrap().0 >= before + (4 << 20));
    cgroups.write_throttle(own, &device, &free).unwrap();
    assert_eq!(cgroups.read_throttle(own, &device).unwrap(), free);
}

/// A disk's node and its `major:minor`.
fn disk() -> Option<(PathBuf, String)> {
    let disks = fs::read_dir("/sys/block").ok()?;
    let with_node = |disk: fs::DirEntry| {
        let node = Path::new("/dev").join(disk.file_name());
        let size: u64 = read(&disk.path().join("size")).ok()?.trim().parse().ok()?;
        let device = read(&disk.path().join("dev")).ok()?;
        (node.exists() && size > 8192).then(|| (node, device.trim().to_owned()))
    };
    disks.flatten().find_map(with_node)
}

fn ballast_is_counted_and_given_back(cgroups: &Cgroups, place: &Path) {
    let memory = Memory::of(cgroups).unwrap();
    assert_eq!(memory.limit().unwrap(), LIMIT_BYTES);
    for kind in ["tmpfs", "ramfs"] {
        let before = memory.look().unwrap();
        load(&memory, kind, place, 32 << 20, 16 << 20).unwrap();
        let with = memory.look().unwrap();
        let gained = match kind {
            "tmpfs" => with.shared - before.shared,
            _ => with.unevictable - before.unevictable,
        };
        assert!((31 << 20..34 << 20).contains(&gained), "{kind}: {before:?} {with:?}");
        assert!(with.resident >= before.resident + (31 << 20), "{kind}: {before:?} {with:?}");
        unload(place).unwrap();
        wait_for("the memory", || memory.look().unwrap().resident < with.resident - (30 << 20));
    }
}

#[test]
fn limits_of_a_unified_hierarchy_are_the_kernels() {
    let place = match Place::make() {
        Ok(place) => place,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    let cgroups = Cgroups::open(&place.mounts.path().join("agent"), "child");
    assert!(cgroups.unified, "{cgroups:?}");
    cpu_is_limited_and_let_go(&cgroups);
    a_disk_is_limited_and_let_go(&cgroups);
    ballast_is_counted_and_given_back(&cgroups, &place.mounts.path().join("ballast"));
    cgroups.remove();
    assert!(!cgroups.cpu.as_ref().unwrap().own.exists());
}
