//! The soak of `ci/soak`, for 30 s: servers die and hang, settings change, clients misuse the protocol
//! or are slow; a Redis arbiter and a MySQL arbiter beside it.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use testkit::soak::{run, Plan};

/// Far below what any machine does in 30 s: a soak that got stuck must not pass.
const REQUESTS_LEAST: u64 = 20_000;
/// Half a minute is too short for memory to settle; this finds what grows with each request.
const RSS_KIB_MOST: u64 = 64 * 1024;

#[test]
#[ignore = "long: make test-all runs it"]
fn under_load_and_faults_every_reply_belongs_to_its_request() {
    let report = run(&Plan {
        arbiter: env!("CARGO_BIN_EXE_arbiter").into(),
        threads: 2,
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
