//! The guardrails of every policy, as configurations, the admin API and scenarios of the simulator write
//! it, and in the units of `policy`.

use policy::impossible::in_range;
use policy::{EjectionRules, Impossible};
use serde::{Deserialize, Serialize};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The bounds of every policy: table `[guardrails]` of the arbiter's configuration, body
/// of `PUT /v1/guardrails`, `tiers[].guardrails` of a scenario (a key left out has its default).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guardrails {
    /// Replicas beyond the first, per request over the window; beyond, requests get r = 1 for a
    /// while. No limit where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_load_max: Option<f64>,
    /// The window of `extra_load_max`.
    pub extra_load_window_ms: u64,
    /// True if failing servers are taken out for a while.
    pub ejection: bool,
    /// Failures in a row that take a server out.
    pub consecutive_failures: u32,
    /// Failures per reply in the window that take it out, 0 to 1.
    pub failure_share: f64,
    /// Minimum replies in the window for a judgement by the share.
    pub failure_requests_min: u32,
    /// The window of `failure_share`.
    pub failure_window_ms: u64,
    /// The first time out; then twice as long each time.
    pub ejected_ms_first: u64,
    /// The longest.
    pub ejected_ms_max: u64,
    /// Servers out per server alive, 0 to 1.
    pub ejected_share_max: f64,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            extra_load_max: None,
            extra_load_window_ms: 10_000,
            ejection: true,
            consecutive_failures: 5,
            failure_share: 0.5,
            failure_requests_min: 20,
            failure_window_ms: 10_000,
            ejected_ms_first: 1_000,
            ejected_ms_max: 60_000,
            ejected_share_max: 0.5,
        }
    }
}

/// The guardrails in the policies' units.
pub fn rules(guardrails: &Guardrails) -> policy::Guardrails {
    policy::Guardrails {
        extra_load_max: guardrails.extra_load_max,
        extra_load_window_us: guardrails.extra_load_window_ms * 1_000,
        ejection: guardrails.ejection.then_some(EjectionRules {
            consecutive_failures: guardrails.consecutive_failures,
            failure_share: guardrails.failure_share,
            requests_min: guardrails.failure_requests_min,
            window_us: guardrails.failure_window_ms * 1_000,
            out_us_first: guardrails.ejected_ms_first * 1_000,
            out_us_max: guardrails.ejected_ms_max * 1_000,
            out_share_max: guardrails.ejected_share_max,
        }),
    }
}

/// Refuses impossible values.
pub fn validate(guardrails: &Guardrails) -> Result<(), Impossible> {
    check(guardrails).map_err(|refusal| refusal.within("guardrails"))
}

fn check(guardrails: &Guardrails) -> Result<(), Impossible> {
    let extra = guardrails.extra_load_max.unwrap_or(0.0);
    in_range("extra_load_max", extra, 0.0..=1_000.0, " extra replicas per request")?;
    for (key, ms) in [
        ("extra_load_window_ms", guardrails.extra_load_window_ms),
        ("failure_window_ms", guardrails.failure_window_ms),
        ("ejected_ms_first", guardrails.ejected_ms_first),
        ("ejected_ms_max", guardrails.ejected_ms_max),
    ] {
        in_range(key, ms, 1..=DAY_MS, " ms")?;
    }
    for (key, count) in [
        ("consecutive_failures", guardrails.consecutive_failures),
        ("failure_requests_min", guardrails.failure_requests_min),
    ] {
        in_range(key, count, 1..=u32::MAX, "")?;
    }
    let share = guardrails.failure_share;
    if share == 0.0 {
        return Err(Impossible::new("failure_share", "more than 0", share));
    }
    in_range("failure_share", share, 0.0..=1.0, "")?;
    in_range("ejected_share_max", guardrails.ejected_share_max, 0.0..=1.0, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_policies() {
        assert_eq!(rules(&Guardrails::default()), policy::Guardrails::default());
        assert_eq!(validate(&Guardrails::default()), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused_by_its_key() {
        type Spoil = fn(&mut Guardrails);
        let cases: [(&str, Spoil); 6] = [
            ("extra_load_max", |guardrails| guardrails.extra_load_max = Some(-0.1)),
            ("extra_load_max", |guardrails| guardrails.extra_load_max = Some(f64::NAN)),
            ("failure_window_ms", |guardrails| guardrails.failure_window_ms = 0),
            ("consecutive_failures", |guardrails| guardrails.consecutive_failures = 0),
            ("failure_share", |guardrails| guardrails.failure_share = 0.0),
            ("ejected_share_max", |guardrails| guardrails.ejected_share_max = 1.5),
        ];
        for (key, spoil) in cases {
            let mut bad = Guardrails::default();
            spoil(&mut bad);
            let refusal = validate(&bad).unwrap_err();
            assert_eq!(refusal.key, format!("guardrails.{key}"));
        }
    }
}
