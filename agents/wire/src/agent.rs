//! The node agent's HTTP API: what a controller sends and what an agent answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The longest lease that a fault may have.
pub const LEASE_S_MAX: f64 = 600.0;

/// The state of the role's service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    /// Started by the agent, alive.
    Running,
    /// Never started, or stopped on request.
    Stopped,
    /// Ended without a request.
    Crashed,
    /// Alive, but stopped by a signal.
    Hung,
}

/// `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The machine's name, e.g. `web-1`.
    pub machine: String,
    /// The role that it runs, e.g. `mediawiki`.
    pub role: String,
    /// The experiment that it belongs to.
    pub experiment: String,
    /// The agent's version.
    pub version: String,
    /// State of the role's service.
    pub service: ServiceState,
    /// Last result of the role's `ready.sh`, false whenever the service does not run.
    pub ready: bool,
    /// Seconds since this agent process started.
    pub uptime_s: f64,
    /// Faults (and interference) in force, those that could not be undone included.
    pub faults_active: usize,
    /// Fate of the host metrics.
    pub metrics: MetricsDelivery,
}

/// Counts of host samples since the agent started; none is lost without being counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MetricsDelivery {
    /// Taken by the time-series database.
    pub delivered: u64,
    /// Waiting in memory.
    pub buffered: u64,
    /// The oldest ones, dropped from a full buffer.
    pub dropped: u64,
    /// Refused by the database as malformed.
    pub rejected: u64,
}

/// The ability of this machine to inject one kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capability {
    /// True if it was really tried here and worked.
    pub available: bool,
    /// Reason for not being available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /v1/capabilities`: one entry for each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// Kind of fault or interference -> capability.
    pub faults: BTreeMap<String, Capability>,
}

/// `POST /v1/faults`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultRequest {
    /// E.g. `net.limp`.
    pub kind: String,
    /// The kind's parameters; an absent object is an empty one.
    #[serde(default = "no_parameters")]
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// The fault is undone after this time unless renewed; in (0, 600].
    pub lease_s: f64,
}

fn no_parameters() -> Value {
    Value::Object(serde_json::Map::new())
}

/// `PUT /v1/faults/ID/lease`, `POST /v1/service/stop`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// The new lease, counted from now; in (0, 600].
    pub lease_s: f64,
}

/// The state of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultState {
    /// The fault is in force.
    Active,
    /// Undone.
    Reverted,
    /// Its undo failed; the agent tries again every second. `error` says why.
    RevertFailed,
}

/// The reason for which the agent undid a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RevertReason {
    /// A DELETE.
    Requested,
    /// Its lease ended.
    Lease,
    /// The agent started and found it in its journal.
    Restart,
    /// The agent was told to end.
    Sigterm,
}

/// One fault or interference episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// Unique on this machine.
    pub id: String,
    /// E.g. `net.limp`.
    pub kind: String,
    /// The parameters with their defaults filled in.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// The last lease given.
    pub lease_s: f64,
    /// Unix time when the injection was complete.
    pub injected_at_ms: u64,
    /// Unix time when the lease ends.
    pub expires_at_ms: u64,
    /// Its state.
    pub state: FaultState,
    /// Unix time when the undo was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_at_ms: Option<u64>,
    /// Reason of the undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert_reason: Option<RevertReason>,
    /// Error of the undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Dose until now or until the undo; absent if an earlier agent injected the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dose: Option<Dose>,
}

/// The measured dose of a fault beside the asked one, by the kernel's counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Dose {
    /// The asked dose, in `unit`; absent if that is another machine's to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// The measured dose; absent as long as nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// Method of measurement.
    pub how: String,
    /// True if it did what was asked; absent if the evidence is too thin to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit: Option<bool>,
    /// Measurements that it rests on.
    pub samples: u64,
    /// Time from the first of them to the last.
    pub seconds: f64,
    /// Error of the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A machine's state as text: section (`qdisc`, `link`, ...) -> thing -> state.
pub type Snapshot = BTreeMap<String, BTreeMap<String, String>>;

/// `GET /v1/fingerprint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fingerprint {
    /// Snapshot after the agent's own shaping and before any fault.
    #[schema(value_type = Object)]
    pub baseline: Snapshot,
    /// Snapshot for this answer.
    #[schema(value_type = Object)]
    pub now: Snapshot,
    /// True if there is no difference.
    pub clean: bool,
    /// A line for each thing that was added, removed or changed.
    pub differences: Vec<String>,
}

/// Answer of `POST /v1/service/{start,stop,restart}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// State of the service after the request.
    pub service: ServiceState,
    /// Id of a stop, by which it is renewed and undone as a fault is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// `PUT /v1/settings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsRequest {
    /// All settings, by name.
    pub settings: BTreeMap<String, Setting>,
    /// Time after which the earlier settings return unless renewed; in (0, 600].
    pub lease_s: f64,
}

/// One value of `PUT /v1/settings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Setting {
    /// One line.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// `true` or `false`.
    Boolean(bool),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

/// Answer of `PUT /v1/settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsAnswer {
    /// All settings now, as the role's scripts get them.
    pub settings: BTreeMap<String, String>,
    /// True if the service was restarted for it.
    pub restarted: bool,
    /// State of the service after the request.
    pub service: ServiceState,
    /// The id by which they are renewed and undone, as a fault is; absent where they are those of
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// The body of every refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// `KEY: expected X (got Y).`, and a hint where there is one.
    pub error: String,
}
