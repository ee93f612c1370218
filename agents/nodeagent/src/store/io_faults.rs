//! Faults of reads, writes and fsyncs, and counts of those that met one.
//!
//! The fault's seed and the I/O's number decide if an I/O is hit, so the same I/Os in the
//! same order meet the same.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// A process's request to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Read,
    /// Number of bytes by which it extends the file.
    Write {
        grows: u64,
    },
    Sync,
}

/// Operations that a fault meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    All,
    Read,
    Write,
    Fsync,
}

/// Their fate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Harm {
    /// EIO for this share.
    Fail { share: f64 },
    /// A delay for this share.
    Slow { share: f64, delay_s: f64 },
    /// All wait until the fault is over.
    Hang,
    /// The file system has so many bytes left; what would grow beyond gets ENOSPC.
    Full { bytes: u64 },
}

/// One fault of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoFault {
    pub id: String,
    pub of: Of,
    pub harm: Harm,
    pub seed: u64,
}

/// Counts since the fault began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// I/Os of the kind that it meets.
    pub total: u64,
    pub hits: u64,
    /// Total time of delayed operations that completed.
    pub waited_s: f64,
    pub went_on: u64,
    /// Held up right now.
    pub waiting: u64,
    /// Bytes left of a full file system.
    pub free: Option<u64>,
}

/// The gate that each I/O passes.
#[derive(Debug, Default)]
pub struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    trouble: Option<IoFault>,
    counts: Counts,
    /// Rises with each change: who waits for an earlier one goes on.
    turn: u64,
}

/// The fate of one I/O.
#[derive(Debug, PartialEq)]
pub enum Fate {
    GoesOn,
    Fails(i32),
    /// A delay since the request, or until the fault is over.
    Waits {
        start: Instant,
        delay: Option<Duration>,
        turn: u64,
    },
}

impl Desk {
    /// Puts a fault in force, in the place of any other.
    pub fn set(&self, trouble: IoFault) {
        let mut state = self.lock();
        let free = match trouble.harm {
            Harm::Full { bytes } => Some(bytes),
            _ => None,
        };
        state.counts = Counts { free, ..Counts::default() };
        state.trouble = Some(trouble);
        state.turn += 1;
        self.changed.notify_all();
    }

    /// Ends this fault; another one stays.
    pub fn clear(&self, id: &str) {
        let mut state = self.lock();
        if state.trouble.as_ref().is_some_and(|trouble| trouble.id == id) {
            state.trouble = None;
            state.counts.free = None;
            state.turn += 1;
            self.changed.notify_all();
        }
    }

    /// The counts of this fault; none where it is not in force.
    pub fn counts(&self, id: &str) -> Option<Counts> {
        let state = self.lock();
        let is_current = state.trouble.as_ref().is_some_and(|trouble| trouble.id == id);
        is_current.then_some(state.counts)
    }

    /// Bytes left, where a fault says so.
    pub fn free(&self) -> Option<u64> {
        self.lock().counts.free
    }

    /// The fate of an I/O that is asked for now.
    pub fn ask(&self, ask: Ask, now: Instant) -> Fate {
        let mut state = self.lock();
        let turn = state.turn;
        let Some(trouble) = state.trouble.clone().filter(|trouble| trouble.of.meets(ask)) else {
            return Fate::GoesOn;
        };
        let number = state.counts.total;
        state.counts.total += 1;
        let fate = match trouble.harm {
            Harm::Fail { share } if draw(trouble.seed, number) < share => {
                Fate::Fails(Errno::EIO as i32)
            }
            Harm::Slow { share, delay_s } if draw(trouble.seed, number) < share => {
                Fate::Waits { start: now, delay: Some(Duration::from_secs_f64(delay_s)), turn }
            }
            Harm::Hang => Fate::Waits { start: now, delay: None, turn },
            Harm::Full { .. } => state.counts.take(ask),
            Harm::Fail { .. } | Harm::Slow { .. } => Fate::GoesOn,
        };
        if fate != Fate::GoesOn {
            state.counts.hits += 1;
        }
        fate
    }

    /// Gives back what a file that became shorter or went had taken.
    pub fn give_back(&self, bytes: u64) {
        if let Some(free) = &mut self.lock().counts.free {
            *free += bytes;
        }
    }

    /// Waits out a fate; a fault that is over meanwhile ends it. Counted from when it was asked, for
    /// the I/O was held up since, also while its thread waited for a processor.
    pub fn wait(&self, start: Instant, delay: Option<Duration>, turn: u64) {
        let mut state = self.lock();
        state.counts.waiting += 1;
        while state.turn == turn {
            let rest = delay.map(|delay| delay.saturating_sub(start.elapsed()));
            state = match rest {
                Some(Duration::ZERO) => break,
                Some(rest) => {
                    let result = self.changed.wait_timeout(state, rest);
                    result.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let result = self.changed.wait(state);
                    result.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        if state.turn == turn {
            state.counts.waiting -= 1;
            state.counts.went_on += 1;
            state.counts.waited_s += start.elapsed().as_secs_f64();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Of {
    fn meets(self, ask: Ask) -> bool {
        match self {
            Of::All => true,
            Of::Read => ask == Ask::Read,
            Of::Write => matches!(ask, Ask::Write { .. }),
            Of::Fsync => ask == Ask::Sync,
        }
    }
}

impl Counts {
    /// A write takes what it grows by, or has no room.
    fn take(&mut self, ask: Ask) -> Fate {
        let (Ask::Write { grows }, Some(free)) = (ask, self.free) else {
            return Fate::GoesOn;
        };
        match free.checked_sub(grows) {
            Some(rest) => {
                self.free = Some(rest);
                Fate::GoesOn
            }
            None => Fate::Fails(Errno::ENOSPC as i32),
        }
    }
}

/// The error that a number stands for.
pub fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// A number from 0 to 1 that seed and position decide: Steele and others' SplitMix64 (2014).
fn draw(seed: u64, number: u64) -> f64 {
    let mut bits = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk(of: Of, harm: Harm) -> Desk {
        let desk = Desk::default();
        let id = "f1".into();
        desk.set(IoFault { id, of, harm, seed: 7 });
        desk
    }

    fn fates(desk: &Desk, ask: Ask, count: usize) -> Vec<Fate> {
        let now = Instant::now();
        (0..count).map(|_| desk.ask(ask, now)).collect()
    }

    #[test]
    fn the_asked_share_of_the_asked_kind_fails_and_the_seed_says_which() {
        let harm = Harm::Fail { share: 0.2 };
        let disk = desk(Of::Read, harm);
        let first = fates(&disk, Ask::Read, 10_000);
        assert_eq!(first, fates(&desk(Of::Read, harm), Ask::Read, 10_000));
        assert!(fates(&disk, Ask::Sync, 9).iter().all(|fate| *fate == Fate::GoesOn));
        let counts = disk.counts("f1").unwrap();
        assert_eq!(counts.total, 10_000);
        assert!((1_800..2_200).contains(&counts.hits), "{counts:?}");
    }

    #[test]
    fn a_full_file_system_takes_what_is_left_and_what_is_given_back() {
        let desk = desk(Of::All, Harm::Full { bytes: 100 });
        let refused = Fate::Fails(Errno::ENOSPC as i32);
        let write = |grows| desk.ask(Ask::Write { grows }, Instant::now());
        assert_eq!(write(60), Fate::GoesOn);
        assert_eq!(write(60), refused);
        assert_eq!(write(0), Fate::GoesOn, "writing over takes nothing");
        desk.give_back(30);
        assert_eq!(write(60), Fate::GoesOn);
        assert_eq!(desk.free(), Some(10));
        desk.clear("f1");
        assert_eq!((write(1_000), desk.free()), (Fate::GoesOn, None));
    }

    #[test]
    fn what_hangs_goes_on_when_its_own_fault_ends_and_no_other() {
        let desk = desk(Of::All, Harm::Hang);
        let Fate::Waits { start, delay: None, turn } = desk.ask(Ask::Sync, Instant::now()) else {
            panic!("it goes on");
        };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| desk.wait(start, None, turn));
            while desk.counts("f1").unwrap().waiting == 0 {
                std::thread::yield_now();
            }
            desk.clear("f2");
            assert_eq!(desk.counts("f1").unwrap().waiting, 1);
            desk.clear("f1");
            waits.join().unwrap();
        });
        assert_eq!(desk.ask(Ask::Sync, Instant::now()), Fate::GoesOn);
    }

    #[test]
    fn what_is_slow_waits_as_long_as_asked_and_is_counted() {
        let delay_s = 0.02;
        let desk = desk(Of::All, Harm::Slow { share: 1.0, delay_s });
        let earlier = Instant::now() - Duration::from_secs_f64(delay_s / 2.0);
        let Fate::Waits { start, delay, turn } = desk.ask(Ask::Read, earlier) else {
            panic!("it goes on");
        };
        desk.wait(start, delay, turn);
        let counts = desk.counts("f1").unwrap();
        assert_eq!((counts.went_on, counts.waiting), (1, 0));
        assert!(counts.waited_s >= delay_s, "since it was asked: {counts:?}");
    }
}
