//! The available protocols and policies, printed by `arbiter --policies`.

use policy::{Policy, TOKENS};
use serde_json::{json, Value};
use wire::arbiter::{CompareMode, Protocol};

use crate::config::SERVERS_MAX;

/// Every protocol and policy, and the bounds of an arm's settings.
pub fn policies() -> Value {
    let protocol = |protocol: Protocol| {
        json!({"name": protocol, "default_port": protocol.default_port(),
               "reads": protocol.tells_reads(), "compares": protocol.compares()})
    };
    let policy = |policy: Policy| {
        json!({"name": policy, "summary": policy.summary(), "parameters": policy.parameters(),
               "replicates": true})
    };
    json!({
        "schema": 1,
        "protocols": Protocol::ALL.map(protocol),
        "compare": CompareMode::ALL.map(|mode| json!({"name": mode, "summary": mode.summary()})),
        "policies": Policy::all().map(policy).collect::<Vec<_>>(),
        "bounds": {
            "tokens": {"minimum": TOKENS.minimum as u64, "maximum": TOKENS.maximum as u64},
            "replicas": {"minimum": 1, "maximum": SERVERS_MAX},
        },
    })
}
