//! The links to all servers, made when they are first needed.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use policy::ServerId;

use super::link::Link;
use super::queue::{Pending, Until};
use super::slot::Slot;
use super::Dialect;
use crate::lock;
use crate::tier::{Lease, Tier};
use crate::voting::ReplyVote;

/// The links of one thread's clients to the servers.
pub struct Front<D: Dialect> {
    /// The servers.
    pub tier: Arc<Tier>,
    /// The protocol's state.
    pub state: Arc<D::State>,
    links: Vec<Mutex<Option<Arc<Link>>>>,
    dialect: PhantomData<fn() -> D>,
}

/// Commands that are sent together.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Their bytes.
    pub bytes: &'a [u8],
    /// Sent after them; its reply is not passed on.
    pub fence: &'static [u8],
    /// End of the reply.
    pub until: Until,
    /// Number of commands.
    pub commands: u64,
    /// Kind of link to use.
    pub flavour: usize,
    /// True if servers with equal data give equal replies.
    pub is_comparable: bool,
}

impl<D: Dialect> Front<D> {
    /// Creates the front of a tier.
    pub fn new(tier: Arc<Tier>, state: Arc<D::State>) -> Arc<Self> {
        let count = tier.servers().len() * D::FLAVOURS;
        Arc::new(Self {
            tier,
            state,
            links: (0..count).map(|_| Mutex::default()).collect(),
            dialect: PhantomData,
        })
    }

    /// Sends a batch to a server; the slot gets the result.
    pub fn send(
        &self,
        server: ServerId,
        batch: &Batch<'_>,
        slot: &Arc<Slot>,
        ticket: u64,
        (lease, ballot): (Option<Lease>, Option<&Arc<ReplyVote>>),
    ) {
        let flight = self.tier.sent(server);
        // The batch counts as its commands; `sent` has counted one.
        let more = batch.commands.saturating_sub(1);
        self.tier.counters.replicas_sent.add(more);
        self.tier.server_counters[server].requests.add(more);
        match &lease {
            Some(lease) if lease.probes => slot.expect_probe(server),
            _ => slot.expect_one(),
        }
        let pending = Pending {
            slot: Arc::clone(slot),
            ticket,
            until: batch.until,
            lease,
            flight,
            ballot: ballot.cloned(),
            commands: batch.commands,
            bytes: batch.bytes.len() + batch.fence.len(),
            given: 0,
        };
        let link = self.link(server, batch.flavour);
        let submitted = link.submit(&[batch.bytes, batch.fence], pending);
        if let Err((pending, failure)) = submitted {
            pending.fail(server, failure);
        }
    }

    /// Takes out a server that missed a write, or may have; no outstanding reply of it is awaited.
    pub fn give_up(&self, server: ServerId) {
        self.tier.server_failed(server);
        for place in &self.links[server * D::FLAVOURS..(server + 1) * D::FLAVOURS] {
            let link = lock(place).take();
            if let Some(link) = link {
                link.shut();
            }
        }
    }

    fn link(&self, server: ServerId, flavour: usize) -> Arc<Link> {
        let place = &self.links[server * D::FLAVOURS + flavour];
        let mut link = lock(place);
        match &*link {
            Some(open) if open.is_open() => {
                self.tier.server_counters[server].connections_reused.inc();
                Arc::clone(open)
            }
            _ => {
                let opened = Link::start::<D>(&self.tier, server, flavour);
                *link = Some(Arc::clone(&opened));
                opened
            }
        }
    }
}
