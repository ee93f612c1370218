//! When a connection of a client's own is idle, to be closed as Redis' own `timeout` does.
//!
//! It is not while a reply is due (a blocking command waits so), while a transaction is open, or once
//! the client has asked for what comes by itself (`SUBSCRIBE`, `MONITOR`) or for no replies at all:
//! then replies tell nothing of commands any more. A client that neither speaks nor takes what it is
//! told is idle all the same.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::time::sleep;

use super::command::arguments;
use super::reply::Replies;
use crate::kv::{Dialect, Kind};
use crate::lock;

/// The state by which a connection is idle or not; both directions share it.
pub struct Idle {
    limit: Duration,
    state: Mutex<State>,
}

struct State {
    /// When one of the two sides last said something.
    heard: Instant,
    /// Commands without a reply.
    due: u64,
    in_transaction: bool,
    /// What comes is not counted: it is not one reply for each command.
    is_uncounted: bool,
    replies: Replies,
}

impl Idle {
    /// Over after `limit`.
    pub fn new(limit: Duration) -> Self {
        let state = State {
            heard: Instant::now(),
            due: 0,
            in_transaction: false,
            is_uncounted: false,
            replies: Replies::default(),
        };
        Self {
            limit,
            state: Mutex::new(state),
        }
    }

    /// How long it may last.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// The client has said something.
    pub fn heard(&self) {
        lock(&self.state).heard = Instant::now();
    }

    /// A command goes to the server.
    pub fn asked(&self, command: &[u8]) {
        let mut words = arguments(command);
        let name = words.next().unwrap_or_default();
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        let mut state = lock(&self.state);
        state.due += 1;
        if is(b"MULTI") {
            state.in_transaction = true;
        } else if is(b"EXEC") || is(b"DISCARD") || is(b"RESET") {
            state.in_transaction = false;
        }
        let mut silences = || {
            words
                .next()
                .is_some_and(|word| word.eq_ignore_ascii_case(b"REPLY"))
        };
        state.is_uncounted |= is(b"MONITOR") || subscribes(name) || is(b"CLIENT") && silences();
    }

    /// Follows what the server has said, as far as it is complete, and takes that out of `said`.
    pub fn told(&self, said: &mut BytesMut) {
        let mut state = lock(&self.state);
        state.heard = Instant::now();
        while !said.is_empty() && !state.is_uncounted {
            let Ok(followed) = state.replies.follow(said) else {
                state.is_uncounted = true;
                break;
            };
            said.advance(followed.used);
            match followed.reply {
                Some(Kind::Push) => {}
                Some(_) => state.due = state.due.saturating_sub(1),
                None => break,
            }
        }
        if state.is_uncounted {
            said.clear();
        }
    }

    /// Ready when the connection has been idle for the limit.
    pub async fn over(&self) {
        while let Some(left) = self.left() {
            sleep(left).await;
        }
    }

    /// How long until that may be; none when it is.
    fn left(&self) -> Option<Duration> {
        let state = lock(&self.state);
        if state.due > 0 || state.in_transaction || state.is_uncounted {
            return Some(self.limit);
        }
        let left = self.limit.saturating_sub(state.heard.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

/// `SUBSCRIBE`, `PUNSUBSCRIBE` and their like: a reply for each channel, or pushes.
fn subscribes(name: &[u8]) -> bool {
    const END: &[u8] = b"SUBSCRIBE";
    let start = name.len().checked_sub(END.len());
    start.is_some_and(|start| name[start..].eq_ignore_ascii_case(END))
}

#[cfg(test)]
mod tests {
    use super::super::command::with_lengths;
    use super::*;

    /// Of which everything is long over.
    fn idle(commands: &[&str], said: &str) -> Idle {
        let idle = Idle::new(Duration::ZERO);
        for command in commands {
            idle.asked(&with_lengths(command.as_bytes()));
        }
        idle.told(&mut BytesMut::from(said));
        idle
    }

    #[test]
    fn it_is_over_when_nothing_is_due_or_open() {
        for (commands, said) in [
            (&[][..], ""),
            (&["GET a"], "$-1\r\n"),
            (&["GET a", "GET b"], "$1\r\nx\r\n$1\r\ny\r\n"),
            (
                &["MULTI", "GET a", "EXEC"],
                "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n",
            ),
            (&["MULTI", "discard"], "+OK\r\n+OK\r\n"),
            (&["MULTI", "RESET"], "+OK\r\n+RESET\r\n"),
            (&["GET a"], ">2\r\n+invalidate\r\n*1\r\n+a\r\n_\r\n"),
            (&["CLIENT LIST"], "$0\r\n\r\n"),
        ] {
            assert_eq!(idle(commands, said).left(), None, "{commands:?}");
        }
    }

    #[test]
    fn it_is_not_while_the_client_waits_for_something() {
        for (commands, said) in [
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
            assert!(idle(commands, said).left().is_some(), "{commands:?}");
        }
    }
}
