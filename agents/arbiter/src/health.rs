//! Probes of dead servers until they answer again; with TCP optional checks of living ones.
//!
//! A server is dead for the policy after a failed connection (`Tier::server_failed`), or after
//! `health_check.fall` consecutive failed checks. From then on it gets no request. It is probed
//! after 250 ms, then after twice the wait each time, up to 2 s, so a restarted server is back
//! soon, and a missing machine costs little. With a health check the probe is that check, and
//! `rise` consecutive good ones, at its interval, bring the server back. A server that was taken
//! out (`Tier::take_out`) is probed at once when it is let in again.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use policy::ServerId;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::tier::{Down, Tier};

const WAIT_FIRST: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Probes every server that `downs` names until `probe` succeeds. Ends with the tier.
pub async fn run<P, F>(tier: Arc<Tier>, mut downs: mpsc::UnboundedReceiver<Down>, probe: P)
where
    P: Fn(ServerId) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = bool> + Send,
{
    while let Some(down) = downs.recv().await {
        let (tier, probe) = (Arc::clone(&tier), probe.clone());
        // Few per server: it is named when it goes from alive to dead, and when it is let in.
        tokio::spawn(async move { until_up(&tier, down, probe).await });
    }
}

async fn until_up<P, F>(tier: &Arc<Tier>, Down { server, at_once }: Down, probe: P)
where
    P: Fn(ServerId) -> F,
    F: Future<Output = bool>,
{
    let check = tier.config().health_check.as_ref();
    let (rise, interval) = check.map_or((1, WAIT_FIRST), |it| (it.rise, it.interval()));
    let mut wait = if at_once { Duration::ZERO } else { WAIT_FIRST };
    let mut good = 0;
    loop {
        sleep(wait).await;
        if !tier.needs_probe(server) {
            return;
        }
        if probe(server).await {
            good += 1;
            if good >= rise {
                return tier.server_up(server);
            }
            wait = interval;
        } else {
            good = 0;
            wait = (wait * 2).clamp(WAIT_FIRST, WAIT_MAX);
        }
    }
}

/// Checks every living server at each `health_check.interval_ms`, if a health check is configured.
pub async fn watch<P, F>(tier: Arc<Tier>, check: P)
where
    P: Fn(ServerId) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = bool> + Send,
{
    let Some(rules) = tier.config().health_check.clone() else {
        return;
    };
    let bad: Arc<[AtomicU32]> = tier.servers().iter().map(|_| AtomicU32::new(0)).collect();
    loop {
        // A check takes no longer than this: a server's do not overlap.
        sleep(rules.interval()).await;
        let standings = tier.standings();
        for (server, _) in standings.iter().enumerate().filter(|(_, it)| it.alive) {
            let (tier, check, bad) = (Arc::clone(&tier), check.clone(), Arc::clone(&bad));
            tokio::spawn(async move {
                if check(server).await {
                    bad[server].store(0, Relaxed);
                } else if bad[server].fetch_add(1, Relaxed) + 1 >= rules.fall {
                    bad[server].store(0, Relaxed);
                    tier.server_failed(server);
                }
            });
        }
    }
}
