//! Failure detection: the living nodes, and the node that decides about it.
//!
//! Members send heartbeats to the next node around the ring of the current view. A node whose
//! predecessor is silent tells the master; if that was the master, it takes its place. The master
//! asks all possible nodes, members or not, and each answers. A node without an answer for
//! `fail_after` is left out of the next view; one that answers is in it. Views are ordered
//! (`ViewId`): a master that hears of a newer view stops being one, so two masters that meet become
//! one. A node uses the newest view that it is in; a node that was left out is passive until it is
//! admitted again.
//!
//! The ring is needed beside queries because a dead master asks no node, and its successor notices
//! that first.

use std::time::Duration;

use super::members::Members;
use super::message::{Datagram, View, ViewId};

/// Times of the monitor.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Time between heartbeats.
    pub beat: Duration,
    /// Time between a master's queries.
    pub query: Duration,
    /// Silence after which a node has failed.
    pub fail_after: Duration,
}

/// The view of the cluster, and what is due to keep it up.
pub struct Monitor {
    me: usize,
    nodes: usize,
    times: Times,
    view: View,
    /// The newest view that was heard of; the node is not in it where it is not `view`.
    newest: ViewId,
    now: Duration,
    /// Time of each node's last answer to a query; none since it left.
    present: Vec<Option<Duration>>,
    beaten: Duration,
    queried_at: Duration,
    beat: Duration,
    query: Option<Duration>,
    out: Vec<(usize, Datagram)>,
}

impl Monitor {
    /// Node `me` of `nodes`, alone and its own master.
    pub fn new(me: usize, nodes: usize, times: Times) -> Self {
        let id = ViewId { epoch: 0, master: me };
        let zero = Duration::ZERO;
        Self {
            me,
            nodes,
            times,
            view: View { id, members: Members::only(me) },
            newest: id,
            now: zero,
            present: vec![None; nodes],
            beaten: zero,
            queried_at: zero,
            beat: zero,
            query: None,
            out: vec![],
        }
    }

    /// This node.
    pub fn me(&self) -> usize {
        self.me
    }

    /// The newest view that this node is in.
    pub fn view(&self) -> View {
        self.view
    }

    /// True if this node is in the newest view that it knows.
    pub fn is_member(&self) -> bool {
        self.newest == self.view.id
    }

    /// True if it is the master.
    pub fn is_master(&self) -> bool {
        self.is_member() && self.view.id.master == self.me
    }

    /// Silence after which a node has failed.
    pub fn fail_after(&self) -> Duration {
        self.times.fail_after
    }

    /// The messages to send.
    pub fn outgoing(&mut self) -> Vec<(usize, Datagram)> {
        std::mem::take(&mut self.out)
    }

    /// Suspects the peer of a broken connection.
    pub fn suspect_peer(&mut self, peer: usize) {
        if self.is_master() {
            self.query = None;
        } else if self.view.members.contains(peer) && self.is_member() {
            self.out.push((self.view.id.master, Datagram::Suspect(peer)));
        }
    }

    /// Takes the time; returns true if this node was itself stopped meanwhile.
    pub fn tick(&mut self, now: Duration) -> bool {
        // A node that was itself stopped has heard nobody, and accuses nobody.
        let was_stopped = now.saturating_sub(self.now) * 2 > self.times.fail_after;
        self.now = now;
        if was_stopped {
            self.believe_all();
        }
        if self.is_master() {
            self.master();
        } else if self.is_silent(self.queried_at, self.patience()) {
            self.take_over();
        }
        self.ring();
        was_stopped
    }

    /// Takes a datagram of another node.
    pub fn datagram(&mut self, now: Duration, from: usize, datagram: Datagram) {
        self.now = self.now.max(now);
        match datagram {
            Datagram::Heartbeat => {
                if from == self.predecessor() {
                    self.beaten = now;
                }
            }
            Datagram::Query(view) if view.members.is_within(self.nodes) => {
                self.on_query(from, view)
            }
            Datagram::Query(_) => {}
            Datagram::Present => self.present[from] = Some(now),
            Datagram::Suspect(node) => self.on_suspicion(node),
        }
    }

    fn on_query(&mut self, from: usize, view: View) {
        if view.id < self.newest || view.id.master != from {
            if self.is_master() {
                self.out.push((from, Datagram::Query(self.view)));
            }
            return;
        }
        self.newest = view.id;
        self.queried_at = self.now;
        if view.members.contains(self.me) && view != self.view {
            self.adopt(view);
        }
        let others = (0..self.nodes).filter(|&node| node != self.me);
        self.out.extend(others.map(|node| (node, Datagram::Present)));
    }

    /// Takes a suspicion: the master believes it unless it has just heard from the node.
    fn on_suspicion(&mut self, node: usize) {
        let is_heard =
            |at: Option<Duration>| at.is_some_and(|at| self.now - at <= self.times.query * 2);
        if self.is_master() && node < self.nodes && !is_heard(self.present[node]) {
            self.present[node] = None;
            self.ask();
        }
    }

    fn master(&mut self) {
        let is_due = !self.query.is_some_and(|at| self.now - at < self.times.query);
        if is_due {
            self.ask();
        }
    }

    fn ask(&mut self) {
        let alive = self.alive();
        if alive != self.view.members {
            self.make(alive);
        }
        self.query = Some(self.now);
        let others = (0..self.nodes).filter(|&node| node != self.me);
        self.out.extend(others.map(|node| (node, Datagram::Query(self.view))));
    }

    fn alive(&self) -> Members {
        let nodes = (0..self.nodes).filter(|&node| {
            self.present[node].is_some_and(|at| !self.is_silent(at, self.times.fail_after))
        });
        nodes.fold(Members::only(self.me), Members::with)
    }

    fn take_over(&mut self) {
        let old = self.newest.master;
        for node in self.view.members.without(old).iter() {
            self.present[node] = Some(self.now);
        }
        if old < self.nodes {
            self.present[old] = None;
        }
        self.make(self.alive());
        self.ask();
    }

    /// Makes a new view, of which this node is the master.
    fn make(&mut self, members: Members) {
        let epoch = self.newest.epoch + 1;
        let id = ViewId { epoch, master: self.me };
        self.newest = id;
        self.adopt(View { id, members });
    }

    fn adopt(&mut self, view: View) {
        self.view = view;
        self.beaten = self.now;
    }

    fn ring(&mut self) {
        if !self.is_member()
            || self.view.members.len() < 2
            || self.now - self.beat < self.times.beat
        {
            return;
        }
        self.beat = self.now;
        let next = self.view.members.successor(self.me);
        self.out.push((next, Datagram::Heartbeat));
        let before = self.predecessor();
        if !self.is_silent(self.beaten, self.times.fail_after) {
        } else if before == self.view.id.master {
            self.take_over();
        } else if self.is_master() {
            self.on_suspicion(before);
        } else {
            self.out.push((self.view.id.master, Datagram::Suspect(before)));
        }
    }

    /// The master's successor takes over first, who is further away later.
    fn patience(&self) -> Duration {
        let steps = self.view.members.distance(self.newest.master, self.me) as u32;
        self.times.fail_after + self.times.query * 2 * steps
    }

    fn predecessor(&self) -> usize {
        self.view.members.predecessor(self.me)
    }

    fn believe_all(&mut self) {
        self.beaten = self.now;
        self.queried_at = self.now;
        for at in self.present.iter_mut().flatten() {
            *at = self.now;
        }
    }

    fn is_silent(&self, since: Duration, longest: Duration) -> bool {
        self.now.saturating_sub(since) > longest
    }
}
