//! The safe-fault rules: lease, agent death, restart, SIGTERM, foreign state.

use serde_json::json;

use crate::support::{wait_until, Machine, IDLE_ROLE};

/// Every fault that can be active together, on one machine.
fn inject_everything(machine: &Machine) -> Vec<String> {
    let requests = [
        ("net.limp", json!({ "factor": 100 })),
        ("net.loss", json!({ "percent": 50 })),
        ("process.hang", json!({})),
        ("cpu.limp", json!({ "factor": 10 })),
        ("disk.limp", json!({ "factor": 10, "nominal_mbps": 100 })),
        ("interference.cpu", json!({ "workers": 2 })),
        ("interference.iperf_server", json!({ "port": 5401 })),
        ("net.link_down", json!({})),
    ];
    let mut possible = Vec::from(requests);
    possible.retain(|(kind, _)| machine.can(kind));
    let inject = |(kind, parameters)| machine.inject(kind, parameters);
    possible.into_iter().map(inject).collect()
}

fn journal(machine: &Machine) -> Vec<String> {
    let names = machine.run("ls /var/lib/sparecraft/journal");
    let id = |line: &str| line.trim_end_matches(".json").to_owned();
    names.lines().map(id).collect()
}

#[test]
fn the_end_of_a_lease_undoes_the_fault() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.limp");
    let id = machine.inject("net.limp", json!({ "factor": 10 }));
    assert!(!machine.differences().is_empty());
    let lease = json!({ "lease_s": 1.5 });
    let path = format!("/v1/faults/{id}/lease");
    assert_eq!(machine.call("PUT", &path, Some(lease)).0, 200);
    wait_until("the lease's end", || machine.fault(&id)["state"] == "reverted");
    machine.assert_reverted(&id, "lease");
    machine.assert_clean();
}

#[test]
fn an_agent_killed_in_mid_fault_is_started_again_and_undoes_all_of_it() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let ids = inject_everything(&machine);
    assert_eq!(journal(&machine), ids);
    let before = machine.role_pids();
    machine.kill_agent();
    for id in &ids {
        machine.assert_reverted(id, "restart");
    }
    assert_eq!(machine.role_pids(), before, "the role was not restarted");
    assert_eq!(journal(&machine), Vec::<String>::new());
    machine.assert_clean();
}

#[test]
fn an_agent_that_is_stopped_in_mid_fault_goes_on_and_ends_the_lease() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.limp");
    let id = machine.inject_for("net.limp", json!({ "factor": 10 }), 3.0);
    machine.run(&format!("kill -STOP {}", machine.agent_pid()));
    wait_until("the lease's end", || machine.fault(&id)["state"] == "reverted");
    machine.assert_reverted(&id, "lease");
    machine.assert_clean();
}

#[test]
fn a_machine_killed_in_mid_fault_comes_back_clean() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let ids = inject_everything(&machine);
    machine.lose_power();
    machine.assert_reverted(&ids[0], "restart");
    assert_eq!(journal(&machine), Vec::<String>::new());
    machine.assert_clean();
}

#[test]
fn sigterm_undoes_all_faults_ends_the_role_and_exits_well() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let ids = inject_everything(&machine);
    machine.end_and_start();
    // Had one been left, its record would still be in the journal and the new agent would list it.
    let (_, faults) = machine.call("GET", "/v1/faults", None);
    assert_eq!((faults, ids.len() > 2), (json!([]), true));
}

#[test]
fn one_request_undoes_everything() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let ids = inject_everything(&machine);
    let health = machine.call("GET", "/v1/health", None).1;
    assert_eq!(health["faults_active"], ids.len());
    let (status, faults) = machine.call("DELETE", "/v1/faults", None);
    let count = faults.as_array().map(Vec::len);
    assert_eq!((status, count), (200, Some(ids.len())));
    machine.assert_clean();
}

#[test]
fn a_role_may_do_what_servers_do_and_gets_no_more_by_any_program() {
    // Each would leave a file where it succeeded; the last is a program with setuid root.
    let machine = machine_or_skip!(
        "try() { \"$@\" >/dev/null 2>&1 && echo \"$1\" >>/tmp/could; }\n\
         try chown nobody /tmp; try chown root /tmp\n\
         try nft list tables; try ip link add x type ifb; try mount -t tmpfs none /mnt\n\
         try mknod /tmp/disk b 8 0; try chroot / true\n\
         try unshare --user true\n\
         cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id\n\
         setpriv --reuid=nobody --regid=nogroup --clear-groups /tmp/id -u >/tmp/became\n\
         exec sleep 100003\n"
    );
    wait_until("the end of all tries", || machine.is_running("sleep 100003"));
    assert_eq!(machine.run("cat /tmp/could"), "chown\nchown");
    assert_eq!(machine.run("cat /tmp/became"), "65534");
    let pid = machine.role_pids().swap_remove(0);
    let status = machine.run(&format!("cat /proc/{pid}/status"));
    let line = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key));
        value.unwrap().trim().to_owned()
    };
    // chown, dac_override, fowner, kill, setgid, setuid, net_bind_service
    assert_eq!(line("CapBnd:"), "00000000000004eb");
    assert_eq!(line("CapPrm:"), "00000000000004eb");
    assert_eq!((line("CapInh:"), line("CapAmb:")), ("0".repeat(16), "0".repeat(16)));
    assert_eq!(line("NoNewPrivs:"), "1");
    // The agent keeps what faults take.
    let tables = machine.run("nft list tables");
    assert!(tables.contains("sparecraft_control"), "{tables}");
}

/// Each a way from a role to what its agent is, to the host or to a neighbour, and what it is called.
const WAYS_OUT: [(&str, &str); 26] = [
    ("touch /opt/sparecraft/bin/x", "a program beside the agent's"),
    ("rm /opt/sparecraft/bin/nodeagent", "the agent's program away"),
    ("mv /opt/sparecraft/bin /opt/sparecraft/was", "its folder away"),
    ("mv /opt/sparecraft /opt/was", "the folder above it away"),
    ("echo >>/opt/sparecraft/role/ready.sh", "another probe"),
    ("echo '{}' >/var/lib/sparecraft/journal/x.json", "an undo record"),
    ("rm -r /var/lib/sparecraft/journal", "no undo records"),
    ("mv /var/lib /var/was", "other undo records"),
    ("echo '{}' >/var/lib/sparecraft/role.json", "another process as the role"),
    ("umount /opt/sparecraft/bin", "the closed folder opened"),
    ("mount -o remount,rw /opt/sparecraft/bin", "the closed folder made writable"),
    ("ls /proc/1/root/test", "the agent's view of the machine"),
    ("cat /proc/1/environ", "the agent's memory"),
    ("nsenter --target 1 --mount true", "the agent's name space"),
    ("for f in /run/sparecraft/cgroup/*/sparecraft/cgroup.procs; do echo 0 >>\\$f && exit; done; false", "another cgroup"),
    ("mkdir /run/sparecraft/cgroup/*/sparecraft/own", "a cgroup of its own"),
    ("echo 1 >/proc/sys/kernel/sysrq", "the host's kernel"),
    ("mknod /tmp/disk b 8 0", "the host's disk"),
    ("date -s 2001-01-01", "the host's clock"),
    ("dmesg", "the host's log"),
    ("chroot / true", "another root"),
    ("unshare --user --map-root-user true", "a root of its own"),
    ("hostname another", "another machine's name"),
    ("ip address add 198.18.242.120/25 dev lo", "a neighbour's address"),
    ("nft flush ruleset", "the control address's guard"),
    ("ping -c 1 127.0.0.1", "packets in a neighbour's name"),
];

#[test]
fn a_role_that_is_root_or_a_user_finds_no_way_out() {
    let user = "setpriv --reuid=nobody --regid=nogroup --clear-groups";
    let mut script = String::from("install -m 666 /dev/null /tmp/could\n");
    for (account, prefix) in [("root", ""), ("user", user)] {
        for (command, name) in WAYS_OUT {
            let way = format!("{prefix} sh -c \"{command}\" >/dev/null 2>&1");
            script += &format!("{way} && echo \"{account}: {name}\" >>/tmp/could\n");
        }
    }
    let machine = machine_or_skip!(&format!("{script}exec sleep 100003\n"));
    wait_until("the end of all ways", || machine.is_running("sleep 100003"));
    assert_eq!(machine.run("cat /tmp/could"), "");
    // All of it is the agent's still.
    machine.run("touch /opt/sparecraft/bin/x /var/lib/sparecraft/journal/x");
}

#[test]
fn a_probe_may_what_its_role_may_and_no_more() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let status = machine.run("cat /tmp/probed");
    let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
    for set in ["CapBnd:", "CapPrm:", "CapEff:"] {
        assert_eq!(line(set).map(str::trim), Some("00000000000004eb"), "{set}");
    }
    assert_eq!(line("NoNewPrivs:").map(str::trim), Some("1"));
}

#[test]
fn foreign_state_is_refused_and_left_alone() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let interface = machine.data_interface();
    machine.run(&format!(
        "tc qdisc replace dev {interface} root handle 77: tbf rate 9mbit burst 9k limit 90k"
    ));
    machine.refuses("net.limp", json!({ "factor": 10 }), 409, "77:");
    let qdiscs = machine.run(&format!("tc qdisc show dev {interface}"));
    assert!(qdiscs.contains("tbf 77:"), "{qdiscs}");
    machine.run("nft add table netdev sparecraft_loss_foreign");
    let (foreign, loss) = ("sparecraft_loss_foreign", json!({ "percent": 1 }));
    machine.refuses("net.loss", loss, 409, foreign);
    assert!(machine.run("nft list tables").contains(foreign));
    let role = machine.role_pids().swap_remove(1);
    machine.run(&format!("kill -STOP {role}"));
    machine.refuses("process.hang", json!({}), 409, "stopped already");
    if machine.can("cpu.limp") {
        let quota = "/run/sparecraft/cgroup/cpu/sparecraft/cpu.cfs_quota_us";
        machine.run(&format!(
            "test -e {quota} && echo 5000 > {quota} || echo '5000 100000' > \
            /run/sparecraft/cgroup/unified/sparecraft/cpu.max"
        ));
        machine.refuses("cpu.limp", json!({ "factor": 10 }), 409, "no active fault set");
    }
    machine.run(&format!("ip link set {interface} down"));
    machine.refuses("net.link_down", json!({}), 409, "down already");
    assert_eq!(machine.call("GET", "/v1/faults", None).1, json!([]));
}

#[test]
fn an_undo_touches_only_what_the_agent_owns() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.loss");
    let id = machine.inject("net.loss", json!({ "percent": 50 }));
    machine.run("nft add table netdev foreign && nft add table netdev sparecraft_loss_foreign");
    machine.revert(&id);
    let tables = machine.run("nft list tables netdev");
    assert!(
        tables.contains("netdev foreign") && tables.contains("sparecraft_loss_foreign"),
        "{tables}"
    );
    assert!(!tables.contains(&id), "{tables}");
}

#[test]
fn an_undo_of_what_somebody_undid_already_succeeds() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let interface = machine.data_interface();
    for id in inject_everything(&machine) {
        if machine.fault(&id)["kind"] == "net.loss" {
            machine.run(&format!("nft delete table netdev sparecraft_loss_{id}"));
        }
        if machine.fault(&id)["kind"] == "net.limp" {
            machine
                .run(&format!("ip link del sc-{id}; nft delete table netdev sparecraft_limp_{id}"));
        }
    }
    machine.run(&format!("ip link set {interface} up; kill -CONT -1"));
    let (status, faults) = machine.call("DELETE", "/v1/faults", None);
    assert_eq!(status, 200);
    let mut all = faults.as_array().unwrap().iter();
    assert!(all.all(|fault| fault["state"] == "reverted"), "{faults}");
    machine.assert_clean();
}
