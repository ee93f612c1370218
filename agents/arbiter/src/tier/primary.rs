//! The primary of a tier, for all threads: the first server, or the one that the servers name
//! (`claims`).

use std::sync::Mutex;
use std::time::Duration;

use policy::{ServerId, TimeUs};
use tokio::sync::{watch, Notify};
use tokio::time::{sleep, timeout};

use super::PRIMARY;
use crate::claims::{Answer, Claims, NoPrimary};
use crate::counters::Counter;
use crate::lock;

/// Time between two questions to a server; the second is the least, after a write that failed.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MIN: Duration = Duration::from_millis(25);

/// The server that is written to.
pub struct Primary {
    /// None: it is fixed.
    detection: Option<Mutex<Detection>>,
    known: watch::Sender<Result<ServerId, NoPrimary>>,
    /// Times that another server became the primary.
    pub changes: Counter,
    doubted: Notify,
}

struct Detection {
    claims: Claims,
    /// The last primary.
    last: Option<ServerId>,
}

impl Primary {
    /// The first server for ever.
    pub fn first() -> Self {
        Self {
            detection: None,
            known: watch::Sender::new(Ok(PRIMARY)),
            changes: Counter::default(),
            doubted: Notify::new(),
        }
    }

    /// None before the servers were asked.
    pub fn detected(servers: usize) -> Self {
        let detection = Detection { claims: Claims::new(servers), last: None };
        Self {
            detection: Some(Mutex::new(detection)),
            known: watch::Sender::new(Err(NoPrimary::Nobody)),
            ..Self::first()
        }
    }

    /// True if it may change.
    pub fn is_detected(&self) -> bool {
        self.detection.is_some()
    }

    /// The primary now.
    ///
    /// # Errors
    /// [`NoPrimary`]: no server may be written to.
    pub fn get(&self) -> Result<ServerId, NoPrimary> {
        *self.known.borrow()
    }

    /// Notes a server's answer.
    pub fn note(&self, now: TimeUs, server: ServerId, answer: Answer) {
        let Some(detection) = &self.detection else { return };
        let mut detection = lock(detection);
        detection.claims.note(now, server, answer);
        let primary = detection.claims.primary(now);
        if let Ok(server) = primary {
            let before = detection.last.replace(server);
            if before.is_some_and(|before| before != server) {
                self.changes.inc();
            }
        }
        self.known.send_if_modified(|known| std::mem::replace(known, primary) != primary);
    }

    /// Has the servers asked soon, because a write failed.
    pub fn doubt(&self) {
        self.doubted.notify_waiters();
    }

    /// Waits until a server is to be asked again.
    pub async fn pause(&self) {
        sleep(PAUSE_MIN).await;
        // Without a doubt it is the usual pause.
        let _ = timeout(PAUSE - PAUSE_MIN, self.doubted.notified()).await;
    }

    /// Waits until this server is not the primary.
    pub async fn lost(&self, server: ServerId) {
        // The sender lives as long as this.
        let _ = self.known.subscribe().wait_for(|known| *known != Ok(server)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_another_server_and_neither_the_first_one_nor_a_gap() {
        let primary = Primary::detected(2);
        for (server, answer, known, changes) in [
            (0, Answer::Primary, Ok(0), 0),
            (0, Answer::Gone, Err(NoPrimary::Nobody), 0),
            (0, Answer::Primary, Ok(0), 0),
            (1, Answer::Primary, Err(NoPrimary::Several), 0),
            (0, Answer::Other, Ok(1), 1),
            (1, Answer::Other, Err(NoPrimary::Nobody), 1),
            (0, Answer::Primary, Ok(0), 2),
        ] {
            primary.note(0, server, answer);
            assert_eq!((primary.get(), primary.changes.get()), (known, changes));
        }
    }

    #[test]
    fn a_fixed_one_does_not_listen() {
        let primary = Primary::first();
        primary.note(0, 1, Answer::Primary);
        assert_eq!((primary.get(), primary.is_detected()), (Ok(0), false));
    }
}
