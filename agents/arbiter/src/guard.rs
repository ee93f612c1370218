//! Policies and guardrails: from the names outside (configuration, admin API) to those of `policy`.

use policy::Kind;
use wire::arbiter::{Guarded, Policy};
pub use wire::guardrails::{rules, validate};

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
}
