//! Checks of scenarios: the first value that cannot be simulated, with its place.

use policy::impossible::in_range;
use policy::{Impossible, Policy};

use crate::distribution::{at_least_0, positive};
use crate::scenario::{Arrivals, Discipline, Fault, Scenario, Tier};

const TIERS_MAX: usize = 8;
const SERVERS_MAX: usize = 1_000_000;
/// A change at one is a change at all of them.
const SERVERS_OF_HOST_MAX: usize = 1_000;
const PIECES_MAX: usize = 1_000_000;
const REQUESTS_MAX: u64 = 1_000_000_000;
/// Maximum requests whose latencies are listed one by one.
const EACH_MAX: u64 = 1_000_000;
/// Longest simulated time: 100 years in nanoseconds fit an integer.
const TIME_S_MAX: f64 = 100.0 * 365.0 * 86_400.0;

impl Scenario {
    /// Checks the values.
    ///
    /// # Errors
    /// [`Impossible`] for the first one that cannot be simulated.
    pub fn check(&self) -> Result<(), Impossible> {
        within("tiers", self.tiers.len(), 1, TIERS_MAX)?;
        within("batches", self.batches, 2, 1000)?;
        within("in_flight_max", self.in_flight_max, 1, 10_000_000)?;
        self.check_arrivals()?;
        let (warm_up, measured) = (self.warm_up(), self.measured());
        if measured < self.batches as u64 || warm_up + measured > REQUESTS_MAX {
            let expected = format!("{} to {REQUESTS_MAX} with the warm-up", self.batches);
            return Err(Impossible::new("requests", expected, measured));
        }
        if self.each && measured > EACH_MAX {
            let expected = format!("at most {EACH_MAX} requests with it");
            return Err(Impossible::new("each", expected, measured));
        }
        self.check_host()?;
        for (i, tier) in self.tiers.iter().enumerate() {
            tier.check(&format!("tiers[{i}]"), i + 1 == self.tiers.len())?;
        }
        Ok(())
    }

    fn check_host(&self) -> Result<(), Impossible> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        positive("host.cores", host.cores)?;
        at_least_0("host.busy_cores", host.busy_cores)?;
        let servers = self.tiers.iter().map(|tier| tier.servers).sum();
        within("servers of a host", servers, 1, SERVERS_OF_HOST_MAX)
    }

    fn check_arrivals(&self) -> Result<(), Impossible> {
        match &self.arrivals {
            Arrivals::Poisson { rate_per_s } => {
                positive("arrivals.rate_per_s", *rate_per_s)?;
                if self.requests.is_none() {
                    return Err(Impossible::new("requests", "a number of requests", "none"));
                }
            }
            Arrivals::Recorded { times_s } => {
                let mut before = 0.0;
                for (i, &time_s) in times_s.iter().enumerate() {
                    if !(time_s >= before && time_s < TIME_S_MAX) {
                        let place = format!("arrivals.times_s[{i}]");
                        return Err(Impossible::new(place, format!("at least {before}"), time_s));
                    }
                    before = time_s;
                }
            }
        }
        Ok(())
    }
}

impl Tier {
    fn check(&self, place: &str, last: bool) -> Result<(), Impossible> {
        let at = |key: &str| format!("{place}.{key}");
        self.policy(place)?;
        within(&at("servers"), self.servers, 1, SERVERS_MAX)?;
        within(&at("replicas"), self.replicas, 1, self.servers.min(64))?;
        within(&at("tokens"), self.tokens, 1, 100_000)?;
        within(&at("waiting_max"), self.waiting_max, 0, 10_000_000)?;
        positive(at("cores"), self.cores)?;
        if let Some(quota) = &self.quota {
            in_range(at("quota.period_s"), quota.period_s, 1e-6..=10.0, " s")?;
            if !(quota.burst_cores >= self.cores && quota.burst_cores <= 1024.0) {
                let expected = format!("cores ({}) to 1024", self.cores);
                let cores = quota.burst_cores;
                return Err(Impossible::new(at("quota.burst_cores"), expected, cores));
            }
            if self.discipline != Discipline::ProcessorSharing {
                let discipline = "first-come-first-served";
                return Err(Impossible::new(at("quota"), "none with that discipline", discipline));
            }
        }
        within(&at("pieces"), self.pieces as usize, 1, PIECES_MAX)?;
        positive(at("observation_age_s"), self.observation_age_s)?;
        at_least_0(at("delay_s"), self.delay_s)?;
        at_least_0(at("card_s"), self.card_s)?;
        at_least_0(at("after_s"), self.after_s)?;
        in_range(at("hedge_percentile"), self.hedge_percentile, 1.0..=99.9, "")?;
        wire::guardrails::validate(&self.guardrails).map_err(|refusal| refusal.within(place))?;
        self.work.sampler(&at("work"))?;
        in_range(at("copies.correlated"), self.copies.same_share(), 0.0..=1.0, "")?;
        match (&self.calls, last) {
            (None, true) => {}
            (Some(calls), false) => calls.check(&at("calls"))?,
            (None, false) => {
                return Err(Impossible::new(at("calls"), "calls to the next tier", "none"))
            }
            (Some(_), true) => {
                return Err(Impossible::new(at("calls"), "none at the last tier", "some"))
            }
        }
        if let Some(neighbours) = &self.interference {
            positive(at("interference.gap_s"), neighbours.gap_s)?;
            positive(at("interference.run_s"), neighbours.run_s)?;
            speed(&at("interference.speed"), neighbours.speed)?;
        }
        for (i, fault) in self.faults.iter().enumerate() {
            self.check_fault(&at(&format!("faults[{i}]")), fault)?;
        }
        Ok(())
    }

    /// The policy.
    pub(crate) fn policy(&self, place: &str) -> Result<Policy, Impossible> {
        Policy::from_name(&self.policy).ok_or_else(|| {
            let names: Vec<_> = Policy::all().map(Policy::name).collect();
            let names = names.join(", ");
            Impossible::new(format!("{place}.policy"), format!("one of {names}"), &self.policy)
        })
    }

    fn check_fault(&self, place: &str, fault: &Fault) -> Result<(), Impossible> {
        let (at_s, for_s) = fault.span_s();
        at_least_0(format!("{place}.at_s"), at_s)?;
        positive(format!("{place}.for_s"), for_s)?;
        if at_s + for_s > TIME_S_MAX {
            return Err(Impossible::new(
                place,
                format!("an end before {TIME_S_MAX} s"),
                at_s + for_s,
            ));
        }
        if fault.server() >= self.servers {
            let expected = format!("an index below {}", self.servers);
            return Err(Impossible::new(format!("{place}.server"), expected, fault.server()));
        }
        match fault {
            Fault::Limp { speed: slow, .. } => speed(&format!("{place}.speed"), *slow),
            Fault::Crowd { jobs, wait_s, .. } => {
                at_least_0(format!("{place}.jobs"), *jobs)?;
                at_least_0(format!("{place}.wait_s"), *wait_s).map(drop)
            }
            Fault::Crash { .. } => Ok(()),
        }
    }
}

fn within(place: &str, value: usize, least: usize, most: usize) -> Result<(), Impossible> {
    in_range(place, value, least..=most, "")
}

fn speed(place: &str, value: f64) -> Result<(), Impossible> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(Impossible::new(place, "a speed above 0 and at most 1", value))
}
