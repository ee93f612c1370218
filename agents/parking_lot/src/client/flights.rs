//! One or two requests of a call under way: the first reply counts.

use std::time::Duration;

use tokio::time::{timeout_at, Instant};
use tonic::Status;

use crate::client::calls::{Flight, Reply};

/// The outcome.
#[derive(Debug)]
pub enum Landing {
    /// The reply, and whether it is the first request's.
    Answered(Reply, bool),
    /// A refusal, which no other server would do without.
    Refused(Status),
    /// There will be no reply.
    Failed,
    /// There is no reply yet.
    Late,
}

/// Requests of one call; the first that was sent is the first here.
#[derive(Default)]
pub struct Flights {
    first: Option<Flight>,
    second: Option<Flight>,
    until: Option<Instant>,
}

impl Flights {
    /// The flights of one request with its time-out.
    pub fn of(first: Flight, patience: Duration) -> Self {
        Self { first: Some(first), second: None, until: Some(Instant::now() + patience) }
    }

    /// Adds a second request with its time-out.
    pub fn add(&mut self, second: Flight, patience: Duration) {
        self.second = Some(second);
        self.until = Some(Instant::now() + patience);
    }

    /// True if one is under way.
    pub fn are_under_way(&self) -> bool {
        self.first.is_some() || self.second.is_some()
    }

    /// The first reply; `Late` where none came within `late_after`.
    pub async fn land(&mut self, late_after: Option<Duration>) -> Landing {
        let Some(until) = self.until else {
            return Landing::Failed;
        };
        let late_at = late_after.map_or(until, |after| until.min(Instant::now() + after));
        loop {
            let (answer, is_first) = match timeout_at(late_at, self.next()).await {
                Ok(Some(result)) => result,
                Err(_) if late_at < until => return Landing::Late,
                Ok(None) | Err(_) => return Landing::Failed,
            };
            match answer {
                Ok(reply) => return Landing::Answered(reply, is_first),
                Err(status) if super::calls::is_refusal(&status) => {
                    return Landing::Refused(status);
                }
                Err(_) => {} // the other one may be answered yet
            }
        }
    }

    /// The outcome of the next one; none if none is under way.
    async fn next(&mut self) -> Option<(Result<Reply, Status>, bool)> {
        let landing = match (&mut self.first, &mut self.second) {
            (None, None) => return None,
            (Some(first), None) => (first.await, true),
            (None, Some(second)) => (second.await, false),
            (Some(first), Some(second)) => tokio::select! {
                answer = first => (answer, true),
                answer = second => (answer, false),
            },
        };
        match landing.1 {
            true => self.first = None,
            false => self.second = None,
        }
        Some(landing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn reply_of(server: &str) -> Flight {
        let server = server.to_owned();
        Box::pin(async { Ok(Reply { server, is_right: true }) })
    }

    fn broken() -> Flight {
        Box::pin(async { Err(Status::unavailable("broken")) })
    }

    fn silent() -> Flight {
        Box::pin(std::future::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reply_of_two_counts() {
        let mut flights = Flights::of(silent(), LONG);
        let landing = flights.land(Some(Duration::from_millis(5))).await;
        assert!(matches!(landing, Landing::Late));
        flights.add(reply_of("b"), LONG);
        let landing = flights.land(None).await;
        assert!(matches!(landing, Landing::Answered(reply, false) if reply.server == "b"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_breaks_leaves_the_other_to_be_waited_for() {
        let mut flights = Flights::of(reply_of("a"), LONG);
        flights.add(broken(), LONG);
        let landing = flights.land(None).await;
        assert!(matches!(landing, Landing::Answered(reply, true) if reply.server == "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn when_both_break_or_the_time_is_up_the_call_has_failed() {
        let mut flights = Flights::of(broken(), LONG);
        flights.add(broken(), LONG);
        assert!(matches!(flights.land(None).await, Landing::Failed));
        let mut flights = Flights::of(silent(), Duration::from_secs(1));
        assert!(matches!(flights.land(None).await, Landing::Failed));
    }
}
