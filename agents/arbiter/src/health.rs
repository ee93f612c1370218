//! Dead servers are probed until they answer again.
//!
//! A server dies for the policy when a connection to it fails (`Tier::server_failed`). From then on
//! it gets no request; a probe connects to it after 250 ms, and then after twice the wait each
//! time, up to 2 s: a restarted server is back soon, and a machine that is gone costs little. One
//! that somebody took out (`Tier::take_out`) is probed when they let it in again, and at once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use policy::ServerId;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::tier::{Down, Tier};

const WAIT_FIRST: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Probes every server that `downs` names until `probe` says that it is there. Ends with the tier.
pub async fn run<P, F>(tier: Arc<Tier>, mut downs: mpsc::UnboundedReceiver<Down>, probe: P)
where
    P: Fn(ServerId) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = bool> + Send,
{
    while let Some(Down { server, at_once }) = downs.recv().await {
        let tier = Arc::clone(&tier);
        let probe = probe.clone();
        // Few per server: it is named when it goes from alive to dead, and when it is let in.
        tokio::spawn(async move {
            let mut wait = if at_once { Duration::ZERO } else { WAIT_FIRST };
            loop {
                sleep(wait).await;
                if !tier.needs_probe(server) {
                    return;
                }
                if probe(server).await {
                    return tier.server_up(server);
                }
                wait = (wait * 2).clamp(WAIT_FIRST, WAIT_MAX);
            }
        });
    }
}
