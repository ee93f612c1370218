//! Random times and counts, as a scenario names them.

use policy::Impossible;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1, Gamma, LogNormal, Pareto};
use serde::{Deserialize, Serialize};

/// Values of an empirical law that a scenario may hold.
const VALUES_MAX: usize = 10_000_000;
/// Mixtures within mixtures.
const DEPTH_MAX: usize = 8;

/// The law of a time [s].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TimeLaw {
    /// Always the same.
    Deterministic {
        /// Value.
        value_s: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean_s: f64,
    },
    /// Gamma, by mean and squared coefficient of variation.
    Gamma {
        /// Mean.
        mean_s: f64,
        /// Variance over squared mean.
        cv2: f64,
    },
    /// Lognormal, by mean and squared coefficient of variation.
    Lognormal {
        /// Mean.
        mean_s: f64,
        /// Variance over squared mean.
        cv2: f64,
    },
    /// Pareto: P(X > x) = (x_min / x)^shape, with x_min such that the mean is as stated.
    Pareto {
        /// Mean.
        mean_s: f64,
        /// Tail index, above 1.
        shape: f64,
    },
    /// One of the measured values, with equal chances.
    Empirical {
        /// The values.
        values_s: Vec<f64>,
    },
    /// Uniform within a bin, which is chosen by its weight.
    Histogram {
        /// Edges in ascending order, one more than weights.
        edges_s: Vec<f64>,
        /// Counts or shares.
        weights: Vec<f64>,
    },
    /// One of several laws, chosen by weight.
    Mixture {
        /// Counts or shares.
        weights: Vec<f64>,
        /// Laws, one for each weight.
        laws: Vec<TimeLaw>,
    },
}

/// The law of a number of calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CountLaw {
    /// Always the same.
    Fixed {
        /// The number.
        value: u32,
    },
    /// Geometric from 1 on.
    Geometric {
        /// Mean, at least 1.
        mean: f64,
    },
    /// One of the measured values, with equal chances.
    Empirical {
        /// The values.
        values: Vec<u32>,
    },
}

impl TimeLaw {
    /// Exact mean [s] of a checked law.
    pub(crate) fn mean_s(&self) -> f64 {
        match self {
            Self::Deterministic { value_s } => *value_s,
            Self::Exponential { mean_s }
            | Self::Gamma { mean_s, .. }
            | Self::Lognormal { mean_s, .. }
            | Self::Pareto { mean_s, .. } => *mean_s,
            Self::Empirical { values_s } => values_s.iter().sum::<f64>() / values_s.len() as f64,
            Self::Histogram { edges_s, weights } => {
                weighed(weights, |i| (edges_s[i] + edges_s[i + 1]) / 2.0)
            }
            Self::Mixture { weights, laws } => weighed(weights, |i| laws[i].mean_s()),
        }
    }

    /// Checked and made ready to draw from.
    ///
    /// # Errors
    /// [`Impossible`] with the place under `place`.
    pub(crate) fn sampler(&self, place: &str) -> Result<TimeSampler, Impossible> {
        self.sampler_at(place, 0)
    }

    fn sampler_at(&self, place: &str, depth: usize) -> Result<TimeSampler, Impossible> {
        let at = |key: &str| format!("{place}.{key}");
        Ok(match self {
            Self::Deterministic { value_s } => {
                TimeSampler::Constant(at_least_0(at("value_s"), *value_s)?)
            }
            Self::Exponential { mean_s } => {
                TimeSampler::Exponential(positive(at("mean_s"), *mean_s)?)
            }
            Self::Gamma { mean_s, cv2 } => {
                let (mean, cv2) = (positive(at("mean_s"), *mean_s)?, positive(at("cv2"), *cv2)?);
                let law = Gamma::new(1.0 / cv2, mean * cv2);
                TimeSampler::Gamma(
                    law.map_err(|error| Impossible::new(place, "a gamma law", error))?,
                )
            }
            Self::Lognormal { mean_s, cv2 } => {
                let (mean, cv2) = (positive(at("mean_s"), *mean_s)?, positive(at("cv2"), *cv2)?);
                let variance = cv2.ln_1p();
                let law = LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt());
                TimeSampler::LogNormal(
                    law.map_err(|error| Impossible::new(place, "a lognormal law", error))?,
                )
            }
            Self::Pareto { mean_s, shape } => {
                let mean = positive(at("mean_s"), *mean_s)?;
                if !(shape.is_finite() && *shape > 1.0) {
                    return Err(Impossible::new(at("shape"), "a number above 1", shape));
                }
                let law = Pareto::new(mean * (shape - 1.0) / shape, *shape);
                TimeSampler::Pareto(
                    law.map_err(|error| Impossible::new(place, "a Pareto law", error))?,
                )
            }
            Self::Empirical { values_s } => {
                bounded(&at("values_s"), values_s.len())?;
                for value in values_s {
                    at_least_0(at("values_s"), *value)?;
                }
                TimeSampler::Values(values_s.clone())
            }
            Self::Histogram { edges_s, weights } => histogram(place, edges_s, weights)?,
            Self::Mixture { weights, laws } => {
                let chances = cumulative(&at("weights"), weights, laws.len())?;
                if depth == DEPTH_MAX {
                    return Err(Impossible::new(
                        at("laws"),
                        "at most 8 mixtures within each other",
                        "more",
                    ));
                }
                let parts: Result<_, _> = laws
                    .iter()
                    .enumerate()
                    .map(|(i, law)| law.sampler_at(&format!("{place}.laws[{i}]"), depth + 1))
                    .collect();
                TimeSampler::Mixture(chances, parts?)
            }
        })
    }
}

impl CountLaw {
    /// # Errors
    /// [`Impossible`] with the place under `place`.
    pub(crate) fn check(&self, place: &str) -> Result<(), Impossible> {
        match self {
            Self::Geometric { mean } if !(mean.is_finite() && *mean >= 1.0) => {
                Err(Impossible::new(format!("{place}.mean"), "a number of at least 1", mean))
            }
            Self::Empirical { values } => bounded(&format!("{place}.values"), values.len()),
            _ => Ok(()),
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Fixed { value } => f64::from(*value),
            Self::Geometric { mean } => *mean,
            Self::Empirical { values } => {
                values.iter().copied().map(f64::from).sum::<f64>() / values.len() as f64
            }
        }
    }

    pub(crate) fn draw(&self, rng: &mut SmallRng) -> u32 {
        match self {
            Self::Fixed { value } => *value,
            Self::Geometric { mean } if *mean <= 1.0 => 1,
            Self::Geometric { mean } => {
                let exponential: f64 = Exp1.sample(rng);
                1 + (-exponential / (-1.0 / mean).ln_1p()) as u32
            }
            Self::Empirical { values } => values[rng.random_range(0..values.len())],
        }
    }
}

/// A law ready to draw from.
#[derive(Debug, Clone)]
pub(crate) enum TimeSampler {
    Constant(f64),
    Exponential(f64),
    Gamma(Gamma<f64>),
    LogNormal(LogNormal<f64>),
    Pareto(Pareto<f64>),
    Values(Vec<f64>),
    Bins(Vec<f64>, Vec<f64>),
    Mixture(Vec<f64>, Vec<TimeSampler>),
}

impl TimeSampler {
    /// Draws one time [s].
    pub(crate) fn draw(&self, rng: &mut SmallRng) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential(mean) => mean * exponential(rng),
            Self::Gamma(law) => law.sample(rng),
            Self::LogNormal(law) => law.sample(rng),
            Self::Pareto(law) => law.sample(rng),
            Self::Values(values) => values[rng.random_range(0..values.len())],
            Self::Bins(chances, edges) => {
                let bin = chosen(chances, rng);
                let width = edges[bin + 1] - edges[bin];
                edges[bin] + rng.random::<f64>() * width
            }
            Self::Mixture(chances, laws) => laws[chosen(chances, rng)].draw(rng),
        }
    }
}

/// A draw of mean 1.
pub(crate) fn exponential(rng: &mut SmallRng) -> f64 {
    Exp1.sample(rng)
}

/// The generator of one purpose, so that another purpose's draws do not change with it.
pub(crate) fn stream(seed: u64, purpose: u64) -> SmallRng {
    SmallRng::seed_from_u64(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03),
    )
}

fn chosen(chances: &[f64], rng: &mut SmallRng) -> usize {
    let at = rng.random::<f64>();
    chances.partition_point(|&up_to| up_to <= at).min(chances.len() - 1)
}

fn weighed(weights: &[f64], value: impl Fn(usize) -> f64) -> f64 {
    let total: f64 = weights.iter().sum();
    weights.iter().enumerate().map(|(i, weight)| weight / total * value(i)).sum()
}

fn histogram(place: &str, edges: &[f64], weights: &[f64]) -> Result<TimeSampler, Impossible> {
    let at = |key: &str| format!("{place}.{key}");
    if edges.len() != weights.len() + 1 {
        let expected = format!("{} edges, one more than weights", weights.len() + 1);
        return Err(Impossible::new(at("edges_s"), expected, edges.len()));
    }
    let chances = cumulative(&at("weights"), weights, weights.len())?;
    at_least_0(at("edges_s[0]"), edges[0])?;
    if let Some(i) = (1..edges.len()).find(|&i| !(edges[i].is_finite() && edges[i] > edges[i - 1]))
    {
        return Err(Impossible::new(
            at(&format!("edges_s[{i}]")),
            "a finite number above the one before",
            edges[i],
        ));
    }
    Ok(TimeSampler::Bins(chances, edges.to_vec()))
}

fn cumulative(place: &str, weights: &[f64], parts: usize) -> Result<Vec<f64>, Impossible> {
    bounded(place, weights.len())?;
    if weights.len() != parts {
        return Err(Impossible::new(place, format!("{parts} weights"), weights.len()));
    }
    for weight in weights {
        at_least_0(place, *weight)?;
    }
    let total = positive(place, weights.iter().sum())?;
    let mut sum = 0.0;
    Ok(weights
        .iter()
        .map(|weight| {
            sum += weight / total;
            sum
        })
        .collect())
}

fn bounded(place: &str, values: usize) -> Result<(), Impossible> {
    if values == 0 || values > VALUES_MAX {
        return Err(Impossible::new(place, format!("1 to {VALUES_MAX} values"), values));
    }
    Ok(())
}

/// A finite number above 0.
pub(crate) fn positive(place: impl Into<String>, value: f64) -> Result<f64, Impossible> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Impossible::new(place, "a finite number above 0", value))
}

/// A finite number of at least 0.
pub(crate) fn at_least_0(place: impl Into<String>, value: f64) -> Result<f64, Impossible> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Impossible::new(place, "a finite number of at least 0", value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_stated_mean() {
        let exponential = TimeLaw::Exponential { mean_s: 1.0 };
        let laws = [
            TimeLaw::Deterministic { value_s: 2.0 },
            exponential.clone(),
            TimeLaw::Gamma { mean_s: 2.0, cv2: 0.5 },
            TimeLaw::Lognormal { mean_s: 3.0, cv2: 2.0 },
            TimeLaw::Pareto { mean_s: 2.0, shape: 3.0 },
            TimeLaw::Empirical { values_s: vec![1.0, 2.0, 6.0] },
            TimeLaw::Histogram { edges_s: vec![0.0, 1.0, 3.0], weights: vec![3.0, 1.0] },
            TimeLaw::Mixture {
                weights: vec![1.0, 3.0],
                laws: vec![exponential.clone(), exponential],
            },
        ];
        let means = [2.0, 1.0, 2.0, 3.0, 2.0, 3.0, 0.875, 1.0];
        for (law, mean) in laws.iter().zip(means) {
            let sampler = law.sampler("work").unwrap();
            assert!((law.mean_s() - mean).abs() < 1e-9, "{law:?}: {}", law.mean_s());
            let mut rng = stream(1, 2);
            let sample_mean = (0..200_000).map(|_| sampler.draw(&mut rng)).sum::<f64>() / 200_000.0;
            assert!((sample_mean / mean - 1.0).abs() < 0.02, "{law:?}: {sample_mean}");
        }
        let (count, mut rng) = (CountLaw::Geometric { mean: 4.0 }, stream(3, 0));
        let sample_mean =
            (0..200_000).map(|_| count.draw(&mut rng)).map(f64::from).sum::<f64>() / 200_000.0;
        assert!((sample_mean - 4.0).abs() < 0.05, "{sample_mean}");
    }
}
