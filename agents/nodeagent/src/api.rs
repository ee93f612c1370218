//! The HTTP API and its OpenAPI description, made from the same code.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use utoipa::OpenApi;
use wire::agent::{
    Capabilities, Capability, Dose, ErrorBody, Fault, FaultRequest, FaultState, Fingerprint,
    Health, LeaseRequest, MetricsDelivery, RevertReason, ServiceState, ServiceStatus, Setting,
    SettingsAnswer, SettingsRequest, Snapshot,
};

use crate::body;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::faults::Refusal;
use crate::influx::Buffer;
use crate::machine::role::Role;
use crate::machine::{environment, fingerprint, Machine};
use crate::readiness::Readiness;

/// A body comes from the runner, over the control network, at once.
const BODY_LIMIT: Duration = Duration::from_secs(5);

/// All that the handlers need.
pub struct Agent {
    pub machine: Arc<Machine>,
    pub engine: Engine,
    pub readiness: Readiness,
    pub baseline: Result<Snapshot, String>,
    pub buffer: Mutex<Buffer>,
    pub clock: Clock,
}

type Shared = State<Arc<Agent>>;
type Answer<T> = Result<T, Refusal>;

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sparecraft node agent",
        description = "Runs a machine's role, tells its state, injects faults and undoes them. \
                       Mutual TLS: a client certificate of the experiment's CA is required."
    ),
    paths(
        health,
        capabilities,
        list_faults,
        inject,
        revert,
        revert_all,
        renew,
        fingerprint_now,
        service,
        stop_service,
        set_settings,
        openapi
    ),
    components(schemas(
        Health,
        Capabilities,
        Capability,
        Dose,
        Fault,
        FaultRequest,
        FaultState,
        LeaseRequest,
        RevertReason,
        Fingerprint,
        ServiceState,
        ServiceStatus,
        Setting,
        SettingsAnswer,
        SettingsRequest,
        MetricsDelivery,
        ErrorBody
    ))
)]
struct Description;

/// The description as JSON text.
pub fn openapi_json() -> Result<String, serde_json::Error> {
    Description::openapi().to_pretty_json()
}

/// The routes.
pub fn router(agent: Arc<Agent>) -> Router {
    let routes = Router::new()
        .route("/v1/health", get(health))
        .route("/v1/capabilities", get(capabilities))
        .route("/v1/faults", get(list_faults).post(inject).delete(revert_all))
        .route("/v1/faults/{id}", axum::routing::delete(revert))
        .route("/v1/faults/{id}/lease", put(renew))
        .route("/v1/fingerprint", get(fingerprint_now))
        .route("/v1/service/{action}", post(service))
        .route("/v1/service/stop", post(stop_service))
        .route("/v1/settings", put(set_settings))
        .route("/v1/openapi.json", get(openapi))
        .fallback(|| async { Refusal::Unknown("no such path; see /v1/openapi.json".into()) })
        .with_state(agent);
    body::bounded(routes, BODY_LIMIT)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Refusal::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::Conflict(_) => StatusCode::CONFLICT,
            Refusal::Unavailable(_) => StatusCode::NOT_IMPLEMENTED,
            Refusal::Unknown(_) => StatusCode::NOT_FOUND,
            Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(ErrorBody { error: self.to_string() })).into_response()
    }
}

#[derive(Deserialize)]
struct HealthQuery {
    check: Option<String>,
}

/// The machine's and its service's state.
#[utoipa::path(
    get, path = "/v1/health",
    params(("check" = Option<String>, Query, description = "`now` runs ready.sh first")),
    responses((status = 200, body = Health))
)]
async fn health(State(agent): Shared, Query(query): Query<HealthQuery>) -> Answer<Json<Health>> {
    if query.check.as_deref() == Some("now") {
        agent.readiness.check(&agent.machine).await;
    }
    let machine = agent.machine.clone();
    // In this order: a start in between is another than the one that was ready.
    let look = move || Ok((machine.role.service(), machine.role.started()));
    let (service, started) = blocking(look).await?;
    Ok(Json(Health {
        machine: agent.machine.config.machine.clone(),
        role: agent.machine.config.role.clone(),
        experiment: agent.machine.config.experiment.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        service,
        ready: service == ServiceState::Running && agent.readiness.last(started),
        uptime_s: agent.clock.now().uptime.as_secs_f64(),
        faults_active: agent.engine.active(),
        metrics: agent.buffer.lock().unwrap_or_else(PoisonError::into_inner).counts(),
    }))
}

/// The faults that this machine can inject, with the reason for each that it cannot.
#[utoipa::path(get, path = "/v1/capabilities", responses((status = 200, body = Capabilities)))]
async fn capabilities(State(agent): Shared) -> Json<Capabilities> {
    let faults =
        agent.engine.capabilities().map(|(name, entry)| (name.to_owned(), entry.clone())).collect();
    Json(Capabilities { faults })
}

/// All faults of this agent's life, the reverted ones included.
#[utoipa::path(get, path = "/v1/faults", responses((status = 200, body = [Fault])))]
async fn list_faults(State(agent): Shared) -> Answer<Json<Vec<Fault>>> {
    blocking(move || Ok(agent.engine.list())).await.map(Json)
}

/// Injects a fault; its undo record is on the disk before it.
#[utoipa::path(
    post, path = "/v1/faults", request_body = FaultRequest,
    responses(
        (status = 201, body = Fault),
        (status = 409, body = ErrorBody, description = "A fault or foreign state is in the way"),
        (status = 422, body = ErrorBody, description = "Unknown kind, or a parameter out of range"),
        (status = 500, body = ErrorBody, description = "Tried, failed, and undone"),
        (status = 501, body = ErrorBody, description = "Not available on this machine")
    )
)]
async fn inject(State(agent): Shared, body: Bytes) -> Answer<(StatusCode, Json<Fault>)> {
    let request: FaultRequest = parse(&body)?;
    let fault = blocking(move || agent.engine.inject(&request, || agent.clock.now())).await?;
    Ok((StatusCode::CREATED, Json(fault)))
}

/// Undoes a fault; doing so again changes nothing.
#[utoipa::path(
    delete, path = "/v1/faults/{id}", params(("id" = String, Path)),
    responses(
        (status = 200, body = Fault),
        (status = 404, body = ErrorBody, description = "Never known"),
        (status = 500, body = ErrorBody, description = "The undo failed; the agent goes on trying")
    )
)]
async fn revert(State(agent): Shared, Path(id): Path<String>) -> Answer<Json<Fault>> {
    blocking(move || agent.engine.revert(&id, || agent.clock.now())).await.map(Json)
}

/// Undoes every fault.
#[utoipa::path(delete, path = "/v1/faults", responses((status = 200, body = [Fault])))]
async fn revert_all(State(agent): Shared) -> Answer<Json<Vec<Fault>>> {
    let all = move || Ok(agent.engine.revert_all(RevertReason::Requested, || agent.clock.now()));
    blocking(all).await.map(Json)
}

/// Renews a lease, counted from now.
#[utoipa::path(
    put, path = "/v1/faults/{id}/lease", params(("id" = String, Path)), request_body = LeaseRequest,
    responses(
        (status = 200, body = Fault),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "Not active any more"),
        (status = 422, body = ErrorBody)
    )
)]
async fn renew(State(agent): Shared, Path(id): Path<String>, body: Bytes) -> Answer<Json<Fault>> {
    let request: LeaseRequest = parse(&body)?;
    blocking(move || agent.engine.renew(&id, request.lease_s, agent.clock.now())).await.map(Json)
}

/// The differences between the machine now and before any fault.
#[utoipa::path(get, path = "/v1/fingerprint", responses((status = 200, body = Fingerprint)))]
async fn fingerprint_now(State(agent): Shared) -> Answer<Json<Fingerprint>> {
    let compare = move || {
        let baseline = agent.baseline.as_ref().map_err(|reason| Refusal::Failed(reason.clone()))?;
        Ok(fingerprint::compare(baseline, fingerprint::take(&agent.machine.cgroups)?))
    };
    blocking(compare).await.map(Json)
}

/// Starts or restarts the role.
#[utoipa::path(
    post, path = "/v1/service/{action}",
    params(("action" = String, Path, description = "start or restart")),
    responses(
        (status = 200, body = ServiceStatus),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "A fault holds the role"),
        (status = 500, body = ErrorBody)
    )
)]
async fn service(State(agent): Shared, Path(action): Path<String>) -> Answer<Json<ServiceStatus>> {
    let act: fn(&Role) -> anyhow::Result<()> = match action.as_str() {
        "start" => Role::start,
        "restart" => |role| role.stop().and_then(|()| role.start()),
        other => {
            return Err(Refusal::Unknown(format!(
                "service: expected start, stop or restart (got {other:?})"
            )))
        }
    };
    let act = move || {
        agent.engine.start_service(|| agent.clock.now(), act)?;
        Ok(ServiceStatus { service: agent.machine.role.service(), held: None })
    };
    blocking(act).await.map(Json)
}

/// Stops the role, until its lease ends or it is started; its undo record is on the disk before.
#[utoipa::path(
    post, path = "/v1/service/stop", request_body = LeaseRequest,
    responses(
        (status = 200, body = ServiceStatus),
        (status = 409, body = ErrorBody, description = "A fault holds the role"),
        (status = 422, body = ErrorBody),
        (status = 500, body = ErrorBody)
    )
)]
async fn stop_service(State(agent): Shared, body: Bytes) -> Answer<Json<ServiceStatus>> {
    let request: LeaseRequest = parse(&body)?;
    let act = move || {
        let now = || agent.clock.now();
        let held = agent.engine.stop_service(request.lease_s, now)?.map(|fault| fault.id);
        Ok(ServiceStatus { service: agent.machine.role.service(), held })
    };
    blocking(act).await.map(Json)
}

/// Replaces the role's settings, variables of its scripts' environment, until their lease ends; where
/// the service was started with others, it is restarted.
#[utoipa::path(
    put, path = "/v1/settings", request_body = SettingsRequest,
    responses(
        (status = 200, body = SettingsAnswer),
        (status = 409, body = ErrorBody, description = "A fault holds the role"),
        (status = 422, body = ErrorBody, description = "A name, value or lease that cannot be"),
        (status = 500, body = ErrorBody, description = "Tried, failed, and undone")
    )
)]
async fn set_settings(State(agent): Shared, body: Bytes) -> Answer<Json<SettingsAnswer>> {
    let request: SettingsRequest = parse(&body)?;
    let settings = request.settings.into_iter();
    let settings = settings.map(|(name, value)| (name, value.to_string())).collect();
    environment::check(&settings).map_err(Refusal::Invalid)?;
    let act = move || {
        let now = || agent.clock.now();
        let result = agent.engine.set_settings(&settings, request.lease_s, now);
        let (restarted, fault) = result?;
        Ok(SettingsAnswer {
            settings,
            restarted,
            service: agent.machine.role.service(),
            held: fault.map(|fault| fault.id),
        })
    };
    blocking(act).await.map(Json)
}

/// This description.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, description = "OpenAPI")))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::Invalid(format!("the body is not as expected: {error}")))
}

async fn blocking<T, F>(work: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Refusal> + Send + 'static,
{
    spawn_blocking(work).await.unwrap_or_else(|error| Err(Refusal::Failed(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_every_route() {
        let text = openapi_json().unwrap();
        for path in [
            "/v1/health",
            "/v1/capabilities",
            "/v1/faults",
            "/v1/faults/{id}",
            "/v1/faults/{id}/lease",
            "/v1/fingerprint",
            "/v1/service/{action}",
            "/v1/service/stop",
            "/v1/settings",
            "/v1/openapi.json",
        ] {
            assert!(text.contains(&format!("\"{path}\"")), "{path} is not described");
        }
    }

    #[test]
    fn a_request_with_an_unknown_key_is_refused_by_name() {
        let error = parse::<FaultRequest>(&Bytes::from(r#"{"kind":"x","lease":3,"lease_s":1}"#))
            .unwrap_err();
        assert!(error.to_string().contains("`lease`"), "{error}");
    }
}
