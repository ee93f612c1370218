//! Quantiles beside the truth: a server answers by a script and says when it did. The latency of a
//! request counts from when it was due, whatever the server did to those before it.

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

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
const APART_MAX: f64 = 0.02;
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
fn carried_out(folder: &Path, plan: &Value) -> (Vec<Value>, i64) {
    let (plan_file, records) = (folder.join("plan.json"), folder.join("records.jsonl"));
    std::fs::write(&plan_file, plan.to_string()).unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_loadworker"))
        .args(["--control-fd", "0", "--plan"])
        .arg(&plan_file)
        .arg("--records")
        .arg(&records)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(ours.try_clone().unwrap()).lines();
    let ready: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(ready, json!({"state": "ready"}));
    let t0_ns = monotonic_ns();
    let go = json!({"t0_s": t0_ns as f64 / SECOND as f64, "start_s": 0.2});
    ours.write_all(format!("{go}\n").as_bytes()).unwrap();
    let done: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(worker.wait().unwrap().success());
    assert_eq!(done["recorded"], plan["offsets_s"].as_array().unwrap().len());
    assert_eq!(done["unfinished"], 0);
    let text = std::fs::read_to_string(&records).unwrap();
    let mut found: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    found.sort_by_key(|record| record["index"].as_u64());
    (found, t0_ns + SECOND / 5)
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() as f64 * share).ceil() as usize - 1).min(values.len() - 1)]
}

/// Poisson arrivals, measured and true latencies in ms, by index.
fn measured(script: impl Fn(&mut Random) -> Script) -> (Vec<f64>, Vec<f64>) {
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
        carried_out(folder.path(), &plan(&server.address.to_string(), &offsets_s));
    assert!(records.iter().all(|record| record["outcome"] == "ok"), "seed {seed}");
    let found = records.iter().map(|record| record["latency_ms"].as_f64().unwrap());
    let answered = server.answered_ns();
    let truth = offsets_s.iter().zip(answered).map(|(offset_s, answered_ns)| {
        (answered_ns.unwrap() - origin_ns) as f64 / 1e6 - offset_s * 1e3
    });
    (found.collect(), truth.collect())
}

fn assert_beside(found: &[f64], truth: &[f64]) {
    for share in QUANTILES {
        let (ours, true_ms) =
            (quantile(&mut found.to_vec(), share), quantile(&mut truth.to_vec(), share));
        let apart = (ours / true_ms - 1.0).abs();
        assert!(apart <= APART_MAX, "p{}: {ours} ms, the truth is {true_ms} ms", share * 100.0);
    }
}

fn ms(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}

#[test]
fn quantiles_of_a_known_distribution_are_those_of_the_server() {
    let (found, truth) = measured(|random| Script {
        delays: (0..COUNT).map(|_| ms(100.0 + random.exponential(40.0))).collect(),
        stall: None,
    });
    assert_beside(&found, &truth);
}

#[test]
fn quantiles_of_two_modes_are_those_of_the_server() {
    let (found, truth) = measured(|random| Script {
        delays: (0..COUNT).map(|_| ms(if random.below(20) == 0 { 400.0 } else { 100.0 })).collect(),
        stall: None,
    });
    assert_beside(&found, &truth);
}

#[test]
fn a_stall_of_a_second_is_in_the_latency_of_all_that_were_due_in_it() {
    let stall = (Duration::from_secs(2), Duration::from_secs(1));
    let (found, truth) =
        measured(|_| Script { delays: vec![ms(100.0); COUNT], stall: Some(stall) });
    assert_beside(&found, &truth);
    // Half of those that were due in the stall waited for more than half of it, and a client that
    // waits for one answer before it sends the next would have sent one of them.
    let waited = found.iter().filter(|latency_ms| **latency_ms > 500.0).count() as f64;
    let expected = RATE_PER_S / 2.0;
    let deviation = 5.0 * expected.sqrt();
    assert!(waited > expected - deviation, "{waited} of about {expected}");
}
