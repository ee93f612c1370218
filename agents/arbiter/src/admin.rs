//! The admin API: statistics and live changes, on a listener of its own.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use policy::impossible::in_range;
use policy::{Impossible, LOOK_AHEAD};
use wire::arbiter::{
    Compare, CompareMode, Config, Error, Guardrails, Health, ServerStats, SetPolicy, SetReplicas,
    SetServer,
};

use crate::config::{may_compare, TOKENS_MAX};
use crate::tier::Tier;
use crate::{metrics, stats};

/// Routes of the admin API.
pub fn router(tier: Arc<Tier>) -> Router {
    Router::new()
        .route("/v1/config", get(|State(tier): Shared| async move { Json(stats::config(&tier)) }))
        .route("/v1/stats", get(|State(tier): Shared| async move { Json(stats::snapshot(&tier)) }))
        .route(
            "/v1/latency",
            get(|State(tier): Shared| async move { Json(tier.meter.latency(tier.now())) }),
        )
        .route("/metrics", get(show_metrics))
        .route("/health", get(health))
        .route("/v1/replicas", put(set_replicas))
        .route("/v1/policy", put(set_policy))
        .route("/v1/guardrails", put(set_guardrails))
        .route("/v1/compare", put(set_compare))
        .route("/v1/servers/{name}", put(set_server))
        .with_state(tier)
}

type Shared = State<Arc<Tier>>;
type Answer<T> = Result<Json<T>, Refusal>;

async fn show_metrics(State(tier): Shared) -> Response {
    let kind = (CONTENT_TYPE, "text/plain; version=0.0.4");
    ([kind], metrics::text(&tier)).into_response()
}

/// Health of the arbiter: 503 while no server can be asked.
async fn health(State(tier): Shared) -> Response {
    let standings = tier.standings();
    let alive = standings.iter().filter(|server| server.alive).count();
    let status = match alive {
        0 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let servers = standings.len();
    (status, Json(Health { alive, servers })).into_response()
}

async fn set_replicas(
    State(tier): Shared,
    body: Result<Json<SetReplicas>, JsonRejection>,
) -> Answer<Config> {
    let Json(wanted) = body?;
    let servers = tier.servers().len();
    let (most, of) = tier.config().protocol.replicas_max(servers);
    in_range("replicas", wanted.replicas, 1..=most, of)?;
    if wanted.replicas < 2 && tier.comparing.mode() != CompareMode::Off {
        return Err(refuse(format!(
            "replicas: expected at least 2 while replies are compared (got {}). PUT /v1/compare \
             with {{\"mode\": \"off\"}} first.",
            wanted.replicas
        )));
    }
    tier.set_replicas(wanted.replicas);
    Ok(Json(stats::config(&tier)))
}

async fn set_policy(
    State(tier): Shared,
    body: Result<Json<SetPolicy>, JsonRejection>,
) -> Answer<Config> {
    let Json(wanted) = body?;
    if let Some(tokens) = wanted.tokens {
        in_range("tokens", tokens, 1..=TOKENS_MAX, "")?;
    }
    let look_ahead_max = LOOK_AHEAD.maximum as usize;
    let look_ahead = wanted.look_ahead.unwrap_or(look_ahead_max);
    in_range("look_ahead", look_ahead, 0..=look_ahead_max, "")?;
    tier.set_look_ahead(look_ahead);
    tier.set_policy(wanted.policy, wanted.tokens);
    Ok(Json(stats::config(&tier)))
}

async fn set_guardrails(
    State(tier): Shared,
    body: Result<Json<Guardrails>, JsonRejection>,
) -> Answer<Config> {
    let Json(wanted) = body?;
    wire::guardrails::validate(&wanted)?;
    tier.set_guardrails(wanted);
    Ok(Json(stats::config(&tier)))
}

async fn set_compare(
    State(tier): Shared,
    body: Result<Json<Compare>, JsonRejection>,
) -> Answer<Config> {
    let Json(wanted) = body?;
    may_compare(&wanted, tier.config().protocol, tier.replicas())?;
    tier.comparing.set(wanted);
    Ok(Json(stats::config(&tier)))
}

async fn set_server(
    State(tier): Shared,
    Path(name): Path<String>,
    body: Result<Json<SetServer>, JsonRejection>,
) -> Answer<ServerStats> {
    let Json(wanted) = body?;
    let servers = tier.servers();
    let Some(server) = servers.iter().position(|server| server.name == name) else {
        let names: Vec<_> = servers.iter().map(|server| &server.name[..]).collect();
        let error = format!("server: expected one of {} (got {name})", names.join(", "));
        return Err(Refusal(StatusCode::NOT_FOUND, error));
    };
    if wanted.up {
        tier.let_in(server);
    } else {
        tier.take_out(server);
    }
    Ok(Json(stats::server(&tier, server)))
}

/// A refused change, with its HTTP status.
struct Refusal(StatusCode, String);

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        refuse(rejection.body_text())
    }
}

impl From<Impossible> for Refusal {
    fn from(why: Impossible) -> Self {
        refuse(why.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, error) = self;
        (status, Json(Error { error })).into_response()
    }
}

fn refuse(error: String) -> Refusal {
    Refusal(StatusCode::UNPROCESSABLE_ENTITY, error)
}
