//! Interference: there while it is active, gone when it is undone.

use serde_json::json;

use crate::support::{wait_for, wait_until, BUSY_ROLE, IDLE_ROLE};

#[test]
fn spinning_processes_take_cpu_time_from_the_role_and_are_gone_after() {
    let machine = machine_or_skip!(BUSY_ROLE);
    let id = machine.inject("interference.cpu", json!({ "workers": 4 }));
    let role = machine.role_pids().swap_remove(0);
    let neighbours =
        machine.run("ps -C nodeagent -o pid=,args= | grep neighbour | awk '{print $1}'");
    assert_eq!(neighbours.lines().count(), 4);
    // CPU time in clock ticks, the role's first.
    let look = || -> Vec<f64> {
        let pids = format!("{role} {}", neighbours.replace('\n', " "));
        let script = format!("for p in {pids}; do cut -d' ' -f14 /proc/$p/stat; done");
        let ticks = machine.run(&script);
        ticks.lines().map(|line| line.parse().unwrap()).collect()
    };
    let before = look();
    let gained = wait_for("a second of CPU time", || {
        let (now, gain) = (look(), |(now, before): (&f64, &f64)| now - before);
        let gained: Vec<f64> = now.iter().zip(&before).map(gain).collect();
        (gained.iter().sum::<f64>() > 100.0).then_some(gained)
    });
    // One of five equal tasks: a fifth, far from the whole and from nothing.
    let share = gained[0] / gained.iter().sum::<f64>();
    assert!((0.08..0.45).contains(&share), "the role got {share} of the CPU time: {gained:?}");
    assert_eq!(machine.dose(&id, true)["asked"], 0.6);
    machine.revert(&id);
    assert_eq!(machine.run("ps -C nodeagent -o args= | grep -c neighbour || true"), "0");
    machine.assert_clean();
}

#[test]
fn an_iperf_pair_loads_the_data_network_and_is_gone_after() {
    let server = machine_or_skip!(IDLE_ROLE);
    let client = machine_or_skip!(IDLE_ROLE);
    let interface = client.data_interface();
    let counter = format!("cat /sys/class/net/{interface}/statistics/tx_bytes");
    let bytes = || client.run(&counter).parse::<f64>().unwrap();
    let far = server.inject("interference.iperf_server", json!({ "port": 5301 }));
    let listening = server.run("ss --listening --tcp --numeric --no-header 'sport = :5301'");
    assert!(listening.contains("5301"), "{listening:?}");
    let before = bytes();
    let peer = server.container.data_address.clone();
    let request = json!({ "peer": peer, "port": 5301, "mbps": 50 });
    let id = client.inject("interference.iperf", request.clone());
    wait_until("5 MB of load", || bytes() - before > 5e6);
    assert_eq!(client.refused("interference.iperf", request, 5.0).0, 409);
    assert_eq!(client.dose(&id, true)["asked"], 50.0);
    assert!(server.dose(&far, true)["asked"].is_null());
    client.revert(&id);
    server.revert(&far);
    let count = "ps -C iperf3 -o pid= | wc -l";
    assert_eq!((client.run(count), server.run(count)), ("0".into(), "0".into()));
    client.assert_clean();
    server.assert_clean();
}

#[test]
fn an_iperf_client_without_a_server_is_an_injection_that_failed_and_left_nothing() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let other = machine_or_skip!(IDLE_ROLE);
    let ask = |peer: &str| {
        let request = json!({ "peer": peer, "port": 5999 });
        machine.refused("interference.iperf", request, 9.0)
    };
    let (status, reason) = ask(&other.container.data_address);
    assert!(status == 500 && reason.contains("is undone"), "{status} {reason}");
    // A machine of the fleet has another's data address, and none outside.
    for peer in ["192.0.2.1", &machine.container.data_address, "198.18.242.1"] {
        let (status, reason) = ask(peer);
        assert!(status == 422 && reason.contains("peer"), "{status} {reason}");
    }
    assert_eq!(machine.call("GET", "/v1/health", None).1["faults_active"], 0);
    assert_eq!(machine.run("ls /var/lib/sparecraft/journal"), "");
    machine.assert_clean();
}
