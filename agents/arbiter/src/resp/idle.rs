//! The times when a client's own connection is idle and is closed, as by Redis' `timeout`, and when
//! its client no longer needs it, because nothing holds it (`hold`).
//!
//! It is not idle while a reply is due (a blocking command), while a transaction is open, or after
//! the client asked for messages (`SUBSCRIBE`, `MONITOR`) or for no replies: then replies no longer
//! belong to commands. A client that neither sends nor takes anything is idle nevertheless.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::command::arguments;
use super::hold::{effect, Effect, Hold, Manners, START};
use super::reply::Replies;
use crate::kv::{Dialect, Kind};
use crate::lock;

/// Maximum commands under way whose replies are followed; a client that sends more at once stays
/// pinned.
const DUE_MAX: usize = 16 * 1024;

/// Idle state of a connection, shared by both directions.
pub struct Idle {
    limit: Duration,
    state: Mutex<State>,
    /// Notified when the client no longer needs the connection.
    freed: Notify,
}

struct State {
    /// Time of the last bytes in either direction.
    heard: Instant,
    /// Effects of the commands without a reply.
    due: VecDeque<Effect>,
    hold: Hold,
    /// Start of the present reply.
    start: Vec<u8>,
    /// True if there is not one reply for each command.
    is_uncounted: bool,
    /// True if the client may have got a reply in part.
    is_within_reply: bool,
    replies: Replies,
}

impl Idle {
    /// Ends after `limit`.
    pub fn new(limit: Duration, manners: Manners) -> Self {
        let state = State {
            heard: Instant::now(),
            due: VecDeque::new(),
            hold: Hold::new(manners),
            start: Vec::with_capacity(START),
            is_uncounted: false,
            is_within_reply: false,
            replies: Replies::default(),
        };
        Self { limit, state: Mutex::new(state), freed: Notify::new() }
    }

    /// The idle limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Notes bytes of the client.
    pub fn note_input(&self) {
        lock(&self.state).heard = Instant::now();
    }

    /// Notes a command for the server.
    pub fn note_command(&self, command: &[u8]) {
        let mut words = arguments(command);
        let name = words.next().unwrap_or_default();
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        let mut silences = || words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"REPLY"));
        let mut state = lock(&self.state);
        state.is_uncounted |= is(b"MONITOR") || subscribes(name) || is(b"CLIENT") && silences();
        state.is_uncounted |= state.due.len() >= DUE_MAX;
        if state.is_uncounted {
            state.due.clear();
        } else {
            state.due.push_back(effect(command));
        }
    }

    /// Notes that bytes of the server are being passed on.
    pub fn passing(&self) {
        lock(&self.state).is_within_reply = true;
    }

    /// True if the client waits for a reply or has state, and no reply was passed on in part.
    pub fn can_be_told(&self) -> bool {
        let state = lock(&self.state);
        let is_between = !state.is_within_reply && !state.is_uncounted;
        is_between && (!state.due.is_empty() || state.hold.is_held())
    }

    /// Follows the server's complete replies and removes them from `bytes`. Returns the number of
    /// commands answered.
    pub fn note_replies(&self, bytes: &mut BytesMut) -> u64 {
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.heard = Instant::now();
        let mut replies = 0;
        while !bytes.is_empty() && !state.is_uncounted {
            let Ok(followed) = state.replies.follow(bytes) else {
                state.is_uncounted = true;
                break;
            };
            let missing = START - state.start.len();
            state.start.extend_from_slice(&bytes[..followed.used.min(missing)]);
            bytes.advance(followed.used);
            match followed.reply {
                Some(Kind::Push) => state.start.clear(),
                Some(_) => {
                    replies += 1;
                    if let Some(effect) = state.due.pop_front() {
                        state.hold.replied(effect, &state.start);
                    }
                    state.start.clear();
                }
                None => break,
            }
        }
        state.is_within_reply = !bytes.is_empty() || !state.start.is_empty();
        if state.is_uncounted {
            bytes.clear();
        } else if bytes.is_empty() && state.is_free() {
            self.freed.notify_one();
        }
        replies
    }

    /// Waits until the client no longer needs the connection: it has all replies, and no state
    /// remains.
    pub async fn freed(&self) {
        loop {
            self.freed.notified().await;
            if lock(&self.state).is_free() {
                return;
            }
        }
    }

    /// Protocol settings for later connections.
    pub fn into_manners(self) -> Manners {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(std::sync::PoisonError::into_inner);
        state.hold.manners
    }

    /// Waits until the connection has been idle for the limit.
    pub async fn over(&self) {
        while let Some(left) = self.left() {
            sleep(left).await;
        }
    }

    /// Remaining time; none if it is over.
    fn left(&self) -> Option<Duration> {
        let state = lock(&self.state);
        if !state.due.is_empty() || state.hold.is_in_transaction() || state.is_uncounted {
            return Some(self.limit);
        }
        let left = self.limit.saturating_sub(state.heard.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

impl State {
    fn is_free(&self) -> bool {
        self.due.is_empty() && !self.is_uncounted && !self.hold.is_held()
    }
}

/// True for `SUBSCRIBE`, `PUNSUBSCRIBE` and similar: a reply for each channel, or pushes.
fn subscribes(name: &[u8]) -> bool {
    const END: &[u8] = b"SUBSCRIBE";
    let start = name.len().checked_sub(END.len());
    start.is_some_and(|start| name[start..].eq_ignore_ascii_case(END))
}

#[cfg(test)]
mod tests {
    use super::super::command::with_lengths;
    use super::*;

    /// Idle state after complete replies.
    fn idle(commands: &[&str], replies: &str) -> Idle {
        let idle = Idle::new(Duration::ZERO, Manners::default());
        for command in commands {
            idle.note_command(&with_lengths(command.as_bytes()));
        }
        idle.note_replies(&mut BytesMut::from(replies));
        idle
    }

    #[test]
    fn it_is_over_when_nothing_is_due_or_open() {
        for (commands, replies) in [
            (&[][..], ""),
            (&["GET a"], "$-1\r\n"),
            (&["GET a", "GET b"], "$1\r\nx\r\n$1\r\ny\r\n"),
            (&["MULTI", "GET a", "EXEC"], "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n"),
            (&["MULTI", "discard"], "+OK\r\n+OK\r\n"),
            (&["MULTI", "RESET"], "+OK\r\n+RESET\r\n"),
            (&["GET a"], ">2\r\n+invalidate\r\n*1\r\n+a\r\n_\r\n"),
            (&["CLIENT LIST"], "$0\r\n\r\n"),
        ] {
            assert_eq!(idle(commands, replies).left(), None, "{commands:?}");
        }
    }

    #[test]
    fn it_is_not_while_the_client_waits_for_something() {
        for (commands, replies) in [
            (&["BLPOP q 0"][..], ""),
            (&["GET a", "BLPOP q 0"], "$-1\r\n"),
            (&["GET a"], "$5\r\nabc"),
            (&["GET a"], ">2\r\n+invalidate\r\n*1\r\n+a\r\n"),
            (&["multi"], "+OK\r\n"),
            (&["MULTI", "GET a"], "+OK\r\n+QUEUED\r\n"),
            (&["SUBSCRIBE a b"], "*3\r\n+subscribe\r\n+a\r\n:1\r\n"),
            (&["psubscribe *"], ""),
            (&["UNSUBSCRIBE"], ">3\r\n+unsubscribe\r\n_\r\n:0\r\n"),
            (&["MONITOR"], "+OK\r\n+1 GET a\r\n"),
            (&["CLIENT REPLY OFF", "GET a"], ""),
            (&["GET a"], "not RESP\r\n"),
        ] {
            assert!(idle(commands, replies).left().is_some(), "{commands:?}");
        }
    }
}
