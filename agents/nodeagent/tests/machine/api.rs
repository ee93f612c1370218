//! The API: who may speak, what is refused and how, and the duties of process 1.

use serde_json::json;
use testkit::mtls::Authority;

use crate::held;
use crate::support::{docker, wait_for, wait_until, IDLE_ROLE};

#[test]
fn without_the_experiments_client_certificate_there_is_only_a_refused_handshake() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let stranger = Authority::new().client();
    // A machine's own certificate is for serving, not for control.
    let server = machine.authority.server("web-2");
    for client in [None, Some(&stranger), Some(&server)] {
        let refused = machine.try_call_as(client, "GET", "/v1/health", String::new()).unwrap_err();
        assert!(refused.contains("alert") || refused.contains("Alert"), "{refused}");
    }
    let fine = machine.authority.client();
    assert_eq!(
        machine.try_call_as(Some(&fine), "GET", "/v1/health", String::new()).unwrap().0,
        200
    );
}

#[test]
fn what_is_wrong_with_a_request_is_told_with_the_right_status() {
    let machine = machine_or_skip!(IDLE_ROLE);
    for (kind, parameters, word) in [
        ("net.limb", json!({}), "net.limp"),
        ("net.loss", json!({}), "percent"),
        ("net.loss", json!({ "percent": 101 }), "101"),
        ("net.loss", json!({ "percent": 1, "interface": "eth0" }), "interface"),
        ("net.limp", json!({ "factor": 1 }), "over 1"),
        ("net.limp", json!({ "factor": 1000000 }), "bit/s"),
        ("disk.limp", json!({ "factor": 10 }), "nominal_mbps"),
        ("interference.cpu", json!({ "workers": 0 }), "workers"),
    ] {
        machine.refuses(kind, parameters, 422, word);
    }
    let (status, reason) = machine.refused("process.hang", json!({}), 601.0);
    assert!(status == 422 && reason.contains("600"), "{status} {reason}");
    let garbage =
        machine.try_call_as(Some(&machine.authority.client()), "POST", "/v1/faults", "{".into());
    assert_eq!(garbage.unwrap().0, 422);
    assert_eq!(machine.call("DELETE", "/v1/faults/f0", None).0, 404);
    assert_eq!(machine.call("PUT", "/v1/faults/f0/lease", Some(json!({ "lease_s": 5 }))).0, 404);
    assert_eq!(machine.call("POST", "/v1/service/explode", None).0, 404);
    assert_eq!(machine.call("GET", "/v2", None).0, 404);
    machine.assert_clean();
}

#[test]
fn one_fault_of_a_kind_at_a_time_and_reverting_is_idempotent() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let id = machine.inject("process.hang", json!({}));
    machine.refuses("process.crash", json!({}), 409, &id);
    let lease = format!("/v1/faults/{id}/lease");
    let (status, renewed) = machine.call("PUT", &lease, Some(json!({ "lease_s": 300 })));
    assert_eq!((status, &renewed["lease_s"]), (200, &json!(300.0)));
    machine.revert(&id);
    let first = machine.fault(&id);
    machine.revert(&id);
    assert_eq!(machine.fault(&id), first);
    assert_eq!(machine.call("PUT", &lease, Some(json!({ "lease_s": 5 }))).0, 409);
}

#[test]
fn the_service_is_started_stopped_and_restarted_on_request() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let act = |action: &str| {
        let lease = (action == "stop").then(|| json!({ "lease_s": 120 }));
        let (status, body) = machine.call("POST", &format!("/v1/service/{action}"), lease);
        assert_eq!(status, 200, "{body}");
        body["service"].as_str().unwrap().to_owned()
    };
    assert_eq!(act("stop"), "stopped");
    assert_eq!(machine.role_processes(), Vec::<String>::new());
    assert_eq!(act("start"), "running");
    machine.wait_for_role();
    let stops = machine.call("GET", "/v1/faults", None).1;
    assert_eq!(stops[0]["state"], "reverted", "{stops}");
    let before = machine.role_processes();
    assert_eq!(act("restart"), "running");
    machine.wait_for_role();
    assert_ne!(machine.role_processes(), before);
    let processes = machine.role_processes();
    let leader = processes.iter().find(|line| line.contains("sleep 100003")).unwrap();
    machine.run(&format!("kill -9 {}", leader.split(' ').next().unwrap()));
    wait_until("the crash to show", || machine.service() == "crashed");
}

#[test]
fn settings_reach_the_role_which_is_restarted_only_where_they_change() {
    let machine = machine_or_skip!(held::ROLE);
    let set = |settings| machine.set(settings, 600.0);
    let running = |last: u8| held::runs_with(&machine, last);
    running(3);
    let (status, answer) = set(json!({ "LAST": 1, "MODE": "all keys" }));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["settings"], json!({ "LAST": "1", "MODE": "all keys" }));
    assert_eq!((&answer["restarted"], &answer["service"]), (&json!(true), &json!("running")));
    running(1);
    let before = machine.role_processes();
    assert_eq!(set(json!({ "LAST": 1, "MODE": "all keys" })).1["restarted"], false);
    assert_eq!(machine.role_processes(), before);
    for bad in [json!({ "last": 1 }), json!({ "LAST": "1\n2" }), json!({ "LAST": [1] })] {
        assert_eq!(set(bad).0, 422);
    }
    let fault = machine.inject("process.hang", json!({}));
    assert_eq!(set(json!({})).0, 409);
    machine.revert(&fault);
    assert_eq!(set(json!({})).1["restarted"], true);
    running(3);
    let lease = json!({ "lease_s": 120 });
    assert_eq!(machine.call("POST", "/v1/service/stop", Some(lease)).0, 200);
    let answer = set(json!({ "LAST": 2 })).1;
    assert_eq!((&answer["restarted"], &answer["service"]), (&json!(false), &json!("stopped")));
}

#[test]
fn orphans_are_reaped() {
    let machine = machine_or_skip!(IDLE_ROLE);
    // Each shell leaves a child that process 1 inherits and that ends at once.
    machine.run("for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 &) ; done");
    wait_for("no zombie", || {
        let states = machine.run("ps -eo stat=,args=");
        let orphans =
            states.lines().filter(|line| line.contains("sleep 0.01") || line.starts_with('Z'));
        (orphans.count() == 0).then_some(())
    });
}

#[test]
fn a_broken_configuration_is_told_and_ends_process_1() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let name = &machine.container.name;
    let text = docker(&[
        "exec",
        name,
        "sh",
        "-c",
        "sed s/nic_mbps/nic_mbs/ /test/agent.toml > /tmp/bad.toml; \
         /opt/sparecraft/bin/nodeagent --config /tmp/bad.toml 2>&1; echo $?",
    ])
    .unwrap();
    assert!(
        text.contains("nic_mbs") && text.contains("/tmp/bad.toml") && text.ends_with('2'),
        "{text}"
    );
}
