//! The role of a server: the primary is the one that may be written to (`read_only`).

use policy::ServerId;

use super::handshake::Key;
use super::server_pool::{OpenError, ServerConn, ServerPool};
use crate::roles::Roles;
use crate::tier::{Tier, Unreached};

impl Roles for ServerPool {
    type Conn = ServerConn;

    fn tier(&self) -> &Tier {
        &self.tier
    }

    async fn connect(&self, server: ServerId) -> Result<ServerConn, Unreached> {
        let connected = ServerPool::connect(self, server, Key::default(), None).await;
        connected.map_err(|error| match error {
            OpenError::Unreached(unreached) => unreached,
            // Too many connections, say.
            OpenError::Refused(_) => Unreached::Late,
        })
    }

    async fn is_primary(&self, conn: &mut ServerConn) -> Option<bool> {
        conn.is_read_only().await.ok().map(|is_read_only| !is_read_only)
    }
}
