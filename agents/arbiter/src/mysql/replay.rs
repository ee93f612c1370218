//! Statements that bring a server which joins a session later to the session's state.

use super::classify::Effect;
use super::packet::Packet;
use super::reply::{is_in_transaction, Shape, AUTOCOMMIT};
use super::types::{Statement, Task};

/// Maximum entries; a session with more state gets no further servers.
const ENTRIES_MAX: usize = 1_024;
const BYTES_MAX: usize = 256 * 1024;

/// A session statement that succeeded.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As the client sent it.
    pub packet: Packet,
    /// Its reply's form.
    pub shape: Shape,
    /// Its meaning for a server.
    pub task: Task,
    /// The statement that it prepares.
    pub statement: Statement,
}

/// The session's state as statements, in order.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    settings: Vec<Entry>,
    transaction: Vec<Entry>,
    bytes: usize,
    unrepeatable: bool,
    /// True if a reset does not undo it.
    sticky: bool,
    /// Current database, if a statement has changed it.
    pub database: Option<Vec<u8>>,
}

impl Entry {
    /// Creates the record of a statement with this effect.
    pub fn new(effect: &Effect, packet: &Packet, shape: Shape) -> Self {
        Self {
            packet: packet.clone(),
            shape,
            task: task(effect),
            statement: match effect {
                Effect::Prepare(id) => Statement::Prepare(*id),
                _ => Statement::None,
            },
        }
    }
}

impl Replay {
    /// True if a server may still join.
    pub fn is_possible(&self) -> bool {
        !self.unrepeatable
    }

    /// Excludes further servers.
    pub fn forbid(&mut self) {
        self.unrepeatable = true;
    }

    /// Statements for a server, in order: the settings, then the open transaction.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.settings.iter().chain(&self.transaction)
    }

    /// Records a statement that succeeded.
    pub fn record(&mut self, effect: &Effect, packet: &Packet, shape: Shape) {
        let entry = Entry::new(effect, packet, shape);
        match effect {
            Effect::Set | Effect::Prepare(_) => self.keep(entry),
            Effect::Close(id) => self.close(*id),
            Effect::Use(name) => {
                self.database = Some(name.clone());
                self.keep(entry);
            }
            Effect::Begin(_) => self.transaction = vec![entry],
            Effect::Within if self.transaction.len() < ENTRIES_MAX => self.transaction.push(entry),
            Effect::End => self.transaction.clear(),
            Effect::Reset => {
                let database = self.database.take();
                *self = Self {
                    unrepeatable: self.sticky,
                    sticky: self.sticky,
                    database,
                    ..Self::default()
                };
            }
            Effect::Within | Effect::Unrepeatable => self.forbid(),
            Effect::Sticky => {
                self.sticky = true;
                self.forbid();
            }
        }
    }

    /// Notes the status of a good reply. A transaction may also end by another statement, for
    /// example `SET autocommit = 1`. With autocommit off, a savepoint begins one that the status
    /// shows only after a table was read.
    pub fn note_status(&mut self, status: u16) {
        if !is_in_transaction(status) && status & AUTOCOMMIT != 0 {
            self.transaction.clear();
        }
    }

    /// The settings, for another server of the session; none if they cannot be repeated.
    pub fn settings(&self) -> Option<Self> {
        let settings = Self { transaction: Vec::new(), ..self.clone() };
        (!self.unrepeatable).then_some(settings)
    }

    /// Statements of the open transaction that are neither reads nor writes, from its begin on.
    pub fn transaction(&self) -> &[Entry] {
        &self.transaction
    }

    /// Takes over the open transaction of another server.
    pub fn take_over(&mut self, transaction: Vec<Entry>) {
        self.transaction = transaction;
    }

    /// True while a transaction is open that began with a statement.
    pub fn is_in_transaction(&self) -> bool {
        !self.transaction.is_empty()
    }

    fn close(&mut self, id: u32) {
        let is_it = |entry: &Entry| entry.statement == Statement::Prepare(id);
        let bytes = |entry: &Entry| entry.packet.bytes().len();
        let closed = self.settings.iter().filter(|entry| is_it(entry));
        self.bytes -= closed.map(bytes).sum::<usize>();
        self.settings.retain(|entry| !is_it(entry));
    }

    fn keep(&mut self, entry: Entry) {
        self.bytes += entry.packet.bytes().len();
        if self.settings.len() >= ENTRIES_MAX || self.bytes > BYTES_MAX {
            return self.forbid();
        }
        self.settings.push(entry);
    }
}

/// Task of a session statement at a server.
pub fn task(effect: &Effect) -> Task {
    match effect {
        Effect::Use(name) => Task::Session(Some(name.clone())),
        Effect::Sticky => Task::Sticky,
        _ => Task::Session(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::classify::Access;
    use super::*;

    fn record(replay: &mut Replay, effect: &Effect, text: &str) {
        replay.record(effect, &Packet::new(0, text.as_bytes()), Shape::Results);
    }

    fn texts(replay: &Replay) -> Vec<&[u8]> {
        replay.entries().map(|entry| entry.packet.payload()).collect()
    }

    #[test]
    fn settings_stay_and_a_finished_transaction_goes() {
        let mut replay = Replay::default();
        record(&mut replay, &Effect::Begin(Access::Any), "BEGIN");
        record(&mut replay, &Effect::Set, "SET a");
        record(&mut replay, &Effect::Within, "SAVEPOINT s");
        assert_eq!(texts(&replay), [&b"SET a"[..], b"BEGIN", b"SAVEPOINT s"]);
        record(&mut replay, &Effect::End, "COMMIT");
        assert_eq!(texts(&replay), [b"SET a"]);
        record(&mut replay, &Effect::Use(b"d".to_vec()), "USE d");
        record(&mut replay, &Effect::Reset, "");
        assert_eq!(replay.entries().count(), 0);
        assert_eq!(replay.database.as_deref(), Some(&b"d"[..]), "a reset keeps the database");
    }

    #[test]
    fn a_transaction_that_the_server_says_is_over_goes_and_one_that_is_open_stays() {
        let (over, open) = (2, 3);
        let mut replay = Replay::default();
        record(&mut replay, &Effect::Begin(Access::Any), "BEGIN");
        record(&mut replay, &Effect::Set, "SET autocommit = 1");
        replay.note_status(open);
        assert_eq!(texts(&replay), [&b"SET autocommit = 1"[..], b"BEGIN"]);
        replay.note_status(over);
        assert_eq!(texts(&replay), [b"SET autocommit = 1"]);
        let implicit = 0;
        record(&mut replay, &Effect::Within, "SAVEPOINT s");
        replay.note_status(implicit);
        assert_eq!(texts(&replay), [&b"SET autocommit = 1"[..], b"SAVEPOINT s"]);
    }

    #[test]
    fn a_closed_statement_takes_no_room_and_is_not_prepared_again() {
        let mut replay = Replay::default();
        for id in 0..10 * ENTRIES_MAX as u32 {
            record(&mut replay, &Effect::Prepare(id), "SELECT ?");
            record(&mut replay, &Effect::Close(id), "");
        }
        assert_eq!((replay.entries().count(), replay.bytes), (0, 0));
        record(&mut replay, &Effect::Prepare(9), "SELECT ?");
        assert!(replay.is_possible());
        let prepared = replay.entries().next().map(|entry| entry.statement);
        assert_eq!(prepared, Some(Statement::Prepare(9)));
    }

    #[test]
    fn a_reset_makes_joining_possible_again_but_for_what_it_does_not_undo() {
        let mut replay = Replay::default();
        record(&mut replay, &Effect::Unrepeatable, "SET TRANSACTION READ ONLY");
        record(&mut replay, &Effect::Reset, "");
        assert!(replay.is_possible());
        record(&mut replay, &Effect::Sticky, "");
        record(&mut replay, &Effect::Reset, "");
        assert!(!replay.is_possible());
    }

    #[test]
    fn too_much_state_or_one_that_cannot_be_repeated_ends_joining() {
        let mut replay = Replay::default();
        record(&mut replay, &Effect::Unrepeatable, "SET TRANSACTION READ ONLY");
        assert!(!replay.is_possible());
        let mut replay = Replay::default();
        for _ in 0..ENTRIES_MAX {
            record(&mut replay, &Effect::Set, "SET a");
        }
        assert!(replay.is_possible());
        record(&mut replay, &Effect::Set, "SET a");
        assert!(!replay.is_possible());
        assert_eq!(replay.entries().count(), ENTRIES_MAX, "bounded");
    }
}
