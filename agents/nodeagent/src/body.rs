//! Bodies of requests: read whole before their handler, within a size and a time.

use std::time::Duration;

use axum::body::{to_bytes, Body};
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::StatusCode;
use axum::middleware::{from_fn, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use tokio::time::timeout;
use wire::agent::ErrorBody;

const BYTES_MAX: usize = 64 * 1024;

/// These routes, each asked only with a body that is there within `limit`.
pub fn bounded(router: Router, limit: Duration) -> Router {
    router.layer(from_fn(move |request, next| whole(request, next, limit)))
}

async fn whole(request: Request, next: Next, limit: Duration) -> Response {
    let (head, body) = request.into_parts();
    match timeout(limit, to_bytes(body, BYTES_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(error)) => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a body of at most {BYTES_MAX} bytes was expected: {error}"),
        ),
        Err(_) => refuse(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the whole body was expected within {} s",
                limit.as_secs_f64()
            ),
        ),
    }
}

/// The rest of the body is not read, so the connection ends.
fn refuse(status: StatusCode, error: String) -> Response {
    (status, [(CONNECTION, "close")], Json(ErrorBody { error })).into_response()
}
