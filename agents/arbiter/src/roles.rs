//! Asks each server for its role, so that the arbiter follows a promotion.

use std::future::Future;
use std::sync::Arc;

use policy::ServerId;
use tokio::time::timeout;

use crate::claims::Answer;
use crate::tier::{Tier, Unreached};

/// The servers of a protocol whose servers know their role.
pub trait Roles: Send + Sync + 'static {
    /// A connection on which a server is asked.
    type Conn: Send;

    /// The tier of the servers.
    fn tier(&self) -> &Tier;

    /// Connects to a server.
    fn connect(
        &self,
        server: ServerId,
    ) -> impl Future<Output = Result<Self::Conn, Unreached>> + Send;

    /// Asks a server if it is the primary; none if it breaks the connection.
    fn is_primary(&self, conn: &mut Self::Conn) -> impl Future<Output = Option<bool>> + Send;
}

/// Asks all servers, for ever.
pub fn watch_all(roles: &Arc<impl Roles>) {
    for server in 0..roles.tier().servers().len() {
        tokio::spawn(watch(Arc::clone(roles), server));
    }
}

async fn watch(roles: Arc<impl Roles>, server: ServerId) {
    let (tier, mut kept) = (roles.tier(), None);
    loop {
        let answer = ask(&*roles, server, &mut kept).await;
        tier.primary.note(tier.now(), server, answer);
        tier.primary.pause().await;
    }
}

/// Asks over the kept connection, or over a new one.
async fn ask<R: Roles>(roles: &R, server: ServerId, kept: &mut Option<R::Conn>) -> Answer {
    if let Some(conn) = kept.take() {
        let answer = ask_over(roles, conn, kept).await;
        // A server also closes connections that were idle, and goes on.
        if answer != Answer::Gone {
            return answer;
        }
    }
    match roles.connect(server).await {
        Ok(conn) => ask_over(roles, conn, kept).await,
        Err(Unreached::Refused) => Answer::Gone,
        Err(Unreached::Late | Unreached::Local) => Answer::Silence,
    }
}

async fn ask_over<R: Roles>(roles: &R, mut conn: R::Conn, kept: &mut Option<R::Conn>) -> Answer {
    let limit = roles.tier().config().connect_timeout();
    let answer = match timeout(limit, roles.is_primary(&mut conn)).await {
        Ok(Some(true)) => Answer::Primary,
        Ok(Some(false)) => Answer::Other,
        Ok(None) => return Answer::Gone,
        Err(_) => return Answer::Silence,
    };
    *kept = Some(conn);
    answer
}
