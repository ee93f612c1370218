//! Dead servers are probed until they answer again.
//!
//! A server dies for the policy when a connection to it fails (`Tier::server_failed`). From then on
//! it gets no request; a probe connects to it after 250 ms, and then after twice the wait each
//! time, up to 2 s: a restarted server is back soon, and a machine that is gone costs little.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use policy::ServerId;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::tier::Tier;

const WAIT_FIRST: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Probes every server that `downs` names until `probe` says that it is there. Ends with the tier.
pub async fn run<P, F>(tier: Arc<Tier>, mut downs: mpsc::UnboundedReceiver<ServerId>, probe: P)
where
    P: Fn(ServerId) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = bool> + Send,
{
    while let Some(server) = downs.recv().await {
        let tier = Arc::clone(&tier);
        let probe = probe.clone();
        // At most one per server: it is named only when it goes from alive to dead.
        tokio::spawn(async move {
            let mut wait = WAIT_FIRST;
            loop {
                sleep(wait).await;
                if probe(server).await {
                    return tier.server_up(server);
                }
                wait = (wait * 2).min(WAIT_MAX);
            }
        });
    }
}
