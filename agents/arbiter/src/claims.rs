//! The primary of a tier, by what its servers say of themselves.
//!
//! A server that says that it is the primary has a claim, until it says otherwise or refuses
//! connections. Silence ends no claim, because a slow primary is still the primary; but the claim of
//! a server that has been silent for [`CLAIM_AGE_US`] yields to the claim of another. While two
//! servers have equal claims, or none has one, there is no primary.

use policy::{ServerId, TimeUs};
use thiserror::Error;

/// Age from which a claim yields to a newer one.
pub const CLAIM_AGE_US: TimeUs = 1_000_000;

/// Answer of a server to the question for its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is the primary.
    Primary,
    /// It is not.
    Other,
    /// Nothing in time.
    Silence,
    /// It refuses connections, or broke the one on which it was asked.
    Gone,
}

/// Reason for having no primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoPrimary {
    /// Nobody claims it.
    #[error("no server says that it is the primary")]
    Nobody,
    /// Two or more claim it.
    #[error("more than one server says that it is the primary")]
    Several,
}

/// The claims of a tier's servers.
#[derive(Debug)]
pub struct Claims {
    /// Time of the last claim that was not withdrawn.
    last: Vec<Option<TimeUs>>,
}

impl Claims {
    /// Starts without claims.
    pub fn new(servers: usize) -> Self {
        Self { last: vec![None; servers] }
    }

    /// Notes an answer.
    pub fn note(&mut self, now: TimeUs, server: ServerId, answer: Answer) {
        match answer {
            Answer::Primary => self.last[server] = Some(now),
            Answer::Other | Answer::Gone => self.last[server] = None,
            Answer::Silence => {}
        }
    }

    /// The primary at this time.
    ///
    /// # Errors
    /// [`NoPrimary`]: no server may be written to.
    pub fn primary(&self, now: TimeUs) -> Result<ServerId, NoPrimary> {
        let fresh = self.only(|at| now.saturating_sub(at) < CLAIM_AGE_US);
        match fresh {
            Err(NoPrimary::Nobody) => self.only(|_| true),
            other => other,
        }
    }

    /// The only server with such a claim.
    fn only(&self, is_such: impl Fn(TimeUs) -> bool) -> Result<ServerId, NoPrimary> {
        let claims = self.last.iter().enumerate();
        let mut servers =
            claims.filter(|(_, at)| at.is_some_and(&is_such)).map(|(server, _)| server);
        match (servers.next(), servers.next()) {
            (None, _) => Err(NoPrimary::Nobody),
            (Some(server), None) => Ok(server),
            (Some(_), Some(_)) => Err(NoPrimary::Several),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary(answers: &[(TimeUs, ServerId, Answer)], now: TimeUs) -> Result<ServerId, NoPrimary> {
        let mut claims = Claims::new(3);
        for &(at, server, answer) in answers {
            claims.note(at, server, answer);
        }
        claims.primary(now)
    }

    #[test]
    fn the_only_server_that_claims_it_is_the_primary() {
        let answers = [(0, 0, Answer::Other), (0, 1, Answer::Primary), (0, 2, Answer::Silence)];
        assert_eq!(primary(&answers, 1), Ok(1));
        assert_eq!(primary(&answers[..1], 1), Err(NoPrimary::Nobody));
        assert_eq!(primary(&[], 1), Err(NoPrimary::Nobody));
    }

    #[test]
    fn two_fresh_claims_make_none_until_one_is_withdrawn() {
        let mut answers = vec![(0, 0, Answer::Primary), (10, 1, Answer::Primary)];
        assert_eq!(primary(&answers, 20), Err(NoPrimary::Several));
        for withdrawn in [Answer::Other, Answer::Gone] {
            answers.push((20, 0, withdrawn));
            assert_eq!(primary(&answers, 30), Ok(1));
            answers.pop();
        }
        answers.push((20, 0, Answer::Silence));
        assert_eq!(primary(&answers, 30), Err(NoPrimary::Several), "it spoke a moment ago");
    }

    #[test]
    fn a_silent_primary_stays_until_another_server_claims_it() {
        let late = 60 * CLAIM_AGE_US;
        let mut answers = vec![(0, 0, Answer::Primary), (late, 0, Answer::Silence)];
        assert_eq!(primary(&answers, late), Ok(0));
        answers.push((late, 1, Answer::Primary));
        assert_eq!(primary(&answers, late), Ok(1));
        // It speaks again, and has not heard of the other.
        answers.push((late + 1, 0, Answer::Primary));
        assert_eq!(primary(&answers, late + 2), Err(NoPrimary::Several));
    }

    #[test]
    fn of_two_silent_servers_none_is_preferred() {
        let answers = [(0, 0, Answer::Primary), (10, 1, Answer::Primary)];
        assert_eq!(primary(&answers, 9 * CLAIM_AGE_US), Err(NoPrimary::Several));
    }
}
