//! The replies of a read's replicas, held against each other.
//!
//! Each complete good reply casts a vote in its read's [`Ballot`]: a digest of what the client would
//! see. When the last replica has ended the ballot is counted: a server whose vote differs from that
//! of more than half of the votes was in the minority; without such a majority all are disputed.
//! Who delivers what is decided elsewhere (`http::race`, `kv::slot`); a ballot only counts.
//!
//! The digest is SHA-256: equal digests are equal replies, whatever a server makes of its reply, and
//! a reply is read once, in constant memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use policy::ServerId;
use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;
use wire::arbiter::{Compare, CompareMode};

use crate::lock;
use crate::tier::Tier;

/// What two replies that are the same have in common.
pub type Digest = [u8; 32];

/// Of bytes that are there as a whole.
pub fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// How many of `replicas` have to give the same reply: more than half.
pub fn majority_of(replicas: usize) -> usize {
    replicas / 2 + 1
}

/// The rules now, and what counts for ejection.
pub struct Comparing {
    mode: AtomicU8,
    rules: RwLock<Arc<Compare>>,
    /// Of each server: when it was in the minority lately.
    minorities: Vec<Mutex<VecDeque<Instant>>>,
}

impl Comparing {
    /// By these rules.
    pub fn new(rules: Compare, servers: usize) -> Self {
        Self {
            mode: AtomicU8::new(rules.mode as u8),
            rules: RwLock::new(Arc::new(rules)),
            minorities: (0..servers).map(|_| Mutex::default()).collect(),
        }
    }

    /// What is done with replies, now. All that a read costs while it is off.
    pub fn mode(&self) -> CompareMode {
        let now = self.mode.load(Relaxed);
        let known = CompareMode::ALL.into_iter().find(|&it| it as u8 == now);
        known.unwrap_or_default()
    }

    /// The rules now.
    pub fn rules(&self) -> Arc<Compare> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Other rules, for the reads that follow.
    pub fn set(&self, rules: Compare) {
        let mut held = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        self.mode.store(rules.mode as u8, Relaxed);
        *held = Arc::new(rules);
    }

    /// A server was in the minority; whether that was once too often.
    fn is_outlier(&self, server: ServerId, now: Instant, rules: &Compare) -> bool {
        if rules.ejects_after == 0 {
            return false;
        }
        let window = Duration::from_millis(rules.ejects_within_ms);
        let mut times = lock(&self.minorities[server]);
        times.push_back(now);
        while times.front().is_some_and(|&seen| now - seen > window) {
            times.pop_front();
        }
        let is_outlier = times.len() >= rules.ejects_after as usize;
        if is_outlier {
            times.clear();
        }
        is_outlier
    }
}

/// The votes of one read; counted when nobody can add any more.
pub struct Ballot {
    tier: Arc<Tier>,
    /// By which it is counted.
    pub rules: Arc<Compare>,
    votes: Mutex<SmallVec<[(ServerId, Digest); 4]>>,
}

impl Ballot {
    /// Of a read that begins now; none where replies are not compared.
    pub fn open(tier: &Arc<Tier>) -> Option<Arc<Self>> {
        if tier.comparing.mode() == CompareMode::Off {
            return None;
        }
        let rules = tier.comparing.rules();
        // It may have been switched off meanwhile.
        (rules.mode != CompareMode::Off).then(|| {
            Arc::new(Self {
                tier: Arc::clone(tier),
                rules,
                votes: Mutex::default(),
            })
        })
    }

    /// Whether a reply waits until others agree with it.
    pub fn refuses(&self) -> bool {
        self.rules.mode == CompareMode::Refuse
    }

    /// Whether the first good reply is delivered at once.
    pub fn counts(&self) -> bool {
        self.rules.mode == CompareMode::Count
    }

    /// A complete good reply.
    pub fn vote(&self, server: ServerId, digest: Digest) {
        let mut votes = lock(&self.votes);
        // A server that was asked twice has one vote.
        if votes.iter().all(|(voter, _)| *voter != server) {
            votes.push((server, digest));
        }
    }

    /// A reply that cannot be compared for its size.
    pub fn too_large(&self) {
        self.tier.counters.compare.too_large.inc();
    }

    /// The client gets an error because no majority agreed.
    pub fn refused(&self) {
        self.tier.counters.compare.refused.inc();
    }
}

impl Drop for Ballot {
    fn drop(&mut self) {
        let (tier, counters) = (&self.tier, &self.tier.counters.compare);
        let votes = self.votes.get_mut().unwrap_or_else(PoisonError::into_inner);
        let verdict = count(votes);
        match verdict {
            Verdict::NotCompared => return counters.not_compared.inc(),
            Verdict::Equal => counters.equal.inc(),
            Verdict::Minority(_) | Verdict::Disputed => counters.different.inc(),
        }
        let now = Instant::now();
        for (server, digest) in votes {
            let of_server = &tier.server_counters[*server];
            of_server.compared.inc();
            match verdict {
                Verdict::Disputed => of_server.disputed.inc(),
                Verdict::Minority(majority) if *digest != majority => {
                    of_server.minority.inc();
                    if tier.comparing.is_outlier(*server, now, &self.rules) {
                        tier.contradicted(*server);
                    }
                }
                _ => {}
            }
        }
    }
}

/// What a ballot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Fewer than two votes.
    NotCompared,
    Equal,
    /// More than half gave this one; others did not.
    Minority(Digest),
    /// They differ, and none has more than half.
    Disputed,
}

fn count(votes: &[(ServerId, Digest)]) -> Verdict {
    let [(_, first), others @ ..] = votes else {
        return Verdict::NotCompared;
    };
    if others.is_empty() {
        return Verdict::NotCompared;
    }
    if others.iter().all(|(_, digest)| digest == first) {
        return Verdict::Equal;
    }
    let times = |wanted: &Digest| votes.iter().filter(|(_, it)| it == wanted).count();
    let enough = majority_of(votes.len());
    let majority = votes.iter().find(|(_, digest)| times(digest) >= enough);
    majority.map_or(Verdict::Disputed, |(_, digest)| Verdict::Minority(*digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(votes: &str) -> Verdict {
        let votes: Vec<_> = votes
            .bytes()
            .map(|said| digest(&[said]))
            .enumerate()
            .collect();
        count(&votes)
    }

    #[test]
    fn a_vote_alone_says_nothing() {
        assert_eq!(verdict(""), Verdict::NotCompared);
        assert_eq!(verdict("a"), Verdict::NotCompared);
    }

    #[test]
    fn who_differs_from_more_than_half_is_in_the_minority() {
        for votes in ["aab", "aba", "baa", "aaab", "aabac"] {
            assert_eq!(verdict(votes), Verdict::Minority(digest(b"a")), "{votes}");
        }
        assert_eq!(verdict("aa"), Verdict::Equal);
        assert_eq!(verdict("aaa"), Verdict::Equal);
    }

    #[test]
    fn without_more_than_half_nobody_knows() {
        for votes in ["ab", "abc", "aabb", "aabc", "abcd"] {
            assert_eq!(verdict(votes), Verdict::Disputed, "{votes}");
        }
    }

    #[test]
    fn as_many_as_the_rule_says_within_the_window_make_an_outlier_and_then_it_begins_anew() {
        let rules = Compare {
            ejects_after: 3,
            ejects_within_ms: 1_000,
            ..Compare::default()
        };
        let comparing = Comparing::new(rules.clone(), 2);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let seen: Vec<_> = [0, 10, 1_500, 1_600, 1_700, 1_800, 1_900]
            .map(|ms| comparing.is_outlier(1, at(ms), &rules))
            .to_vec();
        assert_eq!(seen, [false, false, false, false, true, false, false]);
        let never = Compare::default();
        assert!((0..100).all(|_| !comparing.is_outlier(0, start, &never)));
    }
}
