//! The state of one server: alive, in use, its observed latency.
//!
//! All estimates are maintained with every policy, so that a change of policy finds them.

use serde::{Deserialize, Serialize};

use crate::TimeUs;

/// A replica's observation of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Observation {
    /// The time from sending to the complete reply.
    LatencyUs(u64),
    /// No usable reply. Counts as infinite latency but for `tad-paper`: a server that fails fast
    /// must not look fast.
    Error {
        /// Time from sending to the failure.
        after_us: u64,
    },
}

/// Weight of the newest latency in the smoothed ones.
const NEWEST: f64 = 0.3;
/// Classes of load: 1, 2 to 3, 4 to 7, ... at least 128 requests in flight.
const LOADS: usize = 8;

/// The accounts of one server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) alive: bool,
    /// Grants not yet released.
    pub(crate) in_use: usize,
    /// Number of the choice that chose it last.
    pub(crate) turn: u64,
    /// Latency of the last reply, error or not; 0 before the first.
    pub(crate) last_us: u64,
    /// The last reply was an error.
    pub(crate) failed: bool,
    /// The last observation is too old to count.
    pub(crate) expired: bool,
    observed_at: TimeUs,
    /// Time from which the last observation's age counts.
    counts_from: TimeUs,
    /// Something was heard of it, or nothing was to be heard.
    heard_at: TimeUs,
    smooth_us: f64,
    service_us: f64,
    peak_us: f64,
    by_load_us: [f64; LOADS],
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            alive: true,
            in_use: 0,
            turn: 0,
            last_us: 0,
            failed: false,
            expired: false,
            observed_at: 0,
            counts_from: 0,
            heard_at: 0,
            smooth_us: 0.0,
            service_us: 0.0,
            peak_us: 0.0,
            by_load_us: [0.0; LOADS],
        }
    }

    /// `peak_decay_us`: the time in which the memory of a peak fades to 1/e.
    pub(crate) fn observe(&mut self, now: TimeUs, observation: Observation, peak_decay_us: u64) {
        let us = match observation {
            Observation::LatencyUs(us) => us.max(1),
            Observation::Error { after_us } => after_us.max(1),
        };
        self.last_us = us;
        self.failed = matches!(observation, Observation::Error { .. });
        if !self.failed {
            let us = us as f64;
            let weight = decay(now.saturating_sub(self.observed_at), peak_decay_us);
            let peak = self.peak_us * weight;
            self.peak_us = if us > peak { us } else { peak + us * (1.0 - weight) };
            smooth(&mut self.smooth_us, us);
            smooth(&mut self.service_us, us / self.in_use.max(1) as f64);
            smooth(&mut self.by_load_us[load(self.in_use)], us);
        }
        self.expired = false;
        self.observed_at = now;
        self.counts_from = now;
        self.heard_at = now;
    }

    /// Called when the server was chosen. Where its observation was too old, this request is the
    /// probe: until it reports, or for another period, the old value counts again, so that an
    /// expired slow server gets one request and not a burst. Whether it was so.
    pub(crate) fn chosen(&mut self, now: TimeUs, turn: u64) -> bool {
        if self.in_use == 0 {
            self.heard_at = now;
        }
        self.in_use += 1;
        self.turn = turn;
        let probes = self.expired;
        if probes {
            self.expired = false;
            self.counts_from = now;
        }
        probes
    }

    pub(crate) fn released(&mut self, now: TimeUs) {
        self.in_use = self.in_use.saturating_sub(1);
        self.heard_at = now;
    }

    /// The age of the last observation.
    pub(crate) fn age_us(&self, now: TimeUs) -> u64 {
        now.saturating_sub(self.counts_from)
    }

    /// True if the last reply was an error, and not long ago.
    pub(crate) fn is_suspect(&self) -> bool {
        self.failed && !self.expired
    }

    /// True if nothing that would count was ever seen.
    pub(crate) fn is_unknown(&self) -> bool {
        self.last_us == 0 || self.expired
    }

    /// Time for which it has owed a reply without giving any.
    pub(crate) fn silent_us(&self, now: TimeUs) -> u64 {
        if self.in_use == 0 {
            return 0;
        }
        now.saturating_sub(self.heard_at)
    }

    /// The last latencies, smoothed exponentially; 0 before the first.
    pub(crate) fn smooth_us(&self) -> f64 {
        self.smooth_us
    }

    /// The time that the server works for one request, smoothed: latency over requests in flight,
    /// as if it worked at all of them in turn.
    pub(crate) fn service_us(&self) -> f64 {
        self.service_us
    }

    /// The worst of the recent latencies, fading; 0 before the first.
    pub(crate) fn peak_us(&self, now: TimeUs, decay_us: u64) -> f64 {
        self.peak_us * decay(now.saturating_sub(self.observed_at), decay_us)
    }

    /// The latency when about as many requests were in flight as would be with one more, else at
    /// the nearest load that was seen.
    pub(crate) fn at_load_us(&self) -> f64 {
        let class = load(self.in_use + 1);
        let mean_of = |index: usize| Some(self.by_load_us[index]).filter(|us| *us > 0.0);
        (0..LOADS)
            .find_map(|distance| {
                let below = class.checked_sub(distance).and_then(mean_of);
                let above = (class + distance < LOADS).then_some(class + distance);
                below.or_else(|| above.and_then(mean_of))
            })
            .unwrap_or(0.0)
    }

    /// A server that came back is a new one.
    pub(crate) fn forget(&mut self) {
        *self =
            Self { in_use: self.in_use, turn: self.turn, heard_at: self.heard_at, ..Self::new() };
    }
}

fn decay(elapsed_us: u64, decay_us: u64) -> f64 {
    (-(elapsed_us as f64) / decay_us.max(1) as f64).exp()
}

fn smooth(mean: &mut f64, value: f64) {
    *mean = if *mean == 0.0 { value } else { *mean + NEWEST * (value - *mean) };
}

fn load(in_flight: usize) -> usize {
    (in_flight.max(1).ilog2() as usize).min(LOADS - 1)
}
