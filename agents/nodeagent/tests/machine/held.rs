//! A stopped service and changed settings are held as faults are: lease, agent death, SIGTERM.

use serde_json::{json, Value};

use crate::support::{wait_until, Machine};

/// Says by its arguments what it was started with.
pub const ROLE: &str = "exec sleep \"10000${LAST:-3}\"\n";

/// Returns when the role runs with this setting; 3 is its default.
pub fn runs_with(machine: &Machine, last: u8) {
    let command = format!("sleep 10000{last}");
    wait_until(&command, || machine.is_running(&command) && machine.service() == "running");
}

fn stop_for(machine: &Machine, lease_s: f64) -> String {
    let lease = json!({ "lease_s": lease_s });
    let (status, answer) = machine.call("POST", "/v1/service/stop", Some(lease));
    assert_eq!((status, &answer["service"]), (200, &json!("stopped")), "{answer}");
    answer["held"].as_str().unwrap().to_owned()
}

fn set_for(machine: &Machine, lease_s: f64) -> String {
    let (status, answer) = machine.set(json!({ "LAST": 1 }), lease_s);
    assert_eq!(status, 200, "{answer}");
    runs_with(machine, 1);
    answer["held"].as_str().unwrap().to_owned()
}

#[test]
fn a_service_whose_stop_is_renewed_by_nobody_is_started() {
    let machine = machine_or_skip!(ROLE);
    let id = stop_for(&machine, 1.5);
    runs_with(&machine, 3);
    machine.assert_reverted(&id, "lease");
    machine.assert_clean();
}

#[test]
fn settings_that_nobody_renews_are_what_they_were_and_the_service_is_restarted() {
    let machine = machine_or_skip!(ROLE);
    let id = set_for(&machine, 60.0);
    let lease = json!({ "lease_s": 1.5 });
    let path = format!("/v1/faults/{id}/lease");
    assert_eq!(machine.call("PUT", &path, Some(lease)).0, 200);
    runs_with(&machine, 3);
    machine.assert_reverted(&id, "lease");
    machine.assert_clean();
}

#[test]
fn a_restarted_agent_starts_a_stopped_service_and_goes_on_with_settings() {
    let machine = machine_or_skip!(ROLE);
    let settings = set_for(&machine, 600.0);
    let stop = stop_for(&machine, 600.0);
    machine.kill_agent();
    runs_with(&machine, 1);
    machine.assert_reverted(&stop, "restart");
    let before = machine.role_pids();
    machine.kill_agent();
    assert_eq!(machine.role_pids(), before, "the role was not restarted");
    assert_eq!(machine.fault(&settings)["state"], "active");
    let path = format!("/v1/faults/{settings}");
    assert_eq!(machine.call("DELETE", &path, None).0, 200);
    runs_with(&machine, 3);
    machine.assert_reverted(&settings, "requested");
}

#[test]
fn a_machine_that_lost_its_power_comes_back_with_its_settings_while_their_lease_lasts() {
    let machine = machine_or_skip!(ROLE);
    let id = set_for(&machine, 600.0);
    machine.lose_power();
    runs_with(&machine, 1);
    let lease = json!({ "lease_s": 1.0 });
    let path = format!("/v1/faults/{id}/lease");
    assert_eq!(machine.call("PUT", &path, Some(lease)).0, 200);
    machine.lose_power();
    runs_with(&machine, 3);
}

#[test]
fn sigterm_leaves_nothing_of_a_stop_or_of_settings() {
    let machine = machine_or_skip!(ROLE);
    set_for(&machine, 600.0);
    stop_for(&machine, 600.0);
    machine.end_and_start();
    runs_with(&machine, 3);
    assert_eq!(machine.call("GET", "/v1/faults", None).1, json!([]));
}

#[test]
fn neither_is_done_without_a_lease_or_for_longer_than_a_fault() {
    let machine = machine_or_skip!(ROLE);
    let status = |method: &str, path: &str, body: Value| machine.call(method, path, Some(body)).0;
    for lease_s in [json!(0), json!(601), json!(null)] {
        let stop = json!({ "lease_s": lease_s });
        assert_eq!(status("POST", "/v1/service/stop", stop), 422);
        let settings = json!({ "settings": { "LAST": 1 }, "lease_s": lease_s });
        assert_eq!(status("PUT", "/v1/settings", settings), 422);
    }
    assert_eq!(machine.call("POST", "/v1/service/stop", None).0, 422);
    assert_eq!(status("PUT", "/v1/settings", json!({ "LAST": 1 })), 422);
    runs_with(&machine, 3);
    assert_eq!(machine.call("GET", "/v1/faults", None).1, json!([]));
}
