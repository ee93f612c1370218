//! Servers, managers and clients as processes, on a real etcd and a real MariaDB.

#![allow(clippy::unwrap_used)]

#[macro_use]
mod world;

mod once;

use std::collections::HashMap;

use mysql_async::prelude::Queryable;
use nix::sys::signal::Signal;
use parking_lot::store::{Change, Request, Store, StoreError};
use serde_json::{json, Value};
use testkit::wait::{end_of, eventually};
use world::{receive, Process, World};

/// Strategies that need nothing in front of the servers.
const STRATEGIES: &str = "primary cached open watched hedged heartbeat";

fn plan(world: &World, strategy: &str, clients: i32) -> Value {
    json!({
        "naming": world.etcd, "clients": clients, "invocations": 1_000_000, "gap_s": 0.002,
        "calls": "all", "strategy": strategy, "patience_s": 1.0, "give_up_s": 60.0,
    })
}

fn records(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.records()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Ends the clients; all that they asked was done once, and `failed_over` of it was asked again.
async fn end(world: &World, mut clients: Process, failed_over: usize) {
    clients.signal(Signal::SIGTERM);
    let status = end_of(&mut clients.0).await;
    assert!(status.success(), "{status}");
    let records = records(world);
    // A change that was made twice is refused, which is no "ok".
    let failure = records.iter().find(|record| record["outcome"] != "ok");
    assert_eq!(failure, None);
    let repeats = records.iter().filter(|record| record["sent"] != 1).count();
    assert!(repeats >= failed_over, "{repeats} of {}", records.len());
    let findings = world.audit();
    let changes = findings["changes"].as_u64().unwrap();
    assert!(changes > 0);
    assert_eq!(findings, once(changes));
}

/// The audit's findings where each of so many changes was made once.
fn once(changes: u64) -> Value {
    json!({"changes": changes, "twice": 0, "missing": 0, "unasked": 0, "astray": 0})
}

#[tokio::test]
async fn each_strategy_goes_on_when_its_server_is_killed_and_no_car_is_parked_twice() {
    let world = world_or_skip!();
    let _manager = world.manage("manager");
    for strategy in STRATEGIES.split(' ') {
        let mut servers = HashMap::new();
        for name in ["a", "b"] {
            servers.insert(name.to_owned(), world.serve(name, 0).await);
        }
        let (clients, names) = world.invoke(plan(&world, strategy, 3));
        let first = receive(&names);
        servers.get_mut(&first).unwrap().kill();
        let second = receive(&names);
        assert_ne!(first, second, "{strategy}");
        end(&world, clients, 1).await;
    }
}

// `receive` holds a thread, and the arbiter needs one.
#[tokio::test(flavor = "multi_thread")]
async fn an_arbiter_in_front_leads_clients_to_a_server_that_lives() {
    let world = world_or_skip!();
    let mut servers = HashMap::new();
    for name in ["a", "b"] {
        servers.insert(name.to_owned(), world.serve(name, 0).await);
    }
    let mut plan = plan(&world, "arbiter", 3);
    plan["arbiter"] = json!(world.arbiter().await);
    let (clients, names) = world.invoke(plan);
    let first = receive(&names);
    servers.get_mut(&first).unwrap().kill();
    assert_ne!(receive(&names), first);
    // A client whose server dies between two calls asks nobody again.
    end(&world, clients, 0).await;
}

#[tokio::test]
async fn a_hanging_server_is_left_by_those_who_watch_and_replaced_by_the_manager() {
    let world = world_or_skip!();
    let a = world.serve("a", 0).await;
    let _b = world.serve("b", 0).await;
    let _manager = world.manage("manager");
    let (clients, names) = world.invoke(plan(&world, "heartbeat", 1));
    assert_eq!(receive(&names), "a");
    a.signal(Signal::SIGSTOP);
    assert_eq!(receive(&names), "b");
    let naming = world.naming("test");
    eventually("its removal and an order", || async {
        let (servers, _) = naming.servers().await.ok()?;
        let (orders, _) = naming.etcd().list("lots/orders/").await.ok()?;
        let is_gone = servers.iter().all(|server| server.name != "a");
        let is_ordered = orders.iter().any(|order| order.key.ends_with(b"/a"));
        (is_gone && is_ordered).then_some(())
    })
    .await;
    // It comes back while it is being replaced, and registers anew.
    a.signal(Signal::SIGCONT);
    eventually("both servers", || async {
        let (servers, _) = naming.servers().await.ok()?;
        (servers.len() == 2).then_some(())
    })
    .await;
    end(&world, clients, 1).await;
}

#[tokio::test]
async fn when_all_servers_are_dead_clients_wait_for_the_one_that_is_started() {
    let world = world_or_skip!();
    let mut a = world.serve("a", 0).await;
    let mut b = world.serve("b", 0).await;
    let _manager = world.manage("manager");
    let (clients, names) = world.invoke(plan(&world, "cached", 2));
    assert_eq!(receive(&names), "a");
    a.kill();
    b.kill();
    let naming = world.naming("test");
    eventually("two orders and no server", || async {
        let (orders, _) = naming.etcd().list("lots/orders/").await.ok()?;
        let (servers, _) = naming.servers().await.ok()?;
        (orders.len() == 2 && servers.is_empty()).then_some(())
    })
    .await;
    let _b = world.serve("b", 0).await;
    assert_eq!(receive(&names), "b");
    // The other client may not have come to its first call before.
    end(&world, clients, 1).await;
}

#[tokio::test]
async fn of_two_managers_one_acts_and_the_other_takes_its_place() {
    let world = world_or_skip!();
    let mut managers: HashMap<String, Process> =
        ["m-1", "m-2"].map(|name| (name.to_owned(), world.manage(name))).into();
    let naming = world.naming("test");
    let acting = || async {
        let (entries, _) = naming.etcd().list("lots/manager").await.ok()?;
        Some(String::from_utf8_lossy(&entries.first()?.value).into_owned())
    };
    let first = eventually("a manager that acts", acting).await;
    managers.get_mut(&first).unwrap().kill();
    let second =
        eventually("the other one", || async { acting().await.filter(|name| *name != first) })
            .await;
    assert!(managers.contains_key(&second));
    // One that acts no more changes nothing.
    let old = world.naming(&first);
    let server = parking_lot::core::Server {
        name: "a".into(),
        address: "127.0.0.1:1".into(),
        incarnation: 1,
    };
    assert!(old.promote(&server).await.is_err());
    assert_eq!(naming.primary().await.unwrap(), None);
}

#[tokio::test]
async fn a_server_that_registered_anew_is_not_removed_for_what_it_was() {
    let world = world_or_skip!();
    let (a, manager) = (world.naming("a"), world.naming("manager"));
    a.register("127.0.0.1:1", 0).await.unwrap();
    let lease = manager.etcd().grant(30).await.unwrap();
    assert!(manager.lead(lease).await.unwrap());
    let (before, _) = manager.servers().await.unwrap();
    a.register("127.0.0.1:1", 0).await.unwrap();
    assert!(!manager.remove(&before[0]).await.unwrap());
    let (after, _) = manager.servers().await.unwrap();
    assert!(manager.remove(&after[0]).await.unwrap());
    assert_eq!(manager.servers().await.unwrap().0, []);
}

#[tokio::test]
async fn a_registration_under_a_lease_ends_with_its_server() {
    let world = world_or_skip!();
    let mut a = world.serve("a", 1).await;
    a.kill();
    let naming = world.naming("test");
    eventually("no server", || async {
        let (all, _) = naming.servers().await.ok()?;
        all.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_change_is_made_once_for_its_number_whoever_is_asked() {
    let world = world_or_skip!();
    let first = Store::open(&world.database).await.unwrap();
    let second = Store::open(&world.database).await.unwrap();
    let request = |number| Request { client: 7, number };
    let replies = tokio::join!(
        first.once(request(1), Change::Enter(3)),
        second.once(request(1), Change::Enter(3)),
    );
    assert_eq!((replies.0.unwrap(), replies.1.unwrap()), (vec![], vec![]));
    let result = second.once(request(2), Change::Enter(3)).await;
    assert!(matches!(result, Err(StoreError::Car { .. })), "{result:?}");
    assert_eq!(first.once(request(3), Change::Move(1)).await.unwrap(), [2]);
    assert_eq!(second.once(request(3), Change::Move(1)).await.unwrap(), [2]);
    assert_eq!(second.levels(7).await.unwrap(), (1, 4));
    first.once(request(4), Change::Exit).await.unwrap();
    assert!(first.level(7).await.is_err());
    // The reply of the first time; one more of another number has no car to take out.
    assert!(second.once(request(4), Change::Exit).await.unwrap().is_empty());
    let result = second.once(request(5), Change::Exit).await;
    assert!(matches!(result, Err(StoreError::Car { .. })), "{result:?}");
    let rows = first.booked(&[7]).await.unwrap().rows;
    let events: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(events, ["enter", "up", "exit"]);
}

#[tokio::test]
async fn a_service_that_forgets_what_it_made_is_found_out_by_the_audit() {
    let world = world_or_skip!();
    let store = Store::open(&world.database).await.unwrap();
    let request = |number| Request { client: 7, number };
    let pool = mysql_async::Pool::new(world.database.as_str());
    let mut work = pool.get_conn().await.unwrap();
    let mut records = String::new();
    let changes = [
        (Change::Enter(1), "EnterLot"),
        (Change::Move(1), "MoveUpLevel"),
        (Change::Exit, "ExitLot"),
        (Change::Enter(1), "EnterLot"),
    ];
    for (number, (change, method)) in (0..).zip(changes) {
        store.once(request(number), change).await.unwrap();
        records +=
            &json!({"id": 7, "number": number, "method": method, "outcome": "ok"}).to_string();
        records.push('\n');
    }
    std::fs::write(world.records(), records).unwrap();
    assert_eq!(world.audit(), once(4));
    // An old copy of the exit comes, and nobody remembers that it was made.
    work.query_drop("DELETE FROM newest").await.unwrap();
    store.once(request(2), Change::Exit).await.unwrap();
    let mut expected = once(4);
    expected["twice"] = json!(1);
    assert_eq!(world.audit(), expected);
    let deletion = "DELETE FROM ledger WHERE number = 2";
    work.query_drop(deletion).await.unwrap();
    let mut expected = once(4);
    expected["missing"] = json!(1);
    expected["astray"] = json!(1);
    assert_eq!(world.audit(), expected);
}

#[tokio::test]
async fn a_full_lot_names_those_with_room() {
    let world = world_or_skip!();
    let store = Store::open(&world.database).await.unwrap();
    let request = |client, number| Request { client, number };
    for client in 0..100 {
        let reply = store.once(request(client, 1), Change::Enter(2)).await.unwrap();
        assert!(reply.is_empty(), "{reply:?}");
    }
    let lots = store.once(request(100, 1), Change::Enter(2)).await.unwrap();
    assert_eq!(lots, [1, 3, 4]);
    assert_eq!(store.lots_with_room(1).await.unwrap(), [3, 4]);
    let result = store.once(request(100, 2), Change::Enter(9)).await;
    assert!(matches!(result, Err(StoreError::Lot(9))));
}
