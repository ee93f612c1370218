//! The nodes that work together. The two configurations of PRESS differ only here.
//!
//! `Formed`: a cluster that is formed once, when every node is connected to every other. It watches
//! no node: a member is gone when its connection is, and no node is admitted later. `Monitored`: a
//! cluster whose master decides about its members (`monitor`).

use super::members::Members;
use super::monitor::Monitor;

/// The configuration that the node runs in.
pub enum Membership {
    /// Membership that is formed once.
    Formed(Formed),
    /// Membership that is monitored.
    Monitored(Monitor),
}

impl Membership {
    /// True if the node serves clients.
    pub fn serves(&self) -> bool {
        match self {
            Self::Formed(formed) => formed.is_formed,
            Self::Monitored(_) => true,
        }
    }

    /// The nodes it works with, itself among them.
    pub fn members(&self) -> Members {
        match self {
            Self::Formed(formed) => formed.linked.with(formed.me),
            Self::Monitored(monitor) => monitor.view().members.with(monitor.me()),
        }
    }

    /// True if a connection with this node is let in and made.
    pub fn admits(&self, peer: usize) -> bool {
        match self {
            Self::Formed(formed) => !formed.is_formed && peer < formed.nodes,
            Self::Monitored(monitor) => {
                peer != monitor.me() && self.members().contains(peer) && monitor.is_member()
            }
        }
    }

    /// Notes a connection.
    pub fn linked(&mut self, peer: usize) {
        if let Self::Formed(formed) = self {
            formed.linked(peer);
        }
    }

    /// Notes the end of a connection.
    pub fn unlinked(&mut self, peer: usize) {
        match self {
            Self::Formed(formed) => formed.linked = formed.linked.without(peer),
            Self::Monitored(monitor) => monitor.suspect_peer(peer),
        }
    }
}

/// A cluster that is formed once.
pub struct Formed {
    me: usize,
    nodes: usize,
    linked: Members,
    is_formed: bool,
}

impl Formed {
    /// Node `me` of `nodes`, none of which it knows yet.
    pub fn new(me: usize, nodes: usize) -> Self {
        Self { me, nodes, linked: Members::default(), is_formed: nodes == 1 }
    }

    fn linked(&mut self, peer: usize) {
        self.linked = self.linked.with(peer);
        self.is_formed |= self.linked.with(self.me) == Members::all(self.nodes);
    }
}
