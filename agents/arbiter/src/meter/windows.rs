//! Requests and latencies by the second: the last 60 seconds, each on its own and all together, and
//! everything since the start. All memory is taken within the first minute (about 5 MB).
//!
//! Percentiles are never merged, histograms are: 3 digits, 1 microsecond to 2 minutes, as in the
//! records of an experiment.

use std::collections::VecDeque;

use hdrhistogram::{Counter, Histogram};
use wire::arbiter::{Bucket, Latency, Recent, Window};

/// Seconds kept.
pub const KEPT: usize = 60;
const SECOND_US: u64 = 1_000_000;
const LATENCY_US_MAX: u64 = 120_000_000;
const DIGITS: u8 = 3;
/// Minimum samples beyond a percentile for any conclusion.
const BEYOND_MIN: u64 = 10;

/// The kept seconds, and the histograms over them.
pub struct Windows {
    now: Second,
    kept: VecDeque<Second>,
    /// Histogram of `kept`.
    recent: Histogram<u32>,
    /// Histogram of all seconds that ended.
    whole: Histogram<u64>,
}

struct Second {
    number: u64,
    requests: u64,
    connections: u64,
    latencies: Histogram<u32>,
    sum_us: u64,
    /// Set when the second ends.
    figures: Latency,
}

impl Windows {
    /// Nothing seen, at second 0.
    pub fn new() -> Self {
        Self {
            now: Second::new(0),
            kept: VecDeque::with_capacity(KEPT + 1),
            recent: histogram(),
            whole: histogram(),
        }
    }

    /// A client connected.
    pub fn connection(&mut self, now_us: u64) {
        self.turn(now_us);
        self.now.connections += 1;
    }

    /// Counts requests that were sent and answered together, with any outcome.
    pub fn requests(&mut self, now_us: u64, latency_us: u64, count: u32) {
        self.turn(now_us);
        self.now.requests += u64::from(count);
        self.now.sum_us += latency_us.saturating_mul(count.into());
        let latencies = &mut self.now.latencies;
        latencies.saturating_record_n(latency_us.max(1), count);
    }

    /// Figures of the last 60 complete seconds.
    pub fn recent(&mut self, now_us: u64) -> Recent {
        self.turn(now_us);
        let seconds = self.kept.len() as u64;
        let sum = |count: fn(&Second) -> u64| self.kept.iter().map(count).sum::<u64>();
        let per_s = |count: u64| (seconds > 0).then(|| count as f64 / seconds as f64);
        Recent {
            seconds,
            requests_per_s: per_s(sum(|second| second.requests)),
            connections_per_s: per_s(sum(|second| second.connections)),
            latency: figures(&self.recent, sum(|second| second.sum_us)),
        }
    }

    /// Each of the last 60 complete seconds, oldest first.
    pub fn each(&mut self, now_us: u64) -> Vec<Window> {
        self.turn(now_us);
        let window = |second: &Second| Window {
            second: second.number,
            requests: second.requests,
            connections: second.connections,
            latency: second.figures,
        };
        self.kept.iter().map(window).collect()
    }

    /// All latencies since the start.
    pub fn buckets(&mut self, now_us: u64) -> Vec<Bucket> {
        self.turn(now_us);
        let mut all = self.whole.clone();
        take_over(&mut all, &self.now.latencies);
        let bucket = |step: hdrhistogram::iterators::IterationValue<u64>| Bucket {
            us: step.value_iterated_to(),
            count: step.count_since_last_iteration(),
        };
        all.iter_recorded().map(bucket).collect()
    }

    /// Ends the seconds that are over. After a long silence at most 60 empty ones are added.
    fn turn(&mut self, now_us: u64) {
        let number = now_us / SECOND_US;
        if number <= self.now.number {
            return;
        }
        let first_kept = number.saturating_sub(KEPT as u64);
        self.end_second();
        self.now.number = (self.now.number + 1).max(first_kept);
        while self.now.number < number {
            self.end_second();
            self.now.number += 1;
        }
    }

    /// Keeps the current second and begins an empty one, whose number the caller sets.
    fn end_second(&mut self) {
        let mut next = if self.kept.len() < KEPT {
            Second::new(0)
        } else {
            self.kept.pop_front().unwrap_or_else(|| Second::new(0))
        };
        if next.requests > 0 {
            // Both have the same bounds and what is taken away was added: this cannot fail.
            let _ = self.recent.subtract(&next.latencies);
            next.latencies.reset();
        }
        next.clear(self.now.number);
        std::mem::swap(&mut self.now, &mut next);
        let mut ended = next;
        if ended.requests > 0 {
            ended.figures = figures(&ended.latencies, ended.sum_us);
            let _ = self.recent.add(&ended.latencies);
            take_over(&mut self.whole, &ended.latencies);
        }
        self.kept.push_back(ended);
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

impl Second {
    fn new(number: u64) -> Self {
        Self {
            number,
            requests: 0,
            connections: 0,
            latencies: histogram(),
            sum_us: 0,
            figures: Latency::default(),
        }
    }

    fn clear(&mut self, number: u64) {
        self.number = number;
        self.requests = 0;
        self.connections = 0;
        self.sum_us = 0;
        self.figures = Latency::default();
    }
}

fn histogram<C: Counter>() -> Histogram<C> {
    // The bounds are constants that the constructor accepts (a test builds one).
    match Histogram::new_with_bounds(1, LATENCY_US_MAX, DIGITS) {
        Ok(mut histogram) => {
            // Written once, so that the memory is taken now, and not page by page for hours, as
            // latencies come that were not there before.
            histogram.saturating_record(LATENCY_US_MAX);
            histogram.reset();
            histogram
        }
        Err(error) => panic!("a histogram of constant bounds: {error}"),
    }
}

/// Adds a second's histogram, which has smaller counters.
fn take_over(whole: &mut Histogram<u64>, second: &Histogram<u32>) {
    for step in second.iter_recorded() {
        let count = step.count_since_last_iteration();
        whole.saturating_record_n(step.value_iterated_to(), count);
    }
}

/// Computes all figures in one pass over the histogram.
fn figures<C: Counter>(latencies: &Histogram<C>, sum_us: u64) -> Latency {
    let count = latencies.len();
    if count == 0 {
        return Latency::default();
    }
    // Per mille from the top: a percentile of rank ceil(count q) has `beyond` samples above it.
    let beyond = [500, 50, 10, 1].map(|per_mille: u64| count * per_mille / 1_000);
    let mut percentiles_us = [None; 4];
    let mut cumulative = 0;
    for step in latencies.iter_recorded() {
        cumulative += step.count_since_last_iteration();
        for (value, beyond) in percentiles_us.iter_mut().zip(beyond) {
            if value.is_none() && beyond >= BEYOND_MIN && cumulative >= count - beyond {
                *value = Some(step.value_iterated_to());
            }
        }
    }
    let [p50_us, p95_us, p99_us, p99_9_us] = percentiles_us;
    Latency {
        count,
        mean_us: Some(sum_us / count),
        p50_us,
        p95_us,
        p99_us,
        p99_9_us,
        max_us: Some(latencies.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SECOND_US;

    #[test]
    fn a_second_is_told_when_it_has_ended_and_kept_for_sixty() {
        let mut windows = Windows::new();
        for k in 0..100 {
            windows.requests(k * 10_000, 1_000 + k, 1);
        }
        assert_eq!(windows.each(S - 1), [], "it goes on");
        let [first] = windows.each(S).try_into().unwrap();
        assert_eq!((first.second, first.requests), (0, 100));
        assert_eq!(windows.each(60 * S).len(), 60);
        assert_eq!(windows.each(60 * S)[0], first);
        assert_eq!(windows.each(61 * S)[0].second, 1, "the oldest is gone");
        assert_eq!(windows.recent(61 * S).latency, Latency::default());
    }

    #[test]
    fn percentiles_with_fewer_than_ten_samples_beyond_are_not_told() {
        let mut windows = Windows::new();
        for k in 1..=199 {
            windows.requests(0, k * 1_000, 1);
        }
        let latency = windows.each(S)[0].latency;
        assert_eq!(latency.count, 199);
        assert!(latency.p50_us.is_some_and(|us| us.abs_diff(100_000) < 200));
        assert_eq!((latency.p95_us, latency.p99_us, latency.p99_9_us), (None, None, None));
        windows.requests(S, 200_000, 1);
        let counted = |windows: &mut Windows| {
            let buckets = windows.buckets(S);
            buckets.iter().map(|bucket| bucket.count).sum::<u64>()
        };
        assert_eq!(counted(&mut windows), 200, "the second that goes on is in it");
        let latency = windows.recent(2 * S).latency;
        assert!(latency.p95_us.is_some_and(|us| us.abs_diff(190_000) < 400));
        assert_eq!((latency.count, latency.mean_us), (200, Some(100_500)));
    }

    #[test]
    fn what_is_recent_is_the_sum_of_its_seconds_at_any_time() {
        let mut windows = Windows::new();
        let mut state = 7_u64;
        for second in 0..200 {
            for _ in 0..(second % 5) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                windows.requests(second * S + state % S, state % 3_000_000, 1);
            }
            windows.connection(second * S);
            let recent = windows.recent((second + 1) * S);
            let each = windows.each((second + 1) * S);
            let requests: u64 = each.iter().map(|window| window.requests).sum();
            assert_eq!(recent.latency.count, requests);
            assert_eq!(recent.seconds, (second + 1).min(60));
            assert_eq!(recent.connections_per_s, Some(1.0));
        }
        let all: u64 = windows.buckets(200 * S).iter().map(|bucket| bucket.count).sum();
        assert_eq!(all, (0..200).map(|second| second % 5).sum::<u64>());
    }

    #[test]
    fn a_long_silence_costs_no_more_than_sixty_seconds() {
        let mut windows = Windows::new();
        windows.requests(0, 5, 1);
        let year_us = 365 * 86_400 * S;
        assert_eq!(windows.each(year_us).len(), 60);
        assert_eq!(windows.each(year_us)[59].second, year_us / S - 1);
        assert_eq!(windows.recent(year_us).requests_per_s, Some(0.0));
        assert_eq!(windows.buckets(year_us), [Bucket { us: 5, count: 1 }]);
    }

    #[test]
    fn a_latency_beyond_all_bounds_is_counted_at_the_bound() {
        let mut windows = Windows::new();
        windows.requests(0, u64::MAX / 2, 1);
        windows.requests(0, 0, 1);
        let latency = windows.each(S)[0].latency;
        assert_eq!(latency.count, 2);
        assert!(latency.max_us.is_some_and(|us| us >= LATENCY_US_MAX));
    }
}
