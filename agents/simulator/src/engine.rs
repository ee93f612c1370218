//! The simulation: a clock, a calendar, servers; `flow` says what requests do.

use crate::calendar::Calendar;
use crate::distribution::{exponential, stream};
use crate::host::Host;
use crate::measure::Batches;
use crate::report::{Report, Stopped, TierReport};
use crate::scenario::{Arrivals, Scenario};
use crate::server::{Line, Server};
use crate::state::{Connection, Copy, Disturbances, Slab, NONE};
use crate::tier::{Tier, NS};
use policy::Impossible;
use rand::rngs::SmallRng;

/// Kind of an event: the upper 4 bits; the lower ones number a server, copy, connection or fault.
pub(crate) const WORK_ENDS: u32 = 0;
pub(crate) const NEIGHBOUR_COMES: u32 = 1 << 28;
pub(crate) const NEIGHBOUR_GOES: u32 = 2 << 28;
pub(crate) const FAULT: u32 = 3 << 28;
pub(crate) const COPY_ARRIVES: u32 = 4 << 28;
pub(crate) const HEDGE: u32 = 5 << 28;
pub(crate) const QUOTA_TURNS: u32 = 6 << 28;
pub(crate) const COPY_STARTS: u32 = 7 << 28;
pub(crate) const REPLY_SENT: u32 = 8 << 28;
const KIND: u32 = 15 << 28;

/// One scenario under way.
pub(crate) struct Simulation<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) now_ns: u64,
    pub(crate) calendar: Calendar,
    pub(crate) tiers: Vec<Tier>,
    /// Servers of all tiers.
    pub(crate) servers: Vec<Server>,
    /// Per server, of tiers that serve first come, first served.
    pub(crate) lines: Vec<Line>,
    pub(crate) tier_of: Vec<u8>,
    /// Per server: when its network card has sent what it has to send.
    pub(crate) cards_free_ns: Vec<u64>,
    pub(crate) connections: Slab<Connection>,
    pub(crate) copies: Slab<Copy>,
    pub(crate) disturbances: Disturbances,
    /// The common host, if there is one; otherwise each server has its own cores.
    pub(crate) host: Option<Host>,
    pub(crate) measuring: bool,
    source: Source,
    batches: Batches,
    in_flight: usize,
    answered: u64,
    failed: u64,
    /// Latencies by request, if they are asked for.
    each_s: Option<Vec<Option<f64>>>,
    events: u64,
    measured_from_ns: u64,
}

/// Source of arrivals.
struct Source {
    rng: SmallRng,
    gap_ns: f64,
    next_ns: f64,
    number: u64,
}

/// Simulates a scenario.
///
/// # Errors
/// [`Impossible`] for a scenario that cannot be simulated.
pub fn simulate(scenario: &Scenario) -> Result<Report, Impossible> {
    scenario.check()?;
    let mut simulation = Simulation::new(scenario)?;
    let stopped = simulation.run();
    Ok(simulation.report(stopped))
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, Impossible> {
        let tiers = (0..scenario.tiers.len()).map(|index| Tier::new(scenario, index));
        let tiers = tiers.collect::<Result<Vec<_>, _>>()?;
        let count: usize = scenario.tiers.iter().map(|tier| tier.servers).sum();
        let in_line = tiers.iter().any(|tier| tier.sharing.running_max < usize::MAX);
        let tier_of = scenario.tiers.iter().enumerate();
        let servers = scenario.tiers.iter().zip(&tiers);
        let servers = servers
            .flat_map(|(spec, tier)| (0..spec.servers).map(|_| Server::new(tier.cap)))
            .collect();
        let mut simulation = Self {
            scenario,
            now_ns: 0,
            calendar: Calendar::new(event_gap_ns(scenario)),
            tiers,
            servers,
            lines: vec![Line::new(); if in_line { count } else { 0 }],
            tier_of: tier_of.flat_map(|(i, tier)| vec![i as u8; tier.servers]).collect(),
            cards_free_ns: vec![0; count],
            connections: Slab::new(),
            copies: Slab::new(),
            disturbances: Disturbances::new(scenario, count),
            host: scenario.host.map(|host| Host::new(host, count)),
            measuring: false,
            source: Source::new(scenario),
            batches: Batches::new(scenario.batches, scenario.measured()),
            in_flight: 0,
            answered: 0,
            failed: 0,
            each_s: scenario.each.then(|| vec![None; scenario.measured() as usize]),
            events: 0,
            measured_from_ns: 0,
        };
        simulation.start_disturbances();
        Ok(simulation)
    }

    fn run(&mut self) -> Stopped {
        let measured = self.scenario.measured();
        while self.answered + self.failed < measured {
            if self.in_flight > self.scenario.in_flight_max {
                return Stopped::Unstable;
            }
            if self.events >= self.scenario.events_max {
                return Stopped::Events;
            }
            let arrival_ns = self.source.next_ns;
            match self.calendar.next_at_ns() {
                Some(at_ns) if at_ns as f64 <= arrival_ns => self.happen(),
                _ if arrival_ns.is_finite() => self.arrive(arrival_ns as u64),
                _ => return Stopped::Done, // recorded arrivals only: nothing is left to happen
            }
        }
        Stopped::Done
    }

    fn arrive(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
        self.events += 1;
        let number = self.source.number;
        self.source.advance(self.scenario);
        if number == self.scenario.warm_up() {
            self.measuring = true;
            self.measured_from_ns = self.now_ns;
        }
        self.in_flight += 1;
        self.open(0, NONE, number, 1);
    }

    fn happen(&mut self) {
        let Some(event) = self.calendar.pop() else {
            return;
        };
        self.now_ns = event.at_ns;
        let number = event.code & !KIND;
        match event.code & KIND {
            WORK_ENDS => {
                if self.servers[number as usize].version != event.version {
                    return; // rescheduled meanwhile; not counted
                }
                self.work_ends(number);
            }
            QUOTA_TURNS => {
                if self.servers[number as usize].version != event.version {
                    return;
                }
                self.quota_turns(number);
            }
            NEIGHBOUR_COMES => self.neighbour_comes(number),
            NEIGHBOUR_GOES => self.neighbour_goes(number),
            FAULT => self.fault(number as usize, event.version == 0),
            COPY_ARRIVES => {
                if self.copies[number].generation == event.version {
                    self.copy_arrives(number);
                }
            }
            COPY_STARTS => {
                if self.copies[number].generation == event.version {
                    self.copy_starts(number);
                }
            }
            REPLY_SENT => {
                if self.copies[number].generation == event.version {
                    self.finish(number, true);
                }
            }
            _ => self.hedge(number, event.version),
        }
        self.events += 1;
    }

    fn work_ends(&mut self, server: u32) {
        let index = server as usize;
        let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
        let copy = self.servers[index].end_first(self.now_ns, sharing);
        if let Some(line) = self.lines.get_mut(index) {
            if let Some((next, work_ns)) = line.pop_front() {
                self.servers[index].start(self.now_ns, next, work_ns, sharing);
            }
        }
        self.schedule(server, true);
        self.work_done(copy);
    }

    /// A piece of a copy's work is to be done at its server, which others may have just then.
    pub(crate) fn copy_arrives(&mut self, copy: u32) {
        let wait_s = self.disturbances.waits_s[self.copies[copy].server as usize];
        if wait_s <= 0.0 {
            return self.copy_starts(copy);
        }
        let waits_ns = wait_s * NS * exponential(&mut self.disturbances.waits_rng);
        let (at_ns, version) = (self.now_ns + waits_ns as u64, self.copies[copy].generation);
        self.calendar.push(at_ns, COPY_STARTS | copy, version);
    }

    /// Starts a copy, or queues it.
    fn copy_starts(&mut self, copy: u32) {
        let Copy { server, work_ns, pieces, .. } = self.copies[copy];
        let work_ns = work_ns / f64::from(pieces);
        let index = server as usize;
        let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
        if self.servers[index].running() < sharing.running_max {
            self.servers[index].start(self.now_ns, copy, work_ns, sharing);
            self.schedule(server, false);
        } else {
            self.lines[index].push_back((copy, work_ns));
        }
    }

    /// Puts the next end of work at a server into the calendar, if it is another than before.
    pub(crate) fn schedule(&mut self, server: u32, always: bool) {
        if self.host.is_some() {
            return self.share_host(server);
        }
        let index = server as usize;
        let sharing = self.tiers[usize::from(self.tier_of[index])].sharing;
        let state = &mut self.servers[index];
        let next_ns = state.next_end_ns(sharing);
        if let Some(at_ns) = state.reschedule(next_ns, always) {
            self.calendar.push(at_ns, WORK_ENDS | server, state.version);
        }
    }

    /// A request from the outside is over.
    pub(crate) fn over(&mut self, number: u64, latency_ns: u64, good: bool) {
        self.in_flight -= 1;
        let Some(number) = number.checked_sub(self.scenario.warm_up()) else {
            return;
        };
        if number >= self.scenario.measured() {
            return;
        }
        if good {
            self.answered += 1;
            self.batches.record(number, latency_ns);
            if let Some(each_s) = &mut self.each_s {
                each_s[number as usize] = Some(latency_ns as f64 / NS);
            }
        } else {
            self.failed += 1;
        }
    }

    fn report(&self, stopped: Stopped) -> Report {
        let measured_s = (self.now_ns - self.measured_from_ns) as f64 / NS;
        Report {
            name: self.scenario.name.clone(),
            seed: self.scenario.seed,
            stopped,
            measured_s,
            simulated_s: self.now_ns as f64 / NS,
            events: self.events,
            latency: self.batches.report(),
            failed: self.failed,
            each_s: self.each_s.clone(),
            tiers: (0..self.tiers.len()).map(|i| self.tier_report(i, measured_s)).collect(),
        }
    }

    fn tier_report(&self, index: usize, measured_s: f64) -> TierReport {
        let (tier, spec) = (&self.tiers[index], &self.scenario.tiers[index]);
        let measure = &tier.measure;
        let requests = measure.latencies.count() + measure.failed;
        let cores_s = measured_s * spec.servers as f64 * spec.cores;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        TierReport {
            name: spec.name.clone(),
            request_per_s: share(requests as f64, measured_s),
            latency: measure.latencies.plain_report(),
            failed: measure.failed,
            refused: measure.refused,
            copies: measure.copies,
            lost_share: share(measure.copies_lost as f64, measure.copies as f64),
            work_lost_share: share(measure.work_lost_s, measure.work_s),
            processing_s: spec.work.mean_s(),
            utilisation: share(measure.work_s, cores_s),
            hold_s: share(measure.hold_s, measure.grants as f64),
            grant_per_s: share(measure.grants as f64, measured_s),
            waited_share: share(measure.waits as f64, requests as f64),
            wait_s: share(measure.wait_s, measure.waits as f64),
            hedges: measure.hedges,
            collided_share: share(measure.collided as f64, requests as f64),
        }
    }
}

impl Source {
    fn new(scenario: &Scenario) -> Self {
        let gap_ns = match &scenario.arrivals {
            Arrivals::Poisson { rate_per_s } => NS / rate_per_s,
            Arrivals::Recorded { .. } => 0.0,
        };
        let mut source =
            Self { rng: stream(scenario.seed, 1), gap_ns, next_ns: 0.0, number: u64::MAX };
        source.advance(scenario);
        source
    }

    /// Moves to the next arrival; infinity after the last recorded one.
    fn advance(&mut self, scenario: &Scenario) {
        self.number = self.number.wrapping_add(1);
        match &scenario.arrivals {
            Arrivals::Poisson { .. } => self.next_ns += self.gap_ns * exponential(&mut self.rng),
            Arrivals::Recorded { times_s } => {
                let time_s = times_s.get(self.number as usize);
                self.next_ns = time_s.map_or(f64::INFINITY, |time_s| time_s * NS);
            }
        }
    }
}

/// About how much time is between two events: arrivals and copies at all tiers.
fn event_gap_ns(scenario: &Scenario) -> f64 {
    let mut rate_per_s = match &scenario.arrivals {
        Arrivals::Poisson { rate_per_s } => *rate_per_s,
        Arrivals::Recorded { times_s } => {
            times_s.len() as f64 / times_s.last().copied().unwrap_or(1.0).max(1e-9)
        }
    };
    let mut total = 0.0;
    for tier in &scenario.tiers {
        rate_per_s *= tier.replicas as f64;
        let calls = tier.calls.as_ref().map_or(0.0, |calls| calls.mean());
        total += rate_per_s * calls.min(f64::from(tier.pieces)).max(1.0);
        rate_per_s *= calls;
    }
    NS / total.max(1e-6)
}
