//! Work under way: connections to a tier, the copies that they sent, neighbours and faults.

use rand::rngs::SmallRng;
use smallvec::SmallVec;

use crate::distribution::stream;
use crate::scenario::{Fault, Scenario};

/// No connection, no copy.
pub(crate) const NONE: u32 = u32::MAX;
/// The copy above died; nobody waits for the answer.
pub(crate) const ORPHAN: u32 = u32::MAX - 1;

/// Per server and per fault, over all tiers.
#[derive(Debug)]
pub(crate) struct Disturbances {
    pub(crate) rng: SmallRng,
    /// End of a neighbour's stay at the server.
    pub(crate) noisy_until_ns: Vec<u64>,
    pub(crate) limps: Vec<f64>,
    pub(crate) strangers: Vec<f64>,
    /// Mean wait of a piece of work that starts there [s].
    pub(crate) waits_s: Vec<f64>,
    pub(crate) waits_rng: SmallRng,
    /// Faults with the first server of their tier.
    pub(crate) faults: Vec<(Fault, u32)>,
}

impl Disturbances {
    pub(crate) fn new(scenario: &Scenario, servers: usize) -> Self {
        let mut first = 0;
        let mut faults = Vec::new();
        for tier in &scenario.tiers {
            faults.extend(tier.faults.iter().map(|fault| (*fault, first)));
            first += tier.servers as u32;
        }
        Self {
            rng: stream(scenario.seed, 2),
            noisy_until_ns: vec![0; servers],
            limps: vec![1.0; servers],
            strangers: vec![0.0; servers],
            waits_s: vec![0.0; servers],
            waits_rng: stream(scenario.seed, 3),
            faults,
        }
    }
}

/// A place that is used again; `generation` tells its users apart.
pub(crate) trait Reused: Default {
    fn generation(&mut self) -> &mut u32;
}

/// Things of one kind by number; freed places are used again, the last freed first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T: Reused> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn add(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(T::default());
            self.places.len() as u32 - 1
        })
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let generation = self[id].generation();
        *generation = generation.wrapping_add(1);
        self.free.push(id);
    }

    /// Number of places, used or free.
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.places[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.places[id as usize]
    }
}

/// A server that a connection holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Index over all tiers.
    pub(crate) server: u32,
    /// Copy that runs for this connection, or NONE.
    pub(crate) copy: u32,
    /// The last request of the connection that was sent there.
    pub(crate) sent_seq: u32,
    /// Only until its copy has ended: the connection goes on with the server that answered.
    pub(crate) given_up: bool,
    pub(crate) granted_ns: u64,
}

/// One copy above, or the outside, with the requests that it makes here in sequence, and the
/// servers that it holds for them.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) generation: u32,
    /// Alive, i.e. not in the slab's free list.
    pub(crate) used: bool,
    /// The copy that waits for the answer, or NONE: the outside.
    pub(crate) parent: u32,
    pub(crate) tier: u32,
    /// The request at hand, from 1.
    pub(crate) seq: u32,
    /// Requests after this one.
    pub(crate) calls_left: u32,
    /// Copies of the request at hand that run.
    pub(crate) outstanding: u32,
    /// Calls that each copy of the request at hand will make below.
    pub(crate) fan_out: u32,
    /// Servers that it asked for and has not got yet.
    pub(crate) to_come: u32,
    /// All is answered; what still runs is drained.
    pub(crate) closed: bool,
    /// The request at hand is answered, and the copy above works before it makes the next.
    pub(crate) idle: bool,
    /// Two copies of the request at hand met at a server below.
    pub(crate) collided: bool,
    pub(crate) started_ns: u64,
    /// The copies of the request at hand have the same work, this.
    pub(crate) same_work: bool,
    pub(crate) work_ns: f64,
    /// Number of a request from the outside.
    pub(crate) number: u64,
    /// Delayed copies of the request at hand that may still be sent.
    pub(crate) hedges_left: u32,
    pub(crate) hedge_after_ns: u64,
    /// Time of the next hedge; events of other times are of earlier requests.
    pub(crate) hedge_at_ns: u64,
    pub(crate) slots: SmallVec<[Slot; 3]>,
}

impl Reused for Connection {
    fn generation(&mut self) -> &mut u32 {
        &mut self.generation
    }
}

/// One copy of a request at one server.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    pub(crate) generation: u32,
    pub(crate) used: bool,
    /// NONE: it has replied, and what it does is for nobody.
    pub(crate) connection: u32,
    pub(crate) seq: u32,
    /// Index over all tiers.
    pub(crate) server: u32,
    /// Calls to the tier below, and how many of them are answered.
    pub(crate) calls: u32,
    pub(crate) called: u32,
    /// Equal parts of its work, each before its share of the calls; at most one a call.
    pub(crate) pieces: u32,
    /// The connection below that is open for it, or NONE.
    pub(crate) child: u32,
    pub(crate) sent_ns: u64,
    /// Work of all pieces.
    pub(crate) work_ns: f64,
}

impl Copy {
    /// True if a piece of its work comes after the last answered call, and not the next call.
    pub(crate) fn works_next(&self) -> bool {
        let piece =
            |called: u32| u64::from(called) * u64::from(self.pieces) / u64::from(self.calls);
        self.called < self.calls && piece(self.called) > piece(self.called - 1)
    }
}

impl Reused for Copy {
    fn generation(&mut self) -> &mut u32 {
        &mut self.generation
    }
}
