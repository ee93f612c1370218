//! Waiting for a state of real programs.

use std::future::Future;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Time within which a state must come, on any host.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks.
pub const POLL: Duration = Duration::from_millis(20);

/// Waits until `look` returns a value; `state` names it if none comes within a minute.
pub async fn eventually<T, F: Future<Output = Option<T>>>(state: &str, look: impl Fn() -> F) -> T {
    let polling = async {
        loop {
            if let Some(value) = look().await {
                return value;
            }
            sleep(POLL).await;
        }
    };
    timeout(LIMIT, polling).await.unwrap_or_else(|_| panic!("expected {state} within {LIMIT:?}"))
}

/// Time within which a program replies: beyond all time limits of requests in tests.
pub const REPLY_LIMIT: Duration = Duration::from_secs(300);

/// Waits for what a program does; `event` names it if it does not come in time.
pub async fn within_limit<T>(event: &str, wait: impl Future<Output = T>) -> T {
    let result = timeout(REPLY_LIMIT, wait).await;
    result.unwrap_or_else(|_| panic!("expected {event} within {REPLY_LIMIT:?}"))
}

/// Waits for the end of a program.
///
/// # Panics
/// When it does not end in time, or its state is unknown.
pub async fn end_of(program: &mut Child) -> ExitStatus {
    let ended = async {
        loop {
            if let Some(status) = program.try_wait().expect("the state of a program") {
                return status;
            }
            sleep(POLL).await;
        }
    };
    within_limit("the end of a program", ended).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "expected a reply within 300s")]
    async fn a_wait_ends_with_the_name_of_what_did_not_come() {
        within_limit("a reply", std::future::pending::<()>()).await;
    }
}
