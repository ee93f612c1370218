//! The types between a client's connection and its session: its start, the targets and results of
//! commands.

use bytes::Bytes;
use policy::Refused;
use tokio::sync::mpsc;

use super::classify::Effect;
use super::contest::Piece;
use super::handshake::Key;
use super::packet::Packet;
use super::reply::Shape;
use crate::claims::NoPrimary;
use crate::collision_avoidance::Stamp;

/// Servers of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To all; the first reply wins.
    Race,
    /// To the server that answered last.
    One,
    /// To the server that executed the last write, for its traces.
    Left,
    /// To the writer; leaves nothing in the session.
    Write,
    /// To one server, as everything after it.
    Pin,
    /// As `Pin`, and the session has locks from then on.
    Lock,
    /// To all; all must succeed.
    Session(Effect),
}

impl Route {
    /// True if it pins the session to one server.
    pub fn pins(&self) -> bool {
        matches!(self, Self::Pin | Self::Lock)
    }

    /// True if the session may have locks from then on that are not in the server's status; none
    /// for no change.
    pub fn locks(&self) -> Option<bool> {
        match self {
            Self::Lock => Some(true),
            Self::Session(Effect::Reset) => Some(false),
            Self::Race | Self::One | Self::Left | Self::Write | Self::Pin | Self::Session(_) => {
                None
            }
        }
    }
}

/// A command's role for a prepared statement. The client knows a statement by a number of the
/// arbiter's; each server has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statement {
    /// Nothing.
    #[default]
    None,
    /// It is prepared and gets this number.
    Prepare(u32),
    /// It is executed, or used otherwise.
    Use(u32),
    /// It is closed.
    Close(u32),
}

/// A command of the client, with its classification.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// As received, with the arbiter's number of the statement.
    pub packet: &'a Packet,
    /// The form of its reply.
    pub shape: Shape,
    /// Its servers.
    pub route: &'a Route,
    /// The prepared statement, if there is one.
    pub statement: Statement,
}

/// Result of a command.
pub enum Verdict {
    /// Packets for the client; more in `rest` where it is set.
    Reply {
        /// Complete unless `rest` is set.
        packets: Bytes,
        /// The next pieces.
        rest: Option<mpsc::Receiver<Piece>>,
    },
    /// There is no reply to this command.
    Nothing,
    /// No server replied.
    Gone,
    /// No server replied in time.
    TimedOut,
}

/// Part of a command's reply that the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The whole reply, if there is one.
    Served,
    /// The reply was cut, or the client does not take it or has disconnected.
    Cut,
    /// Nothing, because no token came in time: the command was not sent.
    Unsent,
    /// Nothing, because no server replied.
    Gone,
    /// Nothing, because no server replied in time.
    TimedOut,
}

/// Reason for refusing a session.
pub enum NotOpen {
    /// A server's own refusal.
    Refused(Packet),
    /// The policy's.
    Policy(Refused),
    /// No token came in time.
    TimedOut,
    /// No server may be written to.
    NoPrimary(NoPrimary),
    /// The session has more settings than can be repeated at another server.
    TooMuchState,
}

/// Initial state of a session.
#[derive(Debug, Clone)]
pub struct Beginning {
    /// Kind of connection.
    pub key: Key,
    /// Current database.
    pub database: Option<Vec<u8>>,
    /// Stamp of a replica of the tier above.
    pub stamp: Option<Stamp>,
}

/// Meaning of a command for one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// A read that is skipped if another server answered it.
    Race,
    /// For this server alone.
    Alone,
    /// Changes the session, with the new database if it changes that. A server that fails at it
    /// where another succeeded is dropped.
    Session(Option<Vec<u8>>),
    /// As `Session`, and cannot be reset.
    Sticky,
}
