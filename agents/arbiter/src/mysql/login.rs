//! The connection phase with a client: greeting, proof of the password.

use std::time::Duration;

use tokio::time::timeout;

use super::handshake::{
    greeting, handshake_response, switch_to, HandshakeResponse, ServerGreeting,
};
use super::packet::{self, Message, Packet};
use super::server_pool::ServerPool;
use crate::conn::Conn;
use crate::mysql_auth::{is_equal, nonce, Method, FAST_PATH_TAKEN};

/// Maximum time of a login.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum packet of a client that has not logged in.
const LOGIN_BYTES_MAX: usize = 64 * 1024;

/// A client that proved its password, with the sequence number of the next packet.
pub struct Login {
    /// Its answer to the greeting.
    pub response: HandshakeResponse,
    /// Sequence number of the OK or ERR that ends the connection phase.
    pub sequence: u8,
}

/// Logs a client in; none if it disconnected or was refused (and told so).
pub async fn log_in(pool: &ServerPool, client: &mut Conn) -> Option<Login> {
    let like = pool.greeting().await;
    timeout(LOGIN_TIME_MAX, prove(pool, client, &like)).await.ok().flatten()
}

async fn prove(pool: &ServerPool, client: &mut Conn, like: &ServerGreeting) -> Option<Login> {
    let nonce = nonce().ok()?;
    let account = pool.account();
    let greeting = greeting(like, pool.connection_number(), &nonce, account.auth_plugin);
    say(client, 0, &greeting).await?;
    let answer = read(client).await?;
    let mut sequence = answer.sequence().wrapping_add(1);
    let mut response = match handshake_response(answer.payload()) {
        Ok(response) => response,
        Err(reason) => {
            let text = format!("arbiter: {reason}");
            refuse(client, packet::error(sequence, 1043, "08S01", &text)).await;
            return None;
        }
    };
    let method = match response.plugin.as_deref() {
        // Older than plugins.
        None => Method::Native,
        Some(plugin) => Method::named(plugin).unwrap_or(account.auth_plugin),
    };
    let is_answer_to_greeting =
        response.plugin.as_deref() == Some(account.auth_plugin.name()) || response.plugin.is_none();
    if !is_answer_to_greeting {
        // A client that prefers another method than the greeting's makes its proof when asked.
        say(client, sequence, &switch_to(method, &nonce)).await?;
        let answer = read(client).await?;
        response.token = answer.payload().to_vec();
        sequence = answer.sequence().wrapping_add(1);
    }
    let expected = method.token(account.password.as_bytes(), &nonce);
    // libmysql and others send a single zero byte for no password when asked to switch.
    let given: &[u8] = if response.token == [0] { &[] } else { &response.token };
    // Both are always compared, so that the time does not tell which was wrong.
    let user_fits = is_equal(account.user.as_bytes(), &response.user);
    if !(is_equal(&expected, given) & user_fits) {
        let text = format!(
            "Access denied for user '{}'@'{}' (using password: {})",
            String::from_utf8_lossy(&response.user),
            client.peer(),
            if given.is_empty() { "NO" } else { "YES" },
        );
        refuse(client, packet::error(sequence, 1045, "28000", &text)).await;
        return None;
    }
    if method == Method::CachingSha2 && !given.is_empty() {
        say(client, sequence, &FAST_PATH_TAKEN).await?;
        sequence = sequence.wrapping_add(1);
    }
    Some(Login { response, sequence })
}

async fn read(client: &mut Conn) -> Option<Packet> {
    match packet::read_message(client, LOGIN_BYTES_MAX).await {
        Ok(Some(Message::Whole(packet))) => Some(packet),
        _ => None,
    }
}

async fn say(client: &mut Conn, sequence: u8, payload: &[u8]) -> Option<()> {
    let packet = Packet::new(sequence, payload);
    client.write(packet.bytes(), LOGIN_TIME_MAX).await.ok()
}

async fn refuse(client: &mut Conn, error: Packet) {
    // A client that is gone cannot be told.
    let _ = client.write(error.bytes(), LOGIN_TIME_MAX).await;
}
