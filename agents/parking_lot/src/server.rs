//! A server of the lots: the ten methods of the paper's table, and its own registration.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Request as Call, Response, Status};

use crate::api::lots_server::{Lots, LotsServer};
use crate::api::{Car, Entry, Lot, Nothing, Number, Numbers};
use crate::core::Server;
use crate::naming::Naming;
use crate::store::{Change, Request, Store, StoreError};

/// The caller.
pub const CLIENT: &str = "lots-client";
/// The number of the request.
pub const NUMBER: &str = "lots-request";
/// The server that answers.
pub const SERVER: &str = "lots-server";

/// Pause between two looks at the own registration, or two renewals of its lease.
const KEEP_EVERY: Duration = Duration::from_millis(500);

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address that it listens at.
    pub listen: SocketAddr,
    /// The address for clients.
    pub address: String,
    /// The database.
    pub database: String,
    /// Bytes that are added to each reply.
    pub padding: usize,
    /// Time to live of its registration without a renewal [s]; 0: it stays until removed.
    pub lease_s: i64,
}

/// Serves until `end` is ready.
pub async fn serve(
    settings: Settings,
    naming: Naming,
    end: impl Future<Output = ()>,
) -> Result<()> {
    tokio::pin!(end);
    let store = tokio::select! {
        store = database(&settings.database) => store,
        () = &mut end => return Ok(()),
    };
    let listener = TcpListener::bind(settings.listen).await;
    let listener = listener.with_context(|| format!("cannot listen at {}", settings.listen))?;
    let epoch = Arc::new(AtomicI64::new(0));
    let name = AsciiMetadataValue::try_from(naming.by());
    let lots = ParkingLots {
        name: name.with_context(|| format!("expected an ASCII name (got {})", naming.by()))?,
        store,
        padding: vec![0; settings.padding],
        epoch: Arc::clone(&epoch),
        count: AtomicU32::new(0),
        levels: Mutex::default(),
    };
    let registered = keep_registered(settings, naming, epoch);
    let served = tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .add_service(LotsServer::new(lots))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), end);
    tokio::select! {
        served = served => Ok(served?),
        () = registered => Ok(()),
    }
}

/// The database, once it answers: at a fleet's start nobody is there first.
async fn database(url: &str) -> Store {
    loop {
        match Store::open(url).await {
            Ok(store) => return store,
            Err(error) => tracing::warn!("the database: {error}"),
        }
        tokio::time::sleep(KEEP_EVERY).await;
    }
}

/// Registers, for ever: again if the registration is gone, because the manager took the server for
/// dead, or etcd was away for longer than the lease.
async fn keep_registered(settings: Settings, naming: Naming, epoch: Arc<AtomicI64>) {
    let mut lease = 0;
    loop {
        match stand(&settings, &naming, &epoch, &mut lease).await {
            Ok(()) => {}
            Err(status) => tracing::warn!("the naming service: {status}"),
        }
        tokio::time::sleep(KEEP_EVERY).await;
    }
}

async fn stand(
    settings: &Settings,
    naming: &Naming,
    epoch: &AtomicI64,
    lease: &mut i64,
) -> Result<(), Status> {
    let own = epoch.load(Ordering::Relaxed);
    let holds = *lease == 0 || naming.etcd().renew(*lease).await?;
    let (servers, _) = naming.servers().await?;
    let is_own = |server: &Server| server.incarnation == own;
    if holds && own != 0 && servers.iter().any(is_own) {
        return Ok(());
    }
    if settings.lease_s > 0 {
        *lease = naming.etcd().grant(settings.lease_s).await?;
    }
    let registered = naming.register(&settings.address, *lease).await?;
    epoch.store(registered, Ordering::Relaxed);
    Ok(())
}

/// The level of a client's car, as it was after its request of this number.
#[derive(Debug, Clone, Copy)]
struct Known {
    number: i64,
    level: i32,
}

struct ParkingLots {
    name: AsciiMetadataValue,
    store: Store,
    padding: Vec<u8>,
    epoch: Arc<AtomicI64>,
    count: AtomicU32,
    /// Levels of clients of which this server has had every request; after a request at another
    /// server the level is read again.
    levels: Mutex<HashMap<i32, Known>>,
}

impl ParkingLots {
    async fn change(&self, request: Request, change: Change) -> Result<Vec<i32>, Status> {
        let reply = self.store.once(request, change).await.map_err(refusal)?;
        if let (Change::Move(_), [level]) = (change, &reply[..]) {
            self.know(request, *level);
        }
        Ok(reply)
    }

    fn know(&self, request: Request, level: i32) {
        let number = request.number;
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.insert(request.client, Known { number, level });
    }

    fn level_of(&self, request: Request) -> Option<i32> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = levels.get(&request.client)?;
        (entry.number + 1 == request.number).then_some(entry.level)
    }

    fn numbers(&self, headers: &MetadataMap, values: Vec<i32>) -> Response<Numbers> {
        let padding = self.padding.clone();
        self.reply(headers, Numbers { values, padding })
    }

    fn number(&self, headers: &MetadataMap, value: i32) -> Response<Number> {
        let padding = self.padding.clone();
        self.reply(headers, Number { value, padding })
    }

    fn nothing(&self, headers: &MetadataMap) -> Response<Nothing> {
        let padding = self.padding.clone();
        self.reply(headers, Nothing { padding })
    }

    /// Makes a reply with this server's name, which a client behind an arbiter cannot know, and the
    /// request's number, by which the client knows its own reply.
    fn reply<T>(&self, headers: &MetadataMap, message: T) -> Response<T> {
        let mut response = Response::new(message);
        let metadata = response.metadata_mut();
        metadata.insert(SERVER, self.name.clone());
        for key in [CLIENT, NUMBER] {
            if let Some(value) = headers.get(key) {
                metadata.insert(key, value.clone());
            }
        }
        response
    }
}

#[tonic::async_trait]
impl Lots for ParkingLots {
    async fn enter_lot(&self, call: Call<Entry>) -> Result<Response<Numbers>, Status> {
        let request = request_of(call.metadata())?;
        let change = Change::Enter(call.get_ref().lot);
        Ok(self.numbers(call.metadata(), self.change(request, change).await?))
    }

    async fn exit_lot(&self, call: Call<Car>) -> Result<Response<Nothing>, Status> {
        let request = request_of(call.metadata())?;
        self.change(request, Change::Exit).await?;
        Ok(self.nothing(call.metadata()))
    }

    /// Gives a number without the database: the registration's number in the upper bits tells
    /// servers apart. A server gives no number twice.
    async fn get_client_id(&self, call: Call<Nothing>) -> Result<Response<Number>, Status> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if epoch == 0 {
            return Err(Status::unavailable("this server is not registered yet"));
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let id = client_id(epoch, number);
        let id = id.ok_or_else(|| Status::unavailable("this server has given all its numbers"))?;
        Ok(self.number(call.metadata(), id))
    }

    async fn get_other_lot_availability(
        &self,
        call: Call<Lot>,
    ) -> Result<Response<Numbers>, Status> {
        let lots = self.store.lots_with_room(call.get_ref().lot).await;
        Ok(self.numbers(call.metadata(), lots.map_err(refusal)?))
    }

    async fn get_lots(&self, call: Call<Nothing>) -> Result<Response<Numbers>, Status> {
        Ok(self.numbers(call.metadata(), self.store.lots().await.map_err(refusal)?))
    }

    async fn move_up_level(&self, call: Call<Car>) -> Result<Response<Number>, Status> {
        let request = request_of(call.metadata())?;
        let level = self.change(request, Change::Move(1)).await?;
        Ok(self.number(call.metadata(), level.first().copied().unwrap_or_default()))
    }

    async fn move_down_level(&self, call: Call<Car>) -> Result<Response<Number>, Status> {
        let request = request_of(call.metadata())?;
        let level = self.change(request, Change::Move(-1)).await?;
        Ok(self.number(call.metadata(), level.first().copied().unwrap_or_default()))
    }

    async fn get_current_level(&self, call: Call<Nothing>) -> Result<Response<Number>, Status> {
        let request = request_of(call.metadata())?;
        let level = match self.level_of(request) {
            Some(level) => level,
            None => self.store.level(request.client).await.map_err(refusal)?,
        };
        self.know(request, level);
        Ok(self.number(call.metadata(), level))
    }

    async fn get_max_level(&self, call: Call<Nothing>) -> Result<Response<Number>, Status> {
        let request = request_of(call.metadata())?;
        let (_, highest) = self.store.levels(request.client).await.map_err(refusal)?;
        Ok(self.number(call.metadata(), highest))
    }

    async fn get_min_level(&self, call: Call<Nothing>) -> Result<Response<Number>, Status> {
        let request = request_of(call.metadata())?;
        let (lowest, _) = self.store.levels(request.client).await.map_err(refusal)?;
        Ok(self.number(call.metadata(), lowest))
    }

    async fn beat(&self, _: Call<Nothing>) -> Result<Response<Nothing>, Status> {
        Ok(Response::new(Nothing::default()))
    }
}

/// Lower bits of a client's number, which count the clients of one registration.
const GIVEN_BITS: u32 = 18;

/// The number of the client that is this registration's `given`-th; none where it has no more.
fn client_id(epoch: i64, number: u32) -> Option<i32> {
    let upper = u32::try_from(epoch & (0xffff_ffff >> GIVEN_BITS)).unwrap_or_default();
    let id = (upper << GIVEN_BITS) | number;
    (number >> GIVEN_BITS == 0).then_some(id.cast_signed())
}

fn request_of(metadata: &MetadataMap) -> Result<Request, Status> {
    let number = |key: &str| {
        let text = metadata.get(key).and_then(|value| value.to_str().ok());
        text.and_then(|text| text.parse::<i64>().ok())
            .ok_or_else(|| Status::invalid_argument(format!("expected a number in {key}")))
    };
    let client = i32::try_from(number(CLIENT)?)
        .map_err(|_| Status::invalid_argument(format!("expected 32 bits in {CLIENT}")))?;
    Ok(Request { client, number: number(NUMBER)? })
}

/// A database that does not answer may answer another server; a request that cannot be is refused
/// by all of them.
fn refusal(error: StoreError) -> Status {
    match error {
        StoreError::Database(_) | StoreError::Recorded(_) => Status::unavailable(error.to_string()),
        StoreError::Car { .. } | StoreError::Old { .. } => {
            Status::failed_precondition(error.to_string())
        }
        StoreError::Lot(_) => Status::not_found(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_number_that_no_other_has_until_none_is_left() {
        let mut ids = std::collections::HashSet::new();
        for epoch in [1, 2, 9_000, 16_383] {
            for number in [0, 1, 70_000, (1 << GIVEN_BITS) - 1] {
                assert!(ids.insert(client_id(epoch, number).unwrap()));
            }
            assert_eq!(client_id(epoch, 1 << GIVEN_BITS), None);
        }
    }
}
