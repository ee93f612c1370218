//! A change is made at most once, whatever becomes of who asked for it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use nix::sys::signal::Signal;
use parking_lot::api::lots_client::LotsClient;
use parking_lot::api::Entry;
use parking_lot::server::{CLIENT, NUMBER};
use parking_lot::store::{Change, Request, Store, StoreError};
use serde_json::json;
use testkit::wait::eventually;
use tonic::transport::Channel;

use crate::plan;
use crate::world::{receive, World};

const CLIENT_ID: i32 = 7;

fn request(number: i64) -> Request {
    let client = CLIENT_ID;
    Request { client, number }
}

async fn connection(world: &World) -> mysql_async::Conn {
    let pool = mysql_async::Pool::new(world.database.as_str());
    pool.get_conn().await.unwrap()
}

async fn count(world: &World, table: &str) -> i64 {
    let mut connection = connection(world).await;
    let query = format!("SELECT COUNT(*) FROM {table}");
    connection.query_first(query).await.unwrap().unwrap()
}

#[tokio::test]
async fn of_each_client_one_request_is_remembered_and_an_old_copy_changes_nothing() {
    let world = world_or_skip!();
    let store = Store::open(&world.database).await.unwrap();
    for round in 0..20 {
        store.once(request(2 * round), Change::Enter(1)).await.unwrap();
        store.once(request(2 * round + 1), Change::Exit).await.unwrap();
    }
    assert_eq!(count(&world, "newest").await, 1);
    // A frozen server goes on, with a request in its hands that was answered long ago.
    for number in 0..39 {
        let result = store.once(request(number), Change::Enter(1)).await;
        assert!(matches!(result, Err(StoreError::Old { newest: 39, .. })));
    }
    assert_eq!(count(&world, "cars").await, 0);
    // The newest one is answered again as often as it is asked for.
    let reply = store.once(request(39), Change::Exit).await.unwrap();
    assert!(reply.is_empty());
}

#[tokio::test]
async fn a_call_that_is_cut_off_leaves_no_lock_and_is_made_once_when_it_is_sent_again() {
    let world = world_or_skip!();
    let _server = world.serve("a", 0).await;
    let address = world.naming("test").servers().await.unwrap().0[0].address.clone();
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    for number in 0..20 {
        // A connection of its own each time, which is gone before the reply may be there.
        let channel = endpoint.connect().await.unwrap();
        let call = tokio::time::timeout(Duration::from_millis(number), enter(channel, 2 * number));
        drop(call.await);
        let channel = endpoint.connect().await.unwrap();
        assert_eq!(enter(channel, 2 * number).await, Vec::<i32>::new());
        assert_eq!(count(&world, "cars").await, 1);
        let store = Store::open(&world.database).await.unwrap();
        let number = i64::try_from(2 * number + 1).unwrap();
        store.once(request(number), Change::Exit).await.unwrap();
    }
}

async fn enter(channel: Channel, number: u64) -> Vec<i32> {
    let client = CLIENT_ID;
    let mut request = tonic::Request::new(Entry { client, lot: 1 });
    request.metadata_mut().insert(CLIENT, client.into());
    request.metadata_mut().insert(NUMBER, number.into());
    let answer = LotsClient::new(channel).enter_lot(request).await;
    answer.unwrap().into_inner().values
}

#[tokio::test]
async fn clients_that_are_killed_leave_no_change_half_made_and_no_lot_locked() {
    let world = world_or_skip!();
    let _server = world.serve("a", 0).await;
    let mut busy = plan(&world, "cached", 8);
    busy["gap_s"] = json!(0.0);
    for _ in 0..3 {
        let (mut clients, names) = world.invoke(busy.clone());
        receive(&names);
        clients.kill();
        wait_for_unlock(&world).await;
        // A client whose newest change is no exit has a car inside, nobody else has; and it is the one whose
        // reply is kept.
        let half_made = "newest LEFT JOIN cars ON newest.client = cars.client \
                         LEFT JOIN ledger ON newest.client = ledger.client \
                         AND newest.number = ledger.number \
                         WHERE what IS NULL OR (what <> 'exit') <> (cars.lot IS NOT NULL)";
        assert_eq!(count(&world, half_made).await, 0);
        let booked_alone = "ledger LEFT JOIN newest ON newest.client = ledger.client \
                            WHERE newest.number IS NULL OR newest.number < ledger.number";
        assert_eq!(count(&world, booked_alone).await, 0);
    }
}

/// Returns once nobody holds a lock on the lot that clients enter.
async fn wait_for_unlock(world: &World) {
    eventually("an unlocked lot", || async {
        let mut work = connection(world).await;
        let query = "SELECT id FROM lots WHERE id = 1 FOR UPDATE NOWAIT";
        work.query_first::<i32, _>(query).await.ok()?
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_frozen_with_changes_under_way_leaves_no_lot_locked() {
    let world = world_or_skip!();
    let server = world.serve("a", 0).await;
    let mut busy = plan(&world, "cached", 8);
    busy["gap_s"] = json!(0.0);
    let (_clients, names) = world.invoke(busy);
    receive(&names);
    for _ in 0..10 {
        server.signal(Signal::SIGSTOP);
        wait_for_unlock(&world).await;
        server.signal(Signal::SIGCONT);
        // Some changes more, so that it is frozen within others.
        let before = newest(&world).await;
        eventually("a change more", || async { (newest(&world).await > before).then_some(()) })
            .await;
    }
}

async fn newest(world: &World) -> i64 {
    let mut work = connection(world).await;
    let query = "SELECT COALESCE(MAX(number), 0) FROM newest";
    work.query_first(query).await.unwrap().unwrap()
}
