//! Checks of scenarios, and the fate of requests when servers die, limp or run out.

use std::num::NonZeroUsize;

use proptest::prelude::*;
use serde_json::{json, Value};
use simulator::{read_input, simulate, simulate_all, Report, Scenario, Stopped};

fn scenario(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = json!({
        "seed": 3,
        "arrivals": {"kind": "poisson", "rate_per_s": 20.0},
        "requests": 20_000,
        "host": null,
        "tiers": [
            {"name": "web", "servers": 8, "cores": 2, "quota": null, "tokens": 4, "policy": "tad", "replicas": 2,
             "work": {"kind": "lognormal", "mean_s": 0.1, "cv2": 0.3}, "copies": "same", "after_s": 0,
             "pieces": 1,
             "calls": {"kind": "geometric", "mean": 5.0},
             "interference": {"gap_s": 40.0, "run_s": 10.0, "speed": 0.3}},
            {"name": "db", "servers": 4, "tokens": 24, "policy": "tad", "replicas": 2,
             "hold": "connection", "work": {"kind": "exponential", "mean_s": 0.002},
             "guardrails": {"extra_load_max": 64}, "hedge_percentile": 95},
        ],
    });
    change(&mut value);
    value
}

fn run(value: &Value) -> Report {
    simulate(&Scenario::from_json(&value.to_string()).expect("a scenario")).expect("a report")
}

#[test]
fn the_same_seed_gives_the_same_report_on_any_number_of_threads() {
    let list = json!({"scenarios": (0..6).map(|number| scenario(|s| {
        s["seed"] = json!(number / 2);
        s["requests"] = json!(2_000);
    })).collect::<Vec<_>>()});
    let scenarios = read_input(&list.to_string()).unwrap();
    let alone = simulate_all(&scenarios, NonZeroUsize::new(1).unwrap()).unwrap();
    let four = simulate_all(&scenarios, NonZeroUsize::new(4).unwrap()).unwrap();
    assert_eq!(alone, four);
    assert_eq!(alone[0], alone[1]);
    assert_ne!(alone[1].latency, alone[2].latency);
}

#[test]
fn what_is_wrong_is_refused_with_its_place_what_was_expected_and_what_came() {
    let wrong: [(&str, Value, &str); 19] = [
        (
            "/tiers/0/copies",
            json!({"correlated": 1.5}),
            "tiers[0].copies.correlated: expected 0 to 1 (got 1.5)",
        ),
        ("/tiers/0/pieces", json!(0), "tiers[0].pieces: expected 1 to"),
        ("/tiers/0/after_s", json!(-1.0), "tiers[0].after_s: expected"),
        ("/host", json!({"cores": 0}), "host.cores: expected a finite number above 0 (got 0)"),
        ("/host", json!({"cores": 2, "busy_cores": -1}), "host.busy_cores: expected"),
        (
            "/tiers/0/quota",
            json!({"period_s": 0.0, "burst_cores": 2}),
            "tiers[0].quota.period_s: expected 0.000001 to 10 s (got 0)",
        ),
        (
            "/tiers/0/quota",
            json!({"period_s": 0.1, "burst_cores": 1}),
            "tiers[0].quota.burst_cores: expected cores (2) to 1024 (got 1)",
        ),
        ("/tiers/0/servers", json!(0), "tiers[0].servers: expected 1 to 1000000 (got 0)"),
        ("/tiers/0/replicas", json!(9), "tiers[0].replicas: expected 1 to 8 (got 9)"),
        ("/tiers/1/policy", json!("tda"), "tiers[1].policy: expected one of round-robin,"),
        ("/tiers/0/work/cv2", json!(-1.0), "tiers[0].work.cv2: expected a finite number above 0"),
        ("/tiers/0/interference/speed", json!(0.0), "tiers[0].interference.speed: expected"),
        ("/tiers/0/calls", Value::Null, "tiers[0].calls: expected calls to the next tier"),
        ("/tiers/0/cores", json!("two"), "tiers[0].cores"),
        (
            "/tiers/1/hedge_percentile",
            json!(0.95),
            "tiers[1].hedge_percentile: expected 1 to 99.9 (got 0.95)",
        ),
        (
            "/tiers/1/guardrails/extra_load_max",
            json!(-1),
            "tiers[1].guardrails.extra_load_max: expected 0 to 1000 extra replicas",
        ),
        ("/tiers/1/guardrails/extra_load_max", json!("x"), "tiers[1].guardrails"),
        ("/arrivals/rate_per_s", json!(0), "arrivals.rate_per_s: expected a finite number above 0"),
        ("/requests", json!(3), "requests: expected 20 to"),
    ];
    for (place, value, start) in wrong {
        let text = scenario(|s| *s.pointer_mut(place).unwrap() = value).to_string();
        let refusal = Scenario::from_json(&text).unwrap_err().to_string();
        assert!(refusal.starts_with(start), "{refusal}");
    }
    let unknown = scenario(|s| s["tiers"][1]["seervers"] = json!(4)).to_string();
    let refused = Scenario::from_json(&unknown).unwrap_err().to_string();
    assert!(refused.contains("unknown field `seervers`"), "{refused}");
    let list = format!(r#"{{"scenarios": [{}, {unknown}]}}"#, scenario(|_| ()));
    let refused = read_input(&list).unwrap_err().to_string();
    assert!(refused.starts_with("scenarios[1]."), "{refused}");
}

#[test]
fn a_host_with_cores_enough_changes_nothing_and_one_with_few_slows_all() {
    let quota = |s: &mut Value| {
        for (tier, period_s, cores) in [(0, 0.01, 1.5), (1, 0.1, 0.4)] {
            s["tiers"][tier]["quota"] = json!({"period_s": period_s, "burst_cores": 2});
            s["tiers"][tier]["cores"] = json!(cores);
            s["tiers"][tier]["replicas"] = json!(1);
        }
        s["tiers"][0]["interference"] = Value::Null;
        s["requests"] = json!(5_000);
    };
    let mut before = run(&scenario(quota)).latency.mean_s;
    for cores in [1000.0, 6.0, 4.0] {
        let report = run(&scenario(|s| {
            quota(s);
            s["host"] = json!({"cores": cores});
        }));
        assert_eq!(report.stopped, Stopped::Done);
        let mean_s = report.latency.mean_s;
        if cores > 100.0 {
            // Moments are rounded at other places.
            assert!((mean_s / before - 1.0).abs() < 0.01, "{mean_s} for {before}");
        } else {
            assert!(mean_s > before, "{mean_s} is not above {before}");
        }
        before = mean_s;
    }
}

/// 10 ms on a quarter of a core take 10 ms in a burst and 40 without; the factors and sums of these
/// disturbances do not cancel out to the last digit.
#[test]
fn a_server_bursts_again_when_what_disturbed_it_is_over() {
    let speed = 0.577;
    assert!(speed * (1.0 / speed) < 1.0 && 0.1 + 0.2 - 0.1 - 0.2 > 0.0);
    let latency_of = |first_s: f64| {
        let times: Vec<f64> = (0..20).map(|k| first_s + f64::from(k) * 0.2).collect();
        let faults = json!([
            {"kind": "limp", "server": 0, "at_s": 0.0, "for_s": 5.0, "speed": speed},
            {"kind": "crowd", "server": 0, "at_s": 0.0, "for_s": 5.0, "jobs": 0.1},
            {"kind": "crowd", "server": 0, "at_s": 1.0, "for_s": 5.0, "jobs": 0.2},
        ]);
        run(&json!({
            "arrivals": {"kind": "recorded", "times_s": times},
            "warm_up_requests": 0,
            "tiers": [{"name": "all", "servers": 1, "cores": 0.25, "faults": faults,
                       "quota": {"period_s": 0.1, "burst_cores": 2},
                       "work": {"kind": "deterministic", "value_s": 0.01}}],
        }))
        .latency
        .mean_s
    };
    assert!(latency_of(0.5) > 0.04);
    assert!((latency_of(7.0) - 0.01).abs() < 1e-4, "{}", latency_of(7.0));
}

#[test]
fn recorded_arrivals_are_all_answered_and_the_warm_up_is_not_counted() {
    let times: Vec<f64> = (0..5000).map(|i| f64::from(i) * 0.05).collect();
    let report = run(&scenario(|s| {
        s["arrivals"] = json!({"kind": "recorded", "times_s": times});
        s["requests"] = Value::Null;
        s["warm_up_requests"] = json!(1000);
    }));
    assert_eq!((report.stopped, report.latency.samples, report.failed), (Stopped::Done, 4000, 0));
    assert!(report.measured_s > 199.0 && report.simulated_s > 249.0);
}

#[test]
fn more_work_than_capacity_is_said_and_not_averaged() {
    let report = run(&scenario(|s| {
        s["arrivals"]["rate_per_s"] = json!(500.0);
        s["in_flight_max"] = json!(2000);
    }));
    assert_eq!(report.stopped, Stopped::Unstable);
    let report = run(&scenario(|s| s["events_max"] = json!(1000)));
    assert_eq!((report.stopped, report.events), (Stopped::Events, 1000));
}

#[test]
fn a_crash_costs_nothing_where_a_second_copy_runs_and_fails_requests_where_none_does() {
    let crash = json!([{"kind": "crash", "server": 1, "at_s": 200.0, "for_s": 300.0}]);
    let single = |s: &mut Value| {
        for tier in 0..2 {
            s["tiers"][tier]["replicas"] = json!(1);
        }
    };
    for tier in 0..2 {
        let double = run(&scenario(|s| s["tiers"][tier]["faults"] = crash.clone()));
        assert_eq!((double.failed, double.latency.samples), (0, 20_000));
        // Three at once, so that one of them has work whatever the policy prefers.
        let crashes: Vec<Value> = (1..4)
            .map(|server| json!({"kind": "crash", "server": server, "at_s": 200.0, "for_s": 300.0}))
            .collect();
        let report = run(&scenario(|s| {
            single(s);
            s["tiers"][1]["work"]["mean_s"] = json!(0.02);
            s["arrivals"]["rate_per_s"] = json!(40.0);
            s["tiers"][0]["tokens"] = json!(64);
            s["tiers"][tier]["faults"] = json!(crashes);
        }));
        assert!((1..40).contains(&report.failed), "tier {tier}: {}", report.failed);
        assert_eq!(report.latency.samples + report.failed, 20_000);
    }
}

#[test]
fn all_servers_dead_is_a_fast_failure_and_they_come_back() {
    let crashes: Vec<Value> = (0..4)
        .map(|server| json!({"kind": "crash", "server": server, "at_s": 300.0, "for_s": 100.0}))
        .collect();
    let report = run(&scenario(|s| s["tiers"][1]["faults"] = json!(crashes)));
    let expected = 20.0 * 100.0;
    assert!((report.failed as f64 / expected - 1.0).abs() < 0.1, "{}", report.failed);
    assert!(report.tiers[1].refused > 0);
    assert_eq!(report.latency.samples + report.failed, 20_000);
}

#[test]
fn a_limping_server_holds_up_round_robin_and_not_tad() {
    let limps = |policy: &str| {
        run(&scenario(|s| {
            s["tiers"][0]["interference"] = Value::Null;
            s["tiers"][0]["replicas"] = json!(1);
            s["tiers"][0]["policy"] = json!(policy);
            s["tiers"][0]["faults"] =
                json!([{"kind": "limp", "server": 2, "at_s": 0.0, "for_s": 1e6, "speed": 0.1}]);
        }))
    };
    let (turns, tad) = (limps("round-robin"), limps("tad"));
    let p95 = |report: &Report| report.latency.percentile_s(95.0).unwrap();
    assert!(p95(&turns) > 3.0 * p95(&tad), "{} {}", p95(&turns), p95(&tad));
}

#[test]
fn each_call_of_a_connection_may_be_hedged_and_the_connection_goes_on_with_who_answered() {
    let limping = |replicas: usize| {
        run(&scenario(|s| {
            s["tiers"][0]["interference"] = Value::Null;
            s["tiers"][0]["replicas"] = json!(1);
            s["tiers"][1]["replicas"] = json!(replicas);
            s["tiers"][1]["policy"] = json!("hedge");
            // Now and then, so that connections are caught in their midst.
            s["tiers"][1]["interference"] = json!({"gap_s": 1.0, "run_s": 0.2, "speed": 0.01});
        }))
    };
    let (alone, hedged) = (limping(1), limping(2));
    let p99 = |report: &Report| report.tiers[1].latency.percentile_s(99.0).unwrap();
    assert!(p99(&alone) > 2.0 * p99(&hedged), "{} {}", p99(&alone), p99(&hedged));
    let below = &hedged.tiers[1];
    // More than the first call of each of the 20,000 connections could account for, and one copy
    // for each call but those.
    assert!(below.hedges > 2_000, "{}", below.hedges);
    assert!(below.copies - below.hedges <= below.latency.samples + below.failed + 50);
    assert_eq!((hedged.failed, below.failed), (0, 0));
    assert_eq!(hedged.latency.samples, 20_000);
}

/// With processor sharing work x takes x / (1 - load) in the mean (Kleinrock 1976, section 4.4); what
/// comes after a reply is load, and no more.
#[test]
fn work_after_a_reply_takes_cores_and_nobody_waits_for_it() {
    let after = |after_s: f64| {
        run(&scenario(|s| {
            s["arrivals"]["rate_per_s"] = json!(0.5);
            s["tiers"] = json!([{"name": "web", "servers": 1, "after_s": after_s,
                "work": {"kind": "deterministic", "value_s": 0.5}}]);
        }))
    };
    let (none, some) = (after(0.0), after(0.5));
    let (none_s, some_s) = (none.latency.mean_s, some.latency.mean_s);
    assert!((none_s - 0.5 / 0.75).abs() < 0.02, "{none_s}");
    assert!((some_s - 0.5 / 0.5).abs() < 0.04, "{some_s}");
    assert!((some.tiers[0].utilisation - 0.5).abs() < 0.02);
    assert_eq!((some.failed, some.latency.samples), (0, 20_000));
}

#[test]
fn of_two_copies_that_both_end_half_the_work_is_lost_with_what_comes_after_the_reply() {
    for after_s in [0.0, 0.05] {
        let report = run(&scenario(|s| {
            s["arrivals"]["rate_per_s"] = json!(1.0);
            s["tiers"] = json!([{"name": "web", "servers": 4, "tokens": 8, "replicas": 2,
                "guardrails": {"extra_load_max": 64}, "after_s": after_s,
                "work": {"kind": "deterministic", "value_s": 0.05}}]);
        }));
        let share = report.tiers[0].work_lost_share;
        assert!((share - 0.5).abs() < 0.01, "{after_s}: {share}");
    }
}

#[test]
fn a_quota_lets_short_work_burst_and_carries_no_more_than_its_share() {
    let capped = |mean_s: f64, rate_per_s: f64, quota: Value| {
        run(&scenario(|s| {
            s["arrivals"]["rate_per_s"] = json!(rate_per_s);
            s["in_flight_max"] = json!(1_000);
            s["tiers"] = json!([{"name": "db", "cores": 0.25, "quota": quota, "servers": 1,
                "work": {"kind": "deterministic", "value_s": mean_s}}]);
        }))
    };
    let p50 = |report: &Report| report.latency.percentile_s(50.0).unwrap();
    let quota = json!({"period_s": 0.1, "burst_cores": 2});
    let (burst, shared) =
        (p50(&capped(0.002, 5.0, quota.clone())), p50(&capped(0.002, 5.0, Value::Null)));
    assert!((burst - 0.002).abs() < 1e-4, "{burst}");
    assert!((shared - 0.008).abs() < 1e-4, "{shared}");
    // 0.24 of 0.25 cores are carried, twice that are not.
    assert_eq!(capped(0.03, 8.0, quota.clone()).stopped, Stopped::Done);
    assert_ne!(capped(0.03, 16.0, quota).stopped, Stopped::Done);
}

#[test]
fn a_budget_of_extra_load_cuts_the_copies_to_it() {
    let copies_per_request = |guardrails: Value| {
        let report = run(&scenario(|s| {
            s["arrivals"]["rate_per_s"] = json!(50.0);
            s["tiers"][0]["tokens"] = json!(64);
            s["tiers"][0]["interference"] = Value::Null;
            s["tiers"][0]["guardrails"] = guardrails;
        }));
        assert_eq!(report.latency.samples, 20_000);
        report.tiers[0].copies as f64 / 20_000.0
    };
    let free = copies_per_request(json!({}));
    assert!((free - 2.0).abs() < 0.01, "{free}");
    // A fifth, and 10 a window of 500 requests.
    let copies = copies_per_request(json!({"extra_load_max": 0.2, "extra_load_window_ms": 10_000}));
    assert!((1.1..1.23).contains(&copies), "{copies}");
    let none = copies_per_request(json!({"extra_load_max": 0.0}));
    assert!((1.0..1.03).contains(&none), "{none}");
}

#[test]
fn sibling_copies_meet_as_often_as_equation_1_says_and_never_when_kept_apart() {
    let meeting = |apart: bool| {
        run(&scenario(|s| {
            s["arrivals"]["rate_per_s"] = json!(2.0);
            s["tiers"][0]["work"] = json!({"kind": "deterministic", "value_s": 0.05});
            s["tiers"][0]["interference"] = Value::Null;
            s["tiers"][1]["servers"] = json!(12);
            s["tiers"][1]["tokens"] = json!(50);
            s["tiers"][1]["policy"] = json!("random");
            s["tiers"][1]["apart"] = json!(apart);
        }))
    };
    let share = meeting(false).tiers[0].collided_share;
    // 1 - C(10, 2) / C(12, 2)
    assert!((share - 0.3182).abs() < 0.01, "{share}");
    assert!(meeting(true).tiers[0].collided_share < 0.01);
}

proptest! {
    // Each is a simulation: a tenth of the cases of other random tests.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(10)))]
    /// Whatever happens, each request is answered or has failed, once, and nothing stays held.
    #[test]
    fn every_request_is_counted_once(
        seed in any::<u64>(), r1 in 1..4usize, r2 in 1..4usize, tokens in 1..4usize,
        tad in any::<bool>(), connection in any::<bool>(), fifo in any::<bool>(),
        delay in any::<bool>(), server in 0..4usize, waiting_max in 0..50usize,
        after in any::<bool>(), pieces in 1..8u32, wait in any::<bool>(),
    ) {
        let report = run(&scenario(|s| {
            s["seed"] = json!(seed);
            s["requests"] = json!(1500);
            s["events_max"] = json!(5_000_000);
            s["arrivals"]["rate_per_s"] = json!(12.0);
            for (tier, r) in [(0, r1), (1, r2)] {
                let tier = &mut s["tiers"][tier];
                tier["replicas"] = json!(r);
                tier["tokens"] = json!(tokens);
                tier["policy"] = json!(if tad { "tad" } else { "round-robin" });
                tier["waiting_max"] = json!(waiting_max);
                tier["delay_s"] = json!(if delay { 0.001 } else { 0.0 });
                tier["card_s"] = json!(if delay { 0.0005 } else { 0.0 });
                // 540 copies a second reach the second tier: 10 ms each would be more than its cores have.
                tier["after_s"] = json!(if after { 0.001 } else { 0.0 });
                tier["faults"] = json!([
                    {"kind": "crash", "server": server, "at_s": 5.0, "for_s": 3.0},
                    {"kind": "crash", "server": (server + 1) % 4, "at_s": 7.0, "for_s": 9.0},
                    {"kind": "limp", "server": 0, "at_s": 10.0, "for_s": 9.0, "speed": 0.2},
                    {"kind": "crowd", "server": 1, "at_s": 4.0, "for_s": 20.0, "jobs": 0.1,
                     "wait_s": if wait { 0.002 } else { 0.0 }},
                ]);
            }
            s["tiers"][0]["pieces"] = json!(pieces);
            s["tiers"][1]["hold"] = json!(if connection { "connection" } else { "request" });
            s["tiers"][1]["discipline"] =
                json!(if fifo { "first-come-first-served" } else { "processor-sharing" });
        }));
        prop_assert_eq!(report.stopped, Stopped::Done);
        prop_assert_eq!(report.latency.samples + report.failed, 1500);
    }
}

#[test]
fn each_latency_is_listed_where_it_is_asked_for_and_what_failed_has_none() {
    let report = run(&scenario(|s| {
        s["requests"] = json!(2_000);
        s["each"] = json!(true);
        s["tiers"][0]["faults"] = (0..8)
            .map(|server| json!({"kind": "crash", "server": server, "at_s": 40.0, "for_s": 5.0}))
            .collect();
    }));
    let each_s = report.each_s.as_ref().expect("a list");
    assert_eq!(each_s.len(), 2_000);
    let mut good_s: Vec<f64> = each_s.iter().flatten().copied().collect();
    assert!(report.failed > 0);
    assert_eq!(each_s.len() - good_s.len(), report.failed as usize);
    good_s.sort_by(f64::total_cmp);
    let middle_s = good_s[good_s.len() / 2 - 1];
    let median_s = report.latency.percentile_s(50.0).expect("a median");
    assert!((median_s / middle_s - 1.0).abs() < 0.01, "{median_s} {middle_s}");
    let without = run(&scenario(|s| s["requests"] = json!(2_000)));
    assert_eq!(without.each_s, None);
}

#[test]
fn correlated_copies_lie_between_the_same_and_independent_ones() {
    let mean_s = |copies: Value| {
        run(&scenario(|s| {
            s["tiers"][0]["interference"] = Value::Null;
            s["tiers"][0]["work"]["cv2"] = json!(2.0);
            s["tiers"][0]["copies"] = copies;
        }))
        .latency
        .mean_s
    };
    let (same, half, none) =
        (mean_s(json!("same")), mean_s(json!({"correlated": 0.5})), mean_s(json!("independent")));
    assert!(none < half && half < same, "{none} {half} {same}");
    assert_eq!(mean_s(json!({"correlated": 1.0})), same);
    assert_eq!(mean_s(json!({"correlated": 0.0})), none);
}
