//! The connection phase with a client: greeting, proof of the password.

use std::time::Duration;

use tokio::time::timeout;

use super::auth::{is_equal, nonce, token, NATIVE};
use super::hello::{client_hello, greeting, switch_to_native, ClientHello, ServerGreeting};
use super::hub::Hub;
use super::packet::{self, Packet};
use crate::conn::Conn;

/// How long a client may take to log in.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);

/// A client that proved its password, and the sequence number of the packet that it waits for.
pub struct Login {
    /// What it asked for.
    pub hello: ClientHello,
    /// Of the OK or ERR that ends the connection phase.
    pub sequence: u8,
}

/// Logs a client in; none where it went away or was refused (it has been told).
pub async fn log_in(hub: &Hub, client: &mut Conn) -> Option<Login> {
    let like = hub.greeting().await;
    timeout(LOGIN_TIME_MAX, prove(hub, client, &like))
        .await
        .ok()
        .flatten()
}

async fn prove(hub: &Hub, client: &mut Conn, like: &ServerGreeting) -> Option<Login> {
    let nonce = nonce().ok()?;
    let greeting = Packet::new(0, &greeting(like, hub.connection_number(), &nonce));
    client.write(greeting.bytes(), LOGIN_TIME_MAX).await.ok()?;
    let answer = packet::read(client).await.ok()??;
    let mut sequence = answer.sequence().wrapping_add(1);
    let mut hello = match client_hello(answer.payload()) {
        Ok(hello) => hello,
        Err(reason) => {
            let text = format!("arbiter: {reason}");
            refuse(client, packet::error(sequence, 1043, "08S01", &text)).await;
            return None;
        }
    };
    if hello
        .plugin
        .as_deref()
        .is_some_and(|plugin| plugin != NATIVE)
    {
        let switch = Packet::new(sequence, &switch_to_native(&nonce));
        client.write(switch.bytes(), LOGIN_TIME_MAX).await.ok()?;
        let answer = packet::read(client).await.ok()??;
        hello.token = answer.payload().to_vec();
        sequence = answer.sequence().wrapping_add(1);
    }
    let account = hub.account();
    let expected = token(account.password.as_bytes(), &nonce);
    // Both are always compared, so that the time does not tell which was wrong.
    let user_fits = is_equal(account.user.as_bytes(), &hello.user);
    if !(is_equal(&expected, &hello.token) & user_fits) {
        let text = format!(
            "Access denied for user '{}'@'{}' (using password: {})",
            String::from_utf8_lossy(&hello.user),
            client.peer(),
            if hello.token.is_empty() { "NO" } else { "YES" },
        );
        refuse(client, packet::error(sequence, 1045, "28000", &text)).await;
        return None;
    }
    Some(Login { hello, sequence })
}

async fn refuse(client: &mut Conn, error: Packet) {
    // A client that is gone cannot be told.
    let _ = client.write(error.bytes(), LOGIN_TIME_MAX).await;
}
