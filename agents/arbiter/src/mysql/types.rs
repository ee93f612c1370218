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
use crate::collision_avoidance::Stamp;

/// The servers of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To all; the first reply wins.
    Race,
    /// To the server that answered last.
    One,
    /// The last write's traces, for the server that did it.
    Left,
    /// To the server that is written to; nothing of it stays in the session.
    Write,
    /// To one server, and all after it too.
    Pin,
    /// As `Pin`, and the session has locks from then on.
    Lock,
    /// To all; all must do it.
    Session(Effect),
}

impl Route {
    /// True if the session stays with one server from then on.
    pub fn pins(&self) -> bool {
        matches!(self, Self::Pin | Self::Lock)
    }

    /// True if the session may have locks from then on that the server's status does not tell of;
    /// none where that is as before.
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

/// A command's part in the life of a prepared statement. The client knows a statement by a number of the
/// arbiter's; each server has one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statement {
    /// Nothing.
    #[default]
    None,
    /// It is prepared, and is to have this number.
    Prepare(u32),
    /// It is executed, or otherwise used.
    Use(u32),
    /// It is closed.
    Close(u32),
}

/// A command of the client's, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// As it came; with the arbiter's number of the statement.
    pub packet: &'a Packet,
    /// The form of its reply.
    pub shape: Shape,
    /// Its servers.
    pub route: &'a Route,
    /// The statement that it is about.
    pub statement: Statement,
}

/// The result of a command.
pub enum Verdict {
    /// Packets for the client; more in `rest` where it is set.
    Reply {
        /// Complete unless `rest` is set.
        packets: Bytes,
        /// The pieces that follow.
        rest: Option<mpsc::Receiver<Piece>>,
    },
    /// There is no reply to this command.
    Nothing,
    /// No server replied.
    Gone,
    /// None in time.
    TimedOut,
}

/// The part of a command's reply that the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The client has its reply, if there is one.
    Served,
    /// The reply was cut, or the client did not take it, or is gone.
    Cut,
    /// No token came in time: it was not sent, and the session is as it was.
    Unsent,
    /// No server replied; the client got nothing yet.
    Gone,
    /// None in time; the client got nothing yet.
    TimedOut,
}

/// Why a session cannot begin.
pub enum NotOpen {
    /// A server's own refusal.
    Refused(Packet),
    /// The policy's.
    Policy(Refused),
    /// No token in time.
    TimedOut,
    /// The session has more settings than can be repeated at another server.
    TooMuchState,
}

/// The parts that a session begins with.
#[derive(Debug, Clone)]
pub struct Beginning {
    /// Kind of connection.
    pub key: Key,
    /// Current database.
    pub database: Option<Vec<u8>>,
    /// Of which replica of the tier above it is.
    pub stamp: Option<Stamp>,
}

/// A server's task with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// A read that others may answer: skipped when they did.
    Race,
    /// For this server alone.
    Alone,
    /// Changes the session. Where another server did it and this one cannot, this one is given up.
    /// The database that is current from then on, where it is that what changes.
    Session(Option<Vec<u8>>),
    /// As `Session`, and cannot be reset.
    Sticky,
}
