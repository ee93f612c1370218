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

/// Wraps routes so that a handler gets a request only with its whole body, within `limit`.
pub fn bounded(router: Router, limit: Duration) -> Router {
    router.layer(from_fn(move |request, next| read_whole(request, next, limit)))
}

async fn read_whole(request: Request, next: Next, limit: Duration) -> Response {
    let (head, body) = request.into_parts();
    match timeout(limit, to_bytes(body, BYTES_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(error)) => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a body of at most {BYTES_MAX} bytes was expected: {error}"),
        ),
        Err(_) => refuse(
            StatusCode::REQUEST_TIMEOUT,
            format!("the whole body was expected within {} s", limit.as_secs_f64()),
        ),
    }
}

/// The rest of the body is not read, so the connection ends.
fn refuse(status: StatusCode, error: String) -> Response {
    (status, [(CONNECTION, "close")], Json(ErrorBody { error })).into_response()
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Sends a head of this length and this body; what comes back until the connection ends, of a
    /// server that waits so long for a body.
    async fn send(length: usize, body: &str, limit: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let handler = |body: String| async move { body.len().to_string() };
        let routes = Router::new().route("/", post(handler));
        let routes = bounded(routes, limit);
        let task = tokio::spawn(async move { axum::serve(listener, routes).await });
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset for what was not read is an end too.
        let _ = stream.read_to_end(&mut answer).await;
        task.abort();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_whole_in_time_or_is_too_large_ends_the_connection() {
        let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
        for (length, body, limit, status) in
            [(10, "half.".to_owned(), short, "408"), (65_537, "x".repeat(65_537), long, "413")]
        {
            let answer = send(length, &body, limit).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
    }
}
