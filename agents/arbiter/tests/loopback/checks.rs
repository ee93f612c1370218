//! Health checks of a TCP tier: a server that takes no connection is ill.

use std::future::{ready, Ready};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use crate::support::upstream::nobody;
use crate::support::{settings, start};
use arbiter::config::{Config, ConfigError};
use arbiter::health;
use arbiter::tier::{Down, Tier};
use policy::ServerId;
use testkit::stream::stop_listening;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;

fn file(protocol: &str, check: &str) -> Result<Config, ConfigError> {
    let text = format!(
        "listen = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:2\"\ntier = \"t\"\n{}\
         health_check = {{ {check} }}\n[[servers]]\nname = \"a\"\naddress = \"127.0.0.1:3\"\n",
        settings(protocol, "tad", 1, 1)
    );
    Config::parse(&text, "a.toml")
}

/// A tier of one server.
fn tier(check: &str) -> (Arc<Tier>, mpsc::UnboundedReceiver<Down>) {
    Tier::new(file("tcp", check).unwrap(), None)
}

/// The results of checks, one after the other, and then `bad`; and how many there were.
fn script(
    good: &'static [bool],
) -> (Arc<AtomicUsize>, impl Fn(ServerId) -> Ready<bool> + Clone + Send + Sync + 'static) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&calls);
    let says = move |_| {
        let number = counts.fetch_add(1, SeqCst);
        ready(good.get(number).copied().unwrap_or_default())
    };
    (calls, says)
}

async fn until_alive_is(tier: &Tier, wanted: bool) {
    while tier.standings()[0].alive != wanted {
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_dead_after_fall_bad_checks_in_a_row_and_not_before() {
    let (tier, _downs) = tier("interval_ms = 100, timeout_ms = 100, fall = 3");
    let (asked, says) = script(&[false, false, true, false, false]);
    tokio::spawn(health::watch(Arc::clone(&tier), says));
    until_alive_is(&tier, false).await;
    assert_eq!(asked.load(SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_back_after_rise_good_checks_in_a_row() {
    let (tier, downs) = tier("interval_ms = 100, timeout_ms = 100, rise = 2");
    let (asked, says) = script(&[true, false, true, true]);
    tokio::spawn(health::run(Arc::clone(&tier), downs, says));
    tier.server_failed(0);
    assert!(!tier.standings()[0].alive);
    until_alive_is(&tier, true).await;
    assert_eq!(asked.load(SeqCst), 4);
}

#[tokio::test]
async fn a_connection_is_the_check_and_no_client_is_spent() {
    let address = nobody();
    let listener = TcpListener::bind(address).await.unwrap();
    let settings = settings("tcp", "round-robin", 1, 4);
    let check = "health_check = { interval_ms = 250, timeout_ms = 250, rise = 1 }\n";
    let arbiter = start(&(settings + check), &[address]).await;
    listener.accept().await.unwrap();
    stop_listening(&listener);
    drop(listener);
    arbiter.until("its death", |stats| !stats.servers[0].alive).await;
    assert_eq!(arbiter.stats().await.requests.received, 0);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    let _listener = socket.listen(64).unwrap();
    arbiter.until_alive(0).await;
}

#[test]
fn checks_that_cannot_work_are_refused() {
    assert!(file("tcp", "").is_ok());
    let table = [
        ("redis", "", "health_check: expected"),
        ("http", "", "health_check: expected"),
        ("tcp", "interval_ms = 10, timeout_ms = 11", "health_check.timeout_ms"),
        ("tcp", "rise = 0", "health_check.rise: expected 1 to 100 (got 0)"),
        ("tcp", "fall = 0", "health_check.fall"),
        ("tcp", "path = \"/\"", "unknown field `path`"),
    ];
    for (protocol, check, key) in table {
        let refusal = file(protocol, check).unwrap_err().to_string();
        assert!(refusal.contains(key), "{refusal}");
    }
}
