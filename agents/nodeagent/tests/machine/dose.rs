//! A fault that something took back behind the agent's back is told not to have bitten; its undo
//! works all the same.

use serde_json::json;

use crate::support::{wait_for, wait_until, Container, BUSY_ROLE, IDLE_ROLE};

#[test]
fn a_role_that_was_continued_from_outside_did_not_hang() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let id = machine.inject("process.hang", json!({}));
    machine.run(&format!("kill -CONT {}", machine.role_pids().join(" ")));
    let dose = machine.dose(&id, false);
    assert_eq!(dose["unit"], "s");
    assert!(dose["measured"].as_f64() < dose["asked"].as_f64(), "{dose}");
    machine.undo(&id);
}

#[test]
fn a_card_that_got_its_rate_back_did_not_limp() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.limp");
    let peer = Container::peer();
    let id = machine.inject("net.limp", json!({ "factor": 100 }));
    machine.dose(&id, true);
    let interface = machine.data_interface();
    machine.run(&format!(
        "tc qdisc change dev {interface} root handle 5ca0: tbf rate 200mbit burst 50000 \
         limit 2500000"
    ));
    machine.run(&format!("iperf3 -c {} -u -b 50M -t 3", peer.data_address));
    let dose = machine.dose(&id, false);
    assert!(dose["measured"].as_f64().unwrap() > 2.0 * 2.0, "{dose}");
    machine.undo(&id);
}

#[test]
fn a_card_whose_packets_come_in_past_its_bucket_did_not_limp() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.limp");
    let peer = Container::peer();
    let id = machine.inject("net.limp", json!({ "factor": 100 }));
    machine.run(&format!("nft delete table netdev sparecraft_limp_{id}"));
    let from_peer = format!("iperf3 -c {} -u -b 200K -l 200 -t 2 --reverse", peer.data_address);
    let dose = wait_for("a dose", || {
        machine.run(&from_peer);
        let dose = machine.fault(&id)["dose"].clone();
        (dose["bit"] == false).then_some(dose)
    });
    assert!(dose["problem"].is_string(), "{dose}");
    machine.undo(&id);
}

#[test]
fn a_loss_without_packets_says_nothing_and_one_without_its_rule_did_not_bite() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.loss");
    let peer = Container::peer();
    let parameters = json!({ "percent": 10.0, "direction": "egress" });
    let id = machine.inject("net.loss", parameters);
    let quiet = machine.looked_at(&id, 2);
    assert!(quiet["bit"].is_null(), "{quiet}");
    let table = format!("sparecraft_loss_{id}");
    let rules = machine.run(&format!("nft -a list table netdev {table}"));
    let drops = rules.lines().find(|line| line.contains("drop #")).unwrap();
    let handle = drops.rsplit(' ').next().unwrap();
    machine.run(&format!("nft delete rule netdev {table} egress handle {handle}"));
    machine.run(&format!("iperf3 -c {} -u -b 1600K -l 200 -k 4000", peer.data_address));
    assert_eq!(machine.dose(&id, false)["measured"], 0.0);
    machine.undo(&id);
}

#[test]
fn a_role_that_got_its_cpu_back_did_not_limp() {
    let machine = machine_or_skip!(BUSY_ROLE, "cpu.limp");
    let id = machine.inject("cpu.limp", json!({ "factor": 100 }));
    machine.run(
        "for f in /run/sparecraft/cgroup/*/sparecraft/cpu.cfs_quota_us; do \
         [ -e $f ] && echo -1 > $f; done; \
         for f in /run/sparecraft/cgroup/*/sparecraft/cpu.max; do [ -e $f ] && echo max > $f; done; \
         true",
    );
    machine.dose(&id, false);
    machine.undo(&id);
}

#[test]
fn an_undo_ends_the_write_that_measures_a_disk() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.limp");
    for _ in 0..5 {
        let slow = json!({ "factor": 1000, "nominal_mbps": 10 });
        let id = machine.inject("disk.limp", slow);
        wait_until("the write", || {
            !machine.differences().is_empty() && !machine.run("pidof dd || true").is_empty()
        });
        machine.undo(&id);
    }
}

#[test]
fn large_requests_that_wait_for_their_turn_are_not_taken_for_a_rate() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.limp");
    let slow = json!({ "factor": 100, "nominal_mbps": 40 });
    let id = machine.inject("disk.limp", slow);
    machine.run(
        "for d in blkio unified; do f=/run/sparecraft/cgroup/$d/sparecraft/cgroup.procs; \
         [ -e $f ] && echo 0 > $f; done; \
         for k in 1 2 3; do \
         dd if=/dev/zero of=/var/tmp/f$k bs=1M count=1 oflag=direct >/dev/null 2>&1 & done",
    );
    let dose = machine.looked_at(&id, 4); // while they wait
    assert_eq!(dose["bit"], true, "{dose}");
    machine.undo(&id);
}
