//! A page works between its calls, and waits for a core at each piece of its work.

use serde_json::{json, Value};
use simulator::{simulate, Report, Scenario, Stopped};

/// Pages one by one: 100 ms of work each and ten calls of 1 ms to one server.
fn scenario(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = json!({
        "arrivals": {"kind": "recorded", "times_s": (0..200).map(f64::from).collect::<Vec<_>>()},
        "tiers": [
            {"name": "web", "servers": 2, "tokens": 8, "pieces": 10, "copies": "same",
             "work": {"kind": "deterministic", "value_s": 0.1},
             "calls": {"kind": "fixed", "value": 10}},
            {"name": "db", "servers": 1, "tokens": 8, "hold": "connection",
             "work": {"kind": "deterministic", "value_s": 0.001}},
        ],
    });
    change(&mut value);
    value
}

fn run(value: &Value) -> Report {
    let result = simulate(&Scenario::from_json(&value.to_string()).expect("a scenario"));
    let report = result.expect("a report");
    assert_eq!(report.stopped, Stopped::Done);
    report
}

fn mean_s(change: impl FnOnce(&mut Value)) -> f64 {
    run(&scenario(change)).latency.mean_s
}

#[track_caller]
fn is_about(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() < part, "{value}, not {expected}");
}

/// Of 0.15 cores a page whose calls are spread over its work needs 0.09, two copies more than all.
#[test]
fn two_copies_at_one_capped_server_share_it_while_they_work() {
    let capped = |copies: usize, pieces: u32| {
        mean_s(|s| {
            s["tiers"][0]["replicas"] = json!(copies);
            s["tiers"][0]["policy"] = json!("tad");
            s["tiers"][0]["pieces"] = json!(pieces);
            s["tiers"][1]["cores"] = json!(0.15);
            s["tiers"][1]["quota"] = json!({"period_s": 0.01, "burst_cores": 2});
        })
    };
    is_about(capped(1, 10), 0.11, 0.01);
    assert!(capped(2, 10) > 0.02 / 0.15, "{}", capped(2, 10));
    // All at once, behind the work, one copy's calls alone use up the cap.
    is_about(capped(1, 1), 0.1 + 0.01 / 0.15, 0.1);
}

/// Nobody waits for a call that takes no time, so only the moments at which they come differ.
#[test]
fn in_how_many_pieces_a_page_works_makes_no_difference_to_its_own_server() {
    let shared = |pieces: u32, hold: &str| {
        mean_s(|s| {
            s["arrivals"] = json!({"kind": "poisson", "rate_per_s": 12.0});
            s["requests"] = json!(5_000);
            s["tiers"][0]["pieces"] = json!(pieces);
            s["tiers"][0]["work"] = json!({"kind": "exponential", "mean_s": 0.1});
            s["tiers"][1]["work"]["value_s"] = json!(0.0);
            s["tiers"][1]["hold"] = json!(hold);
        })
    };
    let whole_s = shared(1, "connection");
    for (pieces, hold) in [(3, "connection"), (10, "request"), (1_000, "connection")] {
        is_about(shared(pieces, hold), whole_s, 1e-3);
    }
}

#[test]
fn a_page_waits_for_a_core_at_each_piece_of_its_work_and_a_short_request_once() {
    let mean_of = |jobs: f64, wait_s: f64, pieces: u32| {
        mean_s(|s| {
            s["tiers"][0]["pieces"] = json!(pieces);
            s["tiers"][0]["faults"] = (0..2)
                .map(|server| {
                    json!({"kind": "crowd", "server": server, "at_s": 0.0, "for_s": 1e6,
                           "jobs": jobs, "wait_s": wait_s})
                })
                .collect();
        })
    };
    is_about(mean_of(0.0, 0.0, 10), 0.11, 1e-3);
    is_about(mean_of(0.0, 0.02, 10), 0.11 + 10.0 * 0.02, 0.1);
    is_about(mean_of(0.0, 0.02, 1), 0.11 + 0.02, 0.1);
    is_about(mean_of(3.0, 0.02, 10), 0.4 + 0.01 + 10.0 * 0.02, 0.1);
}

/// Between two calls a session has a server and asks nothing of it.
#[test]
fn a_session_whose_servers_die_between_its_calls_fails_at_the_next_and_none_is_left_behind() {
    let crashes = |tier: usize, servers: usize| {
        run(&scenario(|s| {
            s["tiers"][1]["servers"] = json!(2);
            s["tiers"][1]["replicas"] = json!(2);
            s["tiers"][tier]["faults"] = (0..servers)
                .map(|server| {
                    json!({"kind": "crash", "server": server, "at_s": 100.06, "for_s": 0.02})
                })
                .collect();
            s["warm_up_requests"] = json!(0);
        }))
    };
    for (tier, servers, failed) in [(0, 2, 1), (1, 1, 0), (1, 2, 1)] {
        let report = crashes(tier, servers);
        assert_eq!(
            (report.failed, report.latency.samples),
            (failed, 200 - failed),
            "{servers} of tier {tier}"
        );
    }
}
