//! Folders that are read-only for a role: the agent's programs, settings, records and cgroups, and
//! the role's own scripts.
//!
//! A role that is root could write there, and with the agent's program or an undo record it would
//! get the agent's rights. So the role's first process, before it gives up its capabilities, makes
//! its own mount name space in which these folders are read-only. Calls that would change this are
//! refused from then on (`system_calls`). Mounts that it inherits from the agent, such as the
//! store, are there from its start.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};

const READ_ONLY: &str = "--read-only";
const WRITABLE: &str = "--writable";
const NONE: Option<&str> = None;

/// Folders that are closed to the role, and files in them that stay open: its processes count calls
/// in one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    pub read_only: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

impl Closed {
    /// Existing folders as words of `exec-role`.
    pub fn words(&self) -> Vec<PathBuf> {
        let words = |name: &'static str, paths: &[PathBuf]| -> Vec<PathBuf> {
            let existing = paths.iter().filter(|path| path.exists());
            existing.flat_map(|path| [name.into(), path.clone()]).collect()
        };
        let mut all = words(WRITABLE, &self.writable);
        all.extend(words(READ_ONLY, &self.read_only));
        all
    }

    /// Parses `words`; returns the words after them too.
    pub fn parse<'a, 'b>(mut words: &'a [&'b str]) -> Result<(Closed, &'a [&'b str])> {
        let mut closed = Closed::default();
        while let Some(name) = words.first().filter(|name| [READ_ONLY, WRITABLE].contains(name)) {
            let Some(path) = words.get(1) else {
                bail!("a path expected after `{name}`");
            };
            let paths =
                if *name == READ_ONLY { &mut closed.read_only } else { &mut closed.writable };
            paths.push(PathBuf::from(path));
            words = &words[2..];
        }
        Ok((closed, words))
    }

    /// Closes them for the calling process and what it starts.
    pub fn close(&self) -> Result<()> {
        if self.read_only.is_empty() {
            return Ok(());
        }
        unshare(CloneFlags::CLONE_NEWNS).context("cannot make the role's mount name space")?;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)
            .context("cannot keep the role's mounts apart")?;
        // A mounted file cannot be moved away, to put another in its place.
        let above: BTreeSet<&Path> = self
            .read_only
            .iter()
            .flat_map(|folder| folder.ancestors().skip(1))
            .filter(|folder| folder.parent().is_some())
            .collect();
        for folder in above {
            bind(folder)?;
        }
        // A mount of its own is not closed with the folder that it lies in.
        for file in &self.writable {
            bind(file)?;
        }
        for folder in &self.read_only {
            bind(folder)?;
            let closed = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount(NONE, folder, NONE, closed, NONE)
                .with_context(|| format!("cannot close {}", folder.display()))?;
        }
        Ok(())
    }
}

fn bind(path: &Path) -> Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(path), path, NONE, flags, NONE)
        .with_context(|| format!("cannot mount {} over itself", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_read_from_its_words_and_what_is_not_there_has_none() {
        let closed = Closed {
            read_only: vec!["/usr".into(), "/none/such".into()],
            writable: vec!["/etc/passwd".into()],
        };
        let words = closed.words();
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["--writable", "/etc/passwd", "--read-only", "/usr"]);
        let all = [&words[..], &["--join", "/a", "--", "x"]].concat();
        let (closed, rest) = Closed::parse(&all).unwrap();
        assert_eq!(closed.read_only, [PathBuf::from("/usr")]);
        assert_eq!(closed.writable, [PathBuf::from("/etc/passwd")]);
        assert_eq!(rest, ["--join", "/a", "--", "x"]);
        assert!(Closed::parse(&["--read-only"]).is_err());
    }
}
