//! Probes of a server that is out for its failures, under each policy: beside another server, and
//! alone only where there is no other way.

#![allow(clippy::unwrap_used)]

use policy::{
    Acquired, Ask, EjectionRules, Grant, Guardrails, Observation, Policy, Selector, ServerId,
    Settings,
};

const RULES: EjectionRules = EjectionRules {
    consecutive_failures: 2,
    failure_share: 1.0,
    requests_min: 1_000,
    window_us: 1_000_000,
    out_us_first: 1_000,
    out_us_max: 50_000,
    out_share_max: 1.0,
};
/// Time at which a server that was ejected at 0 is due.
const DUE: u64 = RULES.out_us_first;

fn settings(policy: Policy, servers: usize) -> Settings {
    Settings {
        tokens_per_server: 2,
        guardrails: Guardrails { ejection: Some(RULES), ..Guardrails::default() },
        ..Settings::new(policy, servers)
    }
}

fn fail(selector: &mut Selector, now: u64, server: ServerId) {
    for _ in 0..RULES.consecutive_failures {
        selector.observe(now, server, Observation::Error { after_us: 0 });
    }
}

/// All answer fast; then the first of them is out.
fn without_the_first(settings: Settings) -> Selector {
    let mut selector = Selector::new(settings);
    for server in 0..settings.servers {
        selector.observe(0, server, Observation::LatencyUs(10));
    }
    fail(&mut selector, 0, 0);
    assert!(selector.is_ejected(0));
    selector
}

fn ask(selector: &mut Selector, now: u64, request: u64, r: usize, probes: bool) -> Vec<Grant> {
    let ask = Ask { probes, ..Ask::new(now, request, r) };
    let mut grants = vec![];
    let acquired = selector.acquire(&ask, &mut grants).unwrap();
    assert_eq!(acquired.granted, grants.len());
    grants
}

fn release(selector: &mut Selector, now: u64, grants: &[Grant]) {
    for grant in grants {
        selector.release(now, grant.server, &mut vec![]);
    }
}

fn probed(grants: &[Grant]) -> Vec<ServerId> {
    let probes = grants.iter().filter(|grant| grant.probes);
    probes.map(|grant| grant.server).collect()
}

/// Each policy, with each number of servers and of replicas.
fn cases() -> impl Iterator<Item = (Policy, usize, usize)> {
    let sizes = (2..=4).flat_map(|servers| (1..=3).map(move |r| (servers, r)));
    Policy::all()
        .flat_map(move |policy| sizes.clone().map(move |(servers, r)| (policy, servers, r)))
}

#[test]
fn a_server_that_is_out_is_probed_by_one_request_that_has_all_others_that_it_would_have() {
    for (policy, servers, r) in cases() {
        let mut selector = without_the_first(settings(policy, servers));
        let name = (policy.name(), servers, r);
        assert!(!selector.is_probe_due(DUE - 1, &[]), "{name:?}");
        let before = ask(&mut selector, DUE - 1, 1, r, true);
        assert_eq!(probed(&before), [], "{name:?}: too early");
        release(&mut selector, DUE - 1, &before);
        assert!(selector.is_probe_due(DUE, &[]), "{name:?}");
        assert!(!selector.is_probe_due(DUE, &[0]), "{name:?}");
        let grants = ask(&mut selector, DUE, 2, r, true);
        let copies = if policy.hedges() { 1 } else { r.min(servers - 1) };
        assert_eq!(grants.len(), copies + 1, "{name:?}");
        assert!(grants[..copies].iter().all(|grant| grant.server != 0), "{name:?}");
        assert_eq!(probed(&grants), [0], "{name:?}");
        assert!(grants[copies].probes, "{name:?}: behind the others");
        assert!(!selector.is_probe_due(DUE, &[]), "{name:?}: one at a time");
        let next = ask(&mut selector, DUE, 3, r, true);
        assert_eq!(probed(&next), [], "{name:?}: one at a time");
        assert_eq!(selector.guarded().probes, 1, "{name:?}");
    }
}

#[test]
fn the_probes_reply_decides_whether_the_server_is_back() {
    for (policy, servers, r) in cases() {
        let mut selector = without_the_first(settings(policy, servers));
        let grants = ask(&mut selector, DUE, 1, r, true);
        selector.observe(DUE + 5, 0, Observation::Error { after_us: 5 });
        release(&mut selector, DUE + 5, &grants);
        let name = (policy.name(), servers, r);
        assert!(selector.is_ejected(0), "{name:?}");
        let due = DUE + 5 + 2 * RULES.out_us_first;
        assert!(!selector.is_probe_due(due - 1, &[]), "{name:?}: twice as long");
        let grants = ask(&mut selector, due, 2, r, true);
        assert_eq!(probed(&grants), [0], "{name:?}");
        selector.observe(due + 5, 0, Observation::LatencyUs(5));
        release(&mut selector, due + 5, &grants);
        assert!(!selector.is_ejected(0), "{name:?}");
    }
}

#[test]
fn what_cannot_be_copied_is_no_probe_while_anything_else_might_be() {
    for (policy, servers, _) in cases() {
        let mut selector = without_the_first(settings(policy, servers));
        let longest = DUE + RULES.out_us_max;
        let name = (policy.name(), servers);
        for now in (DUE..longest).step_by(997) {
            let grants = ask(&mut selector, now, now, 1, false);
            assert!(grants.len() == 1 && grants[0].server != 0, "{name:?}");
            release(&mut selector, now, &grants);
        }
        // Nothing else came: else the server would be out for ever.
        let grants = ask(&mut selector, longest, 1, 1, false);
        assert_eq!((grants.len(), grants[0].server), (1, 0), "{name:?}");
        let grants = ask(&mut selector, longest, 2, 1, false);
        assert_ne!(grants[0].server, 0, "{name:?}: one at a time");
    }
}

#[test]
fn a_session_that_cannot_be_copied_is_a_probe_at_once_and_not_the_next_one_too() {
    for (policy, servers, _) in cases() {
        let sessions = Settings { held_for_sessions: true, ..settings(policy, servers) };
        let mut selector = without_the_first(sessions);
        let grants = ask(&mut selector, DUE, 1, 1, false);
        assert_eq!(grants[0].server, 0, "{policy:?}");
        // Connected, and silent.
        release(&mut selector, DUE, &grants);
        let grants = ask(&mut selector, DUE, 2, 1, false);
        assert_ne!(grants[0].server, 0, "{policy:?}");
        // Its first reply comes by a grant of its own.
        selector.again(DUE, (3, 0), true, &mut vec![]).unwrap();
        selector.observe(DUE + 9, 0, Observation::LatencyUs(9));
        assert!(!selector.is_ejected(0), "{policy:?}");
    }
}

#[test]
fn where_all_are_out_a_request_gets_one_of_them() {
    for (policy, servers, r) in cases() {
        let mut selector = without_the_first(settings(policy, servers));
        (1..servers).for_each(|server| fail(&mut selector, 0, server));
        assert!((0..servers).all(|server| selector.is_ejected(server)));
        for (request, probes) in [(1, true), (2, false)] {
            let grants = ask(&mut selector, 1, request, r, probes);
            assert_eq!((grants.len(), probed(&grants).len()), (1, 0), "{policy:?}");
        }
    }
}

#[test]
fn a_probe_is_of_the_budget_of_extra_load() {
    for (policy, servers, _) in cases() {
        let mut strict = settings(policy, servers);
        strict.guardrails.extra_load_max = Some(0.0);
        let mut selector = without_the_first(strict);
        // Those that are free of charge.
        let mut now = DUE;
        for _ in 0..10 {
            let grants = ask(&mut selector, now, now, 1, true);
            assert_eq!(probed(&grants), [0], "{policy:?}");
            // It ends without a word, and is due again.
            release(&mut selector, now, &grants);
            now += 1;
        }
        let grants = ask(&mut selector, now, now, 1, true);
        assert_eq!((grants.len(), probed(&grants).len()), (1, 0), "{policy:?}");
        assert!(selector.is_probe_due(now, &[]), "{policy:?}");
        let window = strict.guardrails.extra_load_window_us;
        let grants = ask(&mut selector, now + window, 1, 1, true);
        assert_eq!(probed(&grants), [0], "{policy:?}");
    }
}

#[test]
fn who_waits_for_a_token_gets_the_probe_with_it_and_never_before() {
    for policy in Policy::all().filter(|policy| policy.uses_tokens()) {
        let mut selector = without_the_first(settings(policy, 2));
        for request in 1..=2 {
            assert_eq!(ask(&mut selector, 1, request, 1, true).len(), 1);
        }
        let mut grants = vec![];
        for (request, probes) in [(3, false), (4, true), (5, true)] {
            let ask = Ask { probes, ..Ask::new(DUE, request, 2) };
            let waits = Acquired { granted: 0, waiting: 1, hedge: None };
            assert_eq!(selector.acquire(&ask, &mut grants), Ok(waits));
        }
        let mut gets = |request: u64, servers: &[ServerId]| {
            grants.clear();
            selector.release(DUE, 1, &mut grants);
            let pairs: Vec<_> = grants.iter().map(|grant| (grant.request, grant.server)).collect();
            let expected: Vec<_> = servers.iter().map(|server| (request, *server)).collect();
            assert_eq!(pairs, expected, "{policy:?}");
        };
        gets(3, &[1]);
        gets(4, &[1, 0]);
        gets(5, &[1]);
        assert_eq!(selector.waiting(), 0);
    }
}

#[test]
fn who_waits_for_a_server_that_goes_out_gets_it_nevertheless_where_no_other_is_left() {
    for policy in Policy::all().filter(|policy| policy.uses_tokens()) {
        let mut selector = Selector::new(settings(policy, 2));
        let mut grants = vec![];
        for request in 0..3 {
            let ask = Ask { exclude: &[1], ..Ask::new(0, request, 1) };
            selector.acquire(&ask, &mut grants).unwrap();
        }
        assert_eq!((grants.len(), selector.waiting()), (2, 1), "{policy:?}");
        fail(&mut selector, 1, 0);
        grants.clear();
        selector.release(1, 0, &mut grants);
        assert_eq!((grants[0].request, grants[0].server), (2, 0), "{policy:?}");
    }
}

#[test]
fn a_late_request_gets_a_server_that_is_in_before_one_that_is_to_be_probed() {
    for policy in Policy::all() {
        for (servers, expected) in [(3, [2, 0]), (2, [0, 0])] {
            let mut selector = without_the_first(settings(policy, servers));
            let mut used = vec![1];
            for server in expected.into_iter().take(servers - 1) {
                let mut grants = vec![];
                let ask = Ask { exclude: &used, ..Ask::new(DUE, 1, 1) };
                assert!(selector.hedge(&ask, &mut grants), "{policy:?}");
                let choice = (grants[0].server, grants[0].probes);
                assert_eq!(choice, (server, server == 0), "{policy:?}");
                used.push(server);
            }
        }
    }
}
