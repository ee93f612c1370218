//! Latencies beside the truth: a server answers by a script and says when it did. The latency of a
//! request counts from when it was due, whatever the server did to those before it. A busy host
//! delays the worker after an answer, so the truth is a lower bound of each latency, and only the
//! quarter with the least delay must agree with it, in one of a few tries.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use loadworker::clock::{monotonic_ns, SECOND};
use serde_json::{json, Value};
use testkit::random::Random;
use testkit::scripted::{Script, Scripted};
use testkit::wait::REPLY_LIMIT;

const ERROR_MAX: f64 = 0.02;
const CLOCK_ERROR_MS: f64 = 0.01;
const RATE_PER_S: f64 = 400.0;
const COUNT: usize = 2400;

fn plan(address: &str, offsets_s: &[f64]) -> Value {
    let count = offsets_s.len();
    let operation = |place| json!({"name": "scripted", "request": format!("/{place}"), "check": "ok", "entry": "web"});
    json!({
        "schema": 1,
        "entries": {"web": [format!("http://{address}/")]},
        "load": {
            "user": "scripted", "connect_timeout_s": 60.0, "response_timeout_s": 60.0,
            "max_in_flight": 2000, "workers": 1,
        },
        "windows": [{"phase": "measure", "start_s": 0.0, "end_s": 60.0}],
        "operations": (0..count).map(operation).collect::<Vec<_>>(),
        "offsets_s": offsets_s,
        "operation_of": (0..count).collect::<Vec<_>>(),
    })
}

/// Carries a plan out as the runner does. Its records, by index, and the block's start.
fn run_worker(folder: &Path, plan: &Value) -> (Vec<Value>, i64) {
    let (plan_file, records) = (folder.join("plan.json"), folder.join("records.jsonl"));
    std::fs::write(&plan_file, plan.to_string()).unwrap();
    let (mut runner, end) = UnixStream::pair().unwrap();
    runner.set_read_timeout(Some(REPLY_LIMIT)).unwrap();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_loadworker"))
        .args(["--control-fd", "0", "--plan"])
        .arg(&plan_file)
        .arg("--records")
        .arg(&records)
        .stdin(Stdio::from(OwnedFd::from(end)))
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(runner.try_clone().unwrap()).lines();
    let mut line = |state| lines.next().and_then(Result::ok).expect(state);
    let ready: Value = serde_json::from_str(&line("a worker that is ready")).unwrap();
    assert_eq!(ready, json!({"state": "ready"}));
    let t0_ns = monotonic_ns();
    let go = json!({"t0_s": t0_ns as f64 / SECOND as f64, "start_s": 0.2});
    runner.write_all(format!("{go}\n").as_bytes()).unwrap();
    let end: Value = serde_json::from_str(&line("a worker that is done")).unwrap();
    assert!(worker.wait().unwrap().success());
    assert_eq!(end["recorded"], plan["offsets_s"].as_array().unwrap().len());
    assert_eq!(end["unfinished"], 0);
    let text = std::fs::read_to_string(&records).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|record| record["index"].as_u64());
    (lines, t0_ns + SECOND / 5)
}

/// Poisson arrivals, measured and true latencies in ms, by index.
fn measure(script: impl Fn(&mut Random) -> Script) -> (Vec<f64>, Vec<f64>) {
    let seed = std::env::var("SPARECRAFT_SEED").map_or(17, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let mut at_s = 0.0;
    let offsets_s: Vec<f64> = (0..COUNT)
        .map(|_| {
            at_s += random.exponential(1.0 / RATE_PER_S);
            at_s
        })
        .collect();
    let server = Scripted::start(script(&mut random), monotonic_ns);
    let folder = tempfile::tempdir().unwrap();
    let (records, origin_ns) =
        run_worker(folder.path(), &plan(&server.address.to_string(), &offsets_s));
    assert!(records.iter().all(|record| record["outcome"] == "ok"), "seed {seed}");
    let latencies_ms = records.iter().map(|record| record["latency_ms"].as_f64().unwrap());
    let reply_ns = server.answered_ns();
    let truth = offsets_s.iter().zip(reply_ns).map(|(offset_s, answered_ns)| {
        (answered_ns.unwrap() - origin_ns) as f64 / 1e6 - offset_s * 1e3
    });
    (latencies_ms.collect(), truth.collect())
}

/// The measured latencies in ms. None is below its truth; in each tenth of the truths, from the
/// fastest to the slowest, a quarter of the latencies are at most `ERROR_MAX` above, or it is
/// measured again: a host that stops when replies come delays all of them.
fn measure_near(script: impl Fn(&mut Random) -> Script) -> Vec<f64> {
    const TRIES_MAX: usize = 5;
    let mut errors = vec![];
    while errors.len() < TRIES_MAX {
        let (latencies_ms, truth) = measure(&script);
        let error = error_above(&latencies_ms, &truth);
        if error <= ERROR_MAX {
            return latencies_ms;
        }
        errors.push(error);
    }
    panic!("{errors:?} above the truth, at most {ERROR_MAX} expected");
}

/// The largest error of the tenths, each that of its quarter with the least.
fn error_above(latencies_ms: &[f64], truth: &[f64]) -> f64 {
    let mut pairs: Vec<(f64, f64)> =
        truth.iter().copied().zip(latencies_ms.iter().copied()).collect();
    for (true_ms, value_ms) in &pairs {
        assert!(*value_ms >= true_ms - CLOCK_ERROR_MS, "{value_ms} ms, the truth is {true_ms} ms");
    }
    pairs.sort_by(|left, right| left.0.total_cmp(&right.0));
    let quarters = pairs.chunks(pairs.len() / 10).map(|tenth| {
        let mut errors: Vec<f64> =
            tenth.iter().map(|(true_ms, value_ms)| value_ms / true_ms - 1.0).collect();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 4]
    });
    quarters.fold(0.0, f64::max)
}

fn ms(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}

#[test]
fn latencies_of_a_known_distribution_are_those_of_the_server() {
    measure_near(|random| Script {
        delays: (0..COUNT).map(|_| ms(100.0 + random.exponential(40.0))).collect(),
        stall: None,
    });
}

#[test]
fn latencies_of_two_modes_are_those_of_the_server() {
    measure_near(|random| Script {
        delays: (0..COUNT).map(|_| ms(if random.below(20) == 0 { 400.0 } else { 100.0 })).collect(),
        stall: None,
    });
}

#[test]
fn a_stall_of_a_second_is_in_the_latency_of_all_that_were_due_in_it() {
    let stall = (Duration::from_secs(2), Duration::from_secs(1));
    let latencies_ms =
        measure_near(|_| Script { delays: vec![ms(100.0); COUNT], stall: Some(stall) });
    // Half of those that were due in the stall waited for more than half of it, and a client that
    // waits for one answer before it sends the next would have sent one of them.
    let count = latencies_ms.iter().filter(|latency_ms| **latency_ms > 500.0).count() as f64;
    let expected = RATE_PER_S / 2.0;
    let deviation = 5.0 * expected.sqrt();
    assert!(count > expected - deviation, "{count} of about {expected}");
}
