//! The replication manager: looks at every registered server in turn, waits its fault-detection
//! time, and does what `core/rounds.rs` says. Of several managers the one that holds the lease
//! acts.

use std::time::Duration;

use tonic::transport::Endpoint;
use tonic::Status;

use crate::api::lots_client::LotsClient;
use crate::api::Nothing;
use crate::core::rounds::{Order, Rounds};
use crate::core::Server;
use crate::naming::Naming;
use crate::now_s;

/// Time to live of its lease: after so much silence another manager acts.
const LEASE_S: i64 = 3;
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Pause after a failure of the naming service, and between two tries to lead.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts servers; the way differs from platform to platform.
pub trait Starter {
    /// Orders the start of the server of this name.
    fn start(&self, name: &str) -> impl std::future::Future<Output = Result<(), Status>>;
}

/// The fleet's: an order in the naming service. A certificate for the agents may do anything to
/// machines, and stays with the runner, which looks for orders.
impl Starter for Naming {
    async fn start(&self, name: &str) -> Result<(), Status> {
        self.order(name).await
    }
}

/// The settings of a manager.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Its fault-detection time, between two rounds.
    pub detection: Duration,
    /// Time-out of a server's answer, after which it is dead.
    pub patience: Duration,
    /// Time after which an order without effect is repeated [s].
    pub start_limit_s: f64,
}

/// Manages for ever.
pub async fn manage(settings: Settings, naming: &Naming, starter: &impl Starter) {
    loop {
        match lead(naming).await {
            Ok(Some(lease)) => {
                let status = tokio::select! {
                    status = rounds(settings, naming, starter) => status,
                    status = hold(naming, lease) => status,
                };
                tracing::warn!("this manager acts no more: {status}");
            }
            Ok(None) => {}
            Err(status) => tracing::warn!("the naming service: {status}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the lease of the acting manager, if this is the one.
async fn lead(naming: &Naming) -> Result<Option<i64>, Status> {
    let lease = naming.etcd().grant(LEASE_S).await?;
    Ok(naming.lead(lease).await?.then_some(lease))
}

/// Renews the lease until that fails.
async fn hold(naming: &Naming, lease: i64) -> Status {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        match naming.etcd().renew(lease).await {
            Ok(true) => {}
            Ok(false) => return Status::aborted("its lease has ended"),
            Err(status) => return status,
        }
    }
}

/// Makes rounds until the naming service does not answer.
async fn rounds(settings: Settings, naming: &Naming, starter: &impl Starter) -> Status {
    let mut rounds = Rounds::new(settings.start_limit_s);
    loop {
        if let Err(status) = round(settings, naming, starter, &mut rounds).await {
            return status;
        }
        tokio::time::sleep(settings.detection).await;
    }
}

async fn round(
    settings: Settings,
    naming: &Naming,
    starter: &impl Starter,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    let (servers, _) = naming.servers().await?;
    let mut health = Vec::with_capacity(servers.len());
    for server in servers {
        let is_alive = is_alive(&server, settings.patience).await;
        if !is_alive {
            naming.note("detected", &server.name).await?;
        }
        health.push((server, is_alive));
    }
    let members = naming.members().await?;
    let primary = naming.primary().await?;
    for order in rounds.after(&members, &health, primary.as_deref(), now_s()) {
        match order {
            Order::Remove(server) => drop(naming.remove(&server).await?),
            Order::Promote(server) => naming.promote(&server).await?,
            Order::Start(name) => starter.start(&name).await?,
        }
    }
    Ok(())
}

/// True if it answers on a new connection.
async fn is_alive(server: &Server, patience: Duration) -> bool {
    let probe = async {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).ok()?;
        let channel = endpoint.connect().await.ok()?;
        LotsClient::new(channel).beat(Nothing::default()).await.ok()
    };
    matches!(tokio::time::timeout(patience, probe).await, Ok(Some(_)))
}
