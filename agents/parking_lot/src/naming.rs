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
    /// Name of this process in the history.
    by: String,
}

impl Naming {
    /// The names in etcd; `by` signs what is written.
    pub fn new(etcd: Etcd, by: &str) -> Self {
        Self { etcd, by: by.to_owned() }
    }

    /// Name of this process in the history.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The registered servers in the order of their registration, and the revision of that.
    pub async fn servers(&self) -> Result<(Vec<Server>, i64), Status> {
        let (entries, revision) = self.etcd.list(SERVERS).await?;
        Ok((entries.iter().map(|entry| server_of(entry, SERVERS)).collect(), revision))
    }

    /// The primary, where one is named; it may be dead.
    pub async fn primary(&self) -> Result<Option<String>, Status> {
        let (entries, _) = self.etcd.list(PRIMARY).await?;
        Ok(entries.first().map(|entry| text(&entry.value)))
    }

    /// The primary's address, as a client asks for it.
    pub async fn primary_server(&self) -> Result<Vec<Server>, Status> {
        let Some(name) = self.primary().await? else {
            return Ok(Vec::new());
        };
        // Its address is that of a member: where it was, also after the manager removed it.
        let (entries, _) = self.etcd.list(&format!("{MEMBERS}{name}")).await?;
        let all = entries.iter().map(|entry| server_of(entry, MEMBERS));
        Ok(all.filter(|server| server.name == name).collect())
    }

    /// Returns the names of all servers that there should be.
    pub async fn members(&self) -> Result<Vec<String>, Status> {
        let (entries, _) = self.etcd.list(MEMBERS).await?;
        Ok(entries.iter().map(|entry| server_of(entry, MEMBERS).name).collect())
    }

    /// Registers a server, as primary if there is none; the revision is its incarnation.
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

    /// Removes a server if its incarnation is unchanged; returns true if it was.
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
        let request = put(PRIMARY, &server.name, 0);
        self.do_and_note(request, "promoted", &server.name).await
    }

    /// Orders the start of a server.
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

    /// Becomes the acting manager under this lease; returns false if another one acts.
    pub async fn lead(&self, lease: i64) -> Result<bool, Status> {
        let own = put(MANAGER, &self.by, lease);
        Ok(self.etcd.transact(vec![is_missing(MANAGER)], vec![own]).await?.0)
    }

    /// Makes a change that only the acting manager may make.
    async fn as_manager(
        &self,
        mut when: Vec<Compare>,
        then: Vec<Request>,
    ) -> Result<(bool, i64), Status> {
        when.push(is_value(MANAGER, &self.by));
        self.etcd.transact(when, then).await
    }

    /// Writes an event of now into the history.
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

    /// The client of etcd, for leases.
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }
}

fn server_of(entry: &KeyValue, prefix: &str) -> Server {
    Server {
        name: text(&entry.key).replacen(prefix, "", 1),
        address: text(&entry.value),
        incarnation: entry.mod_revision,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
