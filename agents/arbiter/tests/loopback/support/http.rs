//! An HTTP arbiter in front of servers that the tests make.

use std::net::SocketAddr;

use super::upstream::Upstream;
use super::{start, Running};

/// Of an HTTP arbiter, without its servers.
pub fn settings(policy: &str, replicas: usize, tokens: usize) -> String {
    super::settings("http", policy, replicas, tokens)
}

/// As `settings`; a request may take this time.
pub fn settings_within(limit_ms: u64, policy: &str, replicas: usize, tokens: usize) -> String {
    settings(policy, replicas, tokens) + &format!("request_timeout_ms = {limit_ms}\n")
}

/// An arbiter in front of these servers.
pub async fn front(policy: &str, replicas: usize, tokens: usize, servers: &[&Upstream]) -> Running {
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    start(&settings(policy, replicas, tokens), &addresses).await
}
