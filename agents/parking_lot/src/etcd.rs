//! etcd's v3 API, as much of it as is needed: several members, of which one is asked until it
//! fails.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::Status;

use crate::api::etcd::compare::{CompareTarget, TargetUnion};
use crate::api::etcd::kv_client::KvClient;
use crate::api::etcd::lease_client::LeaseClient;
use crate::api::etcd::request_op::Request;
use crate::api::etcd::watch_client::WatchClient;
use crate::api::etcd::watch_request::RequestUnion;
use crate::api::etcd::{
    Compare, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};

/// Time-out of one answer; etcd elects a leader in about a second.
const LIMIT: Duration = Duration::from_secs(2);
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

/// A cluster.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Channel>,
    next: AtomicUsize,
}

impl Etcd {
    /// A client of the members `HOST:PORT,...`; it connects at the first request.
    pub fn new(addresses: &str) -> Result<Self, tonic::transport::Error> {
        let member = |address: &str| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
            Ok(endpoint.connect_timeout(CONNECT_LIMIT).connect_lazy())
        };
        Ok(Self {
            members: addresses.split(',').map(member).collect::<Result<_, _>>()?,
            next: AtomicUsize::new(0),
        })
    }

    fn channel(&self) -> Channel {
        self.members[self.next.load(Ordering::Relaxed) % self.members.len()].clone()
    }

    /// The answer, or the next member is asked next time.
    async fn within<T>(
        &self,
        reply: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Status> {
        let error = |_| Status::deadline_exceeded("expected an answer of etcd within 2 s");
        let answer =
            tokio::time::timeout(LIMIT, reply).await.map_err(error).and_then(|answer| answer);
        if answer.is_err() {
            self.next.fetch_add(1, Ordering::Relaxed);
        }
        answer.map(tonic::Response::into_inner)
    }

    /// Lists the keys that begin with `prefix`, the oldest first, and the revision of the list.
    pub async fn list(&self, prefix: &str) -> Result<(Vec<KeyValue>, i64), Status> {
        let range = RangeRequest { key: prefix.into(), range_end: after(prefix) };
        let mut client = KvClient::new(self.channel());
        let answer = self.within(client.range(range)).await?;
        let mut entries = answer.kvs;
        entries.sort_by_key(|entry| entry.mod_revision);
        Ok((entries, answer.header.unwrap_or_default().revision))
    }

    /// Does all of `then` if all of `when` holds; returns true if it did, and the revision.
    pub async fn transact(
        &self,
        when: Vec<Compare>,
        then: Vec<Request>,
    ) -> Result<(bool, i64), Status> {
        let operation = |request| RequestOp { request: Some(request) };
        let transaction =
            TxnRequest { compare: when, success: then.into_iter().map(operation).collect() };
        let mut client = KvClient::new(self.channel());
        let answer = self.within(client.txn(transaction)).await?;
        Ok((answer.succeeded, answer.header.unwrap_or_default().revision))
    }

    /// A lease that ends `ttl_s` after it was last renewed.
    pub async fn grant(&self, ttl_s: i64) -> Result<i64, Status> {
        let mut client = LeaseClient::new(self.channel());
        let reply = client.lease_grant(LeaseGrantRequest { ttl: ttl_s });
        Ok(self.within(reply).await?.id)
    }

    /// Renews a lease once; false where it has ended.
    pub async fn renew(&self, lease: i64) -> Result<bool, Status> {
        let mut client = LeaseClient::new(self.channel());
        let once = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
        let mut answers = self.within(client.lease_keep_alive(once)).await?;
        let answer = tokio::time::timeout(LIMIT, answers.message());
        let error = |_| Status::deadline_exceeded("expected etcd to renew a lease within 2 s");
        let answer = answer.await.map_err(error)??;
        Ok(answer.is_some_and(|answer| answer.ttl > 0))
    }

    /// Changes of keys that begin with `prefix`, from `revision` on.
    pub async fn watch(
        &self,
        prefix: &str,
        revision: i64,
    ) -> Result<tonic::Streaming<WatchResponse>, Status> {
        let create = WatchCreateRequest {
            key: prefix.into(),
            range_end: after(prefix),
            start_revision: revision,
        };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // etcd ends the watch where its client ends the stream of requests.
        let requests =
            tokio_stream::StreamExt::chain(tokio_stream::once(request), tokio_stream::pending());
        let mut client = WatchClient::new(self.channel());
        self.within(client.watch(requests)).await
    }
}

/// The first key that does not begin with `prefix`, which is ASCII.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The request to put a key; under a lease unless that is 0.
pub fn put(key: &str, value: &str, lease: i64) -> Request {
    Request::RequestPut(PutRequest { key: key.into(), value: value.into(), lease })
}

/// The request to delete a key.
pub fn delete(key: &str) -> Request {
    Request::RequestDeleteRange(DeleteRangeRequest { key: key.into(), range_end: Vec::new() })
}

/// The key was last changed at this revision.
pub fn is_of(key: &str, revision: i64) -> Compare {
    compare(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

/// The condition that a key is missing.
pub fn is_missing(key: &str) -> Compare {
    compare(key, CompareTarget::Create, TargetUnion::CreateRevision(0))
}

/// The key has this value.
pub fn is_value(key: &str, value: &str) -> Compare {
    compare(key, CompareTarget::Value, TargetUnion::Value(value.into()))
}

fn compare(key: &str, target: CompareTarget, union: TargetUnion) -> Compare {
    Compare {
        result: 0, // equal
        target: target.into(),
        key: key.into(),
        target_union: Some(union),
    }
}
