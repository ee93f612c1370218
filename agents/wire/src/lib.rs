//! Types of the agents' HTTP APIs and configuration files.

pub mod agent;
pub mod arbiter;
pub mod compare;
pub mod guardrails;
