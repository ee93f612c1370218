//! Many scenarios side by side.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use policy::Impossible;
use serde::Deserialize;

use crate::engine::simulate;
use crate::report::Report;
use crate::scenario::Scenario;

const SCENARIOS_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    scenarios: Vec<serde_json::Value>,
}

/// Reads one scenario, or `{"scenarios": [...]}`.
///
/// # Errors
/// [`Impossible`] with the place of the first error.
pub fn read_input(text: &str) -> Result<Vec<Scenario>, Impossible> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| Impossible::new("input", "JSON", error))?;
    if value.get("scenarios").is_none() {
        return Ok(vec![Scenario::from_json(text)?]);
    }
    let list: List = serde_path_to_error::deserialize(value).map_err(|error| {
        Impossible::new(error.path().to_string(), "a list of scenarios", error.inner())
    })?;
    if list.scenarios.is_empty() || list.scenarios.len() > SCENARIOS_MAX {
        let expected = format!("1 to {SCENARIOS_MAX} scenarios");
        return Err(Impossible::new("scenarios", expected, list.scenarios.len()));
    }
    let parse = |(index, value): (usize, &serde_json::Value)| {
        Scenario::from_json(&value.to_string())
            .map_err(|refusal| refusal.within(&format!("scenarios[{index}]")))
    };
    list.scenarios.iter().enumerate().map(parse).collect()
}

/// Simulates all, at most `threads` at a time; reports in the order of the scenarios.
///
/// # Errors
/// [`Impossible`] for a scenario that cannot be simulated.
pub fn simulate_all(
    scenarios: &[Scenario],
    threads: NonZeroUsize,
) -> Result<Vec<Report>, Impossible> {
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(vec![None; scenarios.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(scenarios.len()) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(scenario) = scenarios.get(index) else {
                    break;
                };
                let report = simulate(scenario);
                if let Ok(mut reports) = reports.lock() {
                    reports[index] = Some(report);
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    reports
        .into_iter()
        .map(|report| {
            report.unwrap_or_else(|| {
                Err(Impossible::new("scenario", "a report", "a thread that died"))
            })
        })
        .collect()
}
