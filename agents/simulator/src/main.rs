//! `simulator FILE|-`: reads scenarios, simulates them, prints JSON. `--replay TRACE`: makes an
//! arbiter's calls again; exit code 1 where a decision differs. Exit code 2: bad input.

use std::io::{BufReader, Read, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use simulator::{arrivals_s, read_input, replay, simulate_all, Arrivals, Report};

const USAGE: &str = "usage: simulator [--threads N] FILE   (-: standard input)
       simulator --replay TRACE           the decisions of an arbiter's trace, again
       simulator --arrivals TRACE         its arrivals, for a scenario";
const INPUT_BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize)]
struct Output {
    schema: u32,
    reports: Vec<Report>,
    /// Events of all scenarios.
    events: u64,
    wall_s: f64,
    threads: usize,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("simulator: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> Result<ExitCode> {
    let (threads, file) = match arguments.as_slice() {
        [flag, trace] if flag == "--replay" => return replay_trace(trace),
        [flag, trace] if flag == "--arrivals" => {
            let times_s = arrivals_s(trace, open(trace)?)?;
            return print(&Arrivals::Recorded { times_s }).map(|()| ExitCode::SUCCESS);
        }
        [file] => (std::thread::available_parallelism()?, file),
        [flag, threads, file] if flag == "--threads" => {
            let threads: NonZeroUsize =
                threads.parse().context("--threads: expected a number above 0")?;
            (threads, file)
        }
        _ => anyhow::bail!("{USAGE}"),
    };
    let scenarios = read_input(&text(file)?)?;
    let start = Instant::now();
    let reports = simulate_all(&scenarios, threads)?;
    let output = Output {
        schema: 1,
        events: reports.iter().map(|report| report.events).sum(),
        reports,
        wall_s: start.elapsed().as_secs_f64(),
        threads: threads.get(),
    };
    print(&output).map(|()| ExitCode::SUCCESS)
}

fn replay_trace(trace: &str) -> Result<ExitCode> {
    let result = replay(trace, open(trace)?)?;
    print(&result)?;
    Ok(ExitCode::from(u8::from(result.first_difference.is_some())))
}

fn open(file: &str) -> Result<BufReader<std::fs::File>> {
    let file = std::fs::File::open(file).with_context(|| file.to_owned())?;
    Ok(BufReader::new(file))
}

fn print(output: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, output)?;
    writeln!(out)?;
    Ok(())
}

fn text(file: &str) -> Result<String> {
    let mut text = String::new();
    let source: Box<dyn Read> = if file == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).with_context(|| file.to_owned())?)
    };
    source.take(INPUT_BYTES_MAX).read_to_string(&mut text).with_context(|| file.to_owned())?;
    Ok(text)
}
