//! Simulations beside queues that are solved. An estimate is right if the solution lies within its
//! 95 % interval (1.5 times as wide, since a dozen are looked at) and that interval is narrow.

use serde_json::{json, Value};
use simulator::{simulate, Percentile, Report, Scenario};

fn run(scenario: &Value) -> Report {
    simulate(&Scenario::from_json(&scenario.to_string()).expect("a scenario")).expect("a report")
}

fn queue(rate_per_s: f64, requests: u64, mut tier: Value) -> Report {
    tier["name"] = json!("queue");
    run(&json!({
        "seed": 20_261_122,
        "arrivals": {"kind": "poisson", "rate_per_s": rate_per_s},
        "requests": requests,
        "tiers": [tier],
    }))
}

#[track_caller]
fn agrees(value: f64, half_width: Option<f64>, exact: f64, narrow: f64) {
    let half_width = half_width.expect("batches");
    assert!(half_width < narrow * exact, "{half_width} is too wide for {exact}");
    assert!((value - exact).abs() < 1.5 * half_width, "{value} +- {half_width}, exactly {exact}");
}

#[track_caller]
fn mean_agrees(report: &Report, exact: f64, narrow: f64) {
    let latency = &report.latency;
    agrees(latency.mean_s, latency.mean_half_width_s, exact, narrow);
}

fn percentile(report: &Report, q: f64) -> &Percentile {
    let all = &report.latency.percentiles;
    all.iter().find(|percentile| percentile.q == q).expect("it is reported")
}

/// Whoever has jobs gets an equal share of the host: with work of one law, as one queue of as many
/// cores as the host has, whatever the number of servers.
#[test]
#[ignore = "long: make test-all runs it"]
fn servers_of_one_host_together_do_what_its_cores_can() {
    for (cores, rho) in [(1.0, 0.7), (2.0, 0.8)] {
        let report = run(&json!({
            "seed": 20_261_127,
            "arrivals": {"kind": "poisson", "rate_per_s": cores * rho},
            "requests": 500_000,
            "host": {"cores": cores},
            "tiers": [{"name": "all", "servers": 5, "cores": 1000, "policy": "random",
                       "work": {"kind": "exponential", "mean_s": 1.0}}],
        }));
        // M/M/c: Erlang C for one core and for two.
        let waits = if cores > 1.0 { 2.0 * rho * rho / (1.0 + rho) } else { rho };
        mean_agrees(&report, 1.0 + waits / (cores * (1.0 - rho)), 0.05);
    }
}

/// Others want the one core all the time: it is shared by two jobs, or by two and them.
#[test]
fn what_others_use_of_the_host_is_not_there() {
    let report = |busy_cores: f64| {
        run(&json!({
            "arrivals": {"kind": "recorded", "times_s": [0.0, 0.0, 100.0, 100.0]},
            "warm_up_requests": 0,
            "batches": 2,
            "host": {"cores": 1.0, "busy_cores": busy_cores},
            "tiers": [{"name": "all", "servers": 2, "work": {"kind": "deterministic", "value_s": 6.0}}],
        }))
    };
    assert!((report(0.0).latency.mean_s - 12.0).abs() < 0.02);
    assert!((report(1.0).latency.mean_s - 18.0).abs() < 0.02);
}

/// Mean 1 / (1 - rho), variance (2 + rho) / (2 - rho) of its square (Coffman, Muntz, Trotter 1970).
#[test]
fn a_shared_processor_is_as_solved_at_three_loads() {
    for rho in [0.3, 0.5, 0.8] {
        let report = queue(
            rho,
            500_000,
            json!({
                "servers": 1, "work": {"kind": "exponential", "mean_s": 1.0},
            }),
        );
        let mean = 1.0 / (1.0 - rho);
        mean_agrees(&report, mean, 0.05);
        let variance = (2.0 + rho) / (2.0 - rho) * mean * mean;
        assert!((report.latency.variance_s2 / variance - 1.0).abs() < 0.1, "{rho}");
        assert!((report.tiers[0].utilisation - rho).abs() < 0.01, "{rho}");
    }
}

/// The mean does not depend on the law of the work (Sakata, Noguchi, Oizumi 1971).
#[test]
#[ignore = "long: make test-all runs it"]
fn a_shared_processors_mean_is_insensitive_to_the_law() {
    let laws = [
        json!({"kind": "deterministic", "value_s": 1.0}),
        json!({"kind": "lognormal", "mean_s": 1.0, "cv2": 3.0}),
        json!({"kind": "pareto", "mean_s": 1.0, "shape": 2.5}),
    ];
    for law in laws {
        let report = queue(0.5, 500_000, json!({"servers": 1, "work": law}));
        mean_agrees(&report, 2.0, 0.02);
    }
}

/// One core, first come, first served: exponential with rate mu - lambda.
#[test]
fn one_queue_first_come_first_served_has_an_exponential_latency() {
    let report = queue(
        0.7,
        500_000,
        json!({
            "servers": 1, "discipline": "first-come-first-served",
            "work": {"kind": "exponential", "mean_s": 1.0},
        }),
    );
    mean_agrees(&report, 1.0 / 0.3, 0.03);
    for q in [50.0, 95.0, 99.0] {
        let entry = percentile(&report, q);
        assert!(entry.sufficient);
        let exact = -(1.0 - q / 100.0_f64).ln() / 0.3;
        agrees(entry.value_s, entry.half_width_s, exact, 0.08);
    }
}

/// M/M/c: Erlang's C; also the share of those that wait no longer than t.
#[test]
fn many_cores_first_come_first_served_are_as_erlang_says() {
    let (cores, load) = (8_u32, 6.4_f64);
    let report = queue(
        load,
        500_000,
        json!({
            "servers": 1, "cores": cores, "discipline": "first-come-first-served",
            "work": {"kind": "exponential", "mean_s": 1.0},
        }),
    );
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 1..=cores {
        sum += term;
        term *= load / f64::from(k);
    }
    let last = term / (1.0 - load / f64::from(cores));
    let waits = last / (sum + last);
    let mean = 1.0 + waits / (f64::from(cores) - load);
    mean_agrees(&report, mean, 0.02);
}

/// Without a queue the first of r exponential copies is exponential with r times the rate.
#[test]
#[ignore = "long: make test-all runs it"]
fn the_first_of_r_idle_servers_is_r_times_as_fast() {
    for r in [1, 2, 4] {
        let report = queue(
            0.01,
            200_000,
            json!({
                "servers": 64, "replicas": r, "work": {"kind": "exponential", "mean_s": 1.0},
            }),
        );
        let mean = 1.0 / f64::from(r);
        mean_agrees(&report, mean, 0.02);
        let copies = queue(
            0.01,
            200_000,
            json!({
                "servers": 64, "replicas": r, "copies": "same",
                "work": {"kind": "exponential", "mean_s": 1.0},
            }),
        );
        mean_agrees(&copies, 1.0, 0.02);
    }
}

/// Copies at r random ones of many servers, losers run to their end: each server is an M/M/1 with
/// load r rho, in the limit of many servers they are independent, so the first of the r sojourns is
/// exponential with rate r (mu - r lambda). For r = 2 that pays below a load of 1/3 (Vulimiri et
/// al., Low latency via redundancy, CoNEXT 2013, theorem 1).
#[test]
#[ignore = "long: make test-all runs it"]
fn the_first_of_r_random_queues_is_exponential_and_two_pay_below_a_third() {
    let servers = 400;
    let mut means = Vec::new();
    for (r, load) in [(1, 0.2), (2, 0.2), (3, 0.2), (1, 0.4), (2, 0.4)] {
        let report = queue(
            load * f64::from(servers),
            300_000,
            json!({
                "servers": servers, "replicas": r, "policy": "random",
                "discipline": "first-come-first-served",
                "work": {"kind": "exponential", "mean_s": 1.0},
            }),
        );
        let mean = 1.0 / (f64::from(r) * (1.0 - f64::from(r) * load));
        let is_near = |value: f64, exact: f64| (value / exact - 1.0).abs() < 0.03;
        let latency = &report.latency;
        assert!(is_near(latency.mean_s, mean), "{r} {load}: {} {mean}", latency.mean_s);
        let deviation_s = latency.variance_s2.sqrt();
        assert!(is_near(deviation_s, mean), "{r} {load}: {deviation_s} {mean}");
        for q in [50.0, 99.0] {
            let exact = -(1.0 - q / 100.0_f64).ln() * mean;
            let value_s = percentile(&report, q).value_s;
            assert!(is_near(value_s, exact), "{r} {load} {q}: {value_s} {exact}");
        }
        let utilisation = report.tiers[0].utilisation;
        assert!(is_near(utilisation, f64::from(r) * load), "{r} {load}: {utilisation}");
        means.push(latency.mean_s);
    }
    assert!(means[1] < means[0] && means[4] > means[3]);
}

/// Two tiers of one server each, Poisson out of the first (Burke 1956): the sum of two queues, but
/// here a request is at the first also while it waits below, without using its core.
#[test]
fn a_page_takes_its_own_time_and_that_of_its_calls() {
    let report = run(&json!({
        "seed": 5,
        "arrivals": {"kind": "poisson", "rate_per_s": 0.5},
        "requests": 500_000,
        "tiers": [
            {"name": "web", "servers": 1, "work": {"kind": "exponential", "mean_s": 1.0},
             "calls": {"kind": "fixed", "value": 1}},
            {"name": "db", "servers": 1, "discipline": "first-come-first-served",
             "work": {"kind": "exponential", "mean_s": 0.8}},
        ],
    }));
    let below = 1.0 / (1.0 / 0.8 - 0.5);
    mean_agrees(&report, 2.0 + below, 0.02);
    let db = &report.tiers[1];
    assert!((db.latency.mean_s / below - 1.0).abs() < 0.02, "{}", db.latency.mean_s);
    assert!((db.request_per_s - 0.5).abs() < 0.005);
}

/// A neighbour is there for 1 - exp(-run / gap) of the time; work then takes 1 / speed as long.
#[test]
#[ignore = "long: make test-all runs it"]
fn neighbours_slow_a_server_for_the_expected_share_of_time() {
    let report = queue(
        1.0,
        400_000,
        json!({
            "servers": 500, "work": {"kind": "deterministic", "value_s": 0.01},
            "interference": {"gap_s": 40.0, "run_s": 10.0, "speed": 0.2},
        }),
    );
    let share = 1.0 - (-0.25_f64).exp();
    let mean = 0.01 * (1.0 + 4.0 * share);
    mean_agrees(&report, mean, 0.02);
    assert!((percentile(&report, 50.0).value_s - 0.01).abs() < 2e-5);
    assert!((percentile(&report, 99.0).value_s - 0.05).abs() < 1e-4);
}

/// Replies of one length one after the other are a queue with one server (Pollaczek and Khinchine).
#[test]
fn replies_wait_for_the_card_as_in_a_queue_of_one_length_and_take_no_core() {
    let (card_s, rate_per_s) = (0.025, 20.0);
    let tier = json!({"servers": 1, "cores": 4.0, "card_s": card_s,
                      "work": {"kind": "deterministic", "value_s": 0.0001}});
    let report = queue(rate_per_s, 200_000, tier);
    let load = rate_per_s * card_s;
    let exact = 0.0001 + card_s + card_s * load / (2.0 * (1.0 - load));
    mean_agrees(&report, exact, 0.03);
    assert!(report.tiers[0].utilisation < 0.001);
}
