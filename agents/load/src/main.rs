//! `loadworker`: sends a block of load; see the crate's documentation.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use loadworker::contract;
use loadworker::locust::{self, NoMaster};
use loadworker::protocol::Protocol;
use loadworker::refused::Refused;

const USAGE: &str = "\
loadworker: an open loop of load

  loadworker --plan FILE --records FILE --control-fd N
      a block as experiments/load/README.md has it; the runner starts it so
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
            eprintln!("loadworker: {error:#}");
            ExitCode::from(match () {
                () if error.is::<NoMaster>() => 3,
                () if error.is::<Refused>() || error.is::<Usage>() => 2,
                () => 1,
            })
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}\n\n{USAGE}")]
struct Usage(String);

fn dispatch() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--help") => println!("{USAGE}"),
        Some("--protocols") => println!("{}", spoken()?),
        _ => return run(&Options::parse(words)?),
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
    Ok(serde_json::to_string_pretty(&Spoken {
        schema: 1,
        protocols,
    })?)
}

fn run(options: &Options) -> Result<()> {
    let plan: PathBuf = options.required("plan")?;
    if let Some(control) = options.get("control-fd")? {
        return contract::carry_out(&plan, &options.required::<PathBuf>("records")?, control);
    }
    let seconds = options.get("connect-timeout")?.unwrap_or(60.0);
    locust::work(&locust::Options {
        host: options.required("master")?,
        port: options.get("port")?.unwrap_or(5557),
        plan,
        records: options.get("records")?,
        connect_timeout: Duration::try_from_secs_f64(seconds)
            .with_context(|| format!("--connect-timeout {seconds}"))?,
    })
}

struct Options(HashMap<String, String>);

impl Options {
    const NAMES: [&'static str; 6] = [
        "plan",
        "records",
        "control-fd",
        "master",
        "port",
        "connect-timeout",
    ];

    fn parse(words: Vec<String>) -> Result<Self> {
        let mut options = HashMap::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").unwrap_or("");
            match (Self::NAMES.contains(&name), words.next()) {
                (true, Some(value)) => options.insert(name.to_owned(), value),
                _ => bail!(Usage(format!("{word}: expected an option and its value"))),
            };
        }
        Ok(Self(options))
    }

    fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => bail!(Usage(format!("--{name} {text}: expected another value"))),
        }
    }

    fn required<T: FromStr>(&self, name: &str) -> Result<T> {
        match self.get(name)? {
            Some(value) => Ok(value),
            None => bail!(Usage(format!("--{name} is missing"))),
        }
    }
}
