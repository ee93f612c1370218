//! Faults of the machine's memory: what is left of it is as asked, and all of it after the undo.

use serde_json::json;

use crate::support::{wait_for, wait_until, IDLE_ROLE};

/// A process that touches 60 MB in one piece; its exit code.
const WANTS_60_MB: &str = "dd if=/dev/zero of=/dev/null bs=60000000 count=1 2>/dev/null; echo $?";

#[test]
fn ballast_leaves_the_machine_as_little_as_asked_and_is_never_what_the_kernel_kills() {
    for (kind, file_system) in [("memory.exhaust", "tmpfs"), ("memory.pin", "ramfs")] {
        let machine = machine_or_skip!(IDLE_ROLE);
        if !machine.can(kind) {
            return;
        }
        assert_eq!(machine.run(WANTS_60_MB), "0");
        let id = machine.inject(kind, json!({ "free_mb": 30 }));
        let dose = machine.dose(&id, true);
        let (asked, measured) = (dose["asked"].as_f64(), dose["measured"].as_f64());
        assert!(measured > Some(150.0) && measured <= asked, "{dose}");
        let mounts = machine.run("grep sparecraft_ballast /proc/mounts");
        assert!(mounts.contains(file_system), "{mounts}");
        assert_eq!(machine.run(WANTS_60_MB), "137", "killed for want of memory");
        let dose = machine.dose(&id, true);
        assert!(dose["measured"].as_f64() > Some(150.0), "{dose}");
        machine.refuses("memory.pin", json!({ "free_mb": 30 }), 409, &id);
        machine.revert(&id);
        assert_eq!(machine.run(WANTS_60_MB), "0");
        machine.assert_clean();
    }
}

#[test]
fn a_process_that_the_kernel_killed_beside_the_ballast_is_told() {
    let machine = machine_or_skip!(IDLE_ROLE, "memory.exhaust");
    let id = machine.inject("memory.exhaust", json!({ "free_mb": 30 }));
    machine.dose(&id, true);
    assert_eq!(machine.run(WANTS_60_MB), "137");
    let problem = wait_for("the kill", || {
        let dose = machine.fault(&id)["dose"].clone();
        dose["problem"].as_str().map(str::to_owned)
    });
    assert!(problem.contains("killed 1 "), "{problem}");
    machine.revert(&id);
}

#[test]
fn a_machine_that_has_less_left_than_asked_is_not_loaded() {
    let machine = machine_or_skip!(IDLE_ROLE, "memory.pin");
    machine.refuses("memory.pin", json!({ "free_mb": 5000 }), 409, "no ballast");
    machine.assert_clean();
}

#[test]
fn ballast_goes_when_the_agent_that_brought_it_is_killed() {
    let machine = machine_or_skip!(IDLE_ROLE, "memory.pin");
    let id = machine.inject("memory.pin", json!({ "free_mb": 30 }));
    machine.dose(&id, true);
    machine.kill_agent();
    assert_eq!(machine.run("grep -c sparecraft_ballast /proc/mounts; true"), "0");
    machine.assert_clean();
}

#[test]
fn threads_that_stream_over_memory_do_so_in_the_roles_cgroup_and_are_gone_after() {
    let machine = machine_or_skip!(IDLE_ROLE, "memory.limp");
    machine.refuses("memory.limp", json!({ "buffer_mb": 300 }), 409, "buffer_mb");
    let id = machine.inject("memory.limp", json!({ "threads": 2, "buffer_mb": 80 }));
    let pid = machine.run("pgrep -fx '/opt/sparecraft/bin/nodeagent stream .*'");
    let count = format!("ls /proc/{pid}/task | wc -l");
    wait_until("three threads", || machine.run(&count) == "3");
    let groups = machine.run(&format!("cat /proc/{pid}/cgroup"));
    assert!(groups.lines().any(|line| line.ends_with("/sparecraft")), "{groups}");
    let dose = machine.dose(&id, true);
    assert!(dose["measured"].as_f64() > Some(10.0), "{dose}");
    machine.revert(&id);
    assert_eq!(machine.run("pgrep -fxc '/opt/sparecraft/bin/nodeagent stream .*'; true"), "0");
    machine.assert_clean();
}
