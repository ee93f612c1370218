//! Settings and roles that the API holds, with leases as faults have. The role of these tests is stopped, so
//! only the file tells; `tests/machine/held.rs` has one that runs.

use super::*;

fn in_force(bench: &Bench) -> BTreeMap<String, String> {
    let role = &bench.engine.machine.role;
    role.environment().settings().unwrap()
}

/// Sets them for 5 s, and returns the id by which they are held.
fn set(bench: &Bench, mode: &str, at_s: u64) -> String {
    let (_, fault) = bench.engine.set_settings(&settings(mode), 5.0, || at(at_s)).unwrap();
    fault.unwrap().id
}

#[test]
fn settings_whose_lease_ends_are_what_they_were_before() {
    let bench = bench();
    set(&bench, "a", 0);
    assert_eq!(in_force(&bench), settings("a"));
    assert_eq!(journalled(&bench), 1);
    assert!(bench.engine.expire(at(4)).is_empty());
    let faults = bench.engine.expire(at(5));
    assert_eq!(faults[0].revert_reason, Some(RevertReason::Lease));
    assert_eq!((in_force(&bench), journalled(&bench)), (BTreeMap::new(), 0));
}

#[test]
fn settings_that_follow_others_are_undone_to_what_was_before_the_first() {
    let bench = bench();
    let role = &bench.engine.machine.role;
    role.environment().set(&settings("own")).unwrap();
    let first = set(&bench, "a", 0);
    assert_eq!(set(&bench, "b", 4), first);
    assert_eq!((in_force(&bench), journalled(&bench)), (settings("b"), 1));
    assert!(bench.engine.expire(at(8)).is_empty(), "the lease is anew");
    assert_eq!(bench.engine.expire(at(9)).len(), 1);
    assert_eq!(in_force(&bench), settings("own"));
}

#[test]
fn settings_that_are_those_of_before_hold_nothing() {
    let bench = bench();
    let nothing = BTreeMap::new();
    let set_nothing = || bench.engine.set_settings(&nothing, 5.0, || at(1)).unwrap();
    assert_eq!(set_nothing(), (false, None));
    let id = set(&bench, "a", 0);
    assert_eq!(set_nothing(), (false, None));
    assert_eq!((in_force(&bench), journalled(&bench)), (nothing.clone(), 0));
    assert_eq!(bench.engine.list()[0].id, id);
    assert_eq!(bench.engine.list()[0].state, FaultState::Reverted);
}

#[test]
fn held_settings_are_listed_and_undone_by_their_id_but_are_no_fault() {
    let bench = bench();
    let id = set(&bench, "a", 0);
    assert_eq!(bench.engine.list()[0].kind, "settings");
    assert_eq!(bench.engine.active(), 0);
    bench.engine.revert(&id, || at(1)).unwrap();
    assert_eq!(in_force(&bench), BTreeMap::new());
}

#[test]
fn sigterm_undoes_settings() {
    let bench = bench();
    set(&bench, "a", 0);
    bench.engine.revert_all(RevertReason::Sigterm, || at(1));
    assert_eq!((in_force(&bench), journalled(&bench)), (BTreeMap::new(), 0));
}

#[test]
fn a_restarted_agent_goes_on_with_settings_until_their_lease_ends() {
    let bench = bench();
    let id = set(&bench, "a", 0);
    bench.engine.renew(&id, 6.0, at(3)).unwrap();
    let restart = |at_s| {
        let (engine, _) = engine_in(bench.directory.path());
        engine.replay(at(at_s)).unwrap();
        (engine.list().swap_remove(0), engine)
    };
    let (fault, successor) = restart(4);
    assert_eq!(
        (fault.id, fault.state, fault.expires_at_ms),
        (id.clone(), FaultState::Active, at(9).wall_ms)
    );
    assert_eq!(in_force(&bench), settings("a"));
    assert!(successor.renew(&id, 5.0, at(5)).is_ok());
    assert!(successor.expire(at(9)).is_empty());
    let (fault, _) = restart(10);
    assert_eq!(fault.revert_reason, Some(RevertReason::Restart));
    assert_eq!((in_force(&bench), journalled(&bench)), (BTreeMap::new(), 0));
}

#[test]
fn no_clock_makes_a_lease_longer_than_a_lease_may_be() {
    let bench = bench();
    set(&bench, "a", 100_000);
    let (successor, _) = engine_in(bench.directory.path());
    successor.replay(at(0)).unwrap();
    assert!(successor.expire(at(599)).is_empty());
    assert_eq!(successor.expire(at(600)).len(), 1);
}

#[test]
fn a_role_is_held_for_a_lease_as_faults_are_or_not_at_all() {
    let bench = bench();
    for lease_s in [0.0, -1.0, 600.1, f64::NAN, f64::INFINITY] {
        let engine = &bench.engine;
        let refused = [
            engine.set_settings(&settings("a"), lease_s, || at(0)).err(),
            engine.stop_service(lease_s, || at(0)).err(),
        ];
        for refusal in refused {
            assert!(matches!(refusal, Some(Refusal::Invalid(_))), "{lease_s}");
        }
    }
    assert_eq!((in_force(&bench), journalled(&bench)), (BTreeMap::new(), 0));
}

#[test]
fn a_role_that_a_fault_holds_is_neither_stopped_nor_started_nor_set() {
    let bench = bench();
    let engine = &bench.engine;
    engine.inject(&request("role", 5.0), || at(0)).unwrap();
    let refused = [
        engine.set_settings(&settings("a"), 5.0, || at(0)).err(),
        engine.stop_service(5.0, || at(0)).err(),
        engine.start_service(|| at(0), |_| Ok(())).err(),
    ];
    for refusal in refused {
        assert!(matches!(refusal, Some(Refusal::Conflict(_))), "{refusal:?}");
    }
}

#[test]
fn a_service_that_does_not_run_is_not_held() {
    let bench = bench();
    let fault = bench.engine.stop_service(5.0, || at(0)).unwrap();
    assert_eq!((fault, journalled(&bench)), (None, 0));
}
