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

/// Its lease; another manager acts so long after this one fell silent.
const LEASE_S: i64 = 3;
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// After the naming service did not answer, and between two tries to lead.
const PAUSE: Duration = Duration::from_millis(200);

/// Has servers started: what it takes differs from platform to platform.
pub trait Starter {
    /// Has the server of this name started; returns once that is ordered.
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
    /// A server that does not answer for so long is dead.
    pub patience: Duration,
    /// A start that shows nothing for so long is ordered again [s].
    pub start_limit_s: f64,
}

/// Manages for ever.
pub async fn manage(settings: Settings, naming: &Naming, starter: &impl Starter) {
    loop {
        match lead(naming).await {
            Ok(Some(lease)) => {
                let ended = tokio::select! {
                    status = rounds(settings, naming, starter) => status,
                    status = hold(naming, lease) => status,
                };
                tracing::warn!("this manager acts no more: {ended}");
            }
            Ok(None) => {}
            Err(status) => tracing::warn!("the naming service: {status}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The lease of the manager that acts, if that is this one now.
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

/// Round after round, until the naming service does not answer.
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
    let mut looked = Vec::with_capacity(servers.len());
    for server in servers {
        let is_alive = is_alive(&server, settings.patience).await;
        if !is_alive {
            naming.note("detected", &server.name).await?;
        }
        looked.push((server, is_alive));
    }
    let members = naming.members().await?;
    let primary = naming.primary().await?;
    for order in rounds.after(&members, &looked, primary.as_deref(), now_s()) {
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
    let asked = async {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).ok()?;
        let channel = endpoint.connect().await.ok()?;
        LotsClient::new(channel).beat(Nothing::default()).await.ok()
    };
    matches!(tokio::time::timeout(patience, asked).await, Ok(Some(_)))
}
