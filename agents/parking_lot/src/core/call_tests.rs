//! Strategies, step by step.

use super::*;
use crate::core::server;

/// A client whose first invocation was answered by `a`, of the servers `a` and `b`.
fn client_of_a(strategy: Strategy) -> Caller {
    let mut caller = Caller::new(strategy, 30.0);
    let servers = vec![server("a", 1), server("b", 2)];
    let events = match caller.invoke(0.0) {
        Action::Lock => vec![Event::Locked(servers)],
        _ => vec![Event::Named(servers), Event::Opened],
    };
    for event in events {
        caller.handle(event, 0.0);
    }
    assert!(matches!(caller.handle(Event::Answered, 0.0), Next::Over(_)));
    caller
}

fn step(next: Next) -> Action {
    match next {
        Next::Action(step) => step,
        Next::Over(account) => panic!("expected a step, got {account:?}"),
    }
}

fn over(next: Next) -> Account {
    match next {
        Next::Over(account) => account,
        Next::Action(step) => panic!("expected the end, got {step:?}"),
    }
}

#[test]
fn an_undisturbed_invocation_is_sent_once_and_has_no_parts() {
    let mut caller = client_of_a(Strategy::Cached);
    assert_eq!(caller.invoke(1.0), Action::Ask(server("a", 1)));
    let account = over(caller.handle(Event::Answered, 1.5));
    assert_eq!((account.sent, account.latency_s, account.parts), (1, 0.5, None));
}

#[test]
fn without_a_strategy_naming_is_asked_until_it_knows_a_living_primary() {
    let mut caller = client_of_a(Strategy::Primary { wait_s: 0.0 });
    caller.invoke(1.0);
    for _ in 0..3 {
        assert_eq!(step(caller.handle(Event::Failed, 1.0)), Action::NamePrimary);
        let dead = vec![server("a", 1)];
        let action = step(caller.handle(Event::Named(dead), 1.1));
        assert_eq!(action, Action::Open(server("a", 1)));
        assert_eq!(step(caller.handle(Event::Refused, 1.2)), Action::NamePrimary);
    }
    caller.handle(Event::Named(vec![server("b", 2)]), 1.3);
    assert_eq!(step(caller.handle(Event::Opened, 1.4)), Action::Ask(server("b", 2)));
}

#[test]
fn a_wait_comes_before_each_look_at_the_naming_service() {
    let mut caller = client_of_a(Strategy::Primary { wait_s: 2.0 });
    caller.invoke(1.0);
    assert_eq!(step(caller.handle(Event::Failed, 1.0)), Action::Wait(2.0));
    assert_eq!(step(caller.handle(Event::Waited, 3.0)), Action::NamePrimary);
    caller.handle(Event::Named(vec![server("a", 1)]), 3.0);
    assert_eq!(step(caller.handle(Event::Refused, 3.0)), Action::Wait(2.0));
}

#[test]
fn a_cached_list_is_used_up_before_another_is_asked_for() {
    let mut caller = client_of_a(Strategy::Cached);
    caller.invoke(1.0);
    assert_eq!(step(caller.handle(Event::Failed, 1.0)), Action::Open(server("b", 2)));
    assert_eq!(step(caller.handle(Event::Refused, 1.0)), Action::NameAll);
    let servers = vec![server("a", 3)];
    assert_eq!(step(caller.handle(Event::Named(servers), 1.0)), Action::Open(server("a", 3)));
}

#[test]
fn an_empty_or_stale_naming_service_is_asked_again_after_a_pause_and_not_for_ever() {
    let mut caller = client_of_a(Strategy::Cached);
    caller.invoke(0.0);
    caller.handle(Event::Failed, 0.0);
    caller.handle(Event::Refused, 0.0);
    let mut now_s = 0.0;
    loop {
        assert_eq!(step(caller.handle(Event::Named(Vec::new()), now_s)), Action::Wait(PAUSE_S));
        now_s += 1.0;
        match caller.handle(Event::Waited, now_s) {
            Next::Action(step) => assert_eq!(step, Action::NameAll),
            Next::Over(account) => {
                assert!(!account.is_answered && account.latency_s >= 30.0);
                break;
            }
        }
    }
    assert_eq!(caller.invoke(now_s), Action::NameAll);
}

#[test]
fn an_open_connection_takes_the_place_of_a_broken_one_under_the_lock() {
    let mut caller = client_of_a(Strategy::Open);
    caller.invoke(1.0);
    assert_eq!(step(caller.handle(Event::Failed, 1.0)), Action::Lock);
    let open = vec![server("a", 1), server("b", 2)];
    assert_eq!(step(caller.handle(Event::Locked(open), 1.0)), Action::Ask(server("b", 2)));
    let account = over(caller.handle(Event::Answered, 1.0));
    assert_eq!((account.sent, account.server), (2, Some(server("b", 2))));
}

#[test]
fn without_an_open_connection_naming_is_asked_and_its_servers_are_tried_in_turn() {
    let mut caller = client_of_a(Strategy::Open);
    caller.invoke(1.0);
    caller.handle(Event::Failed, 1.0);
    assert_eq!(step(caller.handle(Event::Locked(Vec::new()), 1.0)), Action::NameAll);
    let servers = vec![server("a", 1), server("b", 2)];
    caller.handle(Event::Named(servers), 1.0);
    assert_eq!(step(caller.handle(Event::Refused, 1.0)), Action::Open(server("b", 2)));
}

#[test]
fn a_server_that_was_started_again_is_not_the_one_that_failed() {
    let mut caller = client_of_a(Strategy::Open);
    caller.invoke(1.0);
    caller.handle(Event::Failed, 1.0);
    let next = caller.handle(Event::Locked(vec![server("a", 7)]), 1.0);
    assert_eq!(step(next), Action::Ask(server("a", 7)));
}

#[test]
fn the_parts_of_a_fail_over_add_up_to_it() {
    for strategy in [Strategy::Primary { wait_s: 1.0 }, Strategy::Cached, Strategy::Open] {
        let mut caller = client_of_a(strategy);
        let (mut now_s, mut refusals) = (10.0, 2);
        let mut next = Next::Action(caller.invoke(now_s));
        let account = loop {
            now_s += 0.1;
            let event = match next {
                Next::Over(account) => break account,
                Next::Action(Action::Ask(target)) if target == server("a", 1) => Event::Failed,
                Next::Action(Action::Ask(_) | Action::Hedge(_)) => Event::Answered,
                Next::Action(Action::NamePrimary | Action::NameAll) => {
                    Event::Named(vec![server("b", 2)])
                }
                Next::Action(Action::Lock) => Event::Locked(Vec::new()),
                Next::Action(Action::Open(_)) if refusals > 0 => {
                    refusals -= 1;
                    Event::Refused
                }
                Next::Action(Action::Open(_)) => Event::Opened,
                Next::Action(Action::Wait(_)) => Event::Waited,
            };
            next = caller.handle(event, now_s);
        };
        let parts = account.parts.unwrap();
        assert!((parts.sum_s() - account.latency_s).abs() < 1e-9, "{strategy:?}");
        assert!(parts.detection_s > 0.0 && parts.again_s > 0.0 && parts.connecting_s > 0.0);
    }
}

/// A client of `a` that knows what a call takes, 10 ms, and whose call to `a` is late.
fn late_client_of_a() -> Caller {
    let mut caller = client_of_a(Strategy::Open).hedging();
    assert_eq!(caller.late_after_s(), None);
    for call in 1..=100 {
        let now_s = f64::from(call);
        caller.invoke(now_s);
        caller.handle(Event::Answered, now_s + 0.01);
    }
    let late_s = caller.late_after_s().unwrap();
    assert!((late_s - 0.01).abs() < 1e-9);
    caller.invoke(200.0);
    assert_eq!(step(caller.handle(Event::Late, 200.0 + late_s)), Action::Lock);
    caller
}

fn open() -> Vec<crate::core::Server> {
    vec![server("a", 1), server("b", 2)]
}

#[test]
fn a_late_call_is_sent_to_another_server_whose_reply_counts_if_it_is_first() {
    let mut caller = late_client_of_a();
    let action = step(caller.handle(Event::Locked(open()), 200.01));
    assert_eq!(action, Action::Hedge(Some(server("b", 2))));
    let account = over(caller.handle(Event::Answered, 200.02));
    assert_eq!((account.sent, account.is_needless), (2, false));
    assert_eq!(account.server, Some(server("b", 2)));
    assert!((account.parts.unwrap().sum_s() - account.latency_s).abs() < 1e-9);
    assert_eq!(caller.invoke(201.0), Action::Ask(server("b", 2)));
}

#[test]
fn the_late_server_is_kept_if_its_reply_is_first_after_all() {
    let mut caller = late_client_of_a();
    caller.handle(Event::Locked(open()), 200.01);
    let account = over(caller.handle(Event::LateAnswered, 200.02));
    assert_eq!((account.sent, account.is_needless), (2, true));
    assert_eq!(account.server, Some(server("a", 1)));
    assert_eq!(caller.invoke(201.0), Action::Ask(server("a", 1)));
}

#[test]
fn a_late_call_goes_on_alone_where_no_other_server_is_open() {
    let mut caller = late_client_of_a();
    let alone = vec![server("a", 1)];
    let action = step(caller.handle(Event::Locked(alone), 200.01));
    assert_eq!(action, Action::Hedge(None));
    let account = over(caller.handle(Event::LateAnswered, 200.5));
    assert_eq!((account.sent, account.is_needless), (1, false));
    assert_eq!(account.server, Some(server("a", 1)));
}

#[test]
fn when_neither_of_two_requests_is_answered_both_servers_have_failed() {
    let mut caller = late_client_of_a();
    caller.handle(Event::Locked(open()), 200.01);
    assert_eq!(step(caller.handle(Event::Failed, 202.0)), Action::Lock);
    assert_eq!(step(caller.handle(Event::Locked(open()), 202.0)), Action::NameAll);
}

#[test]
fn a_clock_that_steps_back_ends_no_invocation_and_one_that_steps_forward_gives_it_up() {
    let mut caller = client_of_a(Strategy::Cached);
    caller.invoke(1000.0);
    assert!(matches!(caller.handle(Event::Failed, 10.0), Next::Action(_)));
    assert!(matches!(caller.handle(Event::Refused, 9.0), Next::Action(_)));
    let account = over(caller.handle(Event::Named(Vec::new()), 5000.0));
    assert!(!account.is_answered);
    assert!(matches!(caller.invoke(5000.0), Action::NameAll));
}
