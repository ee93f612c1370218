//! The pass-through under the role's data folder, as the agent sees it: started before the role
//! where the role's variables ask for it, and told what to do over its socket.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use nix::mount::{umount2, MntFlags};

use super::cgroup::Cgroups;
use super::memory::is_mounted;
use super::processes::own_program;
use crate::config::Config;
use crate::store::control::{ask, Answer, Request};

/// Environment variable that marks the store's process: it is no part of the role.
pub const STORE_MARK: &str = "SPARECRAFT_STORE";
/// The role's variables.
const WANTED: &str = "STORE_FAULTS";
const FOLDER: &str = "STORE_FOLDER";
/// The folder of a role's data unless it names another.
const FOLDER_DEFAULT: &str = "/opt/sparecraft/data";
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// The agent's side of the pass-through.
#[derive(Debug)]
pub struct Store {
    socket: PathBuf,
    /// File that names the covered folder, for the next agent.
    record: PathBuf,
    cgroups: Arc<Cgroups>,
}

impl Store {
    /// The store of this machine, which may or may not be there.
    pub fn new(config: &Config, cgroups: Arc<Cgroups>) -> Store {
        Store {
            socket: config.state_dir.join("store.sock"),
            record: config.state_dir.join("store.folder"),
            cgroups,
        }
    }

    /// Prepares the start of the role: mounts the pass-through where its variables want it, and
    /// nowhere else.
    pub fn settle(&self, variables: &BTreeMap<String, String>) -> Result<()> {
        let is_wanted = variables.get(WANTED).is_some_and(|value| value == "on");
        if !is_wanted {
            return self.end();
        }
        let folder = variables.get(FOLDER).map_or(FOLDER_DEFAULT, String::as_str);
        let folder = Path::new(folder);
        if self.folder().as_deref() == Some(folder) && self.look("").is_ok() {
            return Ok(());
        }
        self.end()?;
        self.start(folder)
    }

    /// Mounts it over a folder, and returns when it answers.
    pub fn start(&self, folder: &Path) -> Result<()> {
        ensure!(folder.is_dir(), "{} is no folder", folder.display());
        fs::write(&self.record, folder.as_os_str().as_encoded_bytes())
            .with_context(|| format!("cannot write {}", self.record.display()))?;
        let mut command = Command::new(own_program()?);
        command.arg("store");
        for file in self.cgroups.join_files() {
            command.arg("--join").arg(file);
        }
        command.arg("--").arg(folder).arg(&self.socket);
        let child = command.env(STORE_MARK, "1").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut child = child.context("cannot start the store")?;
        let until = Instant::now() + LIMIT;
        while !(is_mounted(folder) && self.look("").is_ok()) {
            if let Some(status) = child.try_wait()? {
                bail!("the store ended at once ({status}); its words are in the agent's log");
            }
            if Instant::now() > until {
                child.kill()?;
                child.wait()?;
                bail!("the store did not answer within {} s", LIMIT.as_secs());
            }
            thread::sleep(PAUSE);
        }
        // A thread of its own reaps it.
        thread::spawn(move || child.wait());
        Ok(())
    }

    /// Unmounts it, and returns when it has ended. Without one it does nothing.
    pub fn end(&self) -> Result<()> {
        let Some(folder) = self.folder() else {
            return Ok(());
        };
        if is_mounted(&folder) {
            umount2(&folder, MntFlags::MNT_DETACH)
                .with_context(|| format!("cannot unmount {}", folder.display()))?;
        }
        let until = Instant::now() + LIMIT;
        while self.look("").is_ok() {
            ensure!(Instant::now() < until, "the store did not end");
            thread::sleep(PAUSE);
        }
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("the store's record")
            }
            _ => Ok(()),
        }
    }

    /// The covered folder, if it is mounted.
    pub fn folder(&self) -> Option<PathBuf> {
        let folder = fs::read_to_string(&self.record).ok()?;
        Some(PathBuf::from(folder))
    }

    /// The counts of the fault in force.
    pub fn look(&self, id: &str) -> Result<Answer> {
        self.ask(&Request::Look(id.into()))
    }

    /// Sends a request to its process.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        ask(&self.socket, request)
    }
}
