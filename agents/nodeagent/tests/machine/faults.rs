//! Each fault: seen while it is active, gone when it is undone.

use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::network::door;
use crate::support::{
    docker, wait_for, wait_until, Container, Machine, BUSY_ROLE, DISK_BYTES_PER_S, IDLE_ROLE,
    NIC_MBPS,
};

#[test]
fn process_crash_kills_the_whole_role_and_its_undo_starts_it_again() {
    let machine = machine_or_skip!(IDLE_ROLE);
    assert_eq!(machine.role_processes().len(), 3);
    let id = machine.inject("process.crash", json!({}));
    assert_eq!(machine.role_processes(), Vec::<String>::new());
    assert_eq!(machine.service(), "crashed");
    assert_eq!(machine.call("POST", "/v1/service/start", None).0, 409);
    machine.dose(&id, true);
    machine.revert(&id);
    machine.wait_until_ready();
    assert_eq!(machine.service(), "running");
    machine.wait_for_role();
    machine.assert_clean();
}

#[test]
fn process_crash_restarts_the_role_by_itself_when_asked_to() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let id = machine.inject("process.crash", json!({ "restart_after_s": 5.0 }));
    assert_eq!(machine.service(), "crashed");
    wait_until("the restart", || machine.service() == "running");
    assert_eq!(machine.fault(&id)["state"], "active");
    assert!(machine.dose(&id, true)["asked"].as_f64().unwrap() <= 5.0);
    machine.revert(&id);
    machine.wait_for_role();
    machine.assert_clean();
}

#[test]
fn process_hang_stops_every_process_of_the_role_and_its_undo_continues_them() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let before = machine.role_pids();
    let id = machine.inject("process.hang", json!({}));
    let is_stopped = |line: &String| line.split_whitespace().nth(1).unwrap().starts_with('T');
    assert!(machine.role_processes().iter().all(is_stopped));
    assert_eq!(machine.role_pids(), before);
    assert_eq!(machine.service(), "hung");
    let health = machine.call("GET", "/v1/health?check=now", None).1;
    assert_eq!(health["ready"], false);
    let differences = machine.differences();
    assert!(differences.iter().all(|line| line.ends_with("is new: stopped")));
    machine.dose(&id, true);
    machine.revert(&id);
    assert!(!machine.role_processes().iter().any(is_stopped));
    assert_eq!(machine.role_pids(), before);
    machine.assert_clean();
}

#[test]
fn a_role_that_was_started_anew_is_ready_once_it_was_asked_again() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let is_ready = || machine.call("GET", "/v1/health", None).1["ready"] == true;
    assert!(is_ready());
    machine.run("touch /tmp/down");
    machine.call("POST", "/v1/service/stop", Some(json!({ "lease_s": 60 })));
    machine.call("POST", "/v1/service/start", None);
    assert!(!is_ready());
    machine.run("rm /tmp/down");
    wait_until("the role's readiness", is_ready);
}

/// The `figure` of the result of an iperf3 client with these words.
pub fn iperf(
    machine: &Machine,
    peer: &Container,
    words: &str,
    figure: impl Fn(&Value) -> Option<f64>,
) -> f64 {
    let script = format!("iperf3 -J -c {} {words}", peer.data_address);
    wait_for("an iperf3 result", || {
        let text = docker(&["exec", &machine.container.name, "sh", "-c", &script]).ok()?;
        figure(&serde_json::from_str::<Value>(&text).ok()?["end"])
    })
}

/// Datagrams so far that came to a container for a port where nobody listens.
fn unclaimed(container: &Container) -> f64 {
    let text = container.run("cat /proc/net/snmp");
    let figures = text.lines().filter(|line| line.starts_with("Udp:")).nth(1).unwrap();
    figures.split_whitespace().nth(2).unwrap().parse().unwrap()
}

/// Loss [%] of 4,000 UDP packets from one container to another. They go to a port where nobody
/// listens, whose kernel counts them: no handshake that the loss could hold up, and no reader that a
/// busy host could keep from reading.
pub fn udp_loss(from: &Container, to: &Container) -> f64 {
    const SENT: u32 = 4_000;
    const SEND: &str = "use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 17) or die; \
        my $to = sockaddr_in(9, inet_aton($ARGV[0])); \
        for (1..$ARGV[1]) { send($s, 0 x 200, 0, $to); select(undef, undef, undef, 0.0004) }";
    let before = unclaimed(to);
    from.run(&format!("perl -e '{SEND}' {} {SENT}", to.data_address));
    // Those that a delay holds arrive later.
    let mut arrived = unclaimed(to) - before;
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = unclaimed(to) - before;
        if now <= arrived {
            return 100.0 * (1.0 - arrived / f64::from(SENT));
        }
        arrived = now;
    }
}

#[test]
fn net_loss_drops_the_asked_share_of_packets_in_the_asked_direction() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.loss");
    let peer = Container::peer();
    let (near, far) = (&machine.container, &peer);
    assert!(udp_loss(near, far) < 1.0);
    // 10 % of 4,000: the standard error is 0.47 points, so six of them are 2.9.
    let parameters = json!({ "percent": 10.0, "direction": "egress" });
    let id = machine.inject("net.loss", parameters);
    let losses = || (udp_loss(near, far), udp_loss(far, near));
    let (out, back) = losses();
    assert!((out - 10.0).abs() < 2.9 && back < 1.0, "{out} %, {back} %");
    // Of what left the machine; these packets, and what refuses those that come.
    machine.doses(&id, 7.1..12.9);
    machine.revert(&id);
    let id = machine.inject("net.loss", json!({ "percent": 10.0 }));
    let (out, back) = losses();
    assert!((out - 10.0).abs() < 2.9 && (back - 10.0).abs() < 2.9, "{out} %, {back} %");
    machine.revert(&id);
    assert!(udp_loss(near, far) < 1.0);
    machine.assert_clean();
}

/// The rate over 3 s, Mbit/s, from the machine or (reversed) to it.
fn throughput_mbps(machine: &Machine, peer: &Container, reversed: bool) -> f64 {
    let direction = if reversed { "--reverse" } else { "" };
    let words = format!("-t 3 {direction} --connect-timeout 5000");
    iperf(machine, peer, &words, |end| Some(end["sum_received"]["bits_per_second"].as_f64()? / 1e6))
}

/// The rate that arrives of 1 Mbit/s offered as UDP for 4 s: TCP would take minutes to find it.
fn udp_throughput_mbps(machine: &Machine, peer: &Container) -> f64 {
    iperf(machine, peer, "-u -b 1M -l 200 -t 4", |end| {
        let arrived = end["sum"]["packets"].as_f64()? - end["sum"]["lost_packets"].as_f64()?;
        Some(arrived * 200.0 * 8.0 / 4.0 / 1e6)
    })
}

#[test]
fn net_limp_divides_the_nominal_rate_exactly_in_both_directions() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.limp");
    let peer = Container::peer();
    let out = throughput_mbps(&machine, &peer, false);
    assert!(out < NIC_MBPS * 1.1 && out > NIC_MBPS / 4.0, "nominal: {out} Mbit/s");
    for (factor, rate_bytes_per_s) in [(10, 2_500_000), (100, 250_000), (1000, 25_000)] {
        let id = machine.inject("net.limp", json!({ "factor": factor }));
        let qdiscs = machine.run("tc -j qdisc show");
        let rate = format!("\"rate\":{rate_bytes_per_s},");
        assert_eq!(qdiscs.matches(&rate).count(), 2, "{qdiscs}");
        let dose = machine.dose(&id, true);
        let (asked, measured) = (&dose["asked"], dose["measured"].as_f64().unwrap());
        assert_eq!(asked.as_f64().unwrap(), NIC_MBPS / f64::from(factor));
        assert!(measured < asked.as_f64().unwrap() * 1.3, "{dose}");
        if factor < 1000 {
            let nominal = NIC_MBPS / f64::from(factor);
            for reversed in [false, true] {
                let mbps = throughput_mbps(&machine, &peer, reversed);
                assert!(
                    mbps < nominal * 1.2 && mbps > nominal / 3.0,
                    "factor {factor}, reversed {reversed}: {mbps} Mbit/s of {nominal}"
                );
            }
        }
        if factor == 1000 {
            let mbps = udp_throughput_mbps(&machine, &peer);
            assert!(mbps < 0.2 * 1.35 && mbps > 0.2 / 3.0, "factor 1000: {mbps} Mbit/s of 0.2");
        }
        machine.undo(&id);
    }
    let mbps = throughput_mbps(&machine, &peer, false);
    assert!(mbps > NIC_MBPS / 4.0, "after the undo: {mbps} Mbit/s");
}

#[test]
fn net_link_down_cuts_the_data_side_only_and_its_undo_restores_the_routes() {
    let machine = machine_or_skip!(IDLE_ROLE);
    let peer = Container::peer();
    let interface = machine.data_interface();
    machine.run(&format!("ip route add 198.51.100.0/24 via {} dev {interface}", peer.data_address));
    wait_until("an open door", || door(&machine, &peer) == "open");
    let routes = machine.run("ip route");
    let id = machine.inject("net.link_down", json!({}));
    assert_eq!(door(&machine, &peer), "shut");
    assert!(!machine.run("ip route").contains("198.51.100.0/24"));
    machine.dose(&id, true);
    machine.revert(&id);
    wait_until("an open door", || door(&machine, &peer) == "open");
    assert_eq!(machine.run("ip route"), routes);
    machine.run("ip route del 198.51.100.0/24");
    machine.assert_clean();
}

#[test]
fn a_jumbo_frame_passes_a_limping_card() {
    let machine = machine_or_skip!(IDLE_ROLE, "net.limp");
    let peer = Container::peer();
    let interface = machine.data_interface();
    machine.run(&format!("ip link set {interface} mtu 9000"));
    machine.inject("net.limp", json!({ "factor": 1000 }));
    let bucket = || -> Value {
        let text = machine.run(&format!("tc -s -j qdisc show dev {interface}"));
        let qdiscs: Value = serde_json::from_str(&text).unwrap();
        qdiscs[0].clone()
    };
    let bytes = || bucket()["bytes"].as_u64().unwrap();
    let (before, to) = (bytes(), &peer.data_address);
    machine.run(&format!("bash -c 'dd if=/dev/zero bs=8900 count=1 2>/dev/null >/dev/udp/{to}/9'"));
    wait_until("a frame of 8.9 kB", || bytes() - before > 8_900);
    assert_eq!(bucket()["drops"], 0);
}

#[test]
fn cpu_limp_divides_the_cpu_time_that_the_role_gets() {
    let machine = machine_or_skip!(BUSY_ROLE, "cpu.limp");
    // Times that the kernel throttled the role's cgroup so far, and the role's CPU time in clock
    // ticks.
    let look = || -> (f64, f64) {
        let pid = machine.role_pids().swap_remove(0);
        let text = machine.run(&format!(
            "cat /run/sparecraft/cgroup/*/sparecraft/cpu.stat | grep nr_throttled | cut -d' ' -f2; \
             cut -d' ' -f14 /proc/{pid}/stat"
        ));
        let values: Vec<f64> = text.lines().map(|line| line.parse().unwrap()).collect();
        (values[0], values[1])
    };
    assert_eq!(look().0, 0.0);
    let id = machine.inject("cpu.limp", json!({ "factor": 10 }));
    let before = (Instant::now(), look());
    wait_until("ten throttled periods", || look().0 > before.1 .0 + 10.0);
    let after = (look(), before.0.elapsed());
    let dose = machine.dose(&id, true);
    assert!((dose["asked"].as_f64().unwrap() - 0.06).abs() < 1e-4, "{dose}");
    machine.revert(&id);
    // 0.06 cores are 6 ticks a second, and one for each edge. A busy host only makes it less.
    let (ticks, seconds) = (after.0 .1 - before.1 .1, after.1.as_secs_f64());
    assert!(ticks <= 6.0 * seconds * 1.1 + 2.0, "{ticks} ticks in {seconds} s while limping");
    let throttled = look().0;
    wait_until("progress without a limit", || look().1 > after.0 .1 + 20.0);
    assert_eq!(look().0, throttled, "throttled after the undo");
    machine.assert_clean();
    machine.refuses("cpu.limp", json!({ "factor": 1000 }), 422, "1 ms in each 1 s");
}

#[test]
fn disk_limp_divides_the_rate_of_direct_writes_and_reads() {
    let nominal = format!("disk_mbps = {}", DISK_BYTES_PER_S / 1_000_000);
    let machine = machine_or_skip!(with IDLE_ROLE, &nominal, "disk.limp");
    // dd joins the role's cgroup first, as all of the role does.
    let join = "for d in blkio unified; do f=/run/sparecraft/cgroup/$d/sparecraft/cgroup.procs; \
                [ -e $f ] && echo 0 > $f; done";
    machine.run("dd if=/dev/zero of=/var/tmp/f bs=1M count=8 oflag=direct 2>&1");
    let rate = |operands: &str| -> f64 {
        let text = machine.run(&format!("{join}; LC_ALL=C dd bs=64k count=48 {operands} 2>&1"));
        let seconds = text.split(", ").find_map(|part| part.strip_suffix(" s"));
        48.0 * 65_536.0 / seconds.unwrap().parse::<f64>().unwrap()
    };
    let write = "if=/dev/zero of=/var/tmp/f oflag=direct conv=notrunc";
    let read = "if=/var/tmp/f of=/dev/null iflag=direct";
    let limit = DISK_BYTES_PER_S as f64 / 20.0;
    assert!(rate(write) > limit * 2.0 && rate(read) > limit * 2.0);
    let id = machine.inject("disk.limp", json!({ "factor": 20 }));
    assert_eq!(machine.dose(&id, true)["asked"], limit / 1e6);
    for operands in [write, read] {
        let speed = rate(operands);
        assert!(speed < limit * 1.3 && speed > limit / 3.0, "{operands}: {speed} B/s of {limit}");
    }
    machine.revert(&id);
    assert!(rate(write) > limit * 2.0);
    machine.assert_clean();
}
