//! The role of a server, as it says it (`ROLE`).

use policy::ServerId;

use super::ask;
use crate::conn::Conn;
use crate::roles::Roles;
use crate::tier::{Tier, Unreached};

impl Roles for Tier {
    type Conn = Conn;

    fn tier(&self) -> &Tier {
        self
    }

    async fn connect(&self, server: ServerId) -> Result<Conn, Unreached> {
        self.dial(server).await.map(Conn::new)
    }

    async fn is_primary(&self, conn: &mut Conn) -> Option<bool> {
        let reply = ask(conn, b"ROLE\r\n", self.config().connect_timeout()).await.ok()?;
        Some(reply.split("\r\n").nth(2) == Some("master"))
    }
}
