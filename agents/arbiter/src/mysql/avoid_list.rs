//! Servers that a session avoids for a while, because they made it wait.

use std::time::Duration;

use policy::ServerId;
use tokio::time::Instant;

/// The servers, each with the time until which it is avoided.
#[derive(Debug, Default)]
pub struct AvoidList(Vec<(ServerId, Instant)>);

impl AvoidList {
    /// From now on, for so long.
    pub fn add(&mut self, server: ServerId, time: Duration) {
        self.0.push((server, Instant::now() + time));
    }

    /// Those whose time is not yet over.
    pub fn now(&mut self) -> Vec<ServerId> {
        let now = Instant::now();
        self.0.retain(|(_, until)| *until > now);
        self.0.iter().map(|(server, _)| *server).collect()
    }

    /// Does without none any more; whether there were any.
    pub fn forget(&mut self) -> bool {
        let had_any = !self.0.is_empty();
        self.0.clear();
        had_any
    }
}
