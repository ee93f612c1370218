//! Statements for a server that joins a session later, to bring it to where the others are.

use super::classify::Effect;
use super::packet::Packet;
use super::reply::{is_in_transaction, Shape, AUTOCOMMIT};
use super::types::Task;

/// Bounds of the record; a session with more state gets no further servers.
const ENTRIES_MAX: usize = 128;
const BYTES_MAX: usize = 64 * 1024;

/// A session statement that succeeded.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As the client sent it.
    pub packet: Packet,
    /// Its reply's form.
    pub shape: Shape,
    /// Its meaning for a server.
    pub task: Task,
}

/// The session's state as statements, in order.
#[derive(Debug, Default)]
pub struct Replay {
    settings: Vec<Entry>,
    transaction: Vec<Entry>,
    bytes: usize,
    unrepeatable: bool,
    /// The current database, where a statement has changed it.
    pub database: Option<Vec<u8>>,
}

impl Replay {
    /// True if a server may still join.
    pub fn is_possible(&self) -> bool {
        !self.unrepeatable
    }

    /// No server may join from now on.
    pub fn forbid(&mut self) {
        self.unrepeatable = true;
    }

    /// What to tell a server, in order: the settings, then the open transaction.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.settings.iter().chain(&self.transaction)
    }

    /// Records a statement that succeeded.
    pub fn record(&mut self, effect: &Effect, packet: &Packet, shape: Shape) {
        let entry = Entry {
            packet: packet.clone(),
            shape,
            task: task(effect),
        };
        match effect {
            Effect::Set => self.keep(entry),
            Effect::Use(name) => {
                self.database = Some(name.clone());
                self.keep(entry);
            }
            Effect::Begin => self.transaction = vec![entry],
            Effect::Within if self.transaction.len() < ENTRIES_MAX => self.transaction.push(entry),
            Effect::End => self.transaction.clear(),
            Effect::Reset => {
                let database = self.database.take();
                *self = Self {
                    unrepeatable: self.unrepeatable,
                    database,
                    ..Self::default()
                };
            }
            Effect::Within | Effect::Unrepeatable | Effect::Sticky => self.forbid(),
        }
    }

    /// A good reply said this status. A transaction may also end by what is no end of one by its
    /// text, as `SET autocommit = 1` is where that was off. Where it is off, a savepoint begins one that
    /// the status tells of only once a table is read.
    pub fn heard(&mut self, status: u16) {
        if !is_in_transaction(status) && status & AUTOCOMMIT != 0 {
            self.transaction.clear();
        }
    }

    fn keep(&mut self, entry: Entry) {
        self.bytes += entry.packet.bytes().len();
        if self.settings.len() >= ENTRIES_MAX || self.bytes > BYTES_MAX {
            return self.forbid();
        }
        self.settings.push(entry);
    }
}

/// The meaning of a session statement for a server.
pub fn task(effect: &Effect) -> Task {
    match effect {
        Effect::Use(name) => Task::Session(Some(name.clone())),
        Effect::Sticky => Task::Sticky,
        _ => Task::Session(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(replay: &mut Replay, effect: &Effect, text: &str) {
        replay.record(effect, &Packet::new(0, text.as_bytes()), Shape::Results);
    }

    fn texts(replay: &Replay) -> Vec<&[u8]> {
        replay
            .entries()
            .map(|entry| entry.packet.payload())
            .collect()
    }

    #[test]
    fn settings_stay_and_a_finished_transaction_goes() {
        let mut replay = Replay::default();
        record(&mut replay, &Effect::Begin, "BEGIN");
        record(&mut replay, &Effect::Set, "SET a");
        record(&mut replay, &Effect::Within, "SAVEPOINT s");
        assert_eq!(texts(&replay), [&b"SET a"[..], b"BEGIN", b"SAVEPOINT s"]);
        record(&mut replay, &Effect::End, "COMMIT");
        assert_eq!(texts(&replay), [b"SET a"]);
        record(&mut replay, &Effect::Use(b"d".to_vec()), "USE d");
        record(&mut replay, &Effect::Reset, "");
        assert_eq!(replay.entries().count(), 0);
        assert_eq!(
            replay.database.as_deref(),
            Some(&b"d"[..]),
            "a reset keeps the database"
        );
    }

    #[test]
    fn a_transaction_that_the_server_says_is_over_goes_and_one_that_is_open_stays() {
        let (over, open) = (2, 3);
        let mut replay = Replay::default();
        record(&mut replay, &Effect::Begin, "BEGIN");
        record(&mut replay, &Effect::Set, "SET autocommit = 1");
        replay.heard(open);
        assert_eq!(texts(&replay), [&b"SET autocommit = 1"[..], b"BEGIN"]);
        replay.heard(over);
        assert_eq!(texts(&replay), [b"SET autocommit = 1"]);
        let implicit = 0;
        record(&mut replay, &Effect::Within, "SAVEPOINT s");
        replay.heard(implicit);
        assert_eq!(texts(&replay), [&b"SET autocommit = 1"[..], b"SAVEPOINT s"]);
    }

    #[test]
    fn too_much_state_or_one_that_cannot_be_repeated_ends_joining() {
        let mut replay = Replay::default();
        record(
            &mut replay,
            &Effect::Unrepeatable,
            "SET TRANSACTION READ ONLY",
        );
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
