//! Whether a server is well, by its own word: a GET of `health_check.path`, on a connection of its
//! own, as a stranger would make it.

use policy::ServerId;
use tokio::time::{timeout_at, Instant};

use super::exchange::{reply_head, INTERIM_MAX};
use super::head::ResponseHead;
use crate::config::health::HealthCheck;
use crate::conn::Conn;
use crate::tier::Tier;

/// Asks; true where the status is one of those expected, in time.
pub async fn is_well(tier: &Tier, server: ServerId, check: &HealthCheck, path: &str) -> bool {
    let deadline = Instant::now() + check.timeout();
    let asked = timeout_at(deadline, status(tier, server, deadline, path)).await;
    let (least, most) = (check.status_min, check.status_max);
    matches!(asked, Ok(Some(status)) if (least..=most).contains(&status))
}

async fn status(tier: &Tier, server: ServerId, deadline: Instant, path: &str) -> Option<u16> {
    let stream = tier.dial(server).await.ok()?;
    let mut conn = Conn::new(stream);
    let host = tier.server(server).address.host();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sparecraft-arbiter\r\n\
         Connection: close\r\n\r\n"
    );
    let limit = deadline.saturating_duration_since(Instant::now());
    conn.write(request.as_bytes(), limit).await.ok()?;
    let mut head = ResponseHead::default();
    for _ in 0..=INTERIM_MAX {
        reply_head(&mut conn, false, deadline, &mut head)
            .await
            .ok()?;
        if head.status >= 200 {
            return Some(head.status);
        }
    }
    None
}
