//! The undo journal: one file per fault, on disk before the fault is, gone after it is undone.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
        let (file, draft) = (
            self.file(&entry.id),
            self.directory.join(format!("{}.new", entry.id)),
        );
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

    /// What an earlier agent left, oldest first. Unreadable records are returned as errors.
    pub fn entries(&self) -> Result<Vec<Result<Entry>>> {
        let listing = fs::read_dir(&self.directory).with_context(|| {
            format!("cannot read the undo journal {}", self.directory.display())
        })?;
        let mut files: Vec<PathBuf> = listing
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .collect();
        files.sort();
        Ok(files.iter().map(|file| read_entry(file)).collect())
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
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text)
        .with_context(|| format!("the undo record {} is broken", file.display()))
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

    #[test]
    fn records_survive_and_are_listed_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().join("journal")).unwrap();
        journal.write(&entry("f2")).unwrap();
        journal.write(&entry("f1")).unwrap();
        let again = Journal::open(directory.path().join("journal")).unwrap();
        let ids: Vec<String> = again
            .entries()
            .unwrap()
            .into_iter()
            .map(|e| e.unwrap().id)
            .collect();
        assert_eq!(ids, ["f1", "f2"]);
    }

    #[test]
    fn removing_twice_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        journal.write(&entry("f1")).unwrap();
        journal.remove("f1").unwrap();
        journal.remove("f1").unwrap();
        assert!(journal.entries().unwrap().is_empty());
    }

    #[test]
    fn a_broken_record_is_reported_and_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        fs::write(directory.path().join("f0.json"), "{").unwrap();
        journal.write(&entry("f1")).unwrap();
        let all = journal.entries().unwrap();
        assert!(all[0].as_ref().unwrap_err().to_string().contains("f0.json"));
        assert_eq!(all[1].as_ref().unwrap().id, "f1");
    }
}
