//! One node: the source of a requested page, and the messages to the other nodes.
//!
//! A requested page is in memory; or another node has it, and it is fetched from there; or it is
//! read from disk. In each case it is then in memory here too, and all other nodes are told at
//! once. Messages that cannot be sent yet wait in a bounded queue. While such a queue is full the
//! node takes no requests (`stall`), because each may end in a change that all must be told of. So
//! one peer that takes nothing stops the others; only the membership can end that.

use std::collections::HashMap;
use std::time::Duration;

use super::cache::Cache;
use super::directory::Directory;
use super::link::{Link, LinkId};
use super::members::Members;
use super::membership::Membership;
use super::message::{Change, Datagram, FetchId, Key, Message, Page};

/// Names a client's request.
pub type Ticket = u64;

/// Keys in one message when all that is in memory is told.
const KEYS_AT_A_TIME: usize = 64;

/// The bounds of a node.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pages in memory, in bytes.
    pub cache_bytes: u64,
    /// Messages on their way to a peer.
    pub window: u32,
    /// Messages that wait for room in the window, before the node is stalled.
    pub queue: usize,
    /// Pages that are on their way for clients, before the node is stalled.
    pub awaited: usize,
    /// Keys that a peer may say it has.
    pub keys_of_peer: usize,
}

/// Reasons for taking no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// This peer does not take its messages.
    Peer(usize),
    /// The maximum of pages is on its way.
    Pages,
}

/// An action to take.
#[derive(Debug)]
pub enum Action {
    /// Write to a connection.
    Send(LinkId, Message),
    /// Close a connection; the node has forgotten it already.
    Drop(LinkId, Fault),
    /// Send a datagram.
    Tell(usize, Datagram),
    /// Read a file.
    Read(Key),
    /// Answer a client.
    Reply(Ticket, Answer),
}

/// Reasons for closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It answers a fetch that was not made, or with another page.
    #[error("a page that was not asked for, or is not what was read")]
    WrongPage,
    /// It says that it has more than a node can have.
    #[error("more pages than a node can have")]
    TooManyKeys,
    /// It asks for more than it takes.
    #[error("asks for more than it takes")]
    TooMuchAsked,
    /// It did not answer in time (monitored clusters only).
    #[error("did nothing that it was waited for")]
    Silent,
    /// It is not a member.
    #[error("no member of the cluster")]
    NoMember,
    /// A newer connection has replaced it.
    #[error("replaced by a newer connection")]
    Replaced,
}

/// The source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// This node's memory.
    Local,
    /// Another node's memory.
    Peer,
    /// A file.
    Disk,
}

/// An answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The page.
    Page(Page, Source),
    /// There is no such file.
    Missing,
    /// It could not be read.
    Failed,
}

/// The outcome of reading a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The page.
    Page(Page),
    /// The file does not exist.
    Missing,
    /// It could not be read.
    Failed,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Requests answered from memory.
    pub local: u64,
    /// Pages from another node.
    pub peer: u64,
    /// Pages from disk.
    pub disk: u64,
    /// Requests for a file that does not exist.
    pub missing: u64,
    /// Files that could not be read.
    pub failed: u64,
    /// Pages evicted from memory.
    pub evicted: u64,
    /// Fetches whose page the peer did not have any more.
    pub gone: u64,
    /// Fetches answered for others.
    pub served: u64,
    /// Changes that were missing.
    pub gaps: u64,
    /// Connections to other nodes that broke or were closed.
    pub broken: u64,
    /// Epoch of the cluster's view (monitored clusters only).
    pub views: u64,
}

/// The state of one node.
pub struct Node {
    me: usize,
    limits: Limits,
    cache: Cache,
    directory: Directory,
    links: Vec<Option<Link>>,
    membership: Membership,
    /// Clients that wait for a page.
    pending: HashMap<Key, Vec<Ticket>>,
    fetches: FetchId,
    now: Duration,
    counters: Counters,
    actions: Vec<Action>,
}

impl Node {
    /// Node `me` of `nodes`, with an empty memory and no connections.
    pub fn new(me: usize, nodes: usize, limits: Limits, membership: Membership) -> Self {
        Self {
            me,
            limits,
            cache: Cache::new(limits.cache_bytes),
            directory: Directory::default(),
            links: (0..nodes).map(|_| None).collect(),
            membership,
            pending: HashMap::new(),
            fetches: 0,
            now: Duration::ZERO,
            counters: Counters::default(),
            actions: vec![],
        }
    }

    /// Takes the actions since the last call, in order.
    pub fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The event that the node waits for, if it takes no requests meanwhile.
    pub fn stall(&self) -> Option<Stall> {
        let full = |link: &Option<Link>| {
            let waiting = link.as_ref().map_or(0, Link::waiting);
            waiting >= self.limits.queue
        };
        let peer = self.links.iter().position(full).map(Stall::Peer);
        let has_all = self.pending.len() >= self.limits.awaited;
        peer.or_else(|| has_all.then_some(Stall::Pages))
    }

    /// Requests a page for a client.
    pub fn request(&mut self, ticket: Ticket, key: &Key) {
        if let Some(page) = self.cache.get(key) {
            self.counters.local += 1;
            let answer = Answer::Page(page.clone(), Source::Local);
            self.actions.push(Action::Reply(ticket, answer));
        } else if let Some(waiting) = self.pending.get_mut(key) {
            waiting.push(ticket);
        } else {
            self.pending.insert(key.clone(), vec![ticket]);
            self.find(key);
        }
    }

    /// Forgets a client's request; the page still comes.
    pub fn withdraw(&mut self, ticket: Ticket, key: &Key) {
        if let Some(waiting) = self.pending.get_mut(key) {
            waiting.retain(|&other| other != ticket);
        }
    }

    /// Takes the outcome of reading a file.
    pub fn read(&mut self, key: &Key, outcome: Outcome) {
        match outcome {
            Outcome::Page(page) => self.deliver(key, page, Source::Disk),
            Outcome::Missing => self.answer(key, &Answer::Missing),
            Outcome::Failed => self.answer(key, &Answer::Failed),
        }
    }

    /// True if a connection with this node is let in and made.
    pub fn admits(&self, peer: usize) -> bool {
        peer != self.me && self.membership.admits(peer)
    }

    /// Adds a connection with `peer`, which replaces an earlier one.
    pub fn link_up(&mut self, id: LinkId, peer: usize) {
        if !self.admits(peer) {
            self.actions.push(Action::Drop(id, Fault::NoMember));
            return;
        }
        self.cut(peer, Fault::Replaced);
        self.links[peer] = Some(Link::new(id, self.limits.window, self.now));
        self.membership.linked(peer);
        self.tell_all(peer);
    }

    /// Removes a connection that has ended.
    pub fn link_down(&mut self, id: LinkId) {
        if let Some(peer) = self.peer_of(id) {
            self.lose(peer);
            self.membership.unlinked(peer);
            self.take_monitors_words();
        }
    }

    /// Takes the time.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        if let Membership::Monitored(monitor) = &mut self.membership {
            if monitor.tick(now) {
                self.links.iter_mut().flatten().for_each(|link| link.note_progress(now));
            }
            self.take_monitors_words();
        }
    }

    /// Takes a datagram of the monitor.
    pub fn datagram(&mut self, from: usize, datagram: Datagram) {
        if let Membership::Monitored(monitor) = &mut self.membership {
            monitor.datagram(self.now, from, datagram);
            self.take_monitors_words();
        }
    }

    /// Takes a message of a connection.
    pub fn message(&mut self, id: LinkId, message: Message) {
        let Some(peer) = self.peer_of(id) else { return };
        let link = self.links[peer].as_mut();
        let credit = link.and_then(|link| link.accept(&message));
        let result = match message {
            Message::Changed(change) => self.on_change(peer, change),
            Message::Fetch { id, key } => self.on_fetch(peer, id, &key),
            Message::Page { id, page } => self.on_page(peer, id, page),
            Message::Gone { id } => self.on_gone(peer, id),
            Message::Credit(count) => self.on_credit(peer, count),
            Message::Resend => self.tell_all_again(peer),
        };
        match (result, credit) {
            (Err(fault), _) => self.cut(peer, fault),
            (Ok(()), Some(credit)) => self.send(peer, credit),
            (Ok(()), None) => {}
        }
    }

    /// Gets a page from another node, or else from disk.
    fn find(&mut self, key: &Key) {
        match self.holder(key) {
            Some(peer) => {
                self.fetches += 1;
                let id = self.fetches;
                self.send(peer, Message::Fetch { id, key: key.clone() });
                if let Some(link) = self.links[peer].as_mut() {
                    link.fetches.insert(id, key.clone());
                }
            }
            None => self.actions.push(Action::Read(key.clone())),
        }
    }

    /// Returns the holder with the fewest requests; of equal ones the next around the ring.
    fn holder(&self, key: &str) -> Option<usize> {
        let nodes = self.links.len();
        let holders = self.directory.holders(key).iter();
        let load = |peer: usize| self.links[peer].as_ref().map(|link| link.fetches.len());
        let candidates =
            holders.filter_map(|peer| Some((load(peer)?, (peer + nodes - self.me) % nodes, peer)));
        candidates.min().map(|(_, _, peer)| peer)
    }

    /// Stores a page, answers the clients that wait for it, and tells all other nodes.
    fn deliver(&mut self, key: &Key, page: Page, source: Source) {
        if let Some(evicted) = self.cache.insert(key.clone(), page.clone()) {
            self.counters.evicted += evicted.len() as u64;
            self.tell_change(key, &evicted);
        }
        self.answer(key, &Answer::Page(page, source));
    }

    fn answer(&mut self, key: &Key, answer: &Answer) {
        let waiting = self.pending.remove(key).unwrap_or_default();
        let count = waiting.len() as u64;
        match answer {
            Answer::Page(_, Source::Local) => self.counters.local += count,
            Answer::Page(_, Source::Peer) => self.counters.peer += count,
            Answer::Page(_, Source::Disk) => self.counters.disk += count,
            Answer::Missing => self.counters.missing += count,
            Answer::Failed => self.counters.failed += count,
        }
        let replies = waiting.into_iter().map(|ticket| Action::Reply(ticket, answer.clone()));
        self.actions.extend(replies);
    }

    fn tell_change(&mut self, key: &Key, evicted: &[Key]) {
        for peer in 0..self.links.len() {
            self.tell(peer, false, vec![key.clone()], evicted.to_vec());
        }
    }

    /// Tells a new peer all that is in memory.
    fn tell_all(&mut self, peer: usize) {
        let keys: Vec<Key> = self.cache.keys().cloned().collect();
        self.tell(peer, true, vec![], vec![]);
        for part in keys.chunks(KEYS_AT_A_TIME) {
            self.tell(peer, false, part.to_vec(), vec![]);
        }
    }

    /// A peer may ask for all again only when it has taken what waits for it.
    fn tell_all_again(&mut self, peer: usize) -> Result<(), Fault> {
        self.has_room(peer)?;
        self.tell_all(peer);
        Ok(())
    }

    fn tell(&mut self, peer: usize, is_reset: bool, added: Vec<Key>, evicted: Vec<Key>) {
        let Some(link) = self.links[peer].as_mut() else {
            return;
        };
        let number = link.number();
        let change = Change { number, is_reset, added, evicted };
        self.send(peer, Message::Changed(change));
    }

    fn send(&mut self, peer: usize, message: Message) {
        let Some(link) = self.links[peer].as_mut() else {
            return;
        };
        if let Some(message) = link.send(message, self.now) {
            self.actions.push(Action::Send(link.id, message));
        }
    }

    fn on_change(&mut self, peer: usize, change: Change) -> Result<(), Fault> {
        let Some(link) = self.links[peer].as_mut() else {
            return Ok(());
        };
        if let Err(request) = link.expects(&change) {
            if let Some(request) = request {
                self.counters.gaps += 1;
                self.send(peer, request);
            }
            return Ok(());
        }
        if change.is_reset {
            self.directory.forget(peer);
        }
        // A page that went in and straight out again is in both lists, in this order.
        for key in change.added {
            self.directory.add(peer, key);
        }
        for key in change.evicted {
            self.directory.remove(peer, &key);
        }
        match self.directory.keys_of(peer) > self.limits.keys_of_peer {
            true => Err(Fault::TooManyKeys),
            false => Ok(()),
        }
    }

    fn on_fetch(&mut self, peer: usize, id: FetchId, key: &Key) -> Result<(), Fault> {
        self.has_room(peer)?;
        let answer = match self.cache.get(key) {
            Some(page) => {
                self.counters.served += 1;
                Message::Page { id, page: page.clone() }
            }
            None => Message::Gone { id },
        };
        self.send(peer, answer);
        Ok(())
    }

    /// The bound of a queue: what stalls the node, a change for each page that was on its way then,
    /// all that is in memory, and an answer to each fetch that a peer can have made.
    fn has_room(&self, peer: usize) -> Result<(), Fault> {
        let waiting = self.links[peer].as_ref().map_or(0, Link::waiting);
        let all = self.cache.len() / KEYS_AT_A_TIME + 2;
        match waiting < self.limits.queue + 2 * self.limits.awaited + all {
            true => Ok(()),
            false => Err(Fault::TooMuchAsked),
        }
    }

    fn on_page(&mut self, peer: usize, id: FetchId, page: Page) -> Result<(), Fault> {
        let key = self.settle(peer, id)?;
        if !page.is_of(&key) {
            self.find_elsewhere(peer, &key);
            return Err(Fault::WrongPage);
        }
        self.deliver(&key, page, Source::Peer);
        Ok(())
    }

    fn on_gone(&mut self, peer: usize, id: FetchId) -> Result<(), Fault> {
        let key = self.settle(peer, id)?;
        self.counters.gone += 1;
        self.find_elsewhere(peer, &key);
        Ok(())
    }

    fn settle(&mut self, peer: usize, id: FetchId) -> Result<Key, Fault> {
        let now = self.now;
        let link = self.links[peer].as_mut().ok_or(Fault::WrongPage)?;
        link.note_progress(now);
        link.fetches.remove(&id).ok_or(Fault::WrongPage)
    }

    /// Gets a page elsewhere that `peer` does not have, though it said so.
    fn find_elsewhere(&mut self, peer: usize, key: &Key) {
        self.directory.remove(peer, key);
        self.find(key);
    }

    fn on_credit(&mut self, peer: usize, count: u32) -> Result<(), Fault> {
        let now = self.now;
        let Some(link) = self.links[peer].as_mut() else {
            return Ok(());
        };
        let id = link.id;
        let free = link.add_credit(count, now);
        let sends = free.into_iter().map(|message| Action::Send(id, message));
        self.actions.extend(sends);
        Ok(())
    }

    fn peer_of(&self, id: LinkId) -> Option<usize> {
        let is_same = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.id == id);
        self.links.iter().position(is_same)
    }

    /// Closes the connection with `peer`, if there is one.
    fn cut(&mut self, peer: usize, fault: Fault) {
        let Some(link) = &self.links[peer] else {
            return;
        };
        self.actions.push(Action::Drop(link.id, fault));
        self.lose(peer);
        self.membership.unlinked(peer);
    }

    /// Forgets a connection; pages requested over it are got elsewhere.
    fn lose(&mut self, peer: usize) {
        let Some(link) = self.links[peer].take() else {
            return;
        };
        self.counters.broken += 1;
        self.directory.forget(peer);
        for key in link.fetches.values() {
            self.find(key);
        }
    }

    /// Carries out the monitor's decisions.
    fn take_monitors_words(&mut self) {
        let Membership::Monitored(monitor) = &mut self.membership else {
            return;
        };
        let view = monitor.view();
        let fail_after = monitor.fail_after();
        self.counters.views = view.id.epoch;
        let now = self.now;
        for peer in 0..self.links.len() {
            let Some(link) = &self.links[peer] else {
                continue;
            };
            if !view.members.contains(peer) {
                self.cut(peer, Fault::NoMember);
            } else if link.wait_time(now) > fail_after {
                self.cut(peer, Fault::Silent);
            }
        }
        if let Membership::Monitored(monitor) = &mut self.membership {
            let words = monitor.outgoing().into_iter();
            self.actions.extend(words.map(|(to, datagram)| Action::Tell(to, datagram)));
        }
    }
}

/// A view of a node.
impl Node {
    /// Its number.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Its cluster, and how membership is decided.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Its pages in memory.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Its knowledge of the others.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Its connection with a peer.
    pub fn link(&self, peer: usize) -> Option<&Link> {
        self.links[peer].as_ref()
    }

    /// Peers with a connection.
    pub fn linked(&self) -> Members {
        let linked = (0..self.links.len()).filter(|&peer| self.links[peer].is_some());
        linked.fold(Members::default(), Members::with)
    }

    /// Pages that are on their way.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Its counts.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
