//! Runs `tc`, `nft` and `ip` with a bound on their time, and turns a failure into one line of text.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Runs a program and returns its output; an exit code other than 0 is an error with its message.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    run_with_input(program, arguments, "")
}

/// Runs a program as `run` does, with text on its standard input.
pub fn run_with_input(program: &str, arguments: &[&str], input: &str) -> Result<String> {
    let text = format!("{program} {}", arguments.join(" "));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{program}`; is it installed?"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading its input says why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let pid = Pid::from_raw(child.id().try_into()?);
    let (sender, result) = mpsc::channel();
    let waiter = thread::spawn(move || {
        let mut out = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            let _ = stdout.read_to_string(&mut out);
        }
        let mut err = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = stderr.read_to_string(&mut err);
        }
        let _ = sender.send(child.wait().map(|status| (status, out, err)));
    });
    let result = result.recv_timeout(TIME_LIMIT);
    if result.is_err() {
        let _ = kill(pid, Signal::SIGKILL);
    }
    let _ = waiter.join();
    match result {
        Err(_) => bail!("`{text}` did not end within {} s and was killed", TIME_LIMIT.as_secs()),
        Ok(sender) => {
            let (status, out, err) = sender.with_context(|| format!("cannot wait for `{text}`"))?;
            if !status.success() {
                bail!("`{text}` failed ({status}): {}", one_line(&err));
            }
            Ok(out)
        }
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_programs_own_words() {
        let error = run("sh", &["-c", "echo no such qdisc >&2; exit 2"]).unwrap_err().to_string();
        assert!(error.contains("no such qdisc") && error.contains("exit status: 2"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run("no-such-program", &[]).unwrap_err().to_string();
        assert!(error.contains("no-such-program"), "{error}");
    }

    #[test]
    fn input_reaches_the_program() {
        assert_eq!(run_with_input("cat", &[], "a\nb\n").unwrap(), "a\nb\n");
    }
}
