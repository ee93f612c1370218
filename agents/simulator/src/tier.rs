//! A tier while it is simulated: its selector, its laws, its generators.

use policy::{Grant, Impossible, Selector, Settings};
use rand::rngs::SmallRng;
use rand::Rng;

use crate::distribution::{stream, CountLaw, TimeSampler};
use crate::measure::TierMeasure;
use crate::quota::Cap;
use crate::scenario::{Discipline, Hold, Scenario};
use crate::server::Sharing;

/// Nanoseconds per second.
pub(crate) const NS: f64 = 1e9;

#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) selector: Selector,
    pub(crate) grants: Vec<Grant>,
    pub(crate) sharing: Sharing,
    /// Cap of each server, if it bursts.
    pub(crate) cap: Option<Cap>,
    /// Index of the first server over all tiers.
    pub(crate) first: u32,
    pub(crate) replicas: usize,
    /// Share of the requests whose copies have the same work.
    same_share: f64,
    pub(crate) by_connection: bool,
    pub(crate) apart: bool,
    /// Scratch: servers of siblings, servers of the connection.
    pub(crate) avoid: Vec<usize>,
    pub(crate) exclude: Vec<usize>,
    pub(crate) delay_ns: u64,
    pub(crate) card_ns: u64,
    pub(crate) after_ns: f64,
    pub(crate) pieces: u32,
    calls: Option<CountLaw>,
    work: TimeSampler,
    work_rng: SmallRng,
    calls_rng: SmallRng,
    copies_rng: SmallRng,
    pub(crate) measure: TierMeasure,
}

impl Tier {
    /// Tier `index` of a checked scenario.
    pub(crate) fn new(scenario: &Scenario, index: usize) -> Result<Self, Impossible> {
        let spec = &scenario.tiers[index];
        let before: usize = scenario.tiers[..index].iter().map(|tier| tier.servers).sum();
        let running_max = match spec.discipline {
            Discipline::ProcessorSharing => usize::MAX,
            Discipline::FirstComeFirstServed => (spec.cores as usize).max(1),
        };
        let purpose = 16 * (index as u64 + 1);
        Ok(Self {
            selector: Selector::new(Settings {
                tokens_per_server: spec.tokens,
                look_ahead: spec.look_ahead,
                observation_age_us_max: (spec.observation_age_s * 1e6) as u64,
                waiting_max: spec.waiting_max,
                hedge_percentile: spec.hedge_percentile / 100.0,
                guardrails: wire::guardrails::rules(&spec.guardrails),
                seed: scenario.seed.wrapping_add(purpose),
                ..Settings::new(spec.policy(&format!("tiers[{index}]"))?, spec.servers)
            }),
            grants: Vec::new(),
            sharing: Sharing { cores: spec.cores, running_max, pace: 1.0 },
            cap: spec.quota.map(|quota| Cap {
                period_ns: (quota.period_s * NS) as u64,
                each_ns: spec.cores * quota.period_s * NS,
                cores: quota.burst_cores,
            }),
            first: before as u32,
            replicas: spec.replicas,
            same_share: spec.copies.same_share(),
            by_connection: spec.hold == Hold::Connection,
            apart: spec.apart,
            avoid: Vec::new(),
            exclude: Vec::new(),
            delay_ns: (spec.delay_s * NS) as u64,
            card_ns: (spec.card_s * NS) as u64,
            after_ns: spec.after_s * NS,
            pieces: spec.pieces,
            calls: spec.calls.clone(),
            work: spec.work.sampler(&format!("tiers[{index}].work"))?,
            work_rng: stream(scenario.seed, purpose),
            calls_rng: stream(scenario.seed, purpose + 1),
            copies_rng: stream(scenario.seed, purpose + 2),
            measure: TierMeasure::default(),
        })
    }

    /// Work of one copy.
    pub(crate) fn draw_work_ns(&mut self) -> f64 {
        self.work.draw(&mut self.work_rng) * NS
    }

    /// True if the copies of a request that begins have the same work.
    pub(crate) fn draw_same(&mut self) -> bool {
        self.same_share >= 1.0
            || (self.same_share > 0.0 && self.copies_rng.random::<f64>() < self.same_share)
    }

    /// Calls of one request to the tier below.
    pub(crate) fn draw_calls(&mut self) -> u32 {
        self.calls.as_ref().map_or(0, |calls| calls.draw(&mut self.calls_rng))
    }

    /// The selector's name for a server.
    pub(crate) fn local(&self, server: u32) -> usize {
        (server - self.first) as usize
    }
}
