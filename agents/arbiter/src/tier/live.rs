//! Changes by the admin API while the arbiter runs.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use wire::arbiter::{Guardrails, Policy};
use wire::guardrails;

use super::{Choices, Tier};

impl Tier {
    /// Replicas of each read.
    pub fn replicas(&self) -> usize {
        self.replicas.load(Relaxed)
    }

    /// Sets the replicas of later reads.
    pub fn set_replicas(&self, replicas: usize) {
        self.replicas.store(replicas, Relaxed);
    }

    /// Policy and tokens per server.
    pub fn policy(&self) -> (Policy, usize) {
        let choices = self.choices();
        let policy = choices.selector.policy();
        (policy, choices.selector.tokens_per_server())
    }

    /// Servers looked at beyond the r that are needed.
    pub fn look_ahead(&self) -> usize {
        self.choices().selector.look_ahead()
    }

    /// Sets the servers looked at beyond the r that are needed.
    pub fn set_look_ahead(self: &Arc<Self>, servers: usize) {
        self.decide(|Choices { selector, .. }, now, _| selector.set_look_ahead(now, servers));
    }

    /// True if a session keeps its tokens until its connection ends. In a tier with a primary none
    /// does, because two sessions could wait for each other's tokens.
    pub fn holds_connections(&self) -> bool {
        let has_primary = self.config.mysql.as_ref().is_some_and(|mysql| mysql.primary.is_some());
        !has_primary && self.choices().selector.policy().holds_connections()
    }

    /// Sets policy and tokens per server.
    pub fn set_policy(self: &Arc<Self>, policy: Policy, tokens: Option<usize>) {
        self.decide(|Choices { selector, .. }, now, grants| {
            if let Some(tokens) = tokens {
                selector.set_tokens(now, tokens, grants);
            }
            selector.set_policy(now, policy, grants);
        });
    }

    /// The guardrails, and their effects so far.
    pub fn guardrails(&self) -> (Guardrails, policy::Guarded) {
        let choices = self.choices();
        (choices.guardrails, choices.selector.guarded())
    }

    /// Sets the guardrails.
    pub fn set_guardrails(self: &Arc<Self>, wanted: Guardrails) {
        self.choices().guardrails = wanted;
        let rules = guardrails::rules(&wanted);
        self.decide(|choices, now, grants| choices.selector.set_guardrails(now, rules, grants));
    }
}
