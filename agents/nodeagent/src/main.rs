//! The node agent: process 1 in a machine. It runs the role, reports its state, sends host metrics,
//! injects faults and undoes them.
//!
//! Read `engine.rs` first (the life of a fault), then `faults/mod.rs` (the trait behind which they
//! are).

mod agent;
mod api;
mod body;
mod clock;
mod config;
mod engine;
mod faults;
mod influx;
mod init;
mod journal;
mod machine;
mod meter;
mod metrics;
mod readiness;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use nix::sys::signal::SigSet;
use nix::unistd::{getpid, setsid};

const CONFIG_VARIABLE: &str = "SPARECRAFT_AGENT_CONFIG";
const CONFIG_DEFAULT: &str = "/etc/sparecraft/agent.toml";
const HELP: &str = "\
nodeagent: runs a machine's role, injects faults and undoes them

  nodeagent [--config FILE]   serve; default $SPARECRAFT_AGENT_CONFIG, then
                              /etc/sparecraft/agent.toml; as process 1
                              also restart a dead agent and reap orphans
  nodeagent --openapi         print the API's description
  nodeagent --kinds           print the kinds of faults and their parameters
  nodeagent --version
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let log = std::env::var(logging::VARIABLE).ok();
    if let Err(error) = logging::begin(log.as_deref()) {
        eprintln!("nodeagent: {error}");
        return ExitCode::from(2);
    }
    match dispatch(&arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::from(1)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<i32> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--help" | "-h"] => println!("{HELP}"),
        ["--version"] => println!("nodeagent {}", env!("CARGO_PKG_VERSION")),
        ["--openapi"] => println!("{}", api::openapi_json()?),
        ["--kinds"] => println!("{}", faults::kinds_json()?),
        ["exec-role", rest @ ..] => return exec_role(rest),
        ["neighbour", rest @ ..] => {
            let (joins, program) = joins_and_program(rest)?;
            return faults::run_neighbour(&joins, &program);
        }
        ["stream", rest @ ..] => return faults::stream(rest),
        ["store", rest @ ..] => {
            let (joins, words) = joins_and_program(rest)?;
            setsid().context("cannot make a session for the store")?;
            machine::cgroup::join(&joins)?;
            return store::run(&words);
        }
        [] | ["--config", _] if getpid().as_raw() == 1 => return init::run(arguments),
        [] => return serve(std::env::var(CONFIG_VARIABLE).unwrap_or(CONFIG_DEFAULT.into()).into()),
        ["--config", file] => return serve(file.into()),
        _ => {
            eprintln!("nodeagent: `{}` is not understood\n\n{HELP}", words.join(" "));
            return Ok(init::EXIT_USAGE);
        }
    }
    Ok(0)
}

fn serve(file: PathBuf) -> Result<i32> {
    // Process 1 waits for signals with all of them blocked, and its child inherits that.
    SigSet::empty().thread_set_mask().context("cannot unblock signals")?;
    let config = match config::Config::load(&file) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("nodeagent: {error:#}");
            return Ok(init::EXIT_USAGE);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(agent::run(config))?;
    Ok(0)
}

/// The role's first process: leader of a session of its own, in the agent's cgroup, with what a role
/// may do and no more, then `start.sh`.
fn exec_role(words: &[&str]) -> Result<i32> {
    use std::os::unix::process::CommandExt;
    let (closed, words) = machine::closed::Closed::parse(words)?;
    let (joins, program) = joins_and_program(words)?;
    setsid().context("cannot make a session for the role")?;
    machine::cgroup::join(&joins)?;
    closed.close()?;
    machine::confine::confine()?;
    let Some((name, arguments)) = program.split_first() else {
        bail!("exec-role: no program given")
    };
    let error = std::process::Command::new(name).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {name}"))
}

/// `--join FILE ... -- PROGRAM ARGUMENT ...`, as the agent calls its own parts.
fn joins_and_program(words: &[&str]) -> Result<(Vec<PathBuf>, Vec<String>)> {
    let split =
        words.iter().position(|word| *word == "--").context("expected -- before the program")?;
    let mut joins = Vec::new();
    for pair in words[..split].chunks(2) {
        match pair {
            ["--join", file] => joins.push(PathBuf::from(file)),
            _ => bail!("expected --join FILE (got {})", pair.join(" ")),
        }
    }
    Ok((joins, words[split + 1..].iter().map(|word| (*word).to_owned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_own_calls_are_parsed() {
        let (joins, program) =
            joins_and_program(&["--join", "/a", "--join", "/b", "--", "x", "--", "y"]).unwrap();
        assert_eq!(joins, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(program, ["x", "--", "y"]);
        assert!(joins_and_program(&["x"]).is_err());
        assert!(joins_and_program(&["--join", "--", "x"]).is_err());
    }
}
