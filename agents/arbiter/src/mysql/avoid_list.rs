//! Servers that a session avoids for a while, because they made it wait.

use std::time::Duration;

use policy::ServerId;
use tokio::time::Instant;

/// Servers to avoid, each with the end of that time.
#[derive(Debug, Default)]
pub struct AvoidList(Vec<(ServerId, Instant)>);

impl AvoidList {
    /// Avoids a server from now on for `time`.
    pub fn add(&mut self, server: ServerId, time: Duration) {
        self.0.push((server, Instant::now() + time));
    }

    /// Servers that are avoided now.
    pub fn now(&mut self) -> Vec<ServerId> {
        let now = Instant::now();
        self.0.retain(|(_, until)| *until > now);
        self.0.iter().map(|(server, _)| *server).collect()
    }

    /// Empties the list; true if it was not empty.
    pub fn forget(&mut self) -> bool {
        let had_any = !self.0.is_empty();
        self.0.clear();
        had_any
    }
}
