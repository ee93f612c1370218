//! The clients as tasks: each does what its state machine says, and tells it what became of it.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::api::lots_client::LotsClient;
use crate::api::{Car, Entry, Nothing};
use crate::client::connections::{connect, Connections};
use crate::client::plan::{Method, Named, Plan};
use crate::client::record::Records;
use crate::core::call::{Account, Caller, Heard, Next, Step, Strategy};
use crate::core::Server;
use crate::etcd::Etcd;
use crate::naming::Naming;
use crate::now_s;
use crate::server::{CLIENT, NUMBER};

/// The lot that cars enter.
const LOT: i32 = 1;

/// Carries out the plan until `ended` does; standard output says who is asked, as it changes.
///
/// # Errors
/// Where the naming service's addresses are none, the records cannot be written, or a server
/// refuses a request for what it is.
pub async fn run(plan: Plan, records: &Path, ended: impl Future<Output = ()>) -> Result<()> {
    let records = Records::create(records);
    let records = Arc::new(records.context("cannot write the records")?);
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Arc::new(plan);
    let mut clients = JoinSet::new();
    for client in 0..plan.clients {
        let naming = Naming::new(Etcd::new(&plan.naming)?, &format!("client-{client}"));
        let one = Client::new(client, &plan, naming);
        clients.spawn(one.invoke_all(Arc::clone(&records), Arc::clone(&stop)));
    }
    tokio::pin!(ended);
    let done = loop {
        tokio::select! {
            () = &mut ended, if !stop.load(Ordering::Relaxed) => {
                stop.store(true, Ordering::Relaxed);
            }
            done = clients.join_next() => match done {
                Some(done) => done??,
                None => break Ok(()),
            },
        }
    };
    records.flush()?;
    done
}

struct Client {
    number: i32,
    plan: Arc<Plan>,
    naming: Arc<Naming>,
    connections: Arc<Connections>,
    /// The one in use.
    channel: Option<(Server, Channel)>,
    background: JoinSet<()>,
}

impl Client {
    fn new(number: i32, plan: &Arc<Plan>, naming: Naming) -> Self {
        let naming = Arc::new(naming);
        let connections = Connections::new(plan.strategy == Named::Heartbeat);
        let mut background = JoinSet::new();
        let (held, asked) = (Arc::clone(&connections), Arc::clone(&naming));
        match plan.strategy {
            Named::Primary | Named::Cached => {}
            Named::Open => drop(background.spawn(held.refresh(asked))),
            Named::Watched | Named::Heartbeat => drop(background.spawn(held.follow(asked))),
        }
        Self {
            number,
            plan: Arc::clone(plan),
            naming,
            connections,
            channel: None,
            background,
        }
    }

    async fn invoke_all(mut self, records: Arc<Records>, stop: Arc<AtomicBool>) -> Result<()> {
        let mut caller = Caller::new(self.plan.strategy(), self.plan.give_up_s);
        let mut server = String::new();
        for number in 0..self.plan.invocations {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let start_s = now_s();
            let account = self.invoke(&mut caller, number).await?;
            records.write(self.number, number, start_s, &account)?;
            if let Some(now) = account.server.filter(|now| now.name != server) {
                println!("{} {}", self.number, now.name);
                server = now.name;
            }
            tokio::time::sleep(Duration::from_secs_f64(self.plan.gap_s)).await;
        }
        self.background.shutdown().await;
        Ok(())
    }

    /// One invocation, to its end.
    async fn invoke(&mut self, caller: &mut Caller, number: i64) -> Result<Account> {
        let mut step = caller.invoke(now_s());
        loop {
            let heard = self.carry_out(&step, number).await?;
            match caller.hear(heard, now_s()) {
                Next::Step(next) => step = next,
                Next::Over(account) => return Ok(account),
            }
        }
    }

    async fn carry_out(&mut self, step: &Step, number: i64) -> Result<Heard> {
        Ok(match step {
            Step::Ask(server) => self.ask(server, number).await?,
            // A naming service that does not answer knows nobody.
            Step::NamePrimary => {
                Heard::Named(self.naming.primary_server().await.unwrap_or_default())
            }
            Step::NameAll => {
                let all = self.naming.servers().await;
                Heard::Named(all.map(|(servers, _)| servers).unwrap_or_default())
            }
            Step::Lock => self.locked().await,
            Step::Open(server) => self.open(server).await,
            Step::Wait(wait_s) => {
                tokio::time::sleep(Duration::from_secs_f64(*wait_s)).await;
                Heard::Waited
            }
        })
    }

    /// The lock is held just long enough to see who is open; the broken one is open no more.
    async fn locked(&mut self) -> Heard {
        let mut open = self.connections.lock().await;
        if let Some((broken, _)) = self.channel.take() {
            open.forget(&broken);
        }
        let candidates = self.connections.candidates(&open);
        Heard::Locked(candidates)
    }

    async fn open(&mut self, server: &Server) -> Heard {
        let Some(channel) = connect(server, self.patience()).await else {
            return Heard::Refused;
        };
        if let Strategy::Open = self.plan.strategy() {
            let mut open = self.connections.lock().await;
            self.connections
                .keep(&mut open, server.clone(), channel.clone());
        }
        self.channel = Some((server.clone(), channel));
        Heard::Opened
    }

    async fn ask(&mut self, server: &Server, number: i64) -> Result<Heard> {
        let Some(channel) = self.channel_to(server).await else {
            return Ok(Heard::Failed);
        };
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.patience(), self.send(channel, number)) => answer,
            () = self.connections.suspected(server) => return Ok(Heard::Failed),
        };
        match answer {
            Ok(Ok(())) => Ok(Heard::Answered),
            Ok(Err(status)) if is_refusal(status.code()) => {
                Err(status).context("a server refused a request for what it is")
            }
            Ok(Err(_)) | Err(_) => Ok(Heard::Failed),
        }
    }

    async fn channel_to(&mut self, server: &Server) -> Option<Channel> {
        if !matches!(&self.channel, Some((of, _)) if of == server) {
            let channel = self.connections.lock().await.channel(server)?;
            self.channel = Some((server.clone(), channel));
        }
        self.channel.as_ref().map(|(_, channel)| channel.clone())
    }

    async fn send(&self, channel: Channel, number: i64) -> Result<(), Status> {
        let mut lots = LotsClient::new(channel);
        let client = self.number;
        match (self.plan.method, number % 2) {
            (Method::GetLots, _) => drop(
                lots.get_lots(self.asked(Nothing::default(), number))
                    .await?,
            ),
            (Method::Park, 0) => {
                let entry = Entry { client, lot: LOT };
                drop(lots.enter_lot(self.asked(entry, number)).await?);
            }
            (Method::Park, _) => {
                drop(lots.exit_lot(self.asked(Car { client }, number)).await?);
            }
        }
        Ok(())
    }

    fn asked<T>(&self, message: T, number: i64) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert(CLIENT, self.number.into());
        request.metadata_mut().insert(NUMBER, number.into());
        request
    }

    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.plan.patience_s)
    }
}

/// Whether another server would say the same.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::Unimplemented
    )
}
