//! The clients as tasks: each does what its state machine says, and tells it what became of it.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::api::lots_client::LotsClient;
use crate::api::Nothing;
use crate::client::calls::{send, Call, Calls, Flight, Reply, Visit};
use crate::client::connections::{connect, Connections};
use crate::client::flights::{Flights, Landing};
use crate::client::plan::{Named, Plan};
use crate::client::record::{Invocation, Records};
use crate::core::call::{Account, Action, Caller, Event, Next, Strategy};
use crate::core::Server;
use crate::etcd::Etcd;
use crate::naming::Naming;
use crate::now_s;

/// Pause between two tries to get a number.
const PAUSE: Duration = Duration::from_millis(50);

/// Carries out the plan until `end` is ready; prints the server of a client when it changes.
///
/// # Errors
/// When the naming service's addresses are none, or the records cannot be written.
pub async fn run(plan: Plan, records: &Path, end: impl Future<Output = ()>) -> Result<()> {
    let records = Records::create(records);
    let records = Arc::new(records.context("cannot write the records")?);
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Arc::new(plan);
    let mut clients = JoinSet::new();
    for client in 0..plan.clients {
        let naming = Naming::new(Etcd::new(&plan.naming)?, &format!("client-{client}"));
        let worker = Client::new(client, &plan, naming);
        clients.spawn(worker.invoke_all(Arc::clone(&records), Arc::clone(&stop)));
    }
    tokio::pin!(end);
    let result = loop {
        tokio::select! {
            () = &mut end, if !stop.load(Ordering::Relaxed) => {
                stop.store(true, Ordering::Relaxed);
            }
            result = clients.join_next() => match result {
                Some(result) => result??,
                None => break Ok(()),
            },
        }
    };
    records.flush()?;
    result
}

struct Client {
    /// Number among this program's clients.
    number: i32,
    /// Number that the servers gave the client; no other client has it.
    id: i32,
    plan: Arc<Plan>,
    naming: Arc<Naming>,
    connections: Arc<Connections>,
    /// The one in use.
    channel: Option<(Server, Channel)>,
    /// The requests of a call that is late.
    late: Flights,
    /// The last reply, and whether it can be right.
    reply: Option<Reply>,
    background: JoinSet<()>,
}

impl Client {
    fn new(number: i32, plan: &Arc<Plan>, naming: Naming) -> Self {
        let naming = Arc::new(naming);
        let connections = Connections::new(plan.strategy == Named::Heartbeat);
        let mut background = JoinSet::new();
        let (own_connections, own_naming) = (Arc::clone(&connections), Arc::clone(&naming));
        match plan.strategy {
            Named::Primary | Named::Cached | Named::Arbiter => {}
            Named::Open => drop(background.spawn(own_connections.refresh(own_naming))),
            Named::Watched | Named::Hedged | Named::Heartbeat => {
                drop(background.spawn(own_connections.follow(own_naming)));
            }
        }
        Self {
            number,
            id: 0,
            plan: Arc::clone(plan),
            naming,
            connections,
            channel: None,
            late: Flights::default(),
            reply: None,
            background,
        }
    }

    async fn invoke_all(mut self, records: Arc<Records>, stop: Arc<AtomicBool>) -> Result<()> {
        let mut caller = Caller::new(self.plan.strategy(), self.plan.give_up_s);
        if self.plan.strategy == Named::Hedged {
            caller = caller.hedging();
        }
        self.id = self.own_id(&stop).await;
        let mut visit = Visit::new(self.plan.calls, usize::try_from(self.number)?);
        let mut server = String::new();
        for number in 0..self.plan.invocations {
            if stop.load(Ordering::Relaxed) && visit.is_outside() {
                break;
            }
            let (call, start_s) = (visit.call(), now_s());
            let account = self.invoke(&mut caller, &call, number).await;
            let reply = self.reply.take().filter(|_| account.is_answered);
            let own = Invocation {
                client: self.number,
                id: self.id,
                number,
                method: call.method,
                start_s,
            };
            records.write(&own, &account, reply.as_ref())?;
            let is_right = reply.as_ref().is_some_and(|reply| reply.is_right);
            match is_right || self.plan.calls == Calls::Reads {
                true => visit.advance(),
                false => {
                    self.id = self.own_id(&stop).await;
                    visit.begin_anew();
                }
            }
            let name = reply.map(|reply| reply.server).unwrap_or_default();
            if !name.is_empty() && name != server {
                println!("{} {name}", self.number);
                server = name;
            }
            tokio::time::sleep(Duration::from_secs_f64(self.plan.gap_s)).await;
        }
        self.background.shutdown().await;
        Ok(())
    }

    /// A number that no other client has, of whichever server answers; 0 once it is to stop.
    async fn own_id(&mut self, stop: &AtomicBool) -> i32 {
        while !stop.load(Ordering::Relaxed) {
            for server in self.all_servers().await {
                let Some(channel) = connect(&server, self.patience()).await else {
                    continue;
                };
                let mut lots = LotsClient::new(channel);
                let reply = lots.get_client_id(Nothing::default());
                if let Ok(Ok(reply)) = tokio::time::timeout(self.patience(), reply).await {
                    return reply.into_inner().value;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        0
    }

    /// Makes one invocation, to its end.
    async fn invoke(&mut self, caller: &mut Caller, call: &Call, number: i64) -> Account {
        let mut step = caller.invoke(now_s());
        loop {
            let late_after_s = caller.late_after_s().filter(|_| call.method.is_read());
            let event = self.carry_out(&step, call, number, late_after_s).await;
            match caller.handle(event, now_s()) {
                Next::Action(next) => step = next,
                Next::Over(account) => {
                    self.late = Flights::default();
                    return account;
                }
            }
        }
    }

    async fn carry_out(
        &mut self,
        step: &Action,
        call: &Call,
        number: i64,
        late_after_s: Option<f64>,
    ) -> Event {
        match step {
            Action::Ask(server) => self.ask(server, call, number, late_after_s).await,
            Action::Hedge(second) => self.hedge(second.as_ref(), call, number).await,
            // A naming service that does not answer knows nobody.
            Action::NamePrimary => {
                Event::Named(self.naming.primary_server().await.unwrap_or_default())
            }
            Action::NameAll => Event::Named(self.all_servers().await),
            Action::Lock => self.locked().await,
            Action::Open(server) => self.open(server).await,
            Action::Wait(wait_s) => {
                tokio::time::sleep(Duration::from_secs_f64(*wait_s)).await;
                Event::Waited
            }
        }
    }

    /// Returns the servers of the naming service, or the arbiter in front of them.
    async fn all_servers(&mut self) -> Vec<Server> {
        match self.plan.front() {
            Some(arbiter) => vec![arbiter],
            None => self.naming.servers().await.unwrap_or_default().0,
        }
    }

    /// The lock is held just long enough to see who is open; a broken one is open no more.
    async fn locked(&mut self) -> Event {
        let mut open = self.connections.lock().await;
        if !self.late.are_under_way() {
            if let Some((broken, _)) = self.channel.take() {
                open.forget(&broken);
            }
        }
        let candidates = self.connections.candidates(&open);
        Event::Locked(candidates)
    }

    async fn open(&mut self, server: &Server) -> Event {
        let Some(channel) = connect(server, self.patience()).await else {
            return Event::Refused;
        };
        if let Strategy::Open = self.plan.strategy() {
            let mut open = self.connections.lock().await;
            self.connections.keep(&mut open, server.clone(), channel.clone());
        }
        self.channel = Some((server.clone(), channel));
        Event::Opened
    }

    async fn ask(
        &mut self,
        server: &Server,
        call: &Call,
        number: i64,
        late_after_s: Option<f64>,
    ) -> Event {
        let Some(channel) = self.channel_to(server).await else {
            return Event::Failed;
        };
        self.channel = Some((server.clone(), channel.clone()));
        let mut flights = Flights::of(self.send(channel, call, number), self.patience());
        let late_after = late_after_s.map(Duration::from_secs_f64);
        let landing = tokio::select! {
            landing = flights.land(late_after) => landing,
            () = self.connections.suspicion(server) => Landing::Failed,
        };
        if matches!(landing, Landing::Late) {
            self.late = flights;
        }
        self.event_of(landing, Event::Answered)
    }

    /// The late call is sent to a second server too; without one the late server is left when it is
    /// suspected.
    async fn hedge(&mut self, second: Option<&Server>, call: &Call, number: i64) -> Event {
        let mut flights = std::mem::take(&mut self.late);
        let mut target = None;
        if let Some(server) = second {
            if let Some(channel) = self.channel_to(server).await {
                flights.add(self.send(channel.clone(), call, number), self.patience());
                target = Some((server.clone(), channel));
            }
        }
        let landing = match (&target, &self.channel) {
            (None, Some((late, _))) => tokio::select! {
                landing = flights.land(None) => landing,
                () = self.connections.suspicion(late) => Landing::Failed,
            },
            _ => flights.land(None).await,
        };
        if let Landing::Answered(_, false) = landing {
            self.channel = target;
        }
        self.event_of(landing, Event::LateAnswered)
    }

    /// Parameters: `by_first`, what a reply to the first request is.
    fn event_of(&mut self, landing: Landing, by_first: Event) -> Event {
        match landing {
            Landing::Answered(reply, is_first) => {
                self.reply = Some(reply);
                match is_first {
                    true => by_first,
                    false => Event::Answered,
                }
            }
            Landing::Refused(status) => {
                tracing::warn!("a server refused a request for what it is: {status}");
                self.reply = Some(Reply::default());
                Event::Answered
            }
            Landing::Failed => Event::Failed,
            Landing::Late => Event::Late,
        }
    }

    async fn channel_to(&mut self, server: &Server) -> Option<Channel> {
        match &self.channel {
            Some((of, channel)) if of == server => Some(channel.clone()),
            _ => self.connections.lock().await.channel(server),
        }
    }

    fn send(&self, channel: Channel, call: &Call, number: i64) -> Flight {
        send(channel, call.clone(), self.id, number)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.plan.patience_s)
    }
}
