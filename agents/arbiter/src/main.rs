//! `arbiter --config FILE [--check]`: the proxy in front of a tier.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use arbiter::config::Config;
use arbiter::server::{thread_runtime, Arbiter};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use tokio::signal::unix::{signal, SignalKind};

const USAGE: &str = "usage: arbiter --config FILE [--check]
  --config FILE  the configuration (TOML); agents/arbiter/README.md has an example
  --check        only say whether the configuration is good
  --policies     print the protocols and policies that there are (JSON)
  --version      print the version";

enum Command {
    Run { config: PathBuf, check: bool },
    Print(String),
}

fn main() -> ExitCode {
    let (path, check) = match command(std::env::args().skip(1)) {
        Ok(Command::Run { config, check }) => (config, check),
        Ok(Command::Print(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&format!("{error}\n{USAGE}"), 2),
    };
    let config = match Config::read(&path) {
        Ok(config) => config,
        Err(error) => return fail(&error.to_string(), 2),
    };
    if check {
        return match config.admin_acceptor() {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("{}: {error}", path.display()), 2),
        };
    }
    let log = std::env::var(logging::VARIABLE).ok();
    if let Err(error) = logging::begin(log.as_deref()) {
        return fail(&error.to_string(), 2);
    }
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::from(3)
        }
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    eprintln!("arbiter: {message}");
    ExitCode::from(code)
}

fn command(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments;
    let (mut config, mut check) = (None, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--config" => config = Some(arguments.next().ok_or("--config: expected a file")?),
            "--check" => check = true,
            "--version" => {
                return Ok(Command::Print(format!("arbiter {}", env!("CARGO_PKG_VERSION"))))
            }
            "--policies" => {
                return Ok(Command::Print(format!("{:#}", arbiter::contract::policies())))
            }
            "--help" | "-h" => return Ok(Command::Print(USAGE.to_owned())),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    let config = config.ok_or("expected --config FILE")?.into();
    Ok(Command::Run { config, check })
}

fn serve(config: Config) -> Result<()> {
    let runtime = thread_runtime().context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate()).context("cannot catch SIGTERM")?;
        let mut interrupted = signal(SignalKind::interrupt()).context("cannot catch SIGINT")?;
        let (tier, protocol) = (config.tier.clone(), config.protocol);
        let arbiter = Arbiter::bind(config).await?;
        let arbiter = arbiter.within_descriptors(descriptors()?);
        tracing::info!(
            "arbiter of tier {tier:?} ({protocol:?}) on {}, admin on {}",
            arbiter.client_address()?,
            arbiter.admin_address()?
        );
        let stop = async {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        };
        arbiter.run(stop).await
    })
}

/// Raises the limit of descriptors as far as the system allows, and returns it.
fn descriptors() -> Result<usize> {
    let limit = Resource::RLIMIT_NOFILE;
    let (now, most) = getrlimit(limit).context("cannot read the limit of open files")?;
    let raised = setrlimit(limit, most, most).is_ok();
    Ok(usize::try_from(if raised { most } else { now }).unwrap_or(usize::MAX))
}
