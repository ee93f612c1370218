//! Shared parts of the Redis and the memcached arbiter: one connection per server for all clients.
//!
//! Commands of many clients share a connection (a *link*), and replies return in the same order, so
//! one system call serves many clients. A run of pipelined commands of one kind is a *batch*: one
//! choice of servers, one place in the link's queue, one answer. A client's batches are sequential,
//! each answered before the next is sent, so the order is kept.
//!
//! | module | content |
//! |---|---|
//! | `link` | one shared connection: writes what is queued, matches replies in order |
//! | `queue` | the batches that wait on a link |
//! | `window` | the number of unanswered commands of a server |
//! | `front` | the links to all servers |
//! | `slot` | a client's place to wait for the first good reply of a race, or for all replies |
//! | `round` | one batch: to r servers, to one, or to all |
//! | `client` | common parts of a client's connection |
//! | `socket` | a client's socket, without a buffer while it is idle |

pub mod client;
pub mod front;
pub mod link;
pub mod queue;
pub mod round;
pub mod slot;
pub mod socket;
mod window;

use thiserror::Error;

use crate::claims::NoPrimary;

/// Maximum size of a command, and of a batch's reply.
pub const HELD_MAX: usize = 64 * 1024 * 1024;
/// Maximum commands in one batch.
pub const BATCH_MAX: u32 = 1024;

/// Reason for a batch without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Failure {
    /// Nothing was sent.
    #[error("no server could be reached")]
    Connect,
    /// The batch may have been executed.
    #[error("the server closed the connection without a reply")]
    Closed,
    /// The batch may have been executed.
    #[error("the server did not reply in time")]
    TimedOut,
    /// The server violated the protocol.
    #[error("the server's reply was broken")]
    Broken,
    /// It was executed.
    #[error("the server's reply is larger than 64 MiB")]
    TooLarge,
    /// Nothing was sent.
    #[error("too many requests wait for a server")]
    Busy,
    /// Nothing was sent.
    #[error("no server is alive")]
    NoServer,
    /// Nothing was sent.
    #[error("{0}")]
    NoPrimary(NoPrimary),
    /// Nothing was sent.
    #[error("the CAS value is of another server")]
    Foreign,
    /// Nothing was sent.
    #[error("no server came free in time")]
    NoToken,
    /// Nothing was sent.
    #[error("the arbiter has no connection left to ask with")]
    Local,
    /// The server refused to execute it; the reply is in the slot.
    #[error("the server replied with an error of its own making")]
    ServerError,
    /// It was executed.
    #[error("the replicas' replies differ, no majority agrees")]
    Disagreed,
    /// It was executed.
    #[error("fewer replicas replied than have to agree")]
    Alone,
    /// It was executed.
    #[error("the reply is larger than may be compared")]
    Uncompared,
    /// It was executed.
    #[error("too much is held for clients that read slowly")]
    TooMuch,
}

const NOT_EXECUTED: &str = "; it was not executed";

impl Failure {
    /// The failure of two after which more may have been executed.
    pub fn or_worse(self, other: Self) -> Self {
        if self.fate() == NOT_EXECUTED {
            other
        } else {
            self
        }
    }

    /// True if replies came of which too few agree.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::Disagreed | Self::Alone | Self::Uncompared)
    }

    /// The failure of a batch that was not sent by then.
    fn before_sending(self) -> Self {
        match self {
            Self::Closed | Self::TimedOut | Self::Broken => Self::Connect,
            other => other,
        }
    }

    /// Words on the execution of a write without a reply.
    pub fn fate(self) -> &'static str {
        match self {
            Self::Closed | Self::TimedOut | Self::Broken => "; it may have been executed",
            Self::TooLarge | Self::TooMuch | Self::Disagreed | Self::Alone | Self::Uncompared => {
                "; it was executed"
            }
            Self::Connect
            | Self::Busy
            | Self::NoServer
            | Self::NoPrimary(_)
            | Self::Foreign
            | Self::NoToken
            | Self::ServerError
            | Self::Local => NOT_EXECUTED,
        }
    }
}

/// A violation of the protocol by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("broken reply: {0}")]
pub struct Broken(pub &'static str);

/// The kind of a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A reply, or an error of the command's making.
    Reply,
    /// An error of the server's making, which does not win while another replica may.
    ServerError,
    /// Not a reply to anything (RESP3 push): dropped.
    Push,
    /// The reply to the no-op that ends a batch whose replies cannot be counted.
    Fence,
}

/// Result of a step of a [`Dialect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Bytes that were used; the others are passed again, with more behind them.
    pub used: usize,
    /// Kind of the reply that ends there, if one does.
    pub reply: Option<Kind>,
}

/// A protocol whose clients share connections: its state, and the ends of replies.
pub trait Dialect: Default + Send + 'static {
    /// State that the clients of all threads share.
    type State: Send + Sync + 'static;

    /// Kinds of links to a server, for example RESP2 and RESP3.
    const FLAVOURS: usize;

    /// The error for a command that finds no memory.
    const TOO_MUCH: &'static [u8];

    /// The first command of a new link, with one reply; may be empty.
    fn greeting(flavour: usize) -> &'static [u8];

    /// Follows replies up to the end of one.
    fn follow(&mut self, bytes: &[u8]) -> Result<Followed, Broken>;
}

/// Position of the line's end (its `\r\n`) in `bytes`; none yet.
///
/// # Errors
/// When there is none within `most` bytes, or a line feed stands alone.
pub fn line_end(bytes: &[u8], most: usize) -> Result<Option<usize>, Broken> {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(0) => Err(Broken("a line feed without a carriage return")),
        Some(at) if bytes[at - 1] != b'\r' => Err(Broken("a line feed without a carriage return")),
        Some(at) if at > most => Err(Broken("a line is too long")),
        Some(at) => Ok(Some(at - 1)),
        None if bytes.len() > most => Err(Broken("a line is too long")),
        None => Ok(None),
    }
}

/// A decimal number without sign or leading zeros, at most 18 digits.
pub fn number(digits: &[u8]) -> Option<u64> {
    let canonical = match digits {
        [] => false,
        [b'0'] => true,
        [b'0', ..] => false,
        _ => digits.len() <= 18,
    };
    (canonical && digits.iter().all(u8::is_ascii_digit))
        .then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Takes the available part of a string of which `due` bytes, line end included, are to come.
/// Returns its length.
pub fn take_ended(due: &mut u64, bytes: &[u8]) -> Result<usize, Broken> {
    let taken = (*due).min(bytes.len() as u64);
    let length = usize::try_from(taken).unwrap_or(bytes.len());
    let after = *due - taken;
    // The last two bytes are at the distances 1 and 0 from the end.
    for (distance, expected) in [(1, b'\r'), (0, b'\n')] {
        if after <= distance && distance - after < taken {
            let back = usize::try_from(distance - after).unwrap_or(0);
            if bytes[length - 1 - back] != expected {
                return Err(Broken("a string must end with CR LF"));
            }
        }
    }
    *due = after;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_servers_failures_that_is_told_of_which_more_may_have_been_done() {
        for (one, two, told) in [
            (Failure::NoServer, Failure::Busy, Failure::Busy),
            (Failure::TimedOut, Failure::Busy, Failure::TimedOut),
            (Failure::Busy, Failure::TimedOut, Failure::TimedOut),
            (Failure::TooLarge, Failure::Connect, Failure::TooLarge),
        ] {
            assert_eq!(one.or_worse(two), told);
        }
    }
}
