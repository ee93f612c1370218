//! The servers that the sibling replicas of a request hold (sPARE section 3.2).
//!
//! The tier above sends a request in several replicas, and each of them opens sessions here. That
//! tier stamps each replica, the application passes the stamp on (MySQL: in a comment of its
//! statements), and this arbiter keeps siblings on different servers while others are available: a
//! replica that shares its server with a sibling does not profit from the servers' diversity.
//!
//! A request is forgotten some time after its first session, or when there are too many; then its
//! late replicas may collide.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use policy::{ServerId, TimeUs};
use smallvec::SmallVec;

use crate::counters::Counter;
use crate::lock;

/// The HTTP header that carries a stamp.
pub const HEADER: &str = "x-sparecraft-replica";
/// The text before a stamp in a comment.
const IN_COMMENT: &[u8] = b"sparecraft-replica=";
/// Bytes of a statement that are searched for a comment.
const LOOKED_AT: usize = 1_024;
/// Requests that are remembered at a time.
const REQUESTS_MAX: usize = 10_000;
/// Time for which a request is remembered.
const AGE_US_MAX: TimeUs = 30_000_000;
/// Servers that are remembered per request.
const HELD_MAX: usize = 64;

/// Identifies one replica of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The request. Each arbiter counts from its own random number.
    pub request: u64,
    /// Number of the replica, from 0.
    pub replica: u16,
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}.{}", self.request, self.replica)
    }
}

impl Stamp {
    /// Parses a stamp at the beginning of `text`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (request, rest) = text.split_at_checked(16)?;
        let request = std::str::from_utf8(request).ok()?;
        let rest = rest.strip_prefix(b".")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let replica = std::str::from_utf8(&rest[..digits]).ok()?;
        Some(Self {
            request: u64::from_str_radix(request, 16).ok()?,
            replica: replica.parse().ok()?,
        })
    }

    /// Finds the stamp in a comment near the beginning of a statement.
    pub fn of_statement(sql: &[u8]) -> Option<Self> {
        let mut rest = &sql[..sql.len().min(LOOKED_AT)];
        while let Some(begin) = find(rest, b"/*") {
            rest = &rest[begin + 2..];
            let comment = &rest[..find(rest, b"*/").unwrap_or(rest.len())];
            if let Some(place) = find(comment, IN_COMMENT) {
                return Self::parse(&comment[place + IN_COMMENT.len()..]);
            }
            rest = &rest[comment.len()..];
        }
        None
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Counts so far; the fields are those of [`wire::arbiter::Siblings`].
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct SiblingCounters {
    pub sessions: Counter,
    pub requests: Counter,
    pub collided: Counter,
    pub avoided: Counter,
}

/// The requests of the tier above, and the servers that their replicas hold.
#[derive(Debug, Default)]
pub struct Siblings {
    table: Mutex<Table>,
    /// Counts so far.
    pub counters: SiblingCounters,
}

#[derive(Debug, Default)]
struct Table {
    requests: HashMap<u64, Request>,
    order: VecDeque<(TimeUs, u64)>,
}

#[derive(Debug, Default)]
struct Request {
    held: SmallVec<[(u16, ServerId); 4]>,
    has_siblings: bool,
    has_collided: bool,
}

impl Siblings {
    /// Lets `choose` take servers for a replica, given those to avoid; it returns the ones it took.
    /// No sibling chooses meanwhile.
    pub fn choose<T>(
        &self,
        now: TimeUs,
        stamp: Stamp,
        avoids: bool,
        choose: impl FnOnce(&[ServerId]) -> (T, SmallVec<[ServerId; 4]>),
    ) -> T {
        let mut table = lock(&self.table);
        let request = table.request(now, stamp.request);
        let of_siblings = request.held.iter().filter(|(other, _)| *other != stamp.replica);
        let avoid: SmallVec<[ServerId; 8]> = of_siblings.map(|(_, server)| *server).collect();
        let (chosen, servers) = choose(if avoids { &avoid } else { &[] });
        let is_apart = !servers.iter().any(|server| avoid.contains(server));
        if avoids && is_apart && !avoid.is_empty() && !servers.is_empty() {
            self.counters.avoided.inc();
        }
        for server in servers {
            request.hold(stamp, server, &self.counters);
        }
        chosen
    }

    /// Records that a replica holds this server.
    pub fn hold(&self, now: TimeUs, stamp: Stamp, server: ServerId) {
        let mut table = lock(&self.table);
        table.request(now, stamp.request).hold(stamp, server, &self.counters);
    }
}

impl Table {
    fn request(&mut self, now: TimeUs, number: u64) -> &mut Request {
        let is_old = |(since, _): &(TimeUs, u64)| now.saturating_sub(*since) > AGE_US_MAX;
        while self.order.front().is_some_and(is_old) || self.order.len() >= REQUESTS_MAX {
            let Some((_, oldest)) = self.order.pop_front() else {
                break;
            };
            self.requests.remove(&oldest);
        }
        self.requests.entry(number).or_insert_with(|| {
            self.order.push_back((now, number));
            Request::default()
        })
    }
}

impl Request {
    fn hold(&mut self, stamp: Stamp, server: ServerId, counters: &SiblingCounters) {
        if self.held.contains(&(stamp.replica, server)) || self.held.len() >= HELD_MAX {
            return;
        }
        let is_sibling = |(replica, _): &(u16, ServerId)| *replica != stamp.replica;
        if self.held.iter().any(is_sibling) && !self.has_siblings {
            self.has_siblings = true;
            counters.requests.inc();
        }
        let collides = |held: &(u16, ServerId)| is_sibling(held) && held.1 == server;
        if self.held.iter().any(collides) && !self.has_collided {
            self.has_collided = true;
            counters.collided.inc();
        }
        self.held.push((stamp.replica, server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [ServerId; 0] = [];

    fn stamp(request: u64, replica: u16) -> Stamp {
        Stamp { request, replica }
    }

    fn counts(siblings: &Siblings) -> (u64, u64, u64) {
        let counters = &siblings.counters;
        (counters.requests.get(), counters.collided.get(), counters.avoided.get())
    }

    /// Takes these servers; what it was told to avoid.
    fn take(siblings: &Siblings, now: TimeUs, stamp: Stamp, servers: &[ServerId]) -> Vec<ServerId> {
        siblings.choose(now, stamp, true, |avoid| (avoid.to_vec(), SmallVec::from_slice(servers)))
    }

    #[test]
    fn a_stamp_is_read_back_also_from_a_comment() {
        let stamp = stamp(0x00ab_cdef_0123_4567, 12);
        let text = stamp.to_string();
        assert_eq!(text, "00abcdef01234567.12");
        assert_eq!(Stamp::parse(text.as_bytes()), Some(stamp));
        for sql in [
            format!("SET /* Database::open sparecraft-replica={text} */ a = 1"),
            format!("SELECT /* a */ 1 /* sparecraft-replica={text}*/"),
            format!("/* sparecraft-replica={text} and more"),
        ] {
            assert_eq!(Stamp::of_statement(sql.as_bytes()), Some(stamp), "{sql}");
        }
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        let far = format!("/*{}sparecraft-replica=00abcdef01234567.1*/", " ".repeat(2_000));
        for sql in [
            "SELECT 'sparecraft-replica=00abcdef01234567.1'",
            "/* sparecraft-replica=00abcdef0123456.1 */",
            "/* sparecraft-replica=00abcdef01234567 */",
            "/* sparecraft-replica=00abcdef01234567. */",
            "/* sparecraft-replica=+0abcdef01234567x1 */",
            "/* sparecraft-replica=00abcdef01234567.99999 */",
            "/*",
            "",
            &far,
        ] {
            assert_eq!(Stamp::of_statement(sql.as_bytes()), None, "{sql}");
        }
    }

    #[test]
    fn siblings_are_told_of_each_other_and_other_requests_are_not() {
        let siblings = Siblings::default();
        assert_eq!(take(&siblings, 0, stamp(1, 0), &[0, 1]), NONE);
        assert_eq!(take(&siblings, 0, stamp(2, 0), &[0]), NONE);
        assert_eq!(take(&siblings, 0, stamp(1, 0), &[2]), NONE, "its own");
        assert_eq!(counts(&siblings), (0, 0, 0));
        assert_eq!(take(&siblings, 0, stamp(1, 1), &[3]), [0, 1, 2]);
        assert_eq!(counts(&siblings), (1, 0, 1));
        siblings.hold(0, stamp(1, 2), 3);
        siblings.hold(0, stamp(1, 2), 0);
        assert_eq!(counts(&siblings), (1, 1, 1), "a request collides once");
    }

    #[test]
    fn where_nothing_is_avoided_collisions_are_counted_all_the_same() {
        let siblings = Siblings::default();
        for replica in 0..2 {
            siblings.choose(0, stamp(1, replica), false, |avoid| {
                assert!(avoid.is_empty());
                ((), SmallVec::from_slice(&[5]))
            });
        }
        assert_eq!(counts(&siblings), (1, 1, 0));
    }

    #[test]
    fn requests_are_forgotten_by_age_and_number() {
        let siblings = Siblings::default();
        take(&siblings, 0, stamp(1, 0), &[0]);
        assert_eq!(take(&siblings, AGE_US_MAX, stamp(1, 1), &[1]), [0]);
        assert_eq!(take(&siblings, AGE_US_MAX + 1, stamp(1, 2), &[2]), NONE);
        for request in 10..10 + REQUESTS_MAX as u64 {
            take(&siblings, AGE_US_MAX + 1, stamp(request, 0), &[0]);
        }
        assert_eq!(take(&siblings, AGE_US_MAX + 1, stamp(1, 3), &[3]), NONE);
        let table = siblings.table.lock().unwrap();
        assert_eq!((table.requests.len(), table.order.len()), (REQUESTS_MAX, REQUESTS_MAX));
    }
}
