//! `press`: one node; see the crate's documentation.

use std::process::ExitCode;

use anyhow::Result;
use flags::Usage;
use press::config::{Config, USAGE};
use tokio::signal::unix::{signal, SignalKind};

/// Files that are read at a time.
const READERS: usize = 8;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let log = std::env::var(logging::VARIABLE).ok();
    if let Err(error) = logging::begin(log.as_deref()) {
        eprintln!("press: {error}");
        return ExitCode::from(2);
    }
    match run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("press: {error:#}");
            if !error.is::<Usage>() {
                return ExitCode::from(1);
            }
            eprintln!("\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(words: Vec<String>) -> Result<()> {
    let config = Config::parse(words)?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(READERS).build()?;
    let local = tokio::task::LocalSet::new();
    let served = local.block_on(&runtime, async {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let end = async {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        press::server::run(config, end).await
    });
    // A read of a hung disk is not waited for.
    runtime.shutdown_background();
    served
}
