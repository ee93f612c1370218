//! The library that is loaded into a role whose variables ask for it (`CALL_FAULTS=on`), and the
//! file by which it is told which calls to alter: `preload/calls.c` has the same layout.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};

use super::processes;
use crate::config::Config;

/// The role's variable.
const WANTED: &str = "CALL_FAULTS";
/// The variable that tells the library its file.
const CONTROL: &str = "SPARECRAFT_CALLS";
const PRELOAD: &str = "LD_PRELOAD";
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calls.so"));
const CONTROL_BYTES: usize = 48;
const COUNTS_AT: u64 = 32;

/// Calls to alter, and their treatment, in the library's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alteration {
    pub calls: u32,
    pub harm: u32,
    pub error: u32,
    pub share: f64,
    pub seed: u64,
}

/// Calls of that kind, and those of them that were altered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: u64,
    pub alterations: u64,
}

/// The library and its control file.
#[derive(Debug)]
pub struct Calls {
    library: PathBuf,
    control: PathBuf,
}

impl Calls {
    /// The library's files on this machine; nothing is written yet.
    pub fn new(config: &Config) -> Calls {
        Calls::under(&config.state_dir)
    }

    /// The file in which the role's processes count.
    pub fn control(&self) -> &Path {
        &self.control
    }

    fn under(directory: &Path) -> Calls {
        Calls { library: directory.join("calls.so"), control: directory.join("calls.control") }
    }

    /// Prepares the start of the role: adds its variables for the library, if the role wants it.
    pub fn settle(&self, variables: &mut BTreeMap<String, String>) -> Result<()> {
        if variables.get(WANTED).is_some_and(|value| value == "on") {
            self.write()?;
            let name = |path: &Path| path.to_string_lossy().into_owned();
            variables.insert(PRELOAD.into(), name(&self.library));
            variables.insert(CONTROL.into(), name(&self.control));
        }
        Ok(())
    }

    fn write(&self) -> Result<()> {
        // Processes may have the old one mapped: it is replaced, not written over.
        let draft = self.library.with_extension("new");
        fs::write(&draft, LIBRARY)
            .and_then(|()| fs::set_permissions(&draft, Permissions::from_mode(0o755)))
            .and_then(|()| fs::rename(&draft, &self.library))
            .with_context(|| format!("cannot write {}", self.library.display()))?;
        if !self.control.exists() {
            // The role's processes count in it, whoever they run as.
            fs::write(&self.control, [0; CONTROL_BYTES])
                .and_then(|()| fs::set_permissions(&self.control, Permissions::from_mode(0o666)))
                .with_context(|| format!("cannot write {}", self.control.display()))?;
        }
        Ok(())
    }

    /// Checks that a library can be loaded into programs here and counts their calls.
    pub fn can(directory: &Path) -> Result<()> {
        let trial = Calls::under(directory);
        fs::create_dir_all(directory)?;
        trial.write()?;
        trial.alter(&Alteration { calls: 1, harm: 5, error: 5, share: 0.0, seed: 0 })?;
        let reading = Command::new("dd")
            .args(["if=/dev/null", "count=1", "status=none"])
            .env(PRELOAD, &trial.library)
            .env(CONTROL, &trial.control)
            .output()
            .context("cannot run dd")?;
        let count = trial.counts()?.calls;
        fs::remove_dir_all(directory)?;
        let stderr = String::from_utf8_lossy(&reading.stderr).into_owned();
        ensure!(count > 0, "a library that was loaded counted no call: {}", stderr.trim());
        Ok(())
    }

    /// True if a process has loaded the library; a static one has not.
    pub fn is_in(&self, pid: i32) -> bool {
        let maps = processes::maps(pid);
        processes::find(pid).is_some() && maps.contains(&*self.library.to_string_lossy())
    }

    /// Alters these calls from now on, and resets the counts.
    pub fn alter(&self, alteration: &Alteration) -> Result<()> {
        let file = self.open()?;
        file.write_all_at(&[0; CONTROL_BYTES], 0)?;
        let mut fields = [alteration.harm, alteration.error, 0].map(u32::to_ne_bytes).concat();
        fields.extend(threshold(alteration.share).to_ne_bytes());
        fields.extend(alteration.seed.to_ne_bytes());
        file.write_all_at(&fields, 4)?;
        // Last, for it is what the library looks at first.
        file.write_all_at(&alteration.calls.to_ne_bytes(), 0).context("the library's control file")
    }

    /// Alters no calls from now on; without a file none ever was.
    pub fn leave(&self) -> Result<()> {
        if !self.control.exists() {
            return Ok(());
        }
        self.open()?.write_all_at(&0_u32.to_ne_bytes(), 0).context("the library's control file")
    }

    /// Counts since the last change.
    pub fn counts(&self) -> Result<Counts> {
        let mut bytes = [0; 16];
        self.open()?.read_exact_at(&mut bytes, COUNTS_AT)?;
        let counts = u128::from_ne_bytes(bytes);
        Ok(Counts { calls: counts as u64, alterations: (counts >> 64) as u64 })
    }

    fn open(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .open(&self.control)
            .with_context(|| format!("cannot open {}", self.control.display()))
    }
}

/// Threshold below which a number from 0 to 2^64 - 1 falls with this probability.
fn threshold(share: f64) -> u64 {
    (share * 2_f64.powi(64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_alters_the_asked_calls_of_a_program_and_counts_them() {
        let directory = tempfile::tempdir().unwrap();
        let calls = Calls::under(directory.path());
        let mut variables = BTreeMap::from([(WANTED.to_owned(), "on".to_owned())]);
        calls.settle(&mut variables).unwrap();
        let all = Alteration { calls: 1, harm: 5, error: 5, share: 1.0, seed: 0 };
        let reads = || {
            let mut dd = Command::new("dd");
            dd.args(["if=/etc/hostname", "status=none"]).envs(&variables);
            dd.output().unwrap().status.success()
        };
        assert!(reads());
        calls.alter(&all).unwrap();
        assert!(!reads());
        let counts = calls.counts().unwrap();
        assert!(counts.calls > 0 && counts.alterations == counts.calls, "{counts:?}");
        calls.leave().unwrap();
        assert!(reads());
        assert_eq!(calls.counts().unwrap(), counts);
    }

    #[test]
    fn a_role_that_did_not_ask_is_told_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut variables = BTreeMap::new();
        Calls::under(directory.path()).settle(&mut variables).unwrap();
        assert!(variables.is_empty());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_whole_share_is_every_call_and_none_is_none() {
        assert_eq!((threshold(1.0), threshold(0.0)), (u64::MAX, 0));
        assert_eq!(threshold(0.5), 1 << 63);
    }
}
