//! A loop's connections, by slot, and those among them that are idle.

use std::collections::VecDeque;

use crate::clock::SECOND;
use crate::conn::Conn;

/// Below the keep-alive limit of any server we drive (Apache: 5 s).
const IDLE_NS: i64 = 2 * SECOND;

/// A connection that was idle for longer is looked at before it is used: the server may be gone.
const LOOK_NS: i64 = SECOND / 1_000;

/// A time of what the connection did when it had this stamp.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Time.
    pub at_ns: i64,
    /// Slot of the connection.
    pub slot: usize,
    /// See `Conn`.
    pub stamp: u64,
}

/// The connections of one loop.
#[derive(Debug)]
pub struct Pool {
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    /// Idle connections by target, the last used at the back.
    idle: Vec<VecDeque<Mark>>,
    stamp: u64,
}

impl Pool {
    /// Empty; there are so many targets.
    pub fn new(targets: usize) -> Self {
        Self { conns: vec![], free: vec![], idle: vec![VecDeque::new(); targets], stamp: 0 }
    }

    /// Another stamp than all before.
    pub fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// A slot that is free, and stays so until it is filled.
    pub fn free_slot(&mut self) -> usize {
        if let Some(&slot) = self.free.last() {
            return slot;
        }
        self.conns.push(None);
        self.free.push(self.conns.len() - 1);
        self.conns.len() - 1
    }

    /// Fills the slot that `free_slot` gave.
    pub fn fill(&mut self, slot: usize, conn: Conn) {
        self.free.pop();
        self.conns[slot] = Some(conn);
    }

    /// The connection in a slot.
    pub fn get(&mut self, slot: usize) -> Option<&mut Conn> {
        self.conns.get_mut(slot).and_then(Option::as_mut)
    }

    /// The connection that the mark is of, unless it does something else by now.
    pub fn of(&mut self, mark: &Mark) -> Option<&mut Conn> {
        self.get(mark.slot).filter(|conn| conn.stamp == mark.stamp)
    }

    /// Closes a connection.
    pub fn close(&mut self, slot: usize) {
        // With its last owner, which takes it out of the poll.
        self.conns[slot] = None;
        self.free.push(slot);
    }

    /// Keeps a connection for another request.
    pub fn keep_idle(&mut self, slot: usize, now_ns: i64) {
        let stamp = self.next_stamp();
        if let Some(conn) = self.get(slot) {
            conn.keep_idle(stamp);
            let target = conn.target;
            self.idle[target].push_back(Mark { at_ns: now_ns, slot, stamp });
        }
    }

    /// The connection used last, if it is still good; older ones than `IDLE_NS` are closed.
    pub fn reusable(&mut self, target: usize, now_ns: i64) -> Option<usize> {
        while let Some(oldest) = self.idle[target].front().copied() {
            if self.of(&oldest).is_some() {
                if now_ns - oldest.at_ns <= IDLE_NS {
                    break;
                }
                self.close(oldest.slot);
            }
            self.idle[target].pop_front();
        }
        while let Some(latest) = self.idle[target].pop_back() {
            let Some(conn) = self.of(&latest) else {
                continue;
            };
            if now_ns - latest.at_ns <= LOOK_NS || conn.is_silent() {
                return Some(latest.slot);
            }
            self.close(latest.slot);
        }
        None
    }
}
