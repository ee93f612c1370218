//! `parking_lot`: a server of the parking lots, the replication manager, clients, or their audit.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use flags::{Flags, Usage};
use parking_lot::etcd::Etcd;
use parking_lot::naming::Naming;
use tokio::signal::unix::{signal, SignalKind};

const USAGE: &str = "\
usage: parking_lot serve --name NAME --listen IP:PORT --address HOST:PORT --naming HOST:PORT,...
                  --database mysql://USER:PASSWORD@HOST:PORT/NAME [--padding BYTES] [--lease-s S]
       parking_lot manage --name NAME --listen IP:PORT --naming HOST:PORT,... [--detection-ms MS]
       parking_lot invoke --plan FILE --records FILE
       parking_lot audit --records FILE --database mysql://USER:PASSWORD@HOST:PORT/NAME

serve   a server of the parking lots; --lease-s 0 (the default): it stays registered until removed
manage  the replication manager; whoever connects to --listen is hung up on, and knows that it runs
invoke  clients, as the plan says; ends with it or on SIGTERM
audit   after that: their records against the ledger and the cars, as JSON";

/// A server that does not answer the manager for so long is dead.
const CHECK_PATIENCE: Duration = Duration::from_millis(500);
/// A start that shows nothing for so long is ordered again [s].
const START_LIMIT_S: f64 = 5.0;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("parking_lot: {error:#}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let log = std::env::var(logging::VARIABLE).ok();
    if let Err(error) = logging::begin(log.as_deref()) {
        eprintln!("parking_lot: {error}");
        return ExitCode::from(2);
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("parking_lot: {error:#}");
            ExitCode::from(1)
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(options: &Options) -> Result<()> {
    let end = termination()?;
    match options.part.as_str() {
        "serve" => serve(options, end).await,
        "manage" => manage(options, end).await,
        "audit" => audit(options).await,
        _ => invoke(options, end).await,
    }
}

async fn serve(options: &Options, end: impl Future<Output = ()>) -> Result<()> {
    let settings = parking_lot::server::Settings {
        listen: options.flags.required("listen")?,
        address: options.flags.required("address")?,
        database: options.flags.required("database")?,
        padding: options.flags.or("padding", 0)?,
        lease_s: options.flags.or("lease-s", 0)?,
    };
    parking_lot::server::serve(settings, options.naming()?, end).await
}

async fn manage(options: &Options, end: impl Future<Output = ()>) -> Result<()> {
    let settings = parking_lot::manager::Settings {
        detection: Duration::from_millis(options.flags.or("detection-ms", 1500)?),
        patience: CHECK_PATIENCE,
        start_limit_s: START_LIMIT_S,
    };
    let naming = options.naming()?;
    let listen: std::net::SocketAddr = options.flags.required("listen")?;
    let listener = tokio::net::TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("cannot listen at {listen}"))?;
    let accepting = async {
        loop {
            drop(listener.accept().await);
        }
    };
    tokio::select! {
        () = parking_lot::manager::manage(settings, &naming, &naming) => {}
        () = accepting => {}
        () = end => {}
    }
    Ok(())
}

async fn invoke(options: &Options, end: impl Future<Output = ()>) -> Result<()> {
    let file: String = options.flags.required("plan")?;
    let records: String = options.flags.required("records")?;
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let plan = serde_json::from_str(&text).with_context(|| format!("{file}: expected a plan"))?;
    parking_lot::client::run(plan, Path::new(&records), end).await
}

async fn audit(options: &Options) -> Result<()> {
    let records: String = options.flags.required("records")?;
    let database: String = options.flags.required("database")?;
    let findings = parking_lot::audit::audit(&database, Path::new(&records)).await?;
    println!("{}", serde_json::to_string(&findings)?);
    Ok(())
}

/// Waits for SIGTERM or SIGINT.
fn termination() -> Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

/// The part, and its options by name.
struct Options {
    part: String,
    flags: Flags,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, Usage> {
        let parts = "expected serve, manage, invoke or audit";
        let missing = || Usage(parts.to_owned());
        let (part, rest) = words.split_first().ok_or_else(missing)?;
        let options = match part.as_str() {
            "serve" => "--name --listen --address --naming --database --padding --lease-s ",
            "manage" => "--name --listen --naming --detection-ms ",
            "invoke" => "--plan --records ",
            "audit" => "--records --database ",
            other => return Err(Usage(format!("{parts} (got {other})"))),
        };
        Ok(Self { part: part.clone(), flags: Flags::parse(rest.iter().cloned(), options)? })
    }

    fn naming(&self) -> Result<Naming> {
        let addresses: String = self.flags.required("naming")?;
        let name: String = self.flags.required("name")?;
        Ok(Naming::new(Etcd::new(&addresses)?, &name))
    }
}
