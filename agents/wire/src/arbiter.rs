//! The arbiter's admin API (JSON): `GET /v1/config`, `PUT /v1/replicas`, `PUT /v1/policy`,
//! `GET /v1/stats`.

use serde::{Deserialize, Serialize};

/// What the arbiter speaks, to clients and to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// The MySQL client protocol.
    Mysql,
}

/// How servers are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Servers in turn.
    RoundRobin,
    /// Token-based arbitration, sPARE section 4.
    Tad,
}

/// A server of the tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its machine's name.
    pub name: String,
    /// Address and port.
    pub address: std::net::SocketAddr,
}

/// Answer of `GET /v1/config`, and of a change to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The tier served.
    pub tier: String,
    /// What is spoken.
    pub protocol: Protocol,
    /// How servers are chosen.
    pub policy: Policy,
    /// Replicas of each read, r.
    pub replicas: usize,
    /// Tokens per server, C (without effect under round-robin).
    pub tokens: usize,
    /// Limit of one attempt to reach a server.
    pub connect_timeout_ms: u64,
    /// Limit of one request.
    pub request_timeout_ms: u64,
    /// Age from which an observed latency no longer counts.
    pub observation_age_ms: u64,
    /// The tier's servers.
    pub servers: Vec<Server>,
}

/// Body of `PUT /v1/replicas`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetReplicas {
    /// 1 to the number of servers.
    pub replicas: usize,
}

/// Body of `PUT /v1/policy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// The policy from now on.
    pub policy: Policy,
    /// Tokens per server from now on; as before where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
}

/// Body of every refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// What was expected, what came, what to do.
    pub error: String,
}

/// Answer of `GET /v1/stats`: counters since the start (they only grow) and gauges of this moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The tier served.
    pub tier: String,
    /// What is spoken.
    pub protocol: Protocol,
    /// The policy now.
    pub policy: Policy,
    /// Replicas now.
    pub replicas: usize,
    /// Tokens per server now.
    pub tokens_per_server: usize,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// What clients asked.
    pub requests: Requests,
    /// Replicas written to servers.
    pub replicas_sent: u64,
    /// Replicas that were not written any more because the request was answered before.
    pub replicas_not_needed: u64,
    /// Replicas that completed, or failed, after another had won.
    pub replicas_wasted: u64,
    /// Time that servers spent on wasted replicas.
    pub wasted_us: u64,
    /// Client connections.
    pub connections: Connections,
    /// Total time that requests (MySQL: connections) waited for their first token.
    pub token_wait_us_total: u64,
    /// How many had to wait.
    pub token_waits: u64,
    /// Tokens of all servers.
    pub tokens: Tokens,
    /// Per server.
    pub servers: Vec<ServerStats>,
}

/// Requests by fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Complete requests from clients.
    pub received: u64,
    /// Those for which a server's reply was passed on.
    pub answered: u64,
    /// Those that got the arbiter's own error, or an aborted reply.
    pub failed: u64,
    /// Those that could be sent to more than one server.
    pub cloned: u64,
}

/// Client connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Accepted since the start.
    pub client_accepted: u64,
    /// Open now.
    pub client_open: u64,
}

/// Tokens of all servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Servers times C; 0 with a policy that has none.
    pub total: u64,
    /// Grants held now, with any policy.
    pub in_use: u64,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStats {
    /// Its machine's name.
    pub name: String,
    /// Address and port.
    pub address: std::net::SocketAddr,
    /// False from a failed connection until a probe succeeds.
    pub alive: bool,
    /// Tokens in the pool.
    pub tokens_free: u64,
    /// Replicas (MySQL: commands) sent and not completed.
    pub in_flight: u64,
    /// Replicas (MySQL: commands) sent.
    pub requests: u64,
    /// Replies passed on to a client.
    pub wins: u64,
    /// Failed connections, broken or timed out replies, HTTP 5xx, SQL errors of the server's
    /// making.
    pub errors: u64,
    /// Of the last good reply; 0 before the first.
    pub last_latency_us: u64,
    /// Sum over good replies.
    pub latency_us_sum: u64,
    /// Number of good replies.
    pub latency_count: u64,
    /// Connections made.
    pub connections_opened: u64,
    /// Times that a pooled connection was used again.
    pub connections_reused: u64,
}
