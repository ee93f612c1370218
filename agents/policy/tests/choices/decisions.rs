//! Decisions of the policies on small histories, and one recorded trace that must not change.

use policy::{
    Acquired, Ask, Grant, Guardrails, Hedge, Observation, Policy, Refused, Selector, ServerId,
    Settings,
};

const FAILED: Observation = Observation::Error { after_us: 10 };

fn policy_of(name: &str) -> Policy {
    Policy::from_name(name).unwrap()
}

fn selector(policy: &str, servers: usize, tokens_per_server: usize) -> Selector {
    Selector::new(Settings {
        tokens_per_server,
        observation_age_us_max: 1_000,
        waiting_max: 8,
        guardrails: Guardrails { ejection: None, ..Guardrails::default() },
        ..Settings::new(policy_of(policy), servers)
    })
}

fn servers(grants: &[Grant]) -> Vec<ServerId> {
    grants.iter().map(|grant| grant.server).collect()
}

fn granted(request: u64, server: ServerId) -> Grant {
    Grant { request, server, probes: false }
}

fn acquire(selector: &mut Selector, now: u64, request: u64, r: usize) -> Vec<ServerId> {
    let mut grants = vec![];
    selector.acquire(&Ask::new(now, request, r), &mut grants).unwrap();
    servers(&grants)
}

fn release(selector: &mut Selector, now: u64, server: ServerId) -> Vec<Grant> {
    let mut grants = vec![];
    selector.release(now, server, &mut grants);
    grants
}

#[test]
fn without_look_ahead_tad_takes_the_servers_at_the_pool_s_head() {
    for policy in ["tad-paper", "tad"] {
        for (look_ahead, expected) in [(0, [0, 1]), (1, [1, 2]), (2, [3, 1])] {
            let mut tad = selector(policy, 4, 2);
            tad.set_look_ahead(look_ahead);
            for (server, us) in [(0, 900), (1, 30), (2, 500), (3, 20)] {
                tad.observe(0, server, Observation::LatencyUs(us));
            }
            let mut chosen = acquire(&mut tad, 1, 1, 2);
            chosen.sort_unstable();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(chosen, expected, "{policy}, n = {look_ahead}");
        }
    }
}

#[test]
fn tad_takes_the_fastest_when_last_observed() {
    let mut tad = selector("tad-paper", 4, 2);
    for (server, us) in [(0, 900), (1, 30), (2, 500), (3, 20)] {
        tad.observe(0, server, Observation::LatencyUs(us));
    }
    assert_eq!(acquire(&mut tad, 1, 1, 2), [3, 1]);
    assert_eq!(acquire(&mut tad, 1, 2, 2), [3, 1], "each had a second token");
    assert_eq!(acquire(&mut tad, 1, 3, 2), [2, 0], "only the slow have tokens left");
}

#[test]
fn tad_uses_what_is_there_and_adds_the_rest_as_tokens_return() {
    let mut tad = selector("tad", 2, 1);
    assert_eq!(acquire(&mut tad, 0, 1, 1), [0]);
    let mut grants = vec![];
    let result = tad.acquire(&Ask::new(0, 2, 2), &mut grants);
    assert_eq!(result, Ok(Acquired { granted: 1, waiting: 1, hedge: None }));
    assert_eq!(servers(&grants), [1]);
    assert_eq!(release(&mut tad, 1, 1), [], "2 had server 1 already");
    assert_eq!(release(&mut tad, 2, 0), [granted(2, 0)]);
}

#[test]
fn tad_skips_tokens_of_a_server_already_looked_at() {
    let mut tad = selector("tad", 2, 3);
    assert_eq!(acquire(&mut tad, 0, 1, 2), [0, 1]);
    assert_eq!(acquire(&mut tad, 0, 2, 5), [0, 1], "r is cut to the servers");
}

#[test]
fn tokens_return_at_the_tail() {
    let mut tad = selector("tad", 3, 1);
    assert_eq!(acquire(&mut tad, 0, 1, 1), [0]);
    assert_eq!(release(&mut tad, 0, 0), []);
    assert_eq!(acquire(&mut tad, 0, 2, 3), [1, 2, 0], "all unseen: in the pool's order");
}

#[test]
fn a_server_that_fails_fast_does_not_look_fast() {
    let mut tad = selector("tad", 2, 4);
    tad.observe(0, 0, FAILED);
    tad.observe(0, 1, Observation::LatencyUs(999_999));
    for request in 0..4 {
        assert_eq!(acquire(&mut tad, 1, request, 1), [1]);
    }
}

#[test]
fn to_the_letter_the_last_latency_counts_for_ever_and_an_error_like_any_other() {
    let mut paper = selector("tad-paper", 2, 4);
    paper.observe(0, 0, FAILED);
    paper.observe(0, 1, Observation::LatencyUs(11));
    assert_eq!(acquire(&mut paper, 1, 1, 1), [0], "it failed in 10 us");
    paper.observe(2, 0, Observation::LatencyUs(12));
    assert_eq!(acquire(&mut paper, 1 << 40, 2, 1), [1], "12 days later");
}

#[test]
fn tad_turns_away_from_a_server_that_owes_an_answer_for_too_long() {
    let mut tad = selector("tad", 2, 4);
    tad.observe(0, 0, Observation::LatencyUs(10));
    tad.observe(0, 1, Observation::LatencyUs(100));
    assert_eq!(acquire(&mut tad, 0, 1, 1), [0]);
    assert_eq!(acquire(&mut tad, 50, 2, 1), [0], "silent for 50 us");
    assert_eq!(acquire(&mut tad, 101, 3, 1), [1], "silent for 101 us");
}

#[test]
fn the_least_outstanding_is_chosen_and_among_equals_the_one_that_waited_longest() {
    let mut least = selector("least-outstanding", 3, 1);
    assert_eq!(acquire(&mut least, 0, 1, 2), [0, 1]);
    assert_eq!(acquire(&mut least, 0, 2, 2), [2, 0]);
    release(&mut least, 0, 1);
    assert_eq!(acquire(&mut least, 0, 3, 2), [1, 2]);
    least.observe(0, 1, FAILED);
    release(&mut least, 0, 1);
    assert_eq!(acquire(&mut least, 0, 4, 1), [0], "1 is idle, but fails");
}

#[test]
fn of_two_drawn_the_one_with_the_lower_peak_times_load_is_chosen() {
    let mut peak = selector("peak-ewma", 2, 1);
    peak.observe(0, 0, Observation::LatencyUs(100));
    peak.observe(0, 1, Observation::LatencyUs(250));
    let servers: Vec<_> = (0..3).map(|n| acquire(&mut peak, 0, n, 1)[0]).collect();
    assert_eq!(servers, [0, 0, 1], "100, 200, then 250 < 300");
    peak.observe(0, 0, Observation::LatencyUs(900));
    peak.observe(0, 0, Observation::LatencyUs(50));
    release(&mut peak, 0, 0);
    release(&mut peak, 0, 0);
    release(&mut peak, 0, 1);
    assert_eq!(acquire(&mut peak, 0, 4, 1), [1], "the peak is not forgotten");
    peak.observe(3_000, 1, Observation::LatencyUs(250));
    assert_eq!(acquire(&mut peak, 3_000, 5, 1), [0], "e^-3 of it is");
}

#[test]
fn c3_trades_a_faster_server_for_a_shorter_queue() {
    let mut c3 = selector("c3", 2, 1);
    c3.observe(0, 0, Observation::LatencyUs(100));
    c3.observe(0, 1, Observation::LatencyUs(500));
    // 100 q^3 against 500 q^3.
    let servers: Vec<_> = (0..4).map(|n| acquire(&mut c3, 0, n, 1)[0]).collect();
    assert_eq!(servers, [0, 1, 0, 0], "100 < 500 < 800, 800 < 2700 < 4000");
}

#[test]
fn the_fastest_that_is_not_hot_is_chosen() {
    let mut prequal = selector("hot-cold", 3, 1);
    for (server, us) in [(0, 10), (1, 20), (2, 30)] {
        prequal.observe(0, server, Observation::LatencyUs(us));
    }
    let servers: Vec<_> = (0..4).map(|n| acquire(&mut prequal, 0, n, 1)[0]).collect();
    assert_eq!(servers, [0, 1, 0, 1], "0 is hot while the median of the three is below it");
}

#[test]
fn hedging_gives_one_server_and_the_percentile_to_wait_for() {
    let mut hedge = selector("hedge", 3, 1);
    let mut grants = vec![];
    let acquired = hedge.acquire(&Ask::new(0, 1, 3), &mut grants).unwrap();
    assert_eq!((acquired.granted, acquired.hedge), (1, None), "nothing is known yet");
    (1..=100).for_each(|us| hedge.observe(0, 0, Observation::LatencyUs(us)));
    let acquired = hedge.acquire(&Ask::new(0, 2, 3), &mut grants).unwrap();
    assert_eq!(acquired.granted, 1);
    let Some(Hedge { after_us, extras: 2 }) = acquired.hedge else {
        panic!("{acquired:?}");
    };
    assert!((55..=103).contains(&after_us), "{after_us}");
    let acquired = hedge.acquire(&Ask::new(0, 3, 1), &mut grants).unwrap();
    assert_eq!(acquired.hedge, None, "r = 1 is one replica");
}

#[test]
fn hedging_begins_with_the_fastest_at_its_present_load() {
    let mut hedge = selector("hedge", 2, 1);
    hedge.observe(0, 0, Observation::LatencyUs(100));
    hedge.observe(0, 1, Observation::LatencyUs(450));
    assert_eq!(
        (1..=3).map(|request| acquire(&mut hedge, 1, request, 2)).collect::<Vec<_>>(),
        [[0], [0], [1]],
        "100 and 400 are less than 450, 900 is not"
    );
}

#[test]
fn a_server_without_a_fresh_observation_is_tried_once() {
    let mut tad = selector("tad", 2, 4);
    tad.observe(0, 0, Observation::LatencyUs(500));
    tad.observe(900, 1, Observation::LatencyUs(10));
    assert_eq!(acquire(&mut tad, 1_000, 1, 1), [1]);
    assert_eq!(acquire(&mut tad, 1_001, 2, 1), [0], "aged out: tried");
    assert_eq!(acquire(&mut tad, 1_002, 3, 1), [1], "but not in a burst");
}

#[test]
fn one_choice_in_ten_is_of_a_server_without_a_fresh_observation() {
    let mut tad = selector("tad", 30, 1);
    (0..29).for_each(|server| tad.observe(0, server, Observation::LatencyUs(900)));
    tad.observe(1_500, 29, Observation::LatencyUs(10));
    let mut probes = 0;
    for request in 0..100 {
        let server = acquire(&mut tad, 1_501, request, 1)[0];
        release(&mut tad, 1_501, server);
        probes += usize::from(server != 29);
    }
    assert_eq!(probes, 10);
}

#[test]
fn no_read_waits_for_a_probe_alone() {
    let mut tad = selector("tad", 2, 4);
    tad.observe(0, 0, Observation::LatencyUs(500));
    tad.observe(900, 1, Observation::LatencyUs(10));
    assert_eq!(tad.replicas(1_000, 1), 1);
    assert_eq!(tad.replicas(1_001, 1), 2, "server 0 has aged out");
    assert_eq!(tad.replicas(1_001, 3), 3, "others wait for no probe alone");
    assert_eq!(acquire(&mut tad, 1_001, 2, 2), [0, 1]);
    assert_eq!(tad.replicas(1_002, 1), 1);
    for policy in Policy::all().filter(|policy| policy.name() != "tad") {
        let mut other = selector(policy.name(), 2, 4);
        other.observe(0, 0, Observation::LatencyUs(500));
        assert_eq!(other.replicas(9_000, 1), 1);
    }
}

#[test]
fn round_robin_has_no_tokens_and_never_waits() {
    let mut turns = selector("round-robin", 3, 1);
    let servers: Vec<_> = (0..5).map(|request| acquire(&mut turns, 0, request, 2)).collect();
    assert_eq!(servers, [[0, 1], [2, 0], [1, 2], [0, 1], [2, 0]]);
    assert_eq!(turns.in_use(0), 4);
}

#[test]
fn a_dead_server_gets_nothing_and_its_tokens_come_back_with_it() {
    for policy in Policy::all() {
        let mut selector = selector(policy.name(), 2, 2);
        while acquire(&mut selector, 0, 1, 1) != [0] {}
        selector.server_down(0, 0, &mut vec![]);
        assert_eq!(acquire(&mut selector, 0, 2, 2), [1]);
        assert_eq!(release(&mut selector, 0, 0), []);
        assert_eq!(selector.tokens_free(0), 0, "a dead server's token does not return");
        selector.server_down(0, 1, &mut vec![]);
        let refused = selector.acquire(&Ask::new(0, 3, 1), &mut vec![]);
        assert_eq!(refused, Err(Refused::NoServer));
        selector.server_up(0, 0, &mut vec![]);
        assert_eq!(acquire(&mut selector, 0, 4, 2), [0]);
    }
}

#[test]
fn who_waits_at_a_server_that_goes_out_goes_on_without_a_token() {
    let mut tad = selector("tad", 2, 1);
    assert_eq!(acquire(&mut tad, 0, 1, 1), [0]);
    assert_eq!(acquire(&mut tad, 0, 2, 1), [1]);
    assert_eq!(acquire(&mut tad, 0, 3, 1), [], "waits for either");
    let mut grants = vec![];
    let acquired = tad.again(0, (4, 0), true, &mut grants).unwrap();
    assert_eq!((acquired.granted, acquired.waiting), (0, 1));
    tad.server_down(1, 0, &mut grants);
    assert_eq!(grants, [granted(4, 0)]);
    assert_eq!((tad.in_use(0), tad.waiting()), (2, 1));
    tad.server_up(2, 0, &mut grants);
    assert_eq!(grants.len(), 1, "both of before count as the one token");
    assert_eq!(release(&mut tad, 3, 0), []);
    assert_eq!(release(&mut tad, 4, 0), [granted(3, 0)]);
}

#[test]
fn a_full_queue_refuses_and_leaves_who_has_one_with_it() {
    let mut tad = Selector::new(Settings { waiting_max: 0, ..Settings::new(policy_of("tad"), 2) });
    assert_eq!(acquire(&mut tad, 0, 1, 1), [0]);
    let result = tad.acquire(&Ask::new(0, 2, 2), &mut vec![]);
    assert_eq!(result, Ok(Acquired { granted: 1, waiting: 0, hedge: None }));
    assert_eq!(tad.acquire(&Ask::new(0, 3, 1), &mut vec![]), Err(Refused::QueueFull));
}

#[test]
fn a_change_to_round_robin_frees_who_waits_and_back_never_exceeds_c() {
    let mut tad = selector("tad", 1, 1);
    assert_eq!(acquire(&mut tad, 0, 1, 1), [0]);
    assert_eq!(acquire(&mut tad, 0, 2, 1), []);
    let mut grants = vec![];
    tad.set_policy(0, policy_of("round-robin"), &mut grants);
    assert_eq!(grants, [granted(2, 0)]);
    tad.set_policy(0, policy_of("tad"), &mut grants);
    assert_eq!(release(&mut tad, 0, 0), []);
    assert_eq!(tad.tokens_free(0), 0, "one is still in use");
    assert_eq!(release(&mut tad, 0, 0), []);
    assert_eq!(tad.tokens_free(0), 1);
}

#[test]
fn an_avoided_server_is_taken_only_where_nothing_else_is() {
    for policy in Policy::all() {
        let mut selector = selector(policy.name(), 3, 2);
        let mut ask = Ask::new(0, 1, 2);
        ask.avoid = &[0];
        let mut grants = vec![];
        selector.acquire(&ask, &mut grants).unwrap();
        let mut choice = servers(&grants);
        choice.sort_unstable();
        assert!(policy.name() == "hedge" || choice == [1, 2], "{policy:?}: {choice:?}");
        assert!(!choice.contains(&0), "{policy:?}: {choice:?}");
        ask.exclude = &[1, 2];
        grants.clear();
        selector.acquire(&ask, &mut grants).unwrap();
        assert_eq!(servers(&grants), [0], "{policy:?}");
    }
}

#[test]
fn a_hedge_takes_another_server_at_once_or_none() {
    for policy in Policy::all() {
        let mut selector = selector(policy.name(), 2, 1);
        let first = acquire(&mut selector, 0, 1, 1);
        let mut grants = vec![];
        let ask = Ask { exclude: &first, ..Ask::new(1, 1, 1) };
        assert!(selector.hedge(&ask, &mut grants), "{policy:?}");
        assert_eq!(servers(&grants), [1 - first[0]], "{policy:?}");
        let ask = Ask { exclude: &[0, 1], ..ask };
        assert!(!selector.hedge(&ask, &mut grants), "{policy:?}");
        assert_eq!(selector.waiting(), 0, "{policy:?}");
    }
}

/// A line of the trace and the decision that it must give: `now what -> grants`.
fn decide(selector: &mut Selector, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |place: usize| words[place].parse::<u64>().unwrap();
    let (now, mut grants) = (number(0), vec![]);
    match words[1] {
        "acquire" => {
            let _ = selector.acquire(&Ask::new(now, number(2), number(3) as usize), &mut grants);
        }
        "done" => {
            selector.observe(now, number(2) as usize, Observation::LatencyUs(number(3)));
            selector.release(now, number(2) as usize, &mut grants);
        }
        "failed" => {
            selector.observe(now, number(2) as usize, FAILED);
            selector.release(now, number(2) as usize, &mut grants);
        }
        "cancel" => {
            selector.cancel(number(2));
        }
        "down" => selector.server_down(now, number(2) as usize, &mut grants),
        "up" => selector.server_up(now, number(2) as usize, &mut grants),
        "tokens" => selector.set_tokens(now, number(2) as usize, &mut grants),
        other => panic!("unknown word {other} in {line}"),
    }
    let grants: Vec<_> =
        grants.iter().map(|grant| format!("{}@{}", grant.request, grant.server)).collect();
    grants.join(" ")
}

#[test]
fn a_recorded_trace_gives_the_same_decisions() {
    let mut tad = selector("tad", 3, 2);
    for line in include_str!("tad.trace").lines().filter(|line| !line.starts_with('#')) {
        let (step, expected) = line.split_once("->").unwrap();
        assert_eq!(decide(&mut tad, step), expected.trim(), "at: {line}");
    }
}
