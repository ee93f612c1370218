//! `simulator FILE|-`: reads scenarios, simulates them, prints JSON. Exit code 2: bad input.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use simulator::{read_input, simulate_all, Report};

const USAGE: &str = "usage: simulator [--threads N] FILE   (-: standard input)";
const INPUT_BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize)]
struct Output {
    schema: u32,
    reports: Vec<Report>,
    /// Of all scenarios.
    events: u64,
    wall_s: f64,
    threads: usize,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simulator: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> Result<()> {
    let (threads, file) = match arguments.as_slice() {
        [file] => (std::thread::available_parallelism()?, file),
        [flag, threads, file] if flag == "--threads" => {
            let threads: NonZeroUsize = threads
                .parse()
                .context("--threads: expected a number above 0")?;
            (threads, file)
        }
        _ => anyhow::bail!("{USAGE}"),
    };
    let input = read_input(&text(file)?)?;
    let began = Instant::now();
    let reports = simulate_all(&input.scenarios, threads)?;
    let output = Output {
        schema: 1,
        events: reports.iter().map(|report| report.events).sum(),
        reports,
        wall_s: began.elapsed().as_secs_f64(),
        threads: threads.get(),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &output)?;
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
    source
        .take(INPUT_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(|| file.to_owned())?;
    Ok(text)
}
