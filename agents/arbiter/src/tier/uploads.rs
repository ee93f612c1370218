//! Requests whose bodies are passed on as they arrive hold tokens while their clients send. So they
//! may have at most half of the tokens; the others are for work.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use tokio::sync::Notify;

use super::Tier;

/// Requests whose bodies are streamed now.
#[derive(Debug, Default)]
pub struct Uploads {
    now: AtomicUsize,
    freed: Notify,
}

/// A place for one of them, returned when dropped.
pub struct UploadPlace(Arc<Tier>);

impl Drop for UploadPlace {
    fn drop(&mut self) {
        self.0.uploads.now.fetch_sub(1, Relaxed);
        self.0.uploads.freed.notify_one();
    }
}

impl Tier {
    /// Waits for a place.
    pub async fn upload_place(self: &Arc<Self>) -> UploadPlace {
        let Uploads { now, freed } = &self.uploads;
        loop {
            let mut freed = pin!(freed.notified());
            freed.as_mut().enable();
            let most = self.uploads_max();
            let one_more = |now: usize| (now < most).then_some(now + 1);
            if now.fetch_update(Relaxed, Relaxed, one_more).is_ok() {
                return UploadPlace(Arc::clone(self));
            }
            freed.await;
        }
    }

    /// Maximum places: half of the tokens of all servers that are alive, at least one.
    fn uploads_max(&self) -> usize {
        let choices = self.choices();
        if !choices.selector.policy().uses_tokens() {
            return usize::MAX;
        }
        let all = 0..self.servers().len();
        let alive = all.filter(|&server| choices.selector.is_alive(server));
        (alive.count() * choices.selector.tokens_per_server() / 2).max(1)
    }
}
