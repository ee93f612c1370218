//! `/metrics`: the statistics in Prometheus' text format (version 0.0.4).

use std::fmt::{Display, Write};

use wire::arbiter::{Bucket, Compared, ServerStats, Stats};

use crate::stats;
use crate::tier::Tier;

/// Upper ends of the latency histogram's buckets [s].
const LATENCY_S: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// All metrics in Prometheus' text format.
pub fn text(tier: &Tier) -> String {
    let stats = stats::snapshot(tier);
    let mut page = Page { tier: escaped(&stats.tier), text: String::with_capacity(8 * 1024) };
    page.requests(&stats);
    page.compared(&stats.compare);
    page.resources(tier, &stats);
    for family in FAMILIES {
        page.family(family.name, family.kind, family.help);
        for server in &stats.servers {
            let label = ("server", server.name.as_str());
            page.sample(family.name, &[label], (family.of)(server));
        }
    }
    page.latency(&tier.meter.latency(tier.now()).buckets);
    page.text
}

/// A metric of each server.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&ServerStats) -> f64,
}

const FAMILIES: [Family; 11] = [
    Family {
        name: "arbiter_server_up",
        kind: "gauge",
        help: "1 while the server may be chosen.",
        of: |server| f64::from(u8::from(server.alive && !server.ejected)),
    },
    Family {
        name: "arbiter_server_in_flight",
        kind: "gauge",
        help: "Replicas sent and not completed.",
        of: |server| server.in_flight as f64,
    },
    Family {
        name: "arbiter_server_tokens_free",
        kind: "gauge",
        help: "Tokens in the pool.",
        of: |server| server.tokens_free as f64,
    },
    Family {
        name: "arbiter_server_requests_total",
        kind: "counter",
        help: "Replicas sent.",
        of: |server| server.requests as f64,
    },
    Family {
        name: "arbiter_server_wins_total",
        kind: "counter",
        help: "Replies passed on to a client.",
        of: |server| server.wins as f64,
    },
    Family {
        name: "arbiter_server_errors_total",
        kind: "counter",
        help: "Failed connections, broken or late replies, errors of the server's making.",
        of: |server| server.errors as f64,
    },
    Family {
        name: "arbiter_server_busy_seconds_total",
        kind: "counter",
        help: "Time that replicas were at the server.",
        of: |server| server.busy_us as f64 / 1e6,
    },
    Family {
        name: "arbiter_server_connections_opened_total",
        kind: "counter",
        help: "Connections made.",
        of: |server| server.connections_opened as f64,
    },
    Family {
        name: "arbiter_server_compared_total",
        kind: "counter",
        help: "Replies compared with those of other servers.",
        of: |server| server.compare.compared as f64,
    },
    Family {
        name: "arbiter_server_minority_total",
        kind: "counter",
        help: "Compared replies that a majority contradicted.",
        of: |server| server.compare.minority as f64,
    },
    Family {
        name: "arbiter_server_disputed_total",
        kind: "counter",
        help: "Compared replies of a difference without a majority.",
        of: |server| server.compare.disputed as f64,
    },
];

struct Page {
    tier: String,
    text: String,
}

impl Page {
    fn requests(&mut self, stats: &Stats) {
        let requests = &stats.requests;
        let name = "arbiter_requests_total";
        self.family(name, "counter", "Requests of clients that ended, by fate.");
        self.sample(name, &[("fate", "answered")], requests.answered);
        self.sample(name, &[("fate", "failed")], requests.failed);
        for (name, help, value) in [
            ("arbiter_requests_received_total", "Requests of clients.", requests.received),
            (
                "arbiter_requests_cloned_total",
                "Requests that could go to more than one server.",
                requests.cloned,
            ),
            (
                "arbiter_reads_total",
                "Requests that only read, as the protocol tells.",
                requests.reads,
            ),
            (
                "arbiter_reads_of_one_total",
                "Of these, those that one certain server had to answer.",
                requests.reads_of_one,
            ),
            (
                "arbiter_writes_total",
                "Requests that change data, as the protocol tells.",
                requests.writes,
            ),
            ("arbiter_replicas_sent_total", "Replicas written to servers.", stats.replicas_sent),
            (
                "arbiter_replicas_wasted_total",
                "Replicas that ended after another had won.",
                stats.replicas_wasted,
            ),
            (
                "arbiter_pinned_total",
                "Times that a client was given a server connection of its own.",
                stats.pinned.times,
            ),
            (
                "arbiter_pinned_commands_total",
                "Commands of clients with a server connection of their own: not cloned.",
                stats.pinned.commands,
            ),
            (
                "arbiter_ejections_total",
                "Servers taken out for their failures.",
                stats.guarded.ejections,
            ),
            (
                "arbiter_client_connections_total",
                "Client connections accepted.",
                stats.connections.client_accepted,
            ),
        ] {
            self.family(name, "counter", help);
            self.sample(name, &[], value);
        }
    }

    fn compared(&mut self, compared: &Compared) {
        let name = "arbiter_compared_total";
        self.family(name, "counter", "Reads with replicas, by what comparing said.");
        for (verdict, count) in [
            ("equal", compared.equal),
            ("different", compared.different),
            ("not_compared", compared.not_compared),
        ] {
            self.sample(name, &[("verdict", verdict)], count);
        }
        for (name, help, value) in [
            (
                "arbiter_compare_too_large_total",
                "Replies too large to be compared.",
                compared.too_large,
            ),
            (
                "arbiter_compare_refused_total",
                "Reads refused because no majority agreed.",
                compared.refused,
            ),
        ] {
            self.family(name, "counter", help);
            self.sample(name, &[], value);
        }
    }

    fn resources(&mut self, tier: &Tier, stats: &Stats) {
        for (name, kind, help, value) in [
            (
                "arbiter_local_errors_total",
                "counter",
                "Connections that this machine could not make, for want of a descriptor, say.",
                tier.counters.local_errors.get(),
            ),
            (
                "arbiter_client_connections",
                "gauge",
                "Client connections now.",
                stats.connections.client_open,
            ),
            (
                "arbiter_pinned_clients",
                "gauge",
                "Clients now that have a server connection of their own.",
                stats.pinned.clients,
            ),
            (
                "arbiter_held_bytes",
                "gauge",
                "What clients make the arbiter hold, of held_mib_max.",
                tier.memory.held() as u64,
            ),
            ("arbiter_tokens_in_use", "gauge", "Grants held now.", stats.tokens.in_use),
            ("arbiter_replicas", "gauge", "Replicas of each read.", stats.replicas as u64),
        ] {
            self.family(name, kind, help);
            self.sample(name, &[], value);
        }
    }

    fn latency(&mut self, buckets: &[Bucket]) {
        let name = "arbiter_request_latency_seconds";
        self.family(name, "histogram", "From the complete request to the complete reply.");
        let within = |most_s: f64| {
            let inside = |bucket: &&Bucket| bucket.us as f64 / 1e6 <= most_s;
            let counts = buckets.iter().filter(inside).map(|bucket| bucket.count);
            counts.sum::<u64>()
        };
        let bucket = format!("{name}_bucket");
        for most_s in LATENCY_S {
            let end = most_s.to_string();
            self.sample(&bucket, &[("le", end.as_str())], within(most_s));
        }
        let count = within(f64::INFINITY);
        self.sample(&bucket, &[("le", "+Inf")], count);
        let each = buckets.iter().map(|bucket| bucket.us * bucket.count);
        let sum_s = each.sum::<u64>() as f64 / 1e6;
        self.sample(&format!("{name}_sum"), &[], sum_s);
        self.sample(&format!("{name}_count"), &[], count);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{name}{{tier=\"{}\"", self.tier);
        for (label, value) in labels {
            let _ = write!(self.text, ",{label}=\"{value}\"");
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}
