//! The undo journal: one file per fault, on disk before the injection, removed after the undo. A
//! file that is no record of a fault is moved to a separate folder for inspection.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::agent::LEASE_S_MAX;

/// All that is needed to undo a fault, also by another agent process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: String,
    pub kind: String,
    pub resource: String,
    pub parameters: Value,
    pub lease_s: f64,
    pub written_at_ms: u64,
    /// The kind's own record.
    pub record: Value,
}

impl Entry {
    /// Rest of its lease at this Unix time, at most the whole lease.
    pub fn time_left(&self, wall_ms: u64) -> Duration {
        let ends_at_ms = self.written_at_ms.saturating_add((self.lease_s * 1e3) as u64);
        let rest = Duration::from_millis(ends_at_ms.saturating_sub(wall_ms));
        rest.min(Duration::from_secs_f64(LEASE_S_MAX))
    }
}

/// Maximum size of a record, larger than any request.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;
const SET_ASIDE: &str = "broken";

/// A directory of undo records.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
}

impl Journal {
    /// Opens the directory, making it if need be.
    pub fn open(directory: PathBuf) -> Result<Journal> {
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make the undo journal {}", directory.display()))?;
        Ok(Journal { directory })
    }

    /// Returns when the record, and its name in the directory, are on the disk.
    pub fn write(&self, entry: &Entry) -> Result<()> {
        let (file, draft) =
            (self.file(&entry.id), self.directory.join(format!("{}.new", entry.id)));
        let result = write_synced(&draft, &serde_json::to_vec_pretty(entry)?)
            .and_then(|()| fs::rename(&draft, &file))
            .and_then(|()| self.sync());
        result.with_context(|| format!("cannot write the undo record {}", file.display()))
    }

    /// Forgets a fault that is undone.
    pub fn remove(&self, id: &str) -> Result<()> {
        let file = self.file(id);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)
                .with_context(|| format!("cannot remove the undo record {}", file.display())),
            _ => self.sync().context("cannot sync the undo journal"),
        }
    }

    /// The records that an earlier agent left, oldest first, and those set aside, with the reason:
    /// what cannot be read, and what `check` refuses.
    pub fn entries(
        &self,
        check: impl Fn(&Entry) -> Result<()>,
    ) -> Result<(Vec<Entry>, Vec<String>)> {
        let (mut entries, mut broken) = (Vec::new(), Vec::new());
        for file in self.files()? {
            match read_entry(&file).and_then(|entry| check(&entry).map(|()| entry)) {
                Ok(entry) => entries.push(entry),
                Err(error) => broken.push(self.set_aside(&file, &error)),
            }
        }
        Ok((entries, broken))
    }

    /// Sets a file aside; returns a message about it.
    fn set_aside(&self, file: &Path, cause: &anyhow::Error) -> String {
        let folder = self.directory.join(SET_ASIDE);
        let place = folder.join(file.file_name().unwrap_or_default());
        let result = fs::create_dir_all(&folder)
            .and_then(|()| fs::rename(file, &place))
            .and_then(|()| self.sync());
        let file = file.display();
        match result {
            Ok(()) => format!("the undo record {file} is set aside in {SET_ASIDE}: {cause:#}"),
            Err(error) => {
                format!("the undo record {file} cannot be set aside ({error}): {cause:#}")
            }
        }
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        let listing = fs::read_dir(&self.directory).with_context(|| {
            format!("cannot read the undo journal {}", self.directory.display())
        })?;
        let mut files: Vec<PathBuf> = listing
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        files.sort();
        Ok(files)
    }

    fn file(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn sync(&self) -> std::io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

fn write_synced(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(file)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn read_entry(file: &Path) -> Result<Entry> {
    let metadata = fs::symlink_metadata(file)?;
    ensure!(
        metadata.is_file() && metadata.len() <= RECORD_BYTES_MAX,
        "a file of at most {RECORD_BYTES_MAX} bytes expected"
    );
    let entry: Entry = serde_json::from_slice(&fs::read(file)?)?;
    let name = file.file_stem().unwrap_or_default();
    ensure!(name == entry.id.as_str(), "it is the record of fault {}", entry.id);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(id: &str) -> Entry {
        Entry {
            id: id.into(),
            kind: "net.loss".into(),
            resource: "net.loss".into(),
            parameters: json!({"percent": 1}),
            lease_s: 5.0,
            written_at_ms: 7,
            record: json!({}),
        }
    }

    fn ids(journal: &Journal) -> Vec<String> {
        let (entries, broken) = journal.entries(|_| Ok(())).unwrap();
        assert_eq!(broken, Vec::<String>::new());
        entries.into_iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn records_survive_and_are_listed_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().join("journal")).unwrap();
        journal.write(&entry("f2")).unwrap();
        journal.write(&entry("f1")).unwrap();
        let successor = Journal::open(directory.path().join("journal")).unwrap();
        assert_eq!(ids(&successor), ["f1", "f2"]);
    }

    #[test]
    fn removing_twice_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        journal.write(&entry("f1")).unwrap();
        journal.remove("f1").unwrap();
        journal.remove("f1").unwrap();
        assert_eq!(ids(&journal), Vec::<String>::new());
    }

    #[test]
    fn broken_records_are_set_aside_and_hide_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        for id in ["f1", "f2", "f9"] {
            journal.write(&entry(id)).unwrap();
        }
        fs::write(at("f3.json"), "{").unwrap();
        fs::write(at("f4.json"), [0xff, 0xfe]).unwrap();
        fs::create_dir(at("f5.json")).unwrap();
        // Undone under another's name it would take the other's record with it.
        fs::rename(at("f9.json"), at("f6.json")).unwrap();
        let too_long = File::create(at("f7.json")).unwrap();
        too_long.set_len(RECORD_BYTES_MAX + 1).unwrap();
        let check = |entry: &Entry| {
            ensure!(entry.id != "f2", "no kind of ours");
            Ok(())
        };
        let (entries, broken) = journal.entries(check).unwrap();
        assert_eq!(entries, [entry("f1")]);
        for (text, id) in broken.iter().zip(2..) {
            assert!(text.contains(&format!("f{id}.json is set aside")), "{text}");
            assert!(at(&format!("broken/f{id}.json")).exists());
        }
        assert_eq!(broken.len(), 6);
        assert_eq!(ids(&journal), ["f1"]);
    }
}
