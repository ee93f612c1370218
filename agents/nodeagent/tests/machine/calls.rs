//! Faults of the library in the role's processes: its calls meet what was asked, and nothing after.

use serde_json::json;

use crate::support::{wait_until, Machine, IDLE_ROLE};

/// A role that reads and writes all the time, and keeps what its programs complain of.
const COPYING_ROLE: &str =
    "while :; do dd if=/etc/hostname of=/tmp/copy 2>> /tmp/said; sleep 0.05; done\n";

fn with_library(machine: &Machine) {
    machine.restart_with(json!({ "CALL_FAULTS": "on" }));
    copies(machine);
}

/// Returns when the role has made a copy anew.
fn copies(machine: &Machine) {
    machine.run("rm -f /tmp/copy /tmp/said");
    let comparison = "cmp /tmp/copy /etc/hostname > /dev/null 2>&1; echo $?";
    wait_until("a copy", || machine.run(comparison) == "0");
}

/// Returns when one of the role's programs has complained so.
fn await_complaint(machine: &Machine, words: &str) {
    let search = format!("grep -q '{words}' /tmp/said 2>/dev/null && echo yes || true");
    wait_until(words, || machine.run(&search) == "yes");
}

#[test]
fn calls_get_the_asked_bad_parameter_or_error_and_are_as_they_were_after() {
    let machine = machine_or_skip!(COPYING_ROLE, "process.bad_parameters");
    with_library(&machine);
    let error = |call: &str, errno: u8| json!({ "call": call, "bad": "errno", "errno": errno });
    for (mut parameters, percent, words) in [
        (error("read", 5), 100.0, "Input/output"),
        (json!({ "call": "read", "bad": "null" }), 100.0, "Bad address"),
        (error("write", 28), 50.0, "No space left"),
    ] {
        parameters["percent"] = json!(percent);
        let id = machine.inject("process.bad_parameters", parameters);
        await_complaint(&machine, words);
        machine.doses(&id, 0.4 * percent..1.6 * percent);
        machine.revert(&id);
        copies(&machine);
    }
    machine.assert_clean();
}

#[test]
fn a_role_that_ends_for_want_of_memory_is_started_by_the_undo() {
    let machine = machine_or_skip!(COPYING_ROLE, "memory.alloc_failure");
    with_library(&machine);
    let id = machine.inject("memory.alloc_failure", json!({ "percent": 100 }));
    wait_until("the role's end", || machine.service() == "crashed");
    machine.dose(&id, true);
    machine.revert(&id);
    assert_eq!(machine.service(), "running");
    copies(&machine);
    machine.assert_clean();
}

#[test]
fn what_a_call_does_not_have_and_a_role_without_the_library_are_refused() {
    let machine = machine_or_skip!(IDLE_ROLE, "process.bad_parameters");
    let request = json!({ "call": "open", "bad": "longer", "percent": 1 });
    machine.refuses("process.bad_parameters", request, 422, "Open");
    let request = json!({ "call": "read", "bad": "null", "percent": 1 });
    machine.refuses("process.bad_parameters", request, 409, "CALL_FAULTS");
}
