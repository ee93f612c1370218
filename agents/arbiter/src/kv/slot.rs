//! A client's place to wait for its batch. Links put replies in, the client takes them out.
//!
//! A round has a ticket; a reply with an older ticket is late, and wasted. Buffers stay with the
//! slot from round to round.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use policy::ServerId;

use super::Failure;
use crate::lock;
use crate::memory::Held;

/// A buffer above this size is not kept.
const KEPT_MAX: usize = 64 * 1024;

/// A ticket of no round: the first is 1.
pub const NOBODY: u64 = 0;

/// Waits for the replies of one client.
#[derive(Default)]
pub struct Slot {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ticket: u64,
    mode: Mode,
    /// Replicas under way in this round.
    outstanding: usize,
    /// The probe of an ejected server among them, whose failure nobody is told.
    probe: Option<ServerId>,
    answered: bool,
    failure: Option<Failure>,
    /// Server of the reply.
    winner: Option<ServerId>,
    /// A server's error, used if there is no better reply.
    server_error: Option<BytesMut>,
    /// Every server's reply, as ranges of `replies`.
    gathered: Vec<(ServerId, Result<Range<usize>, Failure>)>,
    replies: BytesMut,
    /// Output for the client.
    out: BytesMut,
    /// Memory of `out`, and of output that was taken and not yet written.
    held: Option<Held>,
    waker: Option<Waker>,
}

/// The replies that a round waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The first good reply.
    #[default]
    Race,
    /// Every reply.
    Gather,
    /// A number of equal good replies, each of at most `bytes_max`.
    Agree {
        /// Number of equal replies.
        majority: usize,
        /// Larger replies agree with none.
        bytes_max: usize,
    },
}

/// Result of delivering a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the client.
    Won,
    /// It waits for others to agree.
    Kept,
    /// Another was faster, or the client has disconnected.
    Late,
}

impl Slot {
    /// Creates the slot of a client whose output counts for `held`.
    pub fn new(held: Held) -> Self {
        let slot = Self::default();
        slot.lock().held = Some(held);
        slot
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Begins a round and returns its ticket.
    pub fn open(&self, mode: Mode) -> u64 {
        let mut state = self.lock();
        state.ticket += 1;
        state.mode = mode;
        state.outstanding = 0;
        state.probe = None;
        state.answered = false;
        state.failure = None;
        state.winner = None;
        state.server_error = None;
        state.gathered.clear();
        state.replies.clear();
        state.ticket
    }

    /// Ends the round: later replies are discarded.
    pub fn close(&self) {
        self.lock().ticket += 1;
    }

    /// Announces one more replica.
    pub fn expect_one(&self) {
        self.lock().outstanding += 1;
    }

    /// Announces the probe of an ejected server.
    pub fn expect_probe(&self, server: ServerId) {
        let mut state = self.lock();
        state.outstanding += 1;
        state.probe = Some(server);
    }

    /// Delivers a complete reply of a server.
    pub fn fill(
        &self,
        ticket: u64,
        server: ServerId,
        reply: &[u8],
        is_server_error: bool,
    ) -> Verdict {
        let mut state = self.lock();
        let state = &mut *state;
        if state.ticket != ticket || state.answered {
            return Verdict::Late;
        }
        let is_probe = state.ended(server);
        let mode = state.mode;
        let verdict = match mode {
            Mode::Race | Mode::Agree { .. } if is_server_error && is_probe => Verdict::Kept,
            Mode::Race | Mode::Agree { .. } if is_server_error => {
                state.server_error = Some(BytesMut::from(reply));
                Verdict::Kept
            }
            Mode::Race if state.can_hold(reply.len()) => {
                state.answered = true;
                state.winner = Some(server);
                state.out.extend_from_slice(reply);
                Verdict::Won
            }
            Mode::Race => {
                state.failure = Some(Failure::TooMuch);
                Verdict::Kept
            }
            Mode::Agree { bytes_max, .. } if reply.len() > bytes_max => {
                state.failure = Some(Failure::Uncompared);
                Verdict::Kept
            }
            Mode::Agree { majority, .. } => state.agree(server, reply, majority),
            Mode::Gather => {
                let start = state.replies.len();
                state.replies.extend_from_slice(reply);
                let end = state.replies.len();
                state.gathered.push((server, Ok(start..end)));
                Verdict::Kept
            }
        };
        state.wake_when_decided();
        verdict
    }

    /// Ends a replica without a reply; false when nobody waits for it.
    pub fn fail(&self, ticket: u64, server: ServerId, failure: Failure) -> bool {
        let mut state = self.lock();
        if state.ticket != ticket || state.answered {
            return false;
        }
        if !state.ended(server) {
            state.failure = Some(failure);
        }
        if state.mode == Mode::Gather {
            state.gathered.push((server, Err(failure)));
        }
        state.wake_when_decided();
        true
    }

    /// Ready when the round is decided: in a race a reply is in the output, or all failed.
    pub fn poll_decided(&self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.poll_round(cx, false)
    }

    /// As `poll_decided`; while more replicas are `coming`, only a good reply decides.
    pub fn poll_round(&self, cx: &mut Context<'_>, coming: bool) -> Poll<Result<(), Failure>> {
        let mut state = self.lock();
        if state.answered {
            return Poll::Ready(Ok(()));
        }
        if !coming && state.is_over() {
            return Poll::Ready(match (state.mode, &state.server_error) {
                (Mode::Gather, _) => Ok(()),
                (Mode::Agree { .. }, _) if !state.gathered.is_empty() => Err(state.disagreement()),
                (_, Some(_)) => Err(Failure::ServerError),
                (_, None) => Err(state.failure.unwrap_or(Failure::NoServer)),
            });
        }
        if !matches!(&state.waker, Some(waker) if waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Every server's reply of a gathering, in the order of servers.
    pub fn each_reply(&self, mut visit: impl FnMut(ServerId, Result<&[u8], Failure>)) {
        let mut state = self.lock();
        let State { gathered, replies, .. } = &mut *state;
        gathered.sort_unstable_by_key(|(server, _)| *server);
        for (server, reply) in gathered {
            visit(*server, reply.clone().map(|range| &replies[range]));
        }
    }

    /// Adds a reply to the output.
    pub fn say(&self, bytes: &[u8]) {
        self.lock().out.extend_from_slice(bytes);
    }

    /// Takes the server's error that ended the round: see [`Failure::ServerError`].
    pub fn take_server_error(&self) -> BytesMut {
        let mut state = self.lock();
        // A reply that comes now is late.
        state.answered = true;
        state.server_error.take().unwrap_or_default()
    }

    /// Bytes of output that wait for the client.
    pub fn output_len(&self) -> usize {
        self.lock().out.len()
    }

    /// The server that won the race.
    pub fn winner(&self) -> Option<ServerId> {
        self.lock().winner
    }

    /// Looks at the output from `place` on.
    pub fn output_from<T>(&self, place: usize, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.lock().out[place..])
    }

    /// Takes the output from `place` on.
    pub fn cut_output(&self, place: usize) -> BytesMut {
        self.lock().out.split_off(place)
    }

    /// The byte at `place` of the output.
    pub fn output_at(&self, place: usize) -> Option<u8> {
        self.lock().out.get(place).copied()
    }

    /// Exchanges the output for an empty buffer.
    pub fn take_output(&self, empty: &mut BytesMut) {
        debug_assert!(empty.is_empty());
        if empty.capacity() > KEPT_MAX {
            *empty = BytesMut::new();
        }
        let mut state = self.lock();
        if state.replies.capacity() > KEPT_MAX {
            state.replies = BytesMut::new();
        }
        std::mem::swap(&mut state.out, empty);
    }
}

impl Slot {
    /// Notes that the bytes taken from the output are written.
    pub fn written(&self) {
        let mut state = self.lock();
        let left = state.out.len();
        if let Some(held) = &mut state.held {
            // Less than before, so that it is had.
            held.cover(left);
        }
    }
}

impl State {
    /// Notes the end of a replica; true if it was the probe.
    fn ended(&mut self, server: ServerId) -> bool {
        self.outstanding -= 1;
        self.probe.take_if(|probe| *probe == server).is_some()
    }

    /// True if all replicas but the probe have failed, so that another server is asked.
    fn is_over(&self) -> bool {
        let is_probe_left = self.outstanding == 1 && self.probe.is_some();
        self.outstanding == 0 || (is_probe_left && self.server_error.is_none())
    }

    /// True if this many more bytes of output may be held.
    fn can_hold(&mut self, more: usize) -> bool {
        let bytes = self.out.len() + more;
        self.held.as_mut().map_or(true, |held| held.cover(bytes))
    }

    /// Adds a reply; it wins if enough agree with it.
    fn agree(&mut self, server: ServerId, reply: &[u8], majority: usize) -> Verdict {
        if !self.can_hold(self.replies.len() + reply.len()) {
            self.failure = Some(Failure::TooMuch);
            return Verdict::Kept;
        }
        let replies = &self.replies;
        let same = |other: &Result<Range<usize>, Failure>| match other {
            Ok(range) => &replies[range.clone()] == reply,
            Err(_) => false,
        };
        let agree = 1 + self.gathered.iter().filter(|(_, other)| same(other)).count();
        if agree >= majority {
            self.answered = true;
            self.out.extend_from_slice(reply);
            return Verdict::Won;
        }
        let start = self.replies.len();
        self.replies.extend_from_slice(reply);
        self.gathered.push((server, Ok(start..self.replies.len())));
        Verdict::Kept
    }

    /// Reason for passing none of the replies on.
    fn disagreement(&self) -> Failure {
        let bytes = |place: usize| match &self.gathered[place].1 {
            Ok(range) => &self.replies[range.clone()],
            Err(_) => &[],
        };
        if (1..self.gathered.len()).any(|place| bytes(place) != bytes(0)) {
            Failure::Disagreed
        } else {
            Failure::Alone
        }
    }

    fn wake_when_decided(&mut self) {
        if self.answered || self.is_over() {
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(slot: &Slot) -> Poll<Result<(), Failure>> {
        slot.poll_decided(&mut Context::from_waker(Waker::noop()))
    }

    fn output(slot: &Slot) -> Vec<u8> {
        let mut out = BytesMut::new();
        slot.take_output(&mut out);
        out.to_vec()
    }

    #[test]
    fn the_first_good_reply_wins_and_the_others_are_late() {
        let slot = Slot::default();
        let ticket = slot.open(Mode::Race);
        slot.expect_one();
        slot.expect_one();
        assert!(decided(&slot).is_pending());
        assert_eq!(slot.fill(ticket, 1, b"one", false), Verdict::Won);
        assert_eq!(slot.fill(ticket, 0, b"two", false), Verdict::Late);
        assert_eq!(decided(&slot), Poll::Ready(Ok(())));
        assert_eq!(output(&slot), b"one");
    }

    #[test]
    fn a_reply_of_an_earlier_round_never_reaches_the_client() {
        let slot = Slot::default();
        let old = slot.open(Mode::Race);
        slot.expect_one();
        slot.close();
        let new = slot.open(Mode::Race);
        slot.expect_one();
        assert_eq!(slot.fill(old, 0, b"old", false), Verdict::Late);
        assert!(!slot.fail(old, 0, Failure::Closed));
        assert!(decided(&slot).is_pending());
        assert_eq!(slot.fill(new, 0, b"new", false), Verdict::Won);
        assert_eq!(output(&slot), b"new");
    }

    #[test]
    fn what_nobody_waits_for_counts_for_no_round() {
        let slot = Slot::default();
        slot.open(Mode::Race);
        slot.expect_one();
        assert_eq!(slot.fill(NOBODY, 0, b"late", false), Verdict::Late);
        assert!(!slot.fail(NOBODY, 0, Failure::Closed));
        assert!(decided(&slot).is_pending());
    }

    #[test]
    fn a_server_error_is_used_only_when_no_other_reply_came() {
        let slot = Slot::default();
        let ticket = slot.open(Mode::Race);
        slot.expect_one();
        slot.expect_one();
        assert_eq!(slot.fill(ticket, 0, b"-LOADING", true), Verdict::Kept);
        assert!(decided(&slot).is_pending());
        assert!(slot.fail(ticket, 1, Failure::Closed));
        assert_eq!(decided(&slot), Poll::Ready(Err(Failure::ServerError)));
        assert_eq!(slot.take_server_error(), "-LOADING");
        assert_eq!(slot.fill(ticket, 2, b"late", false), Verdict::Late);
        assert_eq!(output(&slot), b"");
    }

    #[test]
    fn what_a_probe_fails_with_goes_to_nobody_and_its_good_reply_may_win() {
        let probed = |other: usize| {
            let slot = Slot::default();
            let ticket = slot.open(Mode::Race);
            slot.expect_one();
            slot.expect_probe(other);
            (slot, ticket)
        };
        let (slot, ticket) = probed(1);
        assert_eq!(slot.fill(ticket, 1, b"-MASTERDOWN", true), Verdict::Kept);
        assert!(decided(&slot).is_pending());
        assert!(slot.fail(ticket, 0, Failure::Closed));
        assert_eq!(decided(&slot), Poll::Ready(Err(Failure::Closed)));

        let (slot, ticket) = probed(1);
        assert!(slot.fail(ticket, 1, Failure::TimedOut));
        assert!(decided(&slot).is_pending());
        assert!(slot.fail(ticket, 0, Failure::Closed));
        assert_eq!(decided(&slot), Poll::Ready(Err(Failure::Closed)));

        let (slot, ticket) = probed(1);
        assert!(slot.fail(ticket, 0, Failure::Closed));
        let retried = Poll::Ready(Err(Failure::Closed));
        assert_eq!(decided(&slot), retried, "not at the probe's time-out");

        let (slot, ticket) = probed(1);
        assert_eq!(slot.fill(ticket, 1, b"well", false), Verdict::Won);
        assert_eq!(decided(&slot), Poll::Ready(Ok(())));
    }

    #[test]
    fn an_error_does_not_win_while_a_replica_is_still_to_be_sent() {
        let slot = Slot::default();
        let ticket = slot.open(Mode::Race);
        slot.expect_one();
        assert_eq!(slot.fill(ticket, 0, b"-LOADING", true), Verdict::Kept);
        let context = &mut Context::from_waker(Waker::noop());
        assert!(slot.poll_round(context, true).is_pending());
        let decided = slot.poll_round(context, false);
        assert_eq!(decided, Poll::Ready(Err(Failure::ServerError)));
    }

    #[test]
    fn a_reply_wins_when_a_majority_gave_it() {
        let slot = Slot::default();
        let (majority, bytes_max) = (2, 4);
        let ticket = slot.open(Mode::Agree { majority, bytes_max });
        (0..4).for_each(|_| slot.expect_one());
        assert_eq!(slot.fill(ticket, 0, b"lie", false), Verdict::Kept);
        assert_eq!(slot.fill(ticket, 1, b"large", false), Verdict::Kept);
        assert_eq!(slot.fill(ticket, 2, b"true", false), Verdict::Kept);
        assert!(decided(&slot).is_pending());
        assert_eq!(slot.fill(ticket, 3, b"true", false), Verdict::Won);
        assert_eq!(decided(&slot), Poll::Ready(Ok(())));
        assert_eq!(output(&slot), b"true");
    }

    #[test]
    fn without_a_majority_nothing_goes_to_the_client() {
        for (replies, expected) in [
            (&[&b"one"[..], b"two"][..], Failure::Disagreed),
            (&[b"one"], Failure::Alone),
            (&[b"large"], Failure::Uncompared),
        ] {
            let slot = Slot::default();
            let (majority, bytes_max) = (2, 4);
            let ticket = slot.open(Mode::Agree { majority, bytes_max });
            for (server, reply) in replies.iter().enumerate() {
                slot.expect_one();
                assert_eq!(slot.fill(ticket, server, reply, false), Verdict::Kept);
            }
            assert_eq!(decided(&slot), Poll::Ready(Err(expected)));
            assert_eq!(output(&slot), b"");
        }
    }

    #[test]
    fn a_gathering_waits_for_all() {
        let slot = Slot::default();
        let ticket = slot.open(Mode::Gather);
        slot.expect_one();
        slot.expect_one();
        slot.fill(ticket, 1, b"b", false);
        assert!(decided(&slot).is_pending());
        slot.fail(ticket, 0, Failure::TimedOut);
        assert_eq!(decided(&slot), Poll::Ready(Ok(())));
        let mut replies = vec![];
        slot.each_reply(|server, reply| replies.push((server, reply.map(<[u8]>::to_vec))));
        assert_eq!(replies, [(0, Err(Failure::TimedOut)), (1, Ok(b"b".to_vec()))]);
    }
}
