//! `testkit rate|hold|soak ...`: load and judgement from the command line; JSON on stdout.

use std::collections::HashMap;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use testkit::{hold, rate, soak};

const USAGE: &str = "usage: testkit COMMAND --OPTION VALUE ...
  rate --address A --path P --connections N --rate PER_S --seconds S --seed N
       a client of a fixed rate; latencies from the moment that a request was due
  hold --address A --path P --connections N --pid PID
       idle connections, then all ask at once; the memory of process PID meanwhile
  soak --arbiter PROGRAM --threads N --seconds LEAST --requests LEAST --seconds-most S
       --settled S --growth PERCENT_MOST --seed N
       servers that die and settings that change under load; exit code 1: a verdict failed";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = Options::parse(arguments).and_then(|options| match command.as_str() {
        "rate" => run_rate(&options),
        "hold" => run_hold(&options),
        "soak" => run_soak(&options),
        other => bail!("{other:?}: expected rate, hold or soak\n{USAGE}"),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("testkit: {error:#}");
            ExitCode::from(2)
        }
    }
}

struct Options(HashMap<String, String>);

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = HashMap::new();
        while let Some(name) = arguments.next() {
            let Some(name) = name.strip_prefix("--") else {
                bail!("{name:?}: expected --OPTION\n{USAGE}");
            };
            let value = arguments
                .next()
                .with_context(|| format!("--{name}: no value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Self(options))
    }

    fn get<T: FromStr>(&self, name: &str) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let text = self
            .0
            .get(name)
            .with_context(|| format!("--{name} is missing\n{USAGE}"))?;
        text.parse().with_context(|| format!("--{name} {text}"))
    }

    fn seconds(&self, name: &str) -> Result<Duration> {
        let seconds = self.get(name)?;
        Duration::try_from_secs_f64(seconds).with_context(|| format!("--{name} {seconds}"))
    }
}

fn run_rate(options: &Options) -> Result<bool> {
    let report = rate::run(&rate::Plan {
        address: options.get("address")?,
        path: options.get("path")?,
        connections: options.get("connections")?,
        rate_per_s: options.get("rate")?,
        duration: options.seconds("seconds")?,
        warm_up: Duration::from_millis(500),
        seed: options.get("seed")?,
    })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(true)
}

fn run_hold(options: &Options) -> Result<bool> {
    let (pid, connections) = (options.get("pid")?, options.get("connections")?);
    let (address, path) = (options.get("address")?, options.get::<String>("path")?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(hold::measure(pid, address, &path, connections))?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(true)
}

fn run_soak(options: &Options) -> Result<bool> {
    let requests_least = options.get("requests")?;
    let report = soak::run(&soak::Plan {
        arbiter: options.get("arbiter")?,
        threads: options.get("threads")?,
        duration: options.seconds("seconds")?,
        requests_least,
        duration_most: options.seconds("seconds-most")?,
        settled: options.seconds("settled")?,
        seed: options.get("seed")?,
    })?;
    println!("{}", serde_json::to_string(&report)?);
    let failed = report.failures(requests_least, options.get("growth")?);
    for failure in &failed {
        eprintln!("testkit: soak: {failure}");
    }
    Ok(failed.is_empty())
}
