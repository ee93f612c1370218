//! `testkit rate|hold|soak ...`: load and judgement from the command line; JSON on stdout.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use flags::Flags;
use testkit::{hold, rate, soak};

const USAGE: &str = "usage: testkit COMMAND --OPTION VALUE ...
  rate --address A --path P --connections N --rate PER_S --seconds S --seed N
       a client of a fixed rate; latencies from the moment that a request was due
  hold --address A --path P --connections N --pid PID
       idle connections, then all ask at once; the memory of process PID meanwhile
  soak --arbiter PROGRAM --clients FOLDER --threads N --seconds LEAST --requests LEAST
       --seconds-most S --settled S --growth PERCENT_MOST --seed N
       servers that die and settings that change under load, also of the current clients that
       ci/clients made in the folder; exit code 1: a verdict failed";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let run = |options: &Flags| match command.as_str() {
        "rate" => run_rate(options),
        "hold" => run_hold(options),
        "soak" => run_soak(options),
        other => bail!("{other:?}: expected rate, hold or soak\n{USAGE}"),
    };
    let options = Flags::parse(arguments, USAGE).map_err(anyhow::Error::from);
    match options.and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("testkit: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn seconds(flags: &Flags, name: &str) -> Result<Duration> {
    let seconds = flags.required(name)?;
    Duration::try_from_secs_f64(seconds).with_context(|| format!("--{name} {seconds}"))
}

fn run_rate(options: &Flags) -> Result<bool> {
    let report = rate::run(&rate::Plan {
        address: options.required("address")?,
        path: options.required("path")?,
        connections: options.required("connections")?,
        rate_per_s: options.required("rate")?,
        duration: seconds(options, "seconds")?,
        warm_up: Duration::from_millis(500),
        seed: options.required("seed")?,
    })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(true)
}

fn run_hold(options: &Flags) -> Result<bool> {
    let (pid, connections) = (options.required("pid")?, options.required("connections")?);
    let (address, path) = (options.required("address")?, options.required::<String>("path")?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(hold::measure(pid, address, &path, connections))?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(true)
}

fn run_soak(options: &Flags) -> Result<bool> {
    let requests_least = options.required("requests")?;
    let report = soak::run(&soak::Plan {
        arbiter: options.required("arbiter")?,
        threads: options.required("threads")?,
        clients: Some(options.required("clients")?),
        duration: seconds(options, "seconds")?,
        requests_least,
        duration_most: seconds(options, "seconds-most")?,
        settled: seconds(options, "settled")?,
        seed: options.required("seed")?,
    })?;
    println!("{}", serde_json::to_string(&report)?);
    let failed = report.failures(requests_least, options.required("growth")?);
    for failure in &failed {
        eprintln!("testkit: soak: {failure}");
    }
    Ok(failed.is_empty())
}
