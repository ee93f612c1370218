//! Replicas that are sent only if there is no answer yet (The Tail at Scale).
//!
//! The runtime's timer counts whole milliseconds: a delay ends up to 1 ms late, never early.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use policy::Hedge;
use tokio::time::{sleep, Instant, Sleep};

/// Times at which the further replicas of one request are due.
pub struct Delayed {
    after: Duration,
    left: usize,
    timer: Pin<Box<Sleep>>,
}

impl Delayed {
    /// Starts the time when the first replica is sent.
    pub fn new(hedge: Hedge) -> Self {
        let after = Duration::from_micros(hedge.after_us);
        Self { after, left: hedge.extras, timer: Box::pin(sleep(after)) }
    }

    /// Ready when one more replica is due; never again after the last.
    pub fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 || self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.left -= 1;
        let next = Instant::now() + self.after;
        self.timer.as_mut().reset(next);
        Poll::Ready(())
    }
}

/// Awaits [`Delayed::poll_due`]; for ever if no replica may follow. Cancel-safe.
pub async fn due(delayed: &mut Option<Delayed>) {
    match delayed {
        Some(delayed) => std::future::poll_fn(|context| delayed.poll_due(context)).await,
        None => std::future::pending().await,
    }
}
