//! Figures for a Locust master: Locust's own counts by name, and the latencies in a histogram that
//! does not round them (microseconds, 3 digits).
//!
//! A failed request is in all of them at the time-out, however quickly it failed: see `counted_us`.

use std::collections::BTreeMap;

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::clock::{wall_s, SECOND};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::record::{Record, Start};

/// Plans of more names are counted under the workload's.
const NAMES_MAX: usize = 100;

/// Largest latency, that of `experiments/record/records.py`: 1 us to 2 minutes.
const LATENCY_US_MAX: u64 = 120_000_000;

/// A `StatsEntry` of Locust: figures since the last report.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    name: String,
    method: String,
    last_request_timestamp: Option<f64>,
    start_time: f64,
    num_requests: u64,
    num_none_requests: u64,
    num_failures: u64,
    total_response_time: f64,
    max_response_time: f64,
    min_response_time: Option<f64>,
    total_content_length: u64,
    response_times: BTreeMap<u64, u64>,
    num_reqs_per_sec: BTreeMap<u64, u64>,
    num_fail_per_sec: BTreeMap<u64, u64>,
}

/// A `StatsError` of Locust: failures since the last report.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    name: String,
    method: String,
    error: &'static str,
    occurrences: u64,
    first_seen: f64,
    last_seen: f64,
}

/// Locust's `stats` message, without what the worker adds.
#[derive(Debug, Serialize)]
pub struct Report {
    stats: Vec<Entry>,
    stats_total: Entry,
    errors: BTreeMap<String, Failure>,
}

/// Totals of a block.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Totals {
    /// Arrivals with a record.
    pub requests: u64,
    /// Requests with a failure.
    pub failures: u64,
    /// Requests that were not sent, because too many were under way.
    pub dropped: u64,
    /// Latency of all requests from the intended start [ms]; failed ones count at the time-out.
    pub latency_ms_p50: f64,
    /// See p50.
    pub latency_ms_p99: f64,
    /// See p50.
    pub latency_ms_p999: f64,
    /// Delay of sending behind the intended start [ms].
    pub lag_ms_p99: f64,
}

/// Counts and latencies since the last report.
#[derive(Debug)]
pub struct Tally {
    /// The wall clock's second 0 on the monotonic clock.
    wall_less_monotonic_s: f64,
    entries: BTreeMap<String, Entry>,
    total: Entry,
    failures: BTreeMap<String, Failure>,
    latency: Histogram<u64>,
    lag: Histogram<u64>,
    requests: u64,
    failed: u64,
    dropped: u64,
}

impl Tally {
    /// Nothing yet; `monotonic_ns` is now.
    ///
    /// # Errors
    /// Never: the histogram's bounds are good.
    pub fn new(monotonic_ns: i64) -> anyhow::Result<Self> {
        Ok(Self {
            wall_less_monotonic_s: wall_s() - monotonic_ns as f64 / SECOND as f64,
            entries: BTreeMap::new(),
            total: Entry::new("Aggregated", "", wall_s()),
            failures: BTreeMap::new(),
            latency: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
            lag: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
            requests: 0,
            failed: 0,
            dropped: 0,
        })
    }

    /// Counts records.
    pub fn take(&mut self, plan: &Plan, start: Start, batch: &[Record]) {
        let time_out_us = us(plan.connect_timeout_ns.max(plan.response_timeout_ns));
        for record in batch {
            let place = record.place as usize;
            let planned_ns = start.origin_ns() + plan.offsets_ns[place];
            let intended_ns = record.intended_ns.unwrap_or(planned_ns);
            let took_us = record.done_ns.map(|done_ns| us(done_ns - intended_ns));
            let latency_us = counted_us(record.outcome, took_us, time_out_us);
            self.requests += 1;
            self.latency.saturating_record(latency_us);
            match took_us {
                Some(_) => self.lag.saturating_record(us(record.sent_ns - intended_ns)),
                None => self.dropped += 1,
            }
            let ended_ns = record.done_ns.unwrap_or(record.sent_ns);
            let at_s = self.wall_less_monotonic_s + ended_ns as f64 / SECOND as f64;
            let failed = record.outcome != Outcome::Ok;
            let operation = plan.operation(place);
            let name = if plan.operations.len() > NAMES_MAX { &plan.user } else { &operation.name };
            let method = plan.targets[operation.routes[0].target].protocol.name();
            if !self.entries.contains_key(name) {
                self.entries.insert(name.clone(), Entry::new(name, method, at_s));
            }
            if let Some(entry) = self.entries.get_mut(name) {
                entry.take(latency_us, record.bytes, failed, at_s);
            }
            self.total.take(latency_us, record.bytes, failed, at_s);
            if failed {
                self.failed += 1;
                self.fail(name, method, record.outcome, at_s);
            }
        }
    }

    /// Takes the figures since the last report.
    pub fn report(&mut self) -> Report {
        let stats = std::mem::take(&mut self.entries).into_values().collect();
        let next = Entry::new("Aggregated", "", wall_s());
        Report {
            stats,
            stats_total: std::mem::replace(&mut self.total, next),
            errors: std::mem::take(&mut self.failures),
        }
    }

    /// All latencies so far, as HdrHistogram's own base64 text of its V2 encoding.
    ///
    /// # Errors
    /// Never: the memory takes it.
    pub fn histogram(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![];
        V2DeflateSerializer::new()
            .serialize(&self.latency, &mut bytes)
            .map_err(|error| anyhow::anyhow!("histogram: {error:?}"))?;
        Ok(bytes)
    }

    /// All so far.
    pub fn totals(&self) -> Totals {
        let ms = |histogram: &Histogram<u64>, quantile| {
            histogram.value_at_quantile(quantile) as f64 / 1e3
        };
        Totals {
            requests: self.requests,
            failures: self.failed,
            dropped: self.dropped,
            latency_ms_p50: ms(&self.latency, 0.5),
            latency_ms_p99: ms(&self.latency, 0.99),
            latency_ms_p999: ms(&self.latency, 0.999),
            lag_ms_p99: ms(&self.lag, 0.99),
        }
    }

    fn fail(&mut self, name: &str, method: &str, outcome: Outcome, at_s: f64) {
        let key = format!("{method}.{name}.{}", outcome.name());
        let failure = self.failures.entry(key).or_insert_with(|| Failure {
            name: name.to_owned(),
            method: method.to_owned(),
            error: outcome.name(),
            occurrences: 0,
            first_seen: at_s,
            last_seen: at_s,
        });
        failure.occurrences += 1;
        failure.last_seen = at_s;
    }
}

/// The latency that a request counts with, by the rule of `core/statistics/percentiles.py`: what a user did not
/// get enters at the time-out, or with the time that it took where that is longer.
fn counted_us(outcome: Outcome, took_us: Option<u64>, time_out_us: u64) -> u64 {
    match (outcome, took_us) {
        (Outcome::Ok, Some(took_us)) => took_us,
        (_, took_us) => took_us.unwrap_or(0).max(time_out_us),
    }
}

/// Microseconds, rounded, at least one.
fn us(ns: i64) -> u64 {
    ((ns.max(0) as u64 + 500) / 1_000).max(1)
}

impl Entry {
    fn new(name: &str, method: &str, now_s: f64) -> Self {
        Self {
            name: name.to_owned(),
            method: method.to_owned(),
            last_request_timestamp: None,
            start_time: now_s,
            num_requests: 0,
            num_none_requests: 0,
            num_failures: 0,
            total_response_time: 0.0,
            max_response_time: 0.0,
            min_response_time: None,
            total_content_length: 0,
            response_times: BTreeMap::new(),
            num_reqs_per_sec: BTreeMap::new(),
            num_fail_per_sec: BTreeMap::new(),
        }
    }

    /// Counts one request.
    fn take(&mut self, latency_us: u64, bytes: u64, failed: bool, at_s: f64) {
        let second = at_s as u64;
        self.num_requests += 1;
        *self.num_reqs_per_sec.entry(second).or_default() += 1;
        self.last_request_timestamp = Some(self.last_request_timestamp.unwrap_or(at_s).max(at_s));
        self.total_content_length += bytes;
        if failed {
            self.num_failures += 1;
            *self.num_fail_per_sec.entry(second).or_default() += 1;
        }
        let latency_ms = latency_us as f64 / 1e3;
        self.total_response_time += latency_ms;
        self.max_response_time = self.max_response_time.max(latency_ms);
        let least = self.min_response_time.unwrap_or(latency_ms);
        self.min_response_time = Some(least.min(latency_ms));
        *self.response_times.entry(bucket(latency_ms)).or_default() += 1;
    }
}

/// Locust's `bucket_response_time`: two digits of a millisecond's multiples.
fn bucket(latency_ms: f64) -> u64 {
    let unit: f64 = match latency_ms {
        ms if ms < 100.0 => 1.0,
        ms if ms < 1_000.0 => 10.0,
        ms if ms < 10_000.0 => 100.0,
        _ => 1_000.0,
    };
    ((latency_ms / unit).round_ties_even() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &[u8] = br#"{
        "entries": {"web": ["http://127.0.0.1:1/"]},
        "load": {"user": "u", "connect_timeout_s": 2, "response_timeout_s": 6, "max_in_flight": 9},
        "windows": [{"phase": "measure", "start_s": 0, "end_s": 1}],
        "operations": [{"name": "one", "request": "/", "check": "", "entry": "web"}],
        "offsets_s": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "operation_of": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    }"#;

    /// The totals of ten requests at once: these, and good ones of 2 ms.
    fn totals_with(failures: &[(Outcome, Option<i64>)]) -> (Totals, Report) {
        let plan = Plan::parse(PLAN, false).unwrap();
        let start = Start { t0_ns: 0, start_ns: 0 };
        let good = (Outcome::Ok, Some(2_000_000));
        let outcomes = failures.iter().copied().chain(std::iter::repeat(good));
        let batch: Vec<_> = (0..10)
            .zip(outcomes)
            .map(|(place, (outcome, done_ns))| Record::unsent(place, outcome, 0, done_ns))
            .collect();
        let mut tally = Tally::new(0).unwrap();
        tally.take(&plan, start, &batch);
        (tally.totals(), tally.report())
    }

    #[test]
    fn a_request_that_fails_at_once_is_in_the_percentiles_at_the_time_out() {
        for failed in [
            (Outcome::ConnectionError, Some(30_000)),
            (Outcome::BadStatus, Some(30_000)),
            (Outcome::AbortedConnection, Some(2_000_000_000)),
            (Outcome::Dropped, None),
        ] {
            let (totals, report) = totals_with(&[failed, failed]);
            let is_near = |ms: f64, expected: f64| (ms / expected - 1.0).abs() < 2e-3;
            assert!(is_near(totals.latency_ms_p50, 2.0), "{totals:?}");
            assert!(is_near(totals.latency_ms_p99, 6_000.0), "{totals:?}");
            let total = report.stats_total;
            assert_eq!(total.response_times, BTreeMap::from([(2, 8), (6_000, 2)]));
            assert!(is_near(total.total_response_time, 2.0 * 6_000.0 + 8.0 * 2.0));
            assert_eq!((total.num_failures, total.num_none_requests), (2, 0));
        }
    }

    #[test]
    fn a_failure_that_took_longer_than_the_time_out_is_not_shortened() {
        assert_eq!(counted_us(Outcome::TimeOut, Some(7), 6), 7);
        assert_eq!(counted_us(Outcome::Ok, Some(7), 6), 7);
        assert_eq!(counted_us(Outcome::Ok, Some(5), 6), 5);
    }

    #[test]
    fn latencies_fall_into_locust_s_buckets() {
        let pairs = [(0.4, 0), (98.6, 99), (147.0, 150), (3432.0, 3400), (58_760.0, 59_000)];
        for (latency_ms, expected) in pairs {
            assert_eq!(bucket(latency_ms), expected);
        }
    }
}
