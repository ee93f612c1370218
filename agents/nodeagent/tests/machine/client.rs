//! A client of the agent's API.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use testkit::mtls::{Authority, Identity};

/// One request on a connection of its own.
pub async fn request(
    address: SocketAddr,
    authority: &Authority,
    client: Option<&Identity>,
    method: &str,
    path: &str,
    body: String,
) -> Result<(u16, Value), String> {
    let fail = |error: &dyn std::fmt::Display| error.to_string();
    let name = address.ip().to_string();
    let stream = authority.connect(address, &name, client).await;
    let tls = TokioIo::new(stream.map_err(|error| fail(&error))?);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(tls).await.map_err(|error| fail(&error))?;
    let driver = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address.to_string())
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let result = sender.send_request(request).await;
    let response = match result {
        Ok(response) => response,
        // The connection's own end says more, e.g. which alert closed it.
        Err(error) => return Err(format!("{error}: {:?}", driver.await)),
    };
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(|error| fail(&error))?.to_bytes();
    Ok((status, serde_json::from_slice(&bytes).map_err(|error| fail(&error))?))
}
