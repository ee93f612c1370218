//! A trace's lines are read as they were written.

use policy::trace::{Call, End, Header, Step};
use policy::{EjectionRules, Guardrails, Observation, Policy, Settings};
use proptest::prelude::*;

const SERVERS: usize = 7;

fn few() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..SERVERS, 0..4)
}

fn policy() -> impl Strategy<Value = Policy> {
    proptest::sample::select(Policy::all().collect::<Vec<_>>())
}

fn guardrails() -> impl Strategy<Value = Guardrails> {
    let time = 0..1_000_000_000u64;
    let share = 0.0..1.0f64;
    let ejection = (
        1..9u32,
        share.clone(),
        1..99u32,
        time.clone(),
        time.clone(),
        time.clone(),
        share,
    )
        .prop_map(|rules| EjectionRules {
            consecutive_failures: rules.0,
            failure_share: rules.1,
            requests_min: rules.2,
            window_us: rules.3,
            out_us_first: rules.4,
            out_us_max: rules.5,
            out_share_max: rules.6,
        });
    (
        prop::option::of(0.0..9.0f64),
        time,
        prop::option::of(ejection),
    )
        .prop_map(|rules| Guardrails {
            extra_load_max: rules.0,
            extra_load_window_us: rules.1,
            ejection: rules.2,
        })
}

fn step() -> impl Strategy<Value = Step<'static>> {
    let server = 0..SERVERS;
    prop_oneof![
        (any::<u64>(), any::<usize>(), any::<bool>(), few(), few()).prop_map(
            |(request, r, probes, exclude, avoid)| {
                let (exclude, avoid) = (exclude.into(), avoid.into());
                Step::Acquire {
                    request,
                    r,
                    probes,
                    exclude,
                    avoid,
                }
            }
        ),
        (any::<u64>(), server.clone(), any::<bool>()).prop_map(|(request, server, waits)| {
            Step::Again {
                request,
                server,
                waits,
            }
        }),
        (any::<u64>(), few(), few()).prop_map(|(request, exclude, avoid)| {
            let (exclude, avoid) = (exclude.into(), avoid.into());
            Step::Hedge {
                request,
                exclude,
                avoid,
            }
        }),
        any::<u64>().prop_map(|request| Step::Cancel { request }),
        (server.clone(), any::<u32>(), any::<bool>()).prop_map(|(server, us, failed)| {
            let seen = if failed {
                Observation::Error {
                    after_us: us.into(),
                }
            } else {
                Observation::LatencyUs(us.into())
            };
            Step::Observe { server, seen }
        }),
        server.clone().prop_map(|server| Step::Release { server }),
        server.clone().prop_map(|server| Step::Down { server }),
        server.prop_map(|server| Step::Up { server }),
        policy().prop_map(Step::Policy),
        (1..=10_000usize).prop_map(Step::Tokens),
        guardrails().prop_map(Step::Guardrails),
    ]
}

proptest! {
    #[test]
    fn a_call_is_read_as_it_was_written(now in 0..1u64 << 53, step in step()) {
        let call = Call { now, step };
        prop_assert_eq!(Call::parse(&call.to_string(), SERVERS).unwrap(), call);
    }

    #[test]
    fn the_settings_are_read_as_they_were_written(
        policy in policy(),
        counts in (1..=1_000usize, 1..=10_000usize, any::<usize>()),
        hedge_percentile in 0.0..1.0f64,
        held_for_sessions in any::<bool>(),
        seed in any::<u64>(),
        guardrails in guardrails(),
    ) {
        let header = Header(Settings {
            tokens_per_server: counts.1,
            waiting_max: counts.2,
            hedge_percentile,
            held_for_sessions,
            seed,
            guardrails,
            ..Settings::new(policy, counts.0)
        });
        prop_assert_eq!(Header::parse(&header.to_string()).unwrap(), header);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,60}", now in any::<u64>()) {
        let _ = Header::parse(&format!("trace version=3 {text}"));
        let _ = End::parse(&format!("end {text}"));
        for verb in ["acquire", "observe", "guardrails", "release"] {
            let _ = Call::parse(&format!("{verb} now_us={now} {text}"), SERVERS);
        }
    }
}

#[test]
fn a_last_line_is_told_from_a_call() {
    for is_full in [true, false] {
        let end = End { is_full, calls: 12 };
        assert_eq!(End::parse(&end.to_string()).unwrap(), Some(end));
    }
    assert_eq!(End::parse("release now_us=1 server=0").unwrap(), None);
}
