//! Measurements of a simulation, and intervals from batches.
//!
//! The measured requests are cut into b batches of equal size by their number. A batch's mean (or
//! percentile) is one observation; batches are long beside the time over which latencies depend on
//! each other, so the interval is Student's with b - 1 degrees of freedom (Law and Kelton, section
//! 9.5.3). Histograms have 3 digits, from 1 microsecond to a day.

use hdrhistogram::Histogram;

use crate::report::{LatencyReport, Percentile};

const HIGHEST_US: u64 = 86_400_000_000;
/// Samples beyond a percentile that make it sufficient.
const BEYOND: f64 = 10.0;
const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// Latencies of one kind of request.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    histogram: Histogram<u32>,
    count: u64,
    sum_s: f64,
    square_s2: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_US, 3);
        Self {
            histogram: histogram.expect("constant bounds"),
            count: 0,
            sum_s: 0.0,
            square_s2: 0.0,
        }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns.div_ceil(1000));
        self.count += 1;
        let latency_s = latency_ns as f64 * 1e-9;
        self.sum_s += latency_s;
        self.square_s2 += latency_s * latency_s;
    }

    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("equal bounds");
        self.count += other.count;
        self.sum_s += other.sum_s;
        self.square_s2 += other.square_s2;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean_s(&self) -> f64 {
        self.sum_s / self.count.max(1) as f64
    }

    fn variance_s2(&self) -> f64 {
        (self.square_s2 / self.count.max(1) as f64 - self.mean_s().powi(2)).max(0.0)
    }

    fn percentile_s(&self, q: f64) -> f64 {
        self.histogram.value_at_percentile(q) as f64 * 1e-6
    }

    fn report(&self, intervals: impl Fn(&dyn Fn(&Self) -> f64) -> Option<f64>) -> LatencyReport {
        LatencyReport {
            samples: self.count,
            mean_s: self.mean_s(),
            mean_half_width_s: intervals(&|batch| batch.mean_s()),
            variance_s2: self.variance_s2(),
            percentiles: PERCENTILES
                .iter()
                .map(|&q| Percentile {
                    q,
                    value_s: self.percentile_s(q),
                    half_width_s: intervals(&|batch| batch.percentile_s(q)),
                    sufficient: self.count as f64 * (1.0 - q / 100.0) >= BEYOND - 1e-9,
                })
                .collect(),
        }
    }

    /// The report without intervals.
    pub(crate) fn plain_report(&self) -> LatencyReport {
        self.report(|_| None)
    }
}

/// Latencies of the requests from the outside, by batch.
#[derive(Debug)]
pub(crate) struct Batches {
    batches: Vec<Latencies>,
    per_batch: f64,
}

impl Batches {
    pub(crate) fn new(batches: usize, requests: u64) -> Self {
        Self {
            batches: vec![Latencies::default(); batches],
            per_batch: requests as f64 / batches as f64,
        }
    }

    /// Records the measured request `number`, from 0.
    pub(crate) fn record(&mut self, number: u64, latency_ns: u64) {
        let batch = (number as f64 / self.per_batch) as usize;
        let last = self.batches.len() - 1;
        self.batches[batch.min(last)].record(latency_ns);
    }

    pub(crate) fn report(&self) -> LatencyReport {
        let mut all = Latencies::default();
        for batch in &self.batches {
            all.add(batch);
        }
        let full = self.batches.iter().all(|batch| batch.count > 0);
        all.report(|figure| full.then(|| self.half_width(figure)))
    }

    /// Half the width of the 95 % interval of a batch's figure.
    fn half_width(&self, figure: &dyn Fn(&Latencies) -> f64) -> f64 {
        let n = self.batches.len() as f64;
        let values: Vec<f64> = self.batches.iter().map(figure).collect();
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        student_975(n - 1.0) * (variance / n).sqrt()
    }
}

/// Student's 97.5 % quantile; within 0.5 % from 4 degrees of freedom on (Fisher and Cornish 1960).
fn student_975(freedom: f64) -> f64 {
    let z: f64 = 1.959_964;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    z + terms[0] / freedom + terms[1] / freedom.powi(2) + terms[2] / freedom.powi(3)
}

/// Counts of a tier since the measurement began.
#[derive(Debug, Default)]
pub(crate) struct TierMeasure {
    pub(crate) latencies: Latencies,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
    pub(crate) copies: u64,
    pub(crate) copies_lost: u64,
    pub(crate) hedges: u64,
    pub(crate) collided: u64,
    pub(crate) work_s: f64,
    pub(crate) work_lost_s: f64,
    pub(crate) grants: u64,
    pub(crate) hold_s: f64,
    pub(crate) waits: u64,
    pub(crate) wait_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantile_is_that_of_the_tables() {
        for (freedom, table) in [(4.0, 2.776), (9.0, 2.262), (19.0, 2.093), (39.0, 2.023)] {
            let value = student_975(freedom);
            assert!((value / table - 1.0).abs() < 0.005, "{freedom}: {value}");
        }
    }
}
