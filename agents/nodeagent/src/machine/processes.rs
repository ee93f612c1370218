//! The processes of this machine, read from `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// One line of `/proc/PID/stat`, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub name: String,
    /// `R`, `S`, `D`, `T` (stopped), `Z` (zombie) ...
    pub state: char,
    pub parent: i32,
    pub session: i32,
    /// CPU time that it had, of all its threads.
    pub cpu_ticks: u64,
    pub threads: u32,
    /// Start in clock ticks since boot: with the pid, an identity that is not reused.
    pub start_ticks: u64,
}

impl Process {
    /// Parses `/proc/PID/stat`; the name may contain spaces and brackets.
    pub fn parse(stat: &str) -> Option<Process> {
        let (head, tail) = stat.rsplit_once(')')?;
        let (pid, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        Some(Process {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            cpu_ticks: fields.get(11)?.parse::<u64>().ok()?
                + fields.get(12)?.parse::<u64>().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// True unless it is a zombie or dead. A killed JVM's first thread is a zombie while others
    /// still hold its ports.
    pub fn is_alive(&self) -> bool {
        match self.state {
            'X' | 'x' => false,
            'Z' => self.threads > 1,
            _ => true,
        }
    }

    /// Stopped by a signal.
    pub fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

/// Path of this program, to run another part of it.
pub fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find the agent's own program file")
}

/// The process with this pid, if there is one.
pub fn find(pid: i32) -> Option<Process> {
    Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// All processes that can be seen from here.
pub fn list() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(find)
        .collect()
}

/// True if the process was started with this `NAME=value` in its environment.
pub fn has_environment(pid: i32, marker: &str) -> bool {
    any_variable(pid, |entry| entry == marker.as_bytes())
}

/// True if the process was started with any value of this variable.
pub fn has_variable(pid: i32, name: &str) -> bool {
    let start = format!("{name}=");
    any_variable(pid, |entry| entry.starts_with(start.as_bytes()))
}

fn any_variable(pid: i32, is_meant: impl Fn(&[u8]) -> bool) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|block| block.split(|byte| *byte == 0).any(is_meant))
}

/// Mappings of a process (`/proc/PID/maps`); empty if it is gone. Only its own user may read them.
pub fn maps(pid: i32) -> String {
    let file = format!("/proc/{pid}/maps");
    let own = fs::read_to_string(&file);
    own.or_else(|_| read_as_its_owner(&file)).unwrap_or_default()
}

fn read_as_its_owner(file: &str) -> std::io::Result<String> {
    let owner = fs::metadata(file)?;
    let mut cat = Command::new("cat");
    cat.arg(file).uid(owner.uid()).gid(owner.gid());
    let output = cat.stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// CPU seconds of a process's first thread, to the nanosecond; none where it is gone.
pub fn cpu_s_of_first_thread(pid: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(pid: i32, signal: Signal) -> Result<()> {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => bail!("cannot send {signal} to process {pid}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_parsed() {
        let rest = "0 ".repeat(17);
        let process = Process::parse(&format!("42 (a) (b c) T 7 8 9 {rest}")).unwrap();
        assert_eq!(
            (process.pid, process.name.as_str(), process.state, process.parent, process.session),
            (42, "a) (b c", 'T', 7, 9)
        );
        assert!(process.is_stopped() && process.is_alive());
    }

    /// A child that does not outlive its test.
    struct Killed(std::process::Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_is_alive_until_its_last_thread_has_ended() {
        let script = "import ctypes, threading\n\
                      threading.Thread(target=threading.Event().wait).start()\n\
                      ctypes.CDLL(None).pthread_exit(None)";
        let mut child = Killed(Command::new("python3").args(["-c", script]).spawn().unwrap());
        let pid = i32::try_from(child.0.id()).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while find(pid).unwrap().state != 'Z' {
            assert!(Instant::now() < until && child.0.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(20));
        }
        assert!(find(pid).unwrap().is_alive());
        child.0.kill().unwrap();
        while find(pid).unwrap().is_alive() {
            assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn this_process_finds_itself() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(list().iter().any(|process| process.pid == own));
        assert!(find(own).unwrap().start_ticks > 0);
        assert!(cpu_s_of_first_thread(own).unwrap() > 0.0);
    }

    #[test]
    fn a_marker_is_matched_whole() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env("SPARECRAFT_TEST_MARK", "f1")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // In the midst of its exec a process shows no environment.
        while !has_variable(pid, "PATH") {
            std::thread::yield_now();
        }
        let is_set = has_environment(pid, "SPARECRAFT_TEST_MARK=f1");
        let part = has_environment(pid, "SPARECRAFT_TEST_MARK=f");
        let any = has_variable(pid, "SPARECRAFT_TEST_MARK");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_set && !part && any);
    }
}
