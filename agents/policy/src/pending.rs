//! Requests that wait for (more) servers: a bounded queue, first come, first served.

use std::collections::VecDeque;

use crate::{Grant, RequestId, ServerId};

/// A waiting request with its open demand.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) request: RequestId,
    pub(crate) count: usize,
    /// Number of these beyond the request's first.
    pub(crate) extras: usize,
    /// True if a server that is out may be probed by a copy of it.
    pub(crate) probes: bool,
    /// Servers that it already had or must not get.
    pub(crate) not: Vec<ServerId>,
    /// The one server that will do, where it is at one already.
    pub(crate) only: Option<ServerId>,
}

/// The queue.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    queue: VecDeque<Waiting>,
    /// Number of these that wait for one server only.
    bound: usize,
    max: usize,
}

impl Pending {
    pub(crate) fn new(max: usize) -> Self {
        Self { queue: VecDeque::new(), bound: 0, max }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.max
    }

    pub(crate) fn push(&mut self, waiting: Waiting) {
        debug_assert!(!self.is_full() && waiting.count > 0);
        self.bound += usize::from(waiting.only.is_some());
        self.queue.push_back(waiting);
    }

    /// Takes a request out.
    pub(crate) fn cancel(&mut self, request: RequestId) -> Option<Waiting> {
        let of_request = |waiting: &Waiting| waiting.request == request;
        let place = self.queue.iter().position(of_request)?;
        self.remove(place)
    }

    fn remove(&mut self, place: usize) -> Option<Waiting> {
        let waiting = self.queue.remove(place)?;
        self.bound -= usize::from(waiting.only.is_some());
        Some(waiting)
    }

    /// Offers servers to each waiting request in order, one at a time, as long as `choose` finds one
    /// that will do; what is chosen goes to `granted`.
    pub(crate) fn offer(
        &mut self,
        mut choose: impl FnMut(&Waiting) -> Offer,
        mut granted: impl FnMut(Grant),
    ) {
        let mut place = 0;
        while let Some(waiting) = self.queue.get_mut(place) {
            match choose(waiting) {
                Offer::Server { server, probe } => {
                    granted(Grant::new(waiting.request, server));
                    waiting.not.push(server);
                    if let Some(probe) = probe {
                        granted(Grant::probe(waiting.request, probe));
                        waiting.not.push(probe);
                        waiting.probes = false;
                    }
                    waiting.count -= 1;
                    // The first to come is not an extra.
                    waiting.extras = waiting.extras.min(waiting.count);
                    if waiting.count == 0 {
                        self.remove(place);
                    }
                }
                // A request whose one server is out needs nothing free.
                Offer::Nothing if self.bound == 0 => break,
                Offer::Nothing | Offer::NotForYou => place += 1,
            }
        }
    }
}

/// The grant for one waiting request.
pub(crate) enum Offer {
    /// This server, and one to be probed.
    Server { server: ServerId, probe: Option<ServerId> },
    /// Only servers that will not do.
    NotForYou,
    /// Nothing that needs a free server.
    Nothing,
}
