//! Faults of the pass-through under the role's data: files are as they were written, I/Os meet what
//! was asked, and nothing after the undo.

use serde_json::json;

use crate::support::{wait_until, Machine, IDLE_ROLE};

/// A file that every machine has.
const FOLDER: &str = "/srv";

/// A machine whose role keeps its data under a pass-through.
fn with_store(machine: &Machine) {
    let settings = json!({ "STORE_FAULTS": "on", "STORE_FOLDER": FOLDER });
    machine.restart_with(settings);
    machine.wait_for_role();
    let mounts = machine.run("grep nodeagent-store /proc/mounts");
    assert!(mounts.contains(FOLDER) && mounts.contains("fuse"), "{mounts}");
}

#[test]
fn files_under_the_pass_through_are_what_they_would_be_without_it() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.error");
    machine.run("echo before > /srv/old; mkdir /srv/folder; chmod 750 /srv/folder");
    with_store(&machine);
    assert_eq!(machine.run("cat /srv/old"), "before");
    machine.run(
        "set -e; cd /srv; head -c 3000000 /dev/urandom > /tmp/a; cp /tmp/a a; cmp a /tmp/a; \
         echo more >> a; echo more >> /tmp/a; cmp a /tmp/a; mv a folder/b; ln folder/b c; \
         ln -s folder/b d; cmp d /tmp/a; test $(stat -c %h c) = 2; test $(readlink d) = folder/b; \
         truncate -s 1000 c; test $(stat -c %s folder/b) = 1000; chmod 640 c; chown 1:2 c; \
         test \"$(stat -c '%a %u %g' c)\" = '640 1 2'; touch -d '2001-02-03 04:05:06 UTC' c; \
         test $(stat -c %Y c) = 981173106; test $(stat -c %a folder) = 750; \
         (rm c folder/b; test $(wc -c) = 1000) < c; test \"$(ls | tr '\\n' ' ')\" = 'd folder old '; \
         mkfifo pipe; rm pipe d; dd if=/tmp/a of=direct bs=4096 oflag=direct 2>/dev/null; \
         cmp direct /tmp/a; fallocate -l 10000 room; test $(stat -c %s room) = 10000; \
         rmdir folder; ! cat nothing 2>/dev/null; sync -f old; df . > /dev/null",
    );
    let off = json!({ "STORE_FAULTS": "off", "STORE_FOLDER": FOLDER });
    assert_eq!(machine.set(off, 600.0).0, 200);
    assert_eq!(machine.run("grep -c nodeagent-store /proc/mounts; true"), "0");
    assert_eq!(machine.run("cd /srv; ls | tr '\\n' ' '; cmp direct /tmp/a"), "direct old room");
    machine.assert_clean();
}

#[test]
fn without_a_pass_through_a_fault_of_it_is_refused_with_what_to_set() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.hang");
    machine.refuses("disk.hang", json!({}), 409, "STORE_FAULTS");
}

#[test]
fn disk_error_fails_about_the_asked_share_of_reads_and_no_write() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.error");
    with_store(&machine);
    machine.run("head -c 409600 /dev/urandom > /srv/file");
    let request = json!({ "percent": 50, "of": "read", "seed": 3 });
    let id = machine.inject("disk.error", request);
    let read_100 = "for i in $(seq 100); do \
                    dd if=/srv/file of=/dev/null bs=4096 count=1 skip=$i iflag=direct 2>&1; \
                    done | grep -c 'Input/output error'; true";
    let failed: f64 = machine.run(read_100).parse().unwrap();
    assert!((25.0..75.0).contains(&failed), "{failed} of 100");
    machine.run("echo fine > /srv/other && sync /srv/other");
    assert_eq!(machine.doses(&id, 25.0..75.0)["asked"], 50.0);
    let (status, _) = machine.refused("disk.full", json!({}), 5.0);
    assert_eq!(status, 409, "one fault at a time");
    machine.revert(&id);
    assert_eq!(machine.run(read_100), "0");
    machine.assert_clean();
}

#[test]
fn disk_slow_holds_up_each_fsync_for_the_asked_time_at_least() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.slow");
    with_store(&machine);
    let request = json!({ "delay_ms": 300, "of": "fsync" });
    let id = machine.inject("disk.slow", request);
    machine.run("for i in 1 2 3; do echo $i > /srv/$i; sync /srv/$i; done");
    let dose = machine.dose(&id, true);
    assert!(dose["measured"].as_f64() >= Some(290.0), "{dose}");
    machine.undo(&id);
}

#[test]
fn disk_hang_lets_no_write_return_until_it_is_over_whatever_becomes_of_the_agent() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.hang");
    with_store(&machine);
    for kill in [false, true] {
        let id = machine.inject("disk.hang", json!({ "of": "write" }));
        machine.run("(echo done > /srv/hung; echo over > /tmp/over) > /dev/null 2>&1 &");
        let dose = machine.dose(&id, true);
        assert_eq!((&dose["measured"], &dose["asked"]), (&json!(1.0), &json!(null)));
        assert_eq!(machine.run("cat /srv/hung; ls /tmp/over 2>/dev/null; true"), "");
        if kill {
            machine.kill_agent();
        } else {
            machine.revert(&id);
        }
        wait_until("the write", || machine.run("cat /tmp/over 2>/dev/null; true") == "over");
        machine.run("rm /tmp/over /srv/hung");
        machine.assert_clean();
    }
}

#[test]
fn disk_full_takes_what_is_left_and_refuses_the_rest_while_files_may_go() {
    let machine = machine_or_skip!(IDLE_ROLE, "disk.full");
    with_store(&machine);
    let id = machine.inject("disk.full", json!({ "free_mb": 2 }));
    let write = |name: &str| {
        machine.run(&format!(
            "dd if=/dev/zero of=/srv/{name} bs=100000 count=15 2>&1 | grep -c 'No space left'; true"
        ))
    };
    assert_eq!((write("a"), write("b")), ("0".into(), "1".into()));
    assert_eq!(machine.run("df --output=avail -B 1000000 /srv | tail -1"), "0");
    machine.dose(&id, true);
    machine.run("echo x | dd of=/srv/a conv=notrunc 2>/dev/null; rm /srv/b");
    assert_eq!(write("c"), "1", "2 MB less a are not enough");
    machine.run("rm /srv/a /srv/c");
    assert_eq!(write("c"), "0");
    machine.revert(&id);
    assert_eq!(write("d"), "0");
    machine.assert_clean();
}
