//! `loadworker`: sends a block of load; see the crate's documentation.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use flags::{Flags, Usage};
use loadworker::contract;
use loadworker::locust::{self, NoMaster};
use loadworker::protocol::Protocol;
use loadworker::refused::Refused;

const USAGE: &str = "\
loadworker: an open loop of load

  loadworker --plan FILE --records FILE --control-fd N
      a block by the contract of experiments/load/workers/README.md; the runner starts it so
  loadworker --plan FILE --master HOST [--port 5557] [--records FILE] [--connect-timeout 60]
      a worker of a Locust master; the totals of each block go to stdout, a line of JSON
  loadworker --protocols
      those that it speaks (contracts/load-protocols.json)

Exit code 0: sent; 1: failed on the way; 2: wrong usage or plan; 3: no master found.";

fn main() -> ExitCode {
    let log = std::env::var(logging::VARIABLE).ok();
    if let Err(error) = logging::begin(log.as_deref()) {
        eprintln!("loadworker: {error}");
        return ExitCode::from(2);
    }
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let usage = match error.is::<Usage>() {
                true => format!("\n\n{USAGE}"),
                false => String::new(),
            };
            eprintln!("loadworker: {error:#}{usage}");
            ExitCode::from(match () {
                () if error.is::<NoMaster>() => 3,
                () if error.is::<Refused>() || error.is::<Usage>() => 2,
                () => 1,
            })
        }
    }
}

fn dispatch() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--help") => println!("{USAGE}"),
        Some("--protocols") => println!("{}", spoken()?),
        _ => return run(&Flags::parse(words, USAGE)?),
    }
    Ok(())
}

fn spoken() -> Result<String> {
    #[derive(serde::Serialize)]
    struct Spoken {
        schema: u8,
        protocols: Vec<&'static str>,
    }
    let protocols = Protocol::names().collect();
    Ok(serde_json::to_string_pretty(&Spoken { schema: 1, protocols })?)
}

fn run(options: &Flags) -> Result<()> {
    let plan: PathBuf = options.required("plan")?;
    if let Some(control) = options.get("control-fd")? {
        return contract::carry_out(&plan, &options.required::<PathBuf>("records")?, control);
    }
    let seconds = options.or("connect-timeout", 60.0)?;
    locust::work(&locust::Options {
        host: options.required("master")?,
        port: options.or("port", 5557)?,
        plan,
        records: options.get("records")?,
        connect_timeout: Duration::try_from_secs_f64(seconds)
            .with_context(|| format!("--connect-timeout {seconds}"))?,
    })
}
