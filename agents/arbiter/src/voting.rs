//! The comparison of the replies of a read's replicas.
//!
//! Each complete good reply casts a vote in its read's [`ReplyVote`]: a digest of what the client would
//! see. When the last replica has ended the votes are counted: a server whose vote differs from that
//! of more than half of the votes was in the minority; without such a majority all are disputed.
//! The reply to deliver is chosen elsewhere (`http::race`, `kv::slot`); this only counts.

use std::sync::{Arc, Mutex, PoisonError};

use policy::ServerId;
use smallvec::SmallVec;
use wire::arbiter::{Compare, CompareMode};

use crate::comparing::{majority_of, Digest};
use crate::lock;
use crate::tier::Tier;

/// Votes of one read; counted when none can be added any more.
pub struct ReplyVote {
    tier: Arc<Tier>,
    /// Rules of counting.
    pub rules: Arc<Compare>,
    votes: Mutex<SmallVec<[(ServerId, Digest); 4]>>,
}

impl ReplyVote {
    /// Opens the vote of a read; none if replies are not compared.
    pub fn open(tier: &Arc<Tier>) -> Option<Arc<Self>> {
        if tier.comparing.mode() == CompareMode::Off {
            return None;
        }
        let rules = tier.comparing.rules();
        // It may have been switched off meanwhile.
        (rules.mode != CompareMode::Off)
            .then(|| Arc::new(Self { tier: Arc::clone(tier), rules, votes: Mutex::default() }))
    }

    /// True if a reply is held until others agree.
    pub fn refuses(&self) -> bool {
        self.rules.mode == CompareMode::Refuse
    }

    /// True if the first good reply is delivered at once.
    pub fn counts(&self) -> bool {
        self.rules.mode == CompareMode::Count
    }

    /// Adds a complete good reply.
    pub fn vote(&self, server: ServerId, digest: Digest) {
        let mut votes = lock(&self.votes);
        // A server that was asked twice has one vote.
        if votes.iter().all(|(voter, _)| *voter != server) {
            votes.push((server, digest));
        }
    }

    /// Adds a reply that is too large to be compared.
    pub fn too_large(&self) {
        self.tier.counters.compare.too_large.inc();
    }

    /// Notes that the client got an error for lack of a majority.
    pub fn refused(&self) {
        self.tier.counters.compare.refused.inc();
    }
}

impl Drop for ReplyVote {
    fn drop(&mut self) {
        let (tier, counters) = (&self.tier, &self.tier.counters.compare);
        let votes = self.votes.get_mut().unwrap_or_else(PoisonError::into_inner);
        let verdict = count(votes);
        match verdict {
            Verdict::NotCompared => return counters.not_compared.inc(),
            Verdict::Equal => counters.equal.inc(),
            Verdict::Minority(_) | Verdict::Disputed => counters.different.inc(),
        }
        for (server, digest) in votes {
            let of_server = &tier.server_counters[*server];
            of_server.compared.inc();
            match verdict {
                Verdict::Disputed => of_server.disputed.inc(),
                Verdict::Minority(majority) if *digest != majority => of_server.minority.inc(),
                _ => {}
            }
        }
    }
}

/// The result of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Fewer than two votes.
    NotCompared,
    Equal,
    /// More than half gave this one; others differ.
    Minority(Digest),
    /// They differ without a majority.
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
    use crate::comparing::digest;

    fn verdict(votes: &str) -> Verdict {
        let votes: Vec<_> = votes.bytes().map(|said| digest(&[said])).enumerate().collect();
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
}
