//! Servers by host name: what the name means, asked again and again.
//!
//! One server may have several addresses; connections go to them in turn, and to the next where one
//! is not reached. The system resolves (`/etc/hosts`, DNS, as `nsswitch.conf` says). When a name
//! means something else the server keeps its place, its tokens and what is known of it; what is under
//! way goes on, and no connection that was made before is used for anything new. When a name cannot
//! be resolved its last addresses go on.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use policy::ServerId;
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wire::arbiter::Address;

use crate::tier::{Member, Tier};

/// Longer than this, an answer is not waited for.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Asks once for every name, all at the same time.
pub async fn resolve_all(tier: &Arc<Tier>) {
    let mut asking = JoinSet::new();
    for (server, member) in tier.members() {
        let tier = Arc::clone(tier);
        asking.spawn(async move {
            if let Address::Name { host, port } = &member.address {
                let answer = timeout(LOOKUP_MAX, look_up(host, *port)).await;
                let answer = answer.unwrap_or_else(|late| Err(late.into()));
                if let Err(error) = take_over(&tier, server, &member, answer) {
                    say_failed(&member, &error.to_string(), &mut true);
                }
            }
        });
    }
    while asking.join_next().await.is_some() {}
}

/// Asks for every name of these servers each `resolve_every_ms`, until the server is gone.
pub fn watch(tier: &Arc<Tier>, members: Vec<(ServerId, Arc<Member>)>, at_once: bool) {
    for (server, member) in members {
        if matches!(member.address, Address::Name { .. }) {
            tokio::spawn(watch_one(Arc::clone(tier), server, member, at_once));
        }
    }
}

async fn watch_one(tier: Arc<Tier>, server: ServerId, member: Arc<Member>, at_once: bool) {
    let Address::Name { host, port } = &member.address else {
        return;
    };
    let (mut was_good, mut is_due) = (true, at_once);
    loop {
        if !std::mem::replace(&mut is_due, false) {
            sleep(tier.config().resolve_every()).await;
        }
        if !tier.is_member(server, &member) {
            return;
        }
        let mut looking = pin!(look_up(host, *port));
        let answer = match timeout(LOOKUP_MAX, &mut looking).await {
            Ok(answer) => answer,
            Err(_) => {
                say_failed(&member, "no answer within 5 s", &mut was_good);
                // It goes on in a thread, which ends before another is begun.
                looking.await
            }
        };
        match take_over(&tier, server, &member, answer) {
            Ok(()) => was_good = true,
            Err(error) => say_failed(&member, &error.to_string(), &mut was_good),
        }
    }
}

async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let answer: Vec<_> = lookup_host((host, port)).await?.collect();
    match answer.is_empty() {
        true => Err(io::ErrorKind::NotFound.into()),
        false => Ok(answer),
    }
}

fn take_over(
    tier: &Arc<Tier>,
    server: ServerId,
    member: &Arc<Member>,
    answer: io::Result<Vec<SocketAddr>>,
) -> io::Result<()> {
    if member.peers().set(answer?) {
        let addresses: Vec<_> = member
            .peers()
            .all()
            .iter()
            .map(SocketAddr::to_string)
            .collect();
        let (name, address) = (&member.name, &member.address);
        tracing::info!("{name}: {address} is {}", addresses.join(", "));
        tier.moved(server);
    }
    Ok(())
}

/// Once for each time that it begins to fail.
fn say_failed(member: &Member, why: &str, was_good: &mut bool) {
    if std::mem::replace(was_good, false) {
        let (name, address) = (&member.name, &member.address);
        tracing::warn!("{name}: {address} cannot be resolved, what it meant before goes on: {why}");
    }
}
