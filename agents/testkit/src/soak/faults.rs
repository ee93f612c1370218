//! Faults injected into servers and arbiter during a soak.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::subject::Subject;
use super::{behaviour, SERVERS};
use crate::keyed::Server;
use crate::load::Tally;
use crate::random::Random;

/// Faults for each death of all servers, the first of which is the tenth fault.
const ALL_DOWN_EVERY: u64 = 40;
const ALL_DOWN_FIRST: u64 = 10;

/// All that there are.
pub const POLICIES: [&str; 9] = [
    "round-robin",
    "random",
    "least-outstanding",
    "peak-ewma",
    "c3",
    "hot-cold",
    "hedge",
    "tad-paper",
    "tad",
];

/// The settings at quiet points: always the same, so that memory can be compared.
pub const BASELINE: &str =
    "policy = \"tad\"\nreplicas = 2\ntokens = 32\nrequest_timeout_ms = 500\n\
     [guardrails]\nejected_ms_first = 200\nejected_ms_max = 1000";
/// The same by the admin API, where they were changed.
const BASELINE_PUTS: [(&str, &str); 3] = [
    ("/v1/policy", r#"{"policy": "tad", "tokens": 32}"#),
    ("/v1/replicas", r#"{"replicas": 2}"#),
    ("/v1/guardrails", r#"{"ejected_ms_first": 200, "ejected_ms_max": 1000}"#),
];

/// Servers, and the faults that they had so far.
pub struct Faults {
    pub addresses: Vec<SocketAddr>,
    /// None while it is dead.
    servers: Vec<Option<Server>>,
    random: Random,
    injected: u64,
    pub kills: u64,
    pub hangs: u64,
    pub all_down: u64,
    pub changes: u64,
    /// Number of times that each policy came into force.
    pub policies: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// Servers that are all well.
    pub fn start(seed: u64) -> Result<Self> {
        let servers = (0..SERVERS as u64)
            .map(|number| Server::start("127.0.0.1:0".parse()?, behaviour(seed + number)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            addresses: servers.iter().map(|server| server.address).collect(),
            servers: servers.into_iter().map(Some).collect(),
            random: Random::new(seed),
            injected: 0,
            kills: 0,
            hangs: 0,
            all_down: 0,
            changes: 0,
            policies: BTreeMap::new(),
        })
    }

    /// One fault, of less than a second unless all servers die; before it, the next policy.
    pub async fn inject(&mut self, subject: &Subject, tally: &Tally) -> Result<()> {
        self.heal()?;
        self.injected += 1;
        let (policy, tokens) = (self.policy(), 4 + self.random.below(60));
        let body = format!("{{\"policy\":\"{policy}\",\"tokens\":{tokens}}}");
        subject.put("/v1/policy", &body).await?;
        self.changes += 1;
        if self.injected % ALL_DOWN_EVERY == ALL_DOWN_FIRST {
            return self.all_die(subject, tally).await;
        }
        let victim = self.random.below(SERVERS as u64) as usize;
        match self.random.below(4) {
            0 => {
                self.servers[victim] = None;
                self.kills += 1;
            }
            1 => {
                self.servers[victim] = None;
                self.kills += 1;
                sleep(Duration::from_millis(200)).await;
                self.heal()?;
            }
            2 => {
                self.hang(victim, true);
                self.hangs += 1;
                sleep(Duration::from_millis(300)).await;
                self.hang(victim, false);
            }
            _ => self.change(subject).await?,
        }
        Ok(())
    }

    /// All servers at once, until the arbiter uses all of them again.
    async fn all_die(&mut self, subject: &Subject, tally: &Tally) -> Result<()> {
        tally.outage.store(true, Relaxed);
        self.servers.fill_with(|| None);
        self.all_down += 1;
        sleep(Duration::from_millis(400)).await;
        self.heal()?;
        subject.all_back().await?;
        tally.outage.store(false, Relaxed);
        Ok(())
    }

    /// The settings of every quiet point, with all servers in use.
    pub async fn baseline(&mut self, subject: &Subject) -> Result<()> {
        self.heal()?;
        for (path, body) in BASELINE_PUTS {
            subject.put(path, body).await?;
        }
        subject.all_back().await
    }

    fn hang(&self, victim: usize, hangs: bool) {
        if let Some(server) = &self.servers[victim] {
            server.hang(hangs);
        }
    }

    /// Dead servers come back at their address.
    fn heal(&mut self) -> Result<()> {
        for (place, server) in self.servers.iter_mut().enumerate() {
            if server.is_none() {
                let behaviour = behaviour(self.random.bits());
                *server = Some(Server::start(self.addresses[place], behaviour)?);
            }
        }
        Ok(())
    }

    async fn change(&mut self, subject: &Subject) -> Result<()> {
        let replicas = self.replicas();
        let body = format!("{{\"replicas\":{replicas}}}");
        subject.put("/v1/replicas", &body).await?;
        let extra_load_max = [0.2, 1.0, 10.0][self.random.below(3) as usize];
        let ejection = self.random.below(4) > 0;
        let body = format!(
            "{{\"extra_load_max\":{extra_load_max},\"ejection\":{ejection},\
             \"ejected_ms_first\":200,\"ejected_ms_max\":1000}}"
        );
        subject.put("/v1/guardrails", &body).await?;
        self.changes += 2;
        Ok(())
    }

    /// Few more often than many.
    fn replicas(&mut self) -> u64 {
        let mut draw = || 1 + self.random.below(SERVERS as u64);
        draw().min(draw())
    }

    /// Each in its turn.
    fn policy(&mut self) -> &'static str {
        let count: u64 = self.policies.values().sum();
        let policy = POLICIES[(count % POLICIES.len() as u64) as usize];
        *self.policies.entry(policy).or_default() += 1;
        policy
    }
}
