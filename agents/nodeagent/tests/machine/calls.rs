//! Faults of the library in the role's processes: its calls meet what was asked, and nothing after.

use serde_json::json;

use crate::support::{wait_for, Machine, IDLE_ROLE};

/// A role that reads and writes all the time, and keeps what its programs complain of.
const COPYING_ROLE: &str =
    "while :; do dd if=/etc/hostname of=/tmp/copy 2>> /tmp/said; sleep 0.05; done\n";

fn with_library(machine: &Machine) {
    let (status, answer) = machine.set(json!({ "CALL_FAULTS": "on" }), 600.0);
    assert_eq!(
        (status, &answer["service"]),
        (200, &json!("running")),
        "{answer}"
    );
    copies(machine);
}

/// Returns when the role has made a copy anew.
fn copies(machine: &Machine) {
    machine.run("rm -f /tmp/copy /tmp/said");
    wait_for("a copy", || {
        let copied = machine.run("cmp /tmp/copy /etc/hostname > /dev/null 2>&1; echo $?");
        (copied == "0").then_some(())
    });
}

/// Returns when one of the role's programs has complained so.
fn complains(machine: &Machine, words: &str) {
    wait_for(words, || {
        let count = machine.run(&format!("grep -c '{words}' /tmp/said 2>/dev/null; true"));
        (count.parse::<u32>().unwrap_or(0) > 0).then_some(())
    });
}

#[test]
fn calls_get_the_asked_bad_parameter_or_error_and_are_as_they_were_after() {
    let machine = machine_or_skip!(COPYING_ROLE, "process.bad_parameters");
    with_library(&machine);
    for (parameters, words) in [
        (
            json!({ "call": "read", "bad": "errno", "errno": 5, "percent": 100 }),
            "Input/output",
        ),
        (
            json!({ "call": "read", "bad": "null", "percent": 100 }),
            "Bad address",
        ),
        (
            json!({ "call": "write", "bad": "errno", "errno": 28, "percent": 50 }),
            "No space left",
        ),
    ] {
        let percent = parameters["percent"].as_f64().unwrap();
        let id = machine.inject("process.bad_parameters", parameters);
        complains(&machine, words);
        let dose = machine.dose(&id, true);
        let measured = dose["measured"].as_f64().unwrap();
        assert!((measured - percent).abs() <= 0.6 * percent, "{dose}");
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
    wait_for("the role's end", || {
        (machine.service() == "crashed").then_some(())
    });
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
    assert_eq!(
        machine.refused("process.bad_parameters", request, 5.0).0,
        422
    );
    let request = json!({ "call": "read", "bad": "null", "percent": 1 });
    let (status, reason) = machine.refused("process.bad_parameters", request, 5.0);
    assert!(
        status == 409 && reason.contains("CALL_FAULTS"),
        "{status} {reason}"
    );
}
