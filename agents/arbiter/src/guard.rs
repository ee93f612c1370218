//! Policies and guardrails: from the names and units outside (configuration, admin API) to those of
//! `policy`, and what is refused.

use policy::{EjectionRules, Kind};
use wire::arbiter::{Guarded, Guardrails, Policy};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The policy of that name.
pub fn kind(policy: Policy) -> Kind {
    match policy {
        Policy::RoundRobin => Kind::RoundRobin,
        Policy::Random => Kind::Random,
        Policy::LeastOutstanding => Kind::LeastOutstanding,
        Policy::PeakEwma => Kind::PeakEwma,
        Policy::C3 => Kind::C3,
        Policy::HotCold => Kind::HotCold,
        Policy::Hedge => Kind::Hedge,
        Policy::TadPaper => Kind::TadPaper,
        Policy::Tad => Kind::Tad,
    }
}

/// The name of that policy.
pub fn policy(kind: Kind) -> Policy {
    match kind {
        Kind::RoundRobin => Policy::RoundRobin,
        Kind::Random => Policy::Random,
        Kind::LeastOutstanding => Policy::LeastOutstanding,
        Kind::PeakEwma => Policy::PeakEwma,
        Kind::C3 => Policy::C3,
        Kind::HotCold => Policy::HotCold,
        Kind::Hedge => Policy::Hedge,
        Kind::TadPaper => Policy::TadPaper,
        Kind::Tad => Policy::Tad,
    }
}

/// The guardrails in the policies' units.
pub fn rules(wanted: &Guardrails) -> policy::Guardrails {
    policy::Guardrails {
        extra_load_max: wanted.extra_load_max,
        extra_load_window_us: wanted.extra_load_window_ms * 1_000,
        ejection: wanted.ejection.then_some(EjectionRules {
            consecutive_failures: wanted.consecutive_failures,
            failure_share: wanted.failure_share,
            requests_min: wanted.failure_requests_min,
            window_us: wanted.failure_window_ms * 1_000,
            out_us_first: wanted.ejected_ms_first * 1_000,
            out_us_max: wanted.ejected_ms_max * 1_000,
            out_share_max: wanted.ejected_share_max,
        }),
    }
}

/// What the guardrails did, for `/v1/stats`.
pub fn guarded(did: policy::Guarded) -> Guarded {
    Guarded {
        fall_backs: did.fall_backs,
        requests_cut: did.requests_cut,
        is_fallen_back: did.is_fallen_back,
        ejections: did.ejections,
        probes: did.probes,
        hedges: did.hedges,
    }
}

/// Refuses what cannot work: the key, what was expected, what came.
///
/// # Errors
/// The first such key.
pub fn validate(wanted: &Guardrails) -> Result<(), (String, String, String)> {
    let refuse = |key: &str, expected: &str, came: String| {
        Err((format!("guardrails.{key}"), expected.to_owned(), came))
    };
    if let Some(max) = wanted
        .extra_load_max
        .filter(|max| !(0.0..=1_000.0).contains(max))
    {
        return refuse(
            "extra_load_max",
            "0 to 1000 extra replicas per request",
            max.to_string(),
        );
    }
    for (key, ms) in [
        ("extra_load_window_ms", wanted.extra_load_window_ms),
        ("failure_window_ms", wanted.failure_window_ms),
        ("ejected_ms_first", wanted.ejected_ms_first),
        ("ejected_ms_max", wanted.ejected_ms_max),
    ] {
        if !(1..=DAY_MS).contains(&ms) {
            return refuse(key, "1 ms to a day", ms.to_string());
        }
    }
    for (key, count) in [
        ("consecutive_failures", wanted.consecutive_failures),
        ("failure_requests_min", wanted.failure_requests_min),
    ] {
        if count == 0 {
            return refuse(key, "at least 1", count.to_string());
        }
    }
    if !(wanted.failure_share > 0.0 && wanted.failure_share <= 1.0) {
        return refuse(
            "failure_share",
            "more than 0, at most 1",
            wanted.failure_share.to_string(),
        );
    }
    if !(0.0..=1.0).contains(&wanted.ejected_share_max) {
        return refuse(
            "ejected_share_max",
            "0 to 1",
            wanted.ejected_share_max.to_string(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_inside_and_outside() {
        for kind in Kind::ALL {
            assert_eq!(super::kind(policy(kind)), kind);
            let name = serde_json::to_value(policy(kind)).unwrap();
            assert_eq!(name, kind.name());
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_policies() {
        assert_eq!(rules(&Guardrails::default()), policy::Guardrails::default());
        assert_eq!(validate(&Guardrails::default()), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused_by_its_key() {
        let good = Guardrails::default();
        for (key, bad) in [
            (
                "extra_load_max",
                Guardrails {
                    extra_load_max: Some(-0.1),
                    ..good
                },
            ),
            (
                "extra_load_max",
                Guardrails {
                    extra_load_max: Some(f64::NAN),
                    ..good
                },
            ),
            (
                "failure_window_ms",
                Guardrails {
                    failure_window_ms: 0,
                    ..good
                },
            ),
            (
                "consecutive_failures",
                Guardrails {
                    consecutive_failures: 0,
                    ..good
                },
            ),
            (
                "failure_share",
                Guardrails {
                    failure_share: 0.0,
                    ..good
                },
            ),
            (
                "ejected_share_max",
                Guardrails {
                    ejected_share_max: 1.5,
                    ..good
                },
            ),
        ] {
            let refused = validate(&bad).unwrap_err();
            assert_eq!(refused.0, format!("guardrails.{key}"));
        }
    }
}
