//! Faults of the network beyond loss and rate: partition, flaky link, delay, reordering, corruption.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{json, Value};

use crate::faults::{iperf, udp_loss};
use crate::support::{wait_for, wait_until, Container, Machine, IDLE_ROLE};

/// This host, as another machine on the data network.
struct Host {
    socket: UdpSocket,
    address: String,
}

impl Host {
    fn host_of(machine: &Machine) -> Host {
        let (network, _) = machine.container.data_address.rsplit_once('.').unwrap();
        let address = format!("{network}.1");
        let socket = UdpSocket::bind((address.as_str(), 0)).unwrap();
        // Whatever is sent has come by then: it is on this host.
        let patience = Some(Duration::from_secs(2));
        socket.set_read_timeout(patience).unwrap();
        Host { socket, address }
    }

    /// The datagrams that arrive here, in order, of those that the machine sends by a shell's `script`.
    fn receive(&self, machine: &Machine, script: &str) -> Vec<String> {
        let port = self.socket.local_addr().unwrap().port();
        let script = script.replace("TO", &format!("/dev/udp/{}/{port}", self.address));
        machine.run(&format!("bash -c '{script}'"));
        let mut buffer = [0; 2048];
        let mut texts = Vec::new();
        while let Ok(length) = self.socket.recv(&mut buffer) {
            texts.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        texts
    }
}

/// `open` if a TCP connection to the peer's iperf3 comes about, else `shut`.
pub fn door(machine: &Machine, peer: &Container) -> String {
    let to = format!("/dev/tcp/{}/5201", peer.data_address);
    machine.run(&format!("timeout 2 bash -c '<{to}' 2>/dev/null && echo open || echo shut"))
}

#[test]
fn net_partition_cuts_the_machine_off_from_the_stated_peers_and_from_no_other() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.partition");
    let (blocked, other) = (Container::peer(), Container::peer());
    wait_until("an open door", || door(&machine, &blocked) == "open");
    let id = machine.inject("net.partition", json!({ "peers": blocked.data_address }));
    assert_eq!(door(&machine, &blocked), "shut");
    wait_until("an open door", || door(&machine, &other) == "open");
    machine.doses(&id, 1.0..1e6);
    machine.revert(&id);
    wait_until("an open door", || door(&machine, &blocked) == "open");
    machine.assert_clean();
}

#[test]
fn net_partition_of_one_way_lets_packets_go_the_other_way() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.partition");
    let host = Host::host_of(&machine);
    let ten = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $n > TO; done";
    for (direction, arrive) in [("ingress", 10), ("egress", 0), ("both", 0)] {
        let parameters =
            json!({ "peers": format!("{},198.18.1.1", host.address), "direction": direction });
        let id = machine.inject("net.partition", parameters);
        let tolerant = ten.replace("> TO", "> TO 2>/dev/null || true");
        assert_eq!(host.receive(&machine, &tolerant).len(), arrive, "{direction}");
        machine.revert(&id);
    }
    assert_eq!(host.receive(&machine, ten).len(), 10);
    machine.assert_clean();
}

#[test]
fn peers_that_are_no_other_machines_are_refused() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.partition");
    let own = machine.container.data_address.clone();
    for peers in ["web-1", "", "198.18.0.0/24", own.as_str()] {
        machine.refuses("net.partition", json!({ "peers": peers }), 422, "peers");
    }
    machine.run("nft add table netdev sparecraft_partition_of_nobody");
    machine.refuses("net.partition", json!({ "peers": "198.18.1.1" }), 409, "of_nobody");
    machine.run("nft delete table netdev sparecraft_partition_of_nobody");
    machine.assert_clean();
}

#[test]
fn net_flaky_takes_the_link_down_and_up_as_its_schedule_says() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.flaky");
    let host = Host::host_of(&machine);
    let parameters = json!({ "law": "fixed", "outage_s": 0.6, "gap_s": 0.6 });
    let id = machine.inject("net.flaky", parameters);
    let steady = "for n in $(seq 100); do echo $n > TO 2>/dev/null || true; sleep 0.05; done";
    let count = host.receive(&machine, steady).len();
    assert!((20..=80).contains(&count), "{count} of 100 arrived, of a link down half the time");
    let dose = machine.dose(&id, true);
    assert!(dose["samples"].as_u64().unwrap() >= 6, "{dose}");
    let (parameters, measured) = (&dose["asked"], dose["measured"].as_f64().unwrap());
    assert!((parameters.as_f64().unwrap() - measured).abs() < 20.0, "{dose}");
    machine.revert(&id);
    let three = "for n in 1 2 3; do echo $n > TO; done";
    assert_eq!(host.receive(&machine, three).len(), 3);
    machine.assert_clean();
}

#[test]
fn a_flaky_link_is_clean_after_an_undo_at_any_moment() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.flaky");
    for seed in 0..12 {
        let quick = json!({ "law": "poisson", "outage_s": 0.05, "gap_s": 0.05, "seed": seed });
        let id = machine.inject("net.flaky", quick);
        machine.undo(&id);
    }
}

#[test]
fn a_flaky_link_is_where_its_schedule_is_that_began_before() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.flaky");
    let peer = Container::peer();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let up = json!({ "law": "fixed", "outage_s": 1.0, "gap_s": 600, "epoch_ms": now_ms - 60_000 });
    let id = machine.inject("net.flaky", up.clone());
    wait_until("an open door", || door(&machine, &peer) == "open");
    machine.revert(&id);
    let mut down = up;
    down["outage_s"] = json!(600);
    let id = machine.inject("net.flaky", down);
    wait_until("the outage", || door(&machine, &peer) == "shut");
    machine.dose(&id, true);
    machine.revert(&id);
    wait_until("an open door", || door(&machine, &peer) == "open");
    machine.assert_clean();
}

#[test]
fn a_flip_that_takes_its_time_is_no_link_in_another_state() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.flaky");
    let slow = r#"#!/bin/sh
/usr/sbin/nft "$@" && case $1 in -f) sleep 2 ;; esac"#;
    machine.run(&format!("echo '{slow}' >/usr/local/sbin/nft; chmod +x /usr/local/sbin/nft"));
    let down = json!({ "law": "fixed", "outage_s": 600, "gap_s": 600 });
    let id = machine.inject("net.flaky", down);
    machine.dose(&id, true);
    machine.undo(&id);
}

#[test]
fn packets_can_be_led_through_the_agent_wherever_there_are_nft_and_tun() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.partition");
    if !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("skipped: this kernel has no /dev/net/tun");
        return;
    }
    for kind in ["net.delay", "net.reorder", "net.corrupt"] {
        assert!(machine.can(kind), "{kind}");
    }
    machine.assert_clean();
}

/// The least round trip that TCP saw in a second of some traffic [ms].
fn round_trip_ms(machine: &Machine, peer: &Container) -> f64 {
    iperf(machine, peer, "-t 1 -b 2M --connect-timeout 5000", |end| {
        Some(end["streams"][0]["sender"]["min_rtt"].as_f64()? / 1e3)
    })
}

#[test]
fn net_delay_holds_every_packet_in_the_asked_directions() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.delay");
    let peer = Container::peer();
    let before = round_trip_ms(&machine, &peer);
    for (direction, least) in [("both", 60.0), ("egress", 30.0), ("ingress", 30.0)] {
        let parameters = json!({ "delay_ms": 30.0, "direction": direction });
        let id = machine.inject("net.delay", parameters);
        let rtt = round_trip_ms(&machine, &peer);
        assert!(before < 30.0 && rtt >= least, "{direction}: {rtt} ms, {before} ms before");
        machine.doses(&id, 30.0..1e6);
        machine.undo(&id);
    }
    assert!(round_trip_ms(&machine, &peer) < 30.0);
}

#[test]
fn net_delay_with_jitter_loses_nothing() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.delay");
    let peer = Container::peer();
    for law in ["uniform", "gaussian", "exponential"] {
        let parameters = json!({ "delay_ms": 20.0, "jitter_ms": 10.0, "law": law });
        let id = machine.inject("net.delay", parameters);
        let loss = udp_loss(&machine.container, &peer);
        assert!(loss < 1.0, "{law}: {loss} %");
        machine.doses(&id, 16.0..1e6);
        machine.revert(&id);
    }
    machine.assert_clean();
}

#[test]
fn net_reorder_lets_later_packets_overtake_the_asked_share() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.reorder");
    let peer = Container::peer();
    let parameters = json!({ "percent": 10.0, "late_ms": 50.0, "direction": "ingress" });
    let id = machine.inject("net.reorder", parameters);
    let words = "-u -b 1600K -l 200 -k 4000 --reverse --connect-timeout 5000";
    let percent = iperf(&machine, &peer, words, |end| {
        let count = end["sum"]["packets"].as_f64()?;
        let late = end["streams"][0]["udp"]["out_of_order"].as_f64()?;
        (count > 3_000.0).then(|| 100.0 * late / count)
    });
    assert!((percent - 10.0).abs() < 4.0, "{percent} %");
    machine.doses(&id, 6.0..14.0);
    machine.undo(&id);
}

/// Counts datagrams by their number of wrong bits.
fn wrong_bits(texts: &[String], original: &str) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        let pairs = text.bytes().zip(original.bytes());
        let bits = pairs.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        *counts.entry(bits).or_default() += 1;
    }
    counts
}

#[test]
fn net_corrupt_flips_one_bit_and_the_checksum_says_whether_the_receiver_sees_it() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.corrupt");
    let host = Host::host_of(&machine);
    // Letters whose bits 7 are flipped are no UTF-8: those are told apart by their length.
    let original = "U".repeat(64);
    let send = format!("for n in $(seq 200); do printf {original} > TO; done");
    let parameters = |checksum: &str| json!({ "percent": 50.0, "checksum": checksum });
    let id = machine.inject("net.corrupt", parameters("left"));
    let texts = host.receive(&machine, &send);
    // 100 of 200 are lost; the standard deviation is 7.
    assert!((55..=145).contains(&texts.len()), "{} of 200", texts.len());
    assert!(texts.iter().all(|text| *text == original));
    machine.doses(&id, 25.0..75.0);
    machine.revert(&id);
    let id = machine.inject("net.corrupt", parameters("repaired"));
    let texts = host.receive(&machine, &send);
    let count = texts.iter().filter(|text| **text == original).count();
    assert!(texts.len() == 200 && (55..=145).contains(&count), "{count} of {}", texts.len());
    let bits = wrong_bits(&texts, &original);
    assert!(bits.get(&1).is_some_and(|count| *count > 30), "{bits:?}");
    machine.undo(&id);
}

#[test]
fn packets_pass_again_when_the_agent_that_held_them_is_killed() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.delay");
    let peer = Container::peer();
    machine.inject("net.delay", json!({ "delay_ms": 5.0 }));
    machine.inject("net.partition", json!({ "peers": peer.data_address }));
    let flaky = json!({ "law": "poisson", "outage_s": 0.3, "gap_s": 0.3 });
    machine.inject("net.flaky", flaky);
    machine.kill_agent();
    wait_until("an open door", || door(&machine, &peer) == "open");
    machine.assert_clean();
}

#[test]
fn what_leads_packets_elsewhere_excludes_what_else_does() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.delay");
    let id = machine.inject("net.delay", json!({ "delay_ms": 5.0 }));
    for (kind, parameters) in [
        ("net.limp", json!({ "factor": 10 })),
        ("net.reorder", json!({ "percent": 5 })),
        ("net.corrupt", json!({ "percent": 5 })),
    ] {
        machine.refuses(kind, parameters, 409, "net.way");
    }
    machine.undo(&id);
}

#[test]
fn packets_that_are_led_past_the_agent_were_not_delayed() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.delay");
    let peer = Container::peer();
    let id = machine.inject("net.delay", json!({ "delay_ms": 5.0 }));
    machine.run(&format!("nft delete table netdev sparecraft_passage_{id}"));
    let dose: Value = wait_for("a dose", || {
        machine.run(&format!("iperf3 -c {} -u -b 200K -l 200 -t 2", peer.data_address));
        let dose = machine.fault(&id)["dose"].clone();
        (dose["bit"] == false).then_some(dose)
    });
    assert_eq!(dose["asked"], 5.0);
    machine.undo(&id);
}
