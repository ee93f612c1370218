//! The control address: a flood of connections keeps nobody out, and the data network does not reach
//! it.

use std::net::TcpStream;

use serde_json::{json, Value};

use crate::support::{wait_until, Machine, AGENT_PORT, IDLE_ROLE};

/// Packets that each of the guard's two rules dropped.
fn dropped(machine: &Machine) -> Vec<u64> {
    let listing = machine.run("nft -j list table netdev sparecraft_control");
    let listing: Value = serde_json::from_str(&listing).unwrap();
    let rules = listing["nftables"].as_array().unwrap().iter();
    let counters = rules.filter_map(|object| object["rule"]["expr"].as_array());
    counters.flatten().filter_map(|part| part["counter"]["packets"].as_u64()).collect()
}

/// True if `from` gets a connection to the agent of `to`.
fn reaches(from: &Machine, to: &Machine) -> bool {
    let script = format!(
        "timeout 2 bash -c '</dev/tcp/{}/{AGENT_PORT}' 2>&1 && echo reached || true",
        to.control
    );
    from.run(&script).contains("reached")
}

#[test]
fn from_the_data_network_no_control_address_answers_whatever_faults_come_and_go() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let other = machine_or_skip!(IDLE_ROLE);
    wait_until("a way over the control network", || reaches(&other, &machine));
    let lead = |address: &str| {
        let (data, via) = (other.data_interface(), &machine.container.data_address);
        other.run(&format!("ip route replace {address}/32 via {via} dev {data}"));
    };
    lead(&machine.control.to_string());
    assert!(!reaches(&other, &machine));
    let before = dropped(&machine);
    assert!(before[0] > 0, "{before:?}");
    for (kind, parameters) in [
        ("net.loss", json!({ "percent": 1 })),
        ("net.limp", json!({ "factor": 2 })),
        ("net.delay", json!({ "delay_ms": 1 })),
        ("net.partition", json!({ "peers": "198.18.242.126" })),
        ("net.link_down", json!({})),
    ] {
        if !machine.can(kind) {
            continue;
        }
        let id = machine.inject(kind, parameters);
        assert!(!reaches(&other, &machine), "{kind}");
        machine.undo(&id);
    }
    // The machine leads nobody into the control network either.
    lead("198.18.242.250");
    other.run("bash -c 'echo x >/dev/udp/198.18.242.250/9'");
    assert!(dropped(&machine)[1] > 0, "{:?}", dropped(&machine));
    // Without the guard the way that was tried is open: Linux answers on any interface.
    machine.run("nft delete table netdev sparecraft_control");
    wait_until("the open way", || reaches(&other, &machine));
    let differences = machine.differences().join("\n");
    assert!(differences.contains("sparecraft_control"), "{differences}");
    let agent = machine.agent_pid();
    machine.run(&format!("kill -9 {agent}"));
    wait_until("the next agent's guard", || !reaches(&other, &machine));
    machine.wait_until_ready();
    machine.assert_clean();
}

#[test]
fn hundreds_of_silent_connections_from_the_runners_own_address_do_not_keep_it_out() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let silent = || TcpStream::connect((machine.control, AGENT_PORT)).unwrap();
    let mut connections: Vec<TcpStream> = (0..300).map(|_| silent()).collect();
    for _ in 0..10 {
        assert_eq!(machine.call("GET", "/v1/health", None).0, 200);
        connections.extend((0..10).map(|_| silent()));
    }
    assert_eq!(connections.len(), 400);
}
