//! The admin API: statistics and live changes, on a listener of its own.

use std::future::Future;
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use tokio::net::TcpListener;
use wire::arbiter::{Error, Guardrails, SetPolicy, SetReplicas, SetServer};

use crate::config::TOKENS_MAX;
use crate::stats;
use crate::tier::Tier;

/// Serves until `stop`.
///
/// # Errors
/// When the listener breaks.
pub async fn serve(
    listener: TcpListener,
    tier: Arc<Tier>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route(
            "/v1/config",
            get(|State(tier): Shared| async move { Json(stats::config(&tier)) }),
        )
        .route(
            "/v1/stats",
            get(|State(tier): Shared| async move { Json(stats::snapshot(&tier)) }),
        )
        .route(
            "/v1/latency",
            get(|State(tier): Shared| async move { Json(tier.meter.latency(tier.now())) }),
        )
        .route("/v1/replicas", put(set_replicas))
        .route("/v1/policy", put(set_policy))
        .route("/v1/guardrails", put(set_guardrails))
        .route("/v1/servers/{name}", put(set_server))
        .with_state(tier);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await
}

type Shared = State<Arc<Tier>>;

async fn set_replicas(
    State(tier): Shared,
    body: Result<Json<SetReplicas>, JsonRejection>,
) -> Response {
    let Json(wanted) = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(rejection.body_text()),
    };
    let config = tier.config();
    let (most, of) = config.protocol.replicas_max(config.servers.len());
    if !(1..=most).contains(&wanted.replicas) {
        return refuse(format!(
            "replicas: expected 1 to {most}{of}, got {}",
            wanted.replicas
        ));
    }
    tier.set_replicas(wanted.replicas);
    Json(stats::config(&tier)).into_response()
}

async fn set_policy(State(tier): Shared, body: Result<Json<SetPolicy>, JsonRejection>) -> Response {
    let Json(wanted) = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(rejection.body_text()),
    };
    if let Some(tokens) = wanted.tokens {
        if !(1..=TOKENS_MAX).contains(&tokens) {
            return refuse(format!("tokens: expected 1 to {TOKENS_MAX}, got {tokens}"));
        }
    }
    tier.set_policy(wanted.policy, wanted.tokens);
    Json(stats::config(&tier)).into_response()
}

async fn set_guardrails(
    State(tier): Shared,
    body: Result<Json<Guardrails>, JsonRejection>,
) -> Response {
    let Json(wanted) = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(rejection.body_text()),
    };
    if let Err((key, expected, came)) = wire::guardrails::validate(&wanted) {
        return refuse(format!("{key}: expected {expected}, got {came}"));
    }
    tier.set_guardrails(wanted);
    Json(stats::config(&tier)).into_response()
}

async fn set_server(
    State(tier): Shared,
    Path(name): Path<String>,
    body: Result<Json<SetServer>, JsonRejection>,
) -> Response {
    let Json(wanted) = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(rejection.body_text()),
    };
    let servers = &tier.config().servers;
    let Some(server) = servers.iter().position(|server| server.name == name) else {
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        let error = format!("server: expected one of {}, got {name}", names.join(", "));
        return (StatusCode::NOT_FOUND, Json(Error { error })).into_response();
    };
    if wanted.up {
        tier.let_in(server);
    } else {
        tier.take_out(server);
    }
    Json(stats::server(&tier, server)).into_response()
}

fn refuse(error: String) -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, Json(Error { error })).into_response()
}
