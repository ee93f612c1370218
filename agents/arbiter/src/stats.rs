//! `/v1/stats` and `/v1/config`: the tier's state in wire types.

use wire::arbiter::{
    Compared, Config, Connections, Pinned, Primary, Protocol, Requests, Server, ServerCompared,
    ServerStats, Siblings, Stats, Tokens,
};

use crate::tier::{Standing, Tier};

/// The current configuration, with live changes and without secrets.
pub fn config(tier: &Tier) -> Config {
    let file = tier.config();
    let (policy, tokens) = tier.policy();
    Config {
        tier: file.tier.clone(),
        protocol: file.protocol,
        policy,
        replicas: tier.replicas(),
        tokens,
        connect_timeout_ms: file.connect_timeout_ms,
        request_timeout_ms: file.request_timeout_ms,
        observation_age_ms: file.observation_age_ms,
        look_ahead: tier.look_ahead(),
        avoid_collisions: file.avoid_collisions,
        guardrails: tier.guardrails().0,
        compare: (*tier.comparing.rules()).clone(),
        servers: tier.servers().to_vec(),
    }
}

/// The current counters and gauges.
pub fn snapshot(tier: &Tier) -> Stats {
    let counters = &tier.counters;
    let (policy, tokens_per_server) = tier.policy();
    let standings = tier.standings();
    let busy_us = tier.meter.busy_us();
    let total = match policy.uses_tokens() {
        true => standings.len() * tokens_per_server,
        false => 0,
    };
    let in_use: usize = standings.iter().map(|standing| standing.in_use).sum();
    Stats {
        tier: tier.config().tier.clone(),
        protocol: tier.config().protocol,
        policy,
        replicas: tier.replicas(),
        tokens_per_server,
        uptime_s: tier.uptime().as_secs_f64(),
        requests: Requests {
            received: counters.received.get(),
            answered: counters.answered.get(),
            failed: counters.failed.get(),
            cloned: counters.cloned.get(),
            reads: counters.reads.get(),
            reads_of_one: counters.reads_of_one.get(),
            writes: counters.writes.get(),
        },
        replicas_sent: counters.replicas_sent.get(),
        replicas_not_needed: counters.replicas_not_needed.get(),
        replicas_wasted: counters.replicas_wasted.get(),
        wasted_us: counters.wasted_us.get(),
        busy_us,
        wasted_percent: (busy_us > 0)
            .then(|| 100.0 * counters.wasted_us.get() as f64 / busy_us as f64),
        connections: Connections {
            client_accepted: counters.client_accepted.get(),
            client_open: counters.client_open.get(),
        },
        pinned: Pinned {
            clients: counters.pinned_clients.get(),
            times: counters.pins.get(),
            commands: counters.pinned_commands.get(),
        },
        primary: primary(tier),
        token_wait_us_total: counters.token_wait_us_total.get(),
        token_waits: counters.token_waits.get(),
        token_holds: tier.meter.token_holds.get(),
        token_hold_us_total: tier.meter.token_hold_us.get(),
        server_cores: tier.config().server_cores,
        recent: tier.meter.recent(tier.now()),
        tokens: Tokens { total: total as u64, in_use: in_use as u64 },
        siblings: Siblings {
            sessions: tier.siblings.counters.sessions.get(),
            requests: tier.siblings.counters.requests.get(),
            collided: tier.siblings.counters.collided.get(),
            avoided: tier.siblings.counters.avoided.get(),
        },
        guarded: tier.guardrails().1,
        compare: compared(tier),
        servers: standings
            .iter()
            .enumerate()
            .map(|(server, standing)| one_server(tier, server, standing))
            .collect(),
    }
}

/// The primary, if the tier has one.
fn primary(tier: &Tier) -> Option<Primary> {
    let config = tier.config();
    let has_one = match config.protocol {
        Protocol::Redis => true,
        Protocol::Mysql => config.mysql.as_ref().is_some_and(|mysql| mysql.primary.is_some()),
        Protocol::Http | Protocol::Memcached | Protocol::Tcp => false,
    };
    let server = tier.primary.get().ok().map(|server| tier.servers()[server].name.clone());
    has_one.then(|| Primary { server, changes: tier.primary.changes.get() })
}

fn compared(tier: &Tier) -> Compared {
    let counters = &tier.counters.compare;
    let (equal, different) = (counters.equal.get(), counters.different.get());
    Compared {
        compared: equal + different,
        equal,
        different,
        not_compared: counters.not_compared.get(),
        too_large: counters.too_large.get(),
        refused: counters.refused.get(),
    }
}

/// Figures of one server.
pub fn server(tier: &Tier, server: usize) -> ServerStats {
    one_server(tier, server, &tier.standings()[server])
}

fn one_server(tier: &Tier, server: usize, standing: &Standing) -> ServerStats {
    let (counters, meter) = (&tier.server_counters[server], tier.meter.server(server));
    let Server { name, address } = tier.servers()[server].clone();
    ServerStats {
        name,
        address,
        alive: standing.alive,
        ejected: standing.ejected,
        taken_out: standing.taken_out,
        tokens_free: standing.tokens_free as u64,
        in_flight: counters.in_flight.get(),
        requests: counters.requests.get(),
        wins: counters.wins.get(),
        errors: counters.errors.get(),
        last_latency_us: counters.last_latency_us.get(),
        latency_us_sum: counters.latency_us_sum.get(),
        latency_count: counters.latency_count.get(),
        processing_us_sum: meter.processing_ns.get() / 1_000,
        processing_count: meter.processing_count.get(),
        busy_us: meter.busy_us.get(),
        connections_opened: counters.connections_opened.get(),
        connections_reused: counters.connections_reused.get(),
        compare: ServerCompared {
            compared: counters.compared.get(),
            minority: counters.minority.get(),
            disputed: counters.disputed.get(),
        },
    }
}
