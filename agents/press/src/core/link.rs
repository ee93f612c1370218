//! One side of a kept connection. A sender has a window: the number of messages in flight until the
//! receiver reports that it has taken some. Further messages wait here, in order. The receiver
//! always takes messages, also while it waits for other nodes, so two nodes never wait for each
//! other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::message::{Change, FetchId, Key, Message};

/// Names a connection among all that this process ever had.
pub type LinkId = u64;

/// One side of a connection to another node.
pub struct Link {
    /// Which connection.
    pub id: LinkId,
    /// Requests to the peer that are not answered.
    pub fetches: BTreeMap<FetchId, Key>,
    window: u32,
    credit: u32,
    taken: u32,
    waiting: VecDeque<Message>,
    told: u64,
    heard: u64,
    is_resend_asked: bool,
    idle_since: Duration,
}

impl Link {
    /// A new connection.
    pub fn new(id: LinkId, window: u32, now: Duration) -> Self {
        Self {
            id,
            fetches: BTreeMap::new(),
            window,
            credit: window,
            taken: 0,
            waiting: VecDeque::new(),
            told: 0,
            heard: 0,
            is_resend_asked: false,
            idle_since: now,
        }
    }

    /// The message that may be sent now: `message`, unless it must wait.
    pub fn send(&mut self, message: Message, now: Duration) -> Option<Message> {
        if !message.is_counted() {
            return Some(message);
        }
        if !self.is_waited_for() {
            self.idle_since = now;
        }
        if self.credit == 0 {
            self.waiting.push_back(message);
            return None;
        }
        self.credit -= 1;
        Some(message)
    }

    /// Numbers a change.
    pub fn number(&mut self) -> u64 {
        self.told += 1;
        self.told
    }

    /// The receiver has taken `count`; returns what may go now.
    pub fn credited(&mut self, count: u32, now: Duration) -> Vec<Message> {
        self.progressed(now);
        // A peer that credits more than it got would open the window without a bound.
        self.credit = self.credit.saturating_add(count).min(self.window);
        let free = self.waiting.len().min(self.credit as usize);
        self.credit -= free as u32;
        self.waiting.drain(..free).collect()
    }

    /// A message was taken; returns the credit that is due.
    pub fn took(&mut self, message: &Message) -> Option<Message> {
        self.taken += u32::from(message.is_counted());
        let is_due = self.taken * 2 >= self.window;
        is_due.then(|| Message::Credit(std::mem::take(&mut self.taken)))
    }

    /// Accepts the change that is next in order. If one was lost, asks for all again, once.
    pub fn expects(&mut self, change: &Change) -> Result<(), Option<Message>> {
        if change.is_reset || (change.number == self.heard + 1 && !self.is_resend_asked) {
            self.heard = change.number;
            self.is_resend_asked = false;
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut self.is_resend_asked, true);
        Err(is_first.then_some(Message::Resend))
    }

    /// The peer did something that it was waited for.
    pub fn progressed(&mut self, now: Duration) {
        self.idle_since = now;
    }

    /// Time for which the peer has been awaited without an action.
    pub fn waited(&self, now: Duration) -> Duration {
        match self.is_waited_for() {
            true => now.saturating_sub(self.idle_since),
            false => Duration::ZERO,
        }
    }

    /// Messages that wait for room in the window.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Messages without an acknowledgement.
    pub fn unacknowledged(&self) -> u32 {
        self.window - self.credit
    }

    fn is_waited_for(&self) -> bool {
        !self.fetches.is_empty() || !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn gone(id: FetchId) -> Message {
        Message::Gone { id }
    }

    #[test]
    fn beyond_the_window_messages_wait_in_order() {
        let mut link = Link::new(1, 2, NOW);
        assert!(link.send(gone(1), NOW).is_some() && link.send(gone(2), NOW).is_some());
        assert!(link.send(gone(3), NOW).is_none() && link.send(gone(4), NOW).is_none());
        assert!(link.send(Message::Credit(1), NOW).is_some());
        assert_eq!(link.credited(1, NOW), [gone(3)]);
        assert_eq!(link.waiting(), 1);
    }

    #[test]
    fn credit_out_of_nothing_opens_no_window() {
        let mut link = Link::new(1, 2, NOW);
        link.credited(u32::MAX, NOW);
        assert_eq!(link.unacknowledged(), 0);
        let sent = (0..5).filter(|&id| link.send(gone(id), NOW).is_some());
        assert_eq!(sent.count(), 2);
    }

    #[test]
    fn a_lost_change_is_asked_for_once() {
        let mut link = Link::new(1, 2, NOW);
        let change = |number, is_reset| Change { number, is_reset, added: vec![], evicted: vec![] };
        assert_eq!(link.expects(&change(1, true)), Ok(()));
        assert_eq!(link.expects(&change(3, false)), Err(Some(Message::Resend)));
        assert_eq!(link.expects(&change(4, false)), Err(None));
        assert_eq!(link.expects(&change(5, true)), Ok(()));
        assert_eq!(link.expects(&change(6, false)), Ok(()));
    }
}
