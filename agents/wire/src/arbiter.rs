//! The arbiter's admin API (JSON): `GET /v1/config`, `PUT /v1/replicas`, `PUT /v1/policy`,
//! `PUT /v1/guardrails`, `PUT /v1/compare`, `PUT /v1/servers/NAME`, `GET /v1/stats`, `GET /v1/latency`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub use crate::compare::{Compare, CompareMode, Compared, ServerCompared};
pub use crate::guardrails::Guardrails;
pub use policy::{Guarded, Policy};

/// The protocol towards clients and servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// The MySQL client protocol.
    Mysql,
    /// RESP2 and RESP3; one server is the primary.
    Redis,
    /// The memcached text protocol, meta commands included.
    Memcached,
    /// Any other: bytes are passed through, a connection is a request.
    Tcp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Http, Self::Mysql, Self::Redis, Self::Memcached, Self::Tcp];

    /// The usual port of its servers, if there is one.
    pub fn default_port(self) -> Option<u16> {
        match self {
            Self::Http => Some(80),
            Self::Mysql => Some(3306),
            Self::Redis => Some(6379),
            Self::Memcached => Some(11211),
            Self::Tcp => None,
        }
    }

    /// True if reads are told from writes, and so can be sent to several servers.
    pub fn tells_reads(self) -> bool {
        self != Self::Tcp
    }

    /// True if the replies of replicas can be compared.
    pub fn compares(self) -> bool {
        matches!(self, Self::Http | Self::Redis | Self::Memcached)
    }

    /// Maximum replicas of a tier of `servers`, with the reason of the limit.
    pub fn replicas_max(self, servers: usize) -> (usize, &'static str) {
        if self.tells_reads() {
            (servers, ", the number of servers")
        } else {
            (1, ", as this protocol does not tell reads from writes")
        }
    }
}

/// A server of the tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its machine's name.
    pub name: String,
    /// The address that it listens at.
    pub address: SocketAddr,
}

/// Answer of `GET /v1/config`, and of a change to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The tier served.
    pub tier: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Rule that chooses servers.
    pub policy: Policy,
    /// Replicas of each read, r.
    pub replicas: usize,
    /// Tokens per server, C (with tad and tad-paper).
    pub tokens: usize,
    /// Servers looked at beyond the r that are needed, n (with tad and tad-paper).
    pub look_ahead: usize,
    /// Limit of one attempt to reach a server.
    pub connect_timeout_ms: u64,
    /// Limit of one request.
    pub request_timeout_ms: u64,
    /// Age from which an observed latency no longer counts.
    pub observation_age_ms: u64,
    /// True if replicas are stamped (HTTP), stamps kept apart (MySQL).
    pub avoid_collisions: bool,
    /// The bounds of every policy.
    pub guardrails: Guardrails,
    /// The comparison of replicas' replies.
    pub compare: Compare,
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
    /// Servers looked at beyond the r that are needed, n, from now on; every one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_ahead: Option<usize>,
}

/// Body of `PUT /v1/servers/NAME`; the answer is that server's `ServerStats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetServer {
    /// False takes the server out at once, until true: then it is probed at once, and gets requests
    /// as soon as it answers.
    pub up: bool,
}

/// Answer of `GET /health`: 200 while a server can be asked, else 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Servers that are not dead.
    pub alive: usize,
    /// All of them.
    pub servers: usize,
}

/// Body of every refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// `KEY: expected X (got Y).`, and a hint where there is one.
    pub error: String,
}

/// Answer of `GET /v1/stats`: counters since the start (they only grow) and gauges of this moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The tier served.
    pub tier: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The policy now.
    pub policy: Policy,
    /// Replicas now.
    pub replicas: usize,
    /// Tokens per server now.
    pub tokens_per_server: usize,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Counts of the clients' requests.
    pub requests: Requests,
    /// Replicas written to servers.
    pub replicas_sent: u64,
    /// Replicas that were not written any more because the request was answered before.
    pub replicas_not_needed: u64,
    /// Replicas that completed, or failed, after another had won.
    pub replicas_wasted: u64,
    /// Time that servers spent on wasted replicas.
    pub wasted_us: u64,
    /// Time that replicas were at servers, wasted or not.
    pub busy_us: u64,
    /// `wasted_us` in percent of `busy_us`; absent before the first replica ended.
    pub wasted_percent: Option<f64>,
    /// Client connections.
    pub connections: Connections,
    /// Redis and MySQL: clients whose reads go to one server only, because of what they have asked.
    pub pinned: Pinned,
    /// The server for writes; absent where the tier has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Primary>,
    /// Total time that requests (MySQL: sessions at their begin, and commands) waited for their first
    /// token.
    pub token_wait_us_total: u64,
    /// Requests that waited.
    pub token_waits: u64,
    /// Grants (tokens, with a policy that has them) that came back.
    pub token_holds: u64,
    /// Total time that these were held.
    pub token_hold_us_total: u64,
    /// Cores of one server, as the configuration says; `processing_us_sum` rests on it.
    pub server_cores: f64,
    /// The last 60 whole seconds.
    pub recent: Recent,
    /// Tokens of all servers.
    pub tokens: Tokens,
    /// Sessions of requests that the tier above sent in several replicas.
    pub siblings: Siblings,
    /// The guardrails' actions.
    pub guarded: Guarded,
    /// Reads whose replies were to be compared.
    pub compare: Compared,
    /// Per server.
    pub servers: Vec<ServerStats>,
}

/// The server for writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Primary {
    /// Its name; null while no server, or more than one, says that it is the primary.
    pub server: Option<String>,
    /// Times that another server became the primary.
    pub changes: u64,
}

/// Clients with a server connection of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Clients that are pinned now.
    pub clients: u64,
    /// Number of times that a client was pinned.
    pub times: u64,
    /// Their commands there; of Redis not among `requests`, but for the command that pinned.
    pub commands: u64,
}

/// Requests by fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Complete requests from clients.
    pub received: u64,
    /// Requests for which a server's reply was passed on.
    pub answered: u64,
    /// Requests that got the arbiter's own error, or an aborted reply.
    pub failed: u64,
    /// Requests that could be sent to more than one server.
    pub cloned: u64,
    /// Those that were sent on and only read, as their protocol tells: HTTP's safe methods, commands
    /// and statements that change no data. Of Redis with those of pinned clients.
    pub reads: u64,
    /// Of `reads`, those that one certain server had to answer: MySQL's primary, of a connection that
    /// wrote or in a transaction; Redis' primary, of a pinned client or where only it can say;
    /// memcached's reference.
    pub reads_of_one: u64,
    /// Those that were sent on to change data: other methods, commands and statements that write. What
    /// belongs to the connection alone (`BEGIN`, `SET`, `HELLO`), and what is not known, is in neither.
    pub writes: u64,
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
    /// The address that it listens at.
    pub address: SocketAddr,
    /// False from a failed connection, or from when it was taken out, until a probe succeeds.
    pub alive: bool,
    /// Taken out for its failures, until a probe succeeds.
    pub ejected: bool,
    /// Taken out by `PUT /v1/servers/NAME`: no probe brings it back.
    pub taken_out: bool,
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
    /// Latency of the last good reply; 0 before the first.
    pub last_latency_us: u64,
    /// Sum over good replies.
    pub latency_us_sum: u64,
    /// Number of good replies.
    pub latency_count: u64,
    /// Core time that requests took, estimated from how many ran at the same time (sPARE 5.1.1).
    pub processing_us_sum: u64,
    /// Requests in that sum: those that did not fail.
    pub processing_count: u64,
    /// Time that replicas were at this server.
    pub busy_us: u64,
    /// Connections made.
    pub connections_opened: u64,
    /// Times that a pooled connection was used again.
    pub connections_reused: u64,
    /// Its part in comparisons.
    pub compare: ServerCompared,
}

/// The last whole seconds together: at most 60.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Recent {
    /// Number of these seconds; 0 within the first.
    pub seconds: u64,
    /// Requests that ended, per second.
    pub requests_per_s: Option<f64>,
    /// Client connections accepted, per second.
    pub connections_per_s: Option<f64>,
    /// From the complete request to the complete reply.
    pub latency: Latency,
}

/// Figures of a histogram of latencies. A percentile with fewer than 10 samples beyond it is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    /// Samples.
    pub count: u64,
    pub mean_us: Option<u64>,
    pub p50_us: Option<u64>,
    pub p95_us: Option<u64>,
    pub p99_us: Option<u64>,
    pub p99_9_us: Option<u64>,
    pub max_us: Option<u64>,
}

/// One second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Whole seconds since the start when it began.
    pub second: u64,
    /// Requests that ended in it.
    pub requests: u64,
    /// Client connections accepted in it.
    pub connections: u64,
    /// Latencies of these requests.
    pub latency: Latency,
}

/// One bucket of a histogram (HdrHistogram, 3 digits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its upper end.
    pub us: u64,
    /// Requests in it.
    pub count: u64,
}

/// Answer of `GET /v1/latency`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// The last 60 whole seconds, oldest first.
    pub windows: Vec<Window>,
    /// All latencies since the start. The difference of two answers is the histogram of the time
    /// between.
    pub buckets: Vec<Bucket>,
}

/// Sessions that carry the stamp of a replica of the tier above (MySQL).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Siblings {
    /// Sessions with a stamp.
    pub sessions: u64,
    /// Stamped requests that several replicas of came here.
    pub requests: u64,
    /// Of those, the ones with a server that two replicas hold: collided / requests is sPARE's P_c.
    pub collided: u64,
    /// Times that servers of siblings were avoided, all of them.
    pub avoided: u64,
}
