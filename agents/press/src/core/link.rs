//! One side of a kept connection. A sender has a window: the number of messages in flight until the
//! receiver reports that it has taken some. Further messages wait here, in order. The receiver
//! always takes messages, also while it waits for other nodes, so two nodes never wait for each
//! other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::message::{Change, FetchId, Key, Message};

/// Number of a connection, unique in this process.
pub type LinkId = u64;

/// One side of a connection to another node.
pub struct Link {
    /// Number of the connection.
    pub id: LinkId,
    /// Requests to the peer that are not answered.
    pub fetches: BTreeMap<FetchId, Key>,
    window: u32,
    credit: u32,
    accepted: u32,
    waiting: VecDeque<Message>,
    sent_number: u64,
    received_number: u64,
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
            accepted: 0,
            waiting: VecDeque::new(),
            sent_number: 0,
            received_number: 0,
            is_resend_asked: false,
            idle_since: now,
        }
    }

    /// Returns the message if it may be sent now; otherwise it waits here.
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
        self.sent_number += 1;
        self.sent_number
    }

    /// Takes a credit of `count`; returns the messages that may be sent now.
    pub fn add_credit(&mut self, count: u32, now: Duration) -> Vec<Message> {
        self.note_progress(now);
        // A peer that credits more than it got would open the window without a bound.
        self.credit = self.credit.saturating_add(count).min(self.window);
        let free = self.waiting.len().min(self.credit as usize);
        self.credit -= free as u32;
        self.waiting.drain(..free).collect()
    }

    /// Counts a received message; returns the credit that is due.
    pub fn accept(&mut self, message: &Message) -> Option<Message> {
        self.accepted += u32::from(message.is_counted());
        let is_due = self.accepted * 2 >= self.window;
        is_due.then(|| Message::Credit(std::mem::take(&mut self.accepted)))
    }

    /// Accepts the change that is next in order. If one was lost, asks for all again, once.
    pub fn expects(&mut self, change: &Change) -> Result<(), Option<Message>> {
        if change.is_reset || (change.number == self.received_number + 1 && !self.is_resend_asked) {
            self.received_number = change.number;
            self.is_resend_asked = false;
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut self.is_resend_asked, true);
        Err(is_first.then_some(Message::Resend))
    }

    /// Notes an action of the peer that was waited for.
    pub fn note_progress(&mut self, now: Duration) {
        self.idle_since = now;
    }

    /// Time for which the peer has been awaited without an action.
    pub fn wait_time(&self, now: Duration) -> Duration {
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

    fn miss(id: FetchId) -> Message {
        Message::Gone { id }
    }

    #[test]
    fn beyond_the_window_messages_wait_in_order() {
        let mut link = Link::new(1, 2, NOW);
        assert!(link.send(miss(1), NOW).is_some() && link.send(miss(2), NOW).is_some());
        assert!(link.send(miss(3), NOW).is_none() && link.send(miss(4), NOW).is_none());
        assert!(link.send(Message::Credit(1), NOW).is_some());
        assert_eq!(link.add_credit(1, NOW), [miss(3)]);
        assert_eq!(link.waiting(), 1);
    }

    #[test]
    fn credit_out_of_nothing_opens_no_window() {
        let mut link = Link::new(1, 2, NOW);
        link.add_credit(u32::MAX, NOW);
        assert_eq!(link.unacknowledged(), 0);
        let messages = (0..5).filter(|&id| link.send(miss(id), NOW).is_some());
        assert_eq!(messages.count(), 2);
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
