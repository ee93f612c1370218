//! The soak of `ci/soak`, for 30 s: servers die and hang, settings change, clients misuse the protocol
//! or are slow; a Redis arbiter and a MySQL arbiter beside it. And a soak that is interrupted.

#![allow(clippy::unwrap_used)]

use std::fs::{read_dir, read_to_string};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use testkit::soak::{run, Plan};
use testkit::wait::eventually;

/// Far below what any machine does in 30 s: a soak that got stuck must not pass.
const REQUESTS_LEAST: u64 = 20_000;
/// Half a minute is too short for memory to settle; this finds what grows with each request.
const RSS_KIB_MOST: u64 = 64 * 1024;

/// One at a time: the signal is for the whole process.
static ALONE: Mutex<()> = Mutex::new(());
/// A client of the soak: it ends with its input.
const CLIENT: &str = "#!/bin/sh\necho right\ntouch \"$0.$$\"\nexec cat\n";

fn clients(folder: &Path) {
    for language in ["python", "node", "go", "java"] {
        let program = folder.join(language).join("soak");
        std::fs::create_dir(folder.join(language)).unwrap();
        std::fs::write(&program, CLIENT).unwrap();
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

/// True once those of Redis have started; a MariaDB takes longer on a busy host.
fn have_started(folder: &Path) -> bool {
    let folders = read_dir(folder).unwrap();
    let files = folders.flat_map(|folder| read_dir(folder.unwrap().path()).unwrap());
    files.count() >= 4 + 6
}

/// Processes that this one started and that run.
fn children() -> Vec<String> {
    let tasks = read_dir("/proc/self/task").unwrap();
    let texts = tasks.filter_map(|task| read_to_string(task.unwrap().path().join("children")).ok());
    let pids = texts.collect::<String>();
    let stats =
        pids.split_whitespace().filter_map(|pid| read_to_string(format!("/proc/{pid}/stat")).ok());
    stats.filter(|stat| !stat.contains(") Z ")).collect()
}

#[test]
#[ignore = "long: make test-all runs it"]
fn an_interrupted_soak_leaves_no_process_behind() {
    let _alone = ALONE.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    clients(folder.path());
    let plan = Plan {
        arbiter: env!("CARGO_BIN_EXE_arbiter").into(),
        threads: 1,
        clients: Some(folder.path().to_owned()),
        duration: Duration::from_secs(120),
        requests_least: 0,
        duration_most: Duration::from_secs(120),
        settled: Duration::from_secs(60),
        seed: 4,
    };
    let soak = std::thread::spawn(move || run(&plan).map(drop));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(eventually("clients of Redis started", || async {
        (have_started(folder.path()) || soak.is_finished()).then_some(())
    }));
    let pid = std::process::id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let error = soak.join().unwrap().unwrap_err();
    assert!(error.to_string().starts_with("SIGTERM: "), "{error:#}");
    runtime
        .block_on(eventually("no process left", || async { children().is_empty().then_some(()) }));
}

#[test]
#[ignore = "long: make test-all runs it"]
fn under_load_and_faults_every_reply_belongs_to_its_request() {
    let _alone = ALONE.lock().unwrap();
    let report = run(&Plan {
        arbiter: env!("CARGO_BIN_EXE_arbiter").into(),
        threads: 2,
        clients: None, // ci/soak has them
        duration: Duration::from_secs(30),
        requests_least: REQUESTS_LEAST,
        duration_most: Duration::from_secs(120),
        settled: Duration::from_secs(12),
        seed: 4,
    })
    .unwrap();
    let failures = report.failures(REQUESTS_LEAST, f64::INFINITY);
    assert_eq!(failures, Vec::<String>::new(), "{report:#?}");
    assert!(report.rss_kib_max < RSS_KIB_MOST, "{report:#?}");
    assert!(report.all_down > 0 && report.kills + report.hangs > 0 && report.changes > 0);
    assert!(report.quiet.len() > 1, "{report:#?}");
    let counts = &report.counts;
    for beside in [&report.redis, &report.mysql] {
        let beside = beside.as_ref().unwrap();
        assert!(beside.counts.checked > 100 && beside.kills > 0 && beside.hangs > 0, "{report:#?}");
    }
    assert!(counts.stalled > 10 && counts.read_slowly > 10, "{report:#?}");
    assert!(report.counts.misused > 100 && report.counts.spoilt() > 0, "{report:#?}");
}
