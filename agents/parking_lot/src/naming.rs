//! The naming service: what servers, manager and clients keep in etcd.
//!
//! | key | value | who writes it |
//! |---|---|---|
//! | `lots/servers/NAME` | the server's address | the server, when it serves; the manager removes it |
//! | `lots/members/NAME` | its address | the server, once and for all |
//! | `lots/primary` | a server's name | the manager; the first server, where there is none |
//! | `lots/manager` | the manager's name, under its lease | the manager that acts |
//! | `lots/orders/NAME` | when it was ordered | the manager; whoever starts machines removes it |
//! | `lots/history/TIME` | what happened, as JSON | manager and servers, for the record |

use serde::Serialize;
use tonic::Status;

use crate::api::etcd::request_op::Request;
use crate::api::etcd::{Compare, KeyValue};
use crate::core::Server;
use crate::etcd::{delete, is_missing, is_of, is_value, put, Etcd};
use crate::now_s;

const SERVERS: &str = "lots/servers/";
const MEMBERS: &str = "lots/members/";
const PRIMARY: &str = "lots/primary";
const MANAGER: &str = "lots/manager";
const ORDERS: &str = "lots/orders/";
const HISTORY: &str = "lots/history/";

/// An event, on the host's monotonic clock.
#[derive(Debug, Serialize)]
struct Happened<'a> {
    at_s: f64,
    what: &'a str,
    server: &'a str,
    by: &'a str,
}

/// The naming service.
#[derive(Debug)]
pub struct Naming {
    etcd: Etcd,
    /// The speaker, for the history.
    by: String,
}

impl Naming {
    /// As `by` sees it.
    pub fn new(etcd: Etcd, by: &str) -> Self {
        Self { etcd, by: by.to_owned() }
    }

    /// The speaker.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The registered servers in the order of their registration, and the revision of that.
    pub async fn servers(&self) -> Result<(Vec<Server>, i64), Status> {
        let (found, revision) = self.etcd.list(SERVERS).await?;
        Ok((found.iter().map(|one| server_of(one, SERVERS)).collect(), revision))
    }

    /// The primary, where one is named; it may be dead.
    pub async fn primary(&self) -> Result<Option<String>, Status> {
        let (found, _) = self.etcd.list(PRIMARY).await?;
        Ok(found.first().map(|one| text(&one.value)))
    }

    /// The primary's address, as a client asks for it.
    pub async fn primary_server(&self) -> Result<Vec<Server>, Status> {
        let Some(name) = self.primary().await? else {
            return Ok(Vec::new());
        };
        // Its address is that of a member: where it was, also after the manager removed it.
        let (found, _) = self.etcd.list(&format!("{MEMBERS}{name}")).await?;
        let all = found.iter().map(|one| server_of(one, MEMBERS));
        Ok(all.filter(|one| one.name == name).collect())
    }

    /// All servers that there should be.
    pub async fn members(&self) -> Result<Vec<String>, Status> {
        let (found, _) = self.etcd.list(MEMBERS).await?;
        Ok(found.iter().map(|one| server_of(one, MEMBERS).name).collect())
    }

    /// A server that serves, and is primary if there is none; the revision is its incarnation.
    pub async fn register(&self, address: &str, lease: i64) -> Result<i64, Status> {
        let name = &self.by;
        let own = put(&format!("{SERVERS}{name}"), address, lease);
        let member = put(&format!("{MEMBERS}{name}"), address, 0);
        let (_, revision) = self.etcd.transact(Vec::new(), vec![own, member]).await?;
        let first = vec![put(PRIMARY, name, 0)];
        self.etcd.transact(vec![is_missing(PRIMARY)], first).await?;
        self.note("ready", name).await?;
        Ok(revision)
    }

    /// Takes a server out if it is still that one; whether it was.
    pub async fn remove(&self, server: &Server) -> Result<bool, Status> {
        let key = format!("{SERVERS}{}", server.name);
        let unchanged = is_of(&key, server.incarnation);
        let (is_removed, _) = self.as_manager(vec![unchanged], vec![delete(&key)]).await?;
        if is_removed {
            self.note("removed", &server.name).await?;
        }
        Ok(is_removed)
    }

    /// Names the primary.
    pub async fn promote(&self, server: &Server) -> Result<(), Status> {
        let named = put(PRIMARY, &server.name, 0);
        self.do_and_note(named, "promoted", &server.name).await
    }

    /// Asks whoever starts machines for one.
    pub async fn order(&self, name: &str) -> Result<(), Status> {
        let order = put(&format!("{ORDERS}{name}"), &format!("{:.6}", now_s()), 0);
        self.do_and_note(order, "ordered", name).await
    }

    async fn do_and_note(&self, request: Request, what: &str, server: &str) -> Result<(), Status> {
        let (is_done, _) = self.as_manager(Vec::new(), vec![request]).await?;
        match is_done {
            true => self.note(what, server).await,
            false => Err(Status::aborted("another manager acts")),
        }
    }

    /// Becomes the manager that acts, under this lease, unless another is; whether it is now.
    pub async fn lead(&self, lease: i64) -> Result<bool, Status> {
        let own = put(MANAGER, &self.by, lease);
        Ok(self.etcd.transact(vec![is_missing(MANAGER)], vec![own]).await?.0)
    }

    /// A change that only the acting manager may make: one whose lease has ended changes nothing.
    async fn as_manager(
        &self,
        mut when: Vec<Compare>,
        then: Vec<Request>,
    ) -> Result<(bool, i64), Status> {
        when.push(is_value(MANAGER, &self.by));
        self.etcd.transact(when, then).await
    }

    /// Writes down what happened now.
    pub async fn note(&self, what: &str, server: &str) -> Result<(), Status> {
        let at_s = now_s();
        let by = &self.by;
        let happened = Happened { at_s, what, server, by };
        let value = serde_json::to_string(&happened)
            .map_err(|error| Status::internal(error.to_string()))?;
        let key = format!("{HISTORY}{at_s:018.6}-{by}-{what}");
        self.etcd.transact(Vec::new(), vec![put(&key, &value, 0)]).await?;
        Ok(())
    }

    /// Waits until the registered servers are no longer those of `revision`.
    pub async fn changed(&self, revision: i64) -> Result<(), Status> {
        let mut watch = self.etcd.watch(SERVERS, revision + 1).await?;
        loop {
            match watch.message().await? {
                Some(answer) if answer.created => {}
                Some(answer) if !answer.canceled => return Ok(()),
                _ => return Err(Status::aborted("expected changes, the watch has ended")),
            }
        }
    }

    /// The cluster, for leases.
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }
}

fn server_of(found: &KeyValue, prefix: &str) -> Server {
    Server {
        name: text(&found.key).replacen(prefix, "", 1),
        address: text(&found.value),
        incarnation: found.mod_revision,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
