//! The environment of the role's scripts: `role.env`, which came with the machine, and
//! `settings.env`, which the API writes. A line is `NAME=value` as a shell would take it: a value may
//! stand in single quotes. Where both files have a name, the setting counts.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Maximum number of settings.
const SETTINGS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 4_096;
/// A single quote within single quotes, for a shell.
const QUOTE: &str = r"'\''";

/// The two files of variables.
#[derive(Debug)]
pub struct Environment {
    role: PathBuf,
    settings: PathBuf,
}

impl Environment {
    /// The two files of `directory`; either may be absent.
    pub fn in_directory(directory: &Path) -> Self {
        Self { role: directory.join("role.env"), settings: directory.join("settings.env") }
    }

    /// The variables of the role's scripts.
    pub fn variables(&self) -> Result<BTreeMap<String, String>> {
        let mut variables = read(&self.role)?;
        variables.extend(self.settings()?);
        Ok(variables)
    }

    /// The variables that the API set.
    pub fn settings(&self) -> Result<BTreeMap<String, String>> {
        read(&self.settings)
    }

    /// Replaces all settings.
    pub fn set(&self, settings: &BTreeMap<String, String>) -> Result<()> {
        if *settings == self.settings()? {
            return Ok(());
        }
        let draft = self.settings.with_extension("env.new");
        let text: String = settings
            .iter()
            .map(|(name, value)| format!("{name}='{}'\n", value.replace('\'', QUOTE)))
            .collect();
        let directory = self.settings.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)
            .and_then(|()| fs::File::create(&draft))
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&draft, &self.settings))
            .with_context(|| format!("cannot write {}", self.settings.display()))
    }
}

/// Refuses settings that would not be one line of the file each.
pub fn check(settings: &BTreeMap<String, String>) -> Result<(), String> {
    if settings.len() > SETTINGS_MAX {
        let count = settings.len();
        return Err(format!("settings: expected at most {SETTINGS_MAX} (got {count})"));
    }
    for (name, value) in settings {
        let mut letters = name.bytes();
        let is_name = letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_');
        if !is_name || name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "settings: expected names of up to {NAME_BYTES_MAX} of A to Z, 0 to 9 and _, a letter \
                 first (got {name:?})"
            ));
        }
        if value.len() > VALUE_BYTES_MAX || value.contains(['\n', '\r', '\0']) {
            return Err(format!("{name}: expected one line of at most {VALUE_BYTES_MAX} bytes"));
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<BTreeMap<String, String>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        result => result.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.into(), unquote(value)));
    Ok(text.lines().filter_map(pair).collect())
}

fn unquote(value: &str) -> String {
    let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.map_or_else(|| value.into(), |inner| inner.replace(QUOTE, "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn settings_are_added_to_the_roles_variables_and_count_before_them() {
        let directory = tempfile::tempdir().unwrap();
        let environment = Environment::in_directory(directory.path());
        assert!(environment.variables().unwrap().is_empty());
        fs::write(directory.path().join("role.env"), "ROLE='it'\\''s redis'\nMODE=a=b\n").unwrap();
        let expected = settings(&[("MODE", "two of 'em"), ("SIZE", "")]);
        environment.set(&expected).unwrap();
        assert_eq!(environment.settings().unwrap(), expected);
        assert_eq!(
            environment.variables().unwrap(),
            settings(&[("MODE", "two of 'em"), ("ROLE", "it's redis"), ("SIZE", "")])
        );
        environment.set(&settings(&[])).unwrap();
        assert_eq!(
            environment.variables().unwrap(),
            settings(&[("MODE", "a=b"), ("ROLE", "it's redis")])
        );
    }

    #[test]
    fn what_is_not_one_line_each_is_refused() {
        assert_eq!(check(&settings(&[("MAXMEMORY_POLICY2", "allkeys lru=1")])), Ok(()));
        let long = ["x"; VALUE_BYTES_MAX + 1].concat();
        for (name, value) in [
            ("", "a"),
            ("a", "a"),
            ("2A", "a"),
            ("A-B", "a"),
            ("A B", "a"),
            ("_A", "a"),
            ("A", "a\nB=1"),
            ("A", "a\0"),
            ("A", &long),
        ] {
            assert!(check(&settings(&[(name, value)])).is_err(), "{name:?}");
        }
        let excess: BTreeMap<_, _> = (0..65).map(|n| (format!("A{n}"), String::new())).collect();
        assert!(check(&excess).is_err());
    }
}
