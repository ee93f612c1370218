//! The comparison of the replies of a read's replicas, as configurations and the
//! admin API write it, and what `/v1/stats` says of it.

use policy::impossible::in_range;
use policy::Impossible;
use serde::{Deserialize, Serialize};

/// The handling of the replies of a read's replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompareMode {
    /// The first good reply is delivered; the others are thrown away.
    #[default]
    Off,
    /// The first good reply is delivered; the others are compared with it afterwards.
    Count,
    /// A reply is delivered once a majority of replicas gave the same.
    Refuse,
}

impl CompareMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Count, Self::Refuse];

    /// One line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Off => "the first good reply is delivered, the others are not looked at",
            Self::Count => {
                "the first good reply is delivered, the others are compared afterwards and \
                 differences counted"
            }
            Self::Refuse => {
                "a reply is held until a majority of the replicas gave the same; without one the \
                 client gets an error"
            }
        }
    }
}

/// Table `[compare]` of the arbiter's configuration, body of `PUT /v1/compare`; a key left out has
/// its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compare {
    /// The handling of replies.
    pub mode: CompareMode,
    /// Largest body (Redis, memcached: reply of a run of commands) that is compared.
    pub bytes_max: usize,
    /// HTTP: header fields that may differ, besides those of the connection; lower case.
    pub ignored_fields: Vec<String>,
}

/// A body up to this size is compared unless the configuration says otherwise.
const BYTES_MAX: usize = 1 << 20;
const BYTES_MAX_MOST: usize = 64 << 20;
const FIELDS_MOST: usize = 64;

/// Fields that differ between servers that agree: who and when, and validators made of a file's time.
const IGNORED: [&str; 10] = [
    "age",
    "date",
    "etag",
    "expires",
    "last-modified",
    "server",
    "set-cookie",
    "via",
    "x-request-id",
    "x-sparecraft-server",
];

impl Default for Compare {
    fn default() -> Self {
        Self {
            mode: CompareMode::Off,
            bytes_max: BYTES_MAX,
            ignored_fields: IGNORED.map(str::to_owned).to_vec(),
        }
    }
}

/// Refuses impossible values.
pub fn validate(compare: &Compare) -> Result<(), Impossible> {
    check(compare).map_err(|refusal| refusal.within("compare"))
}

fn check(compare: &Compare) -> Result<(), Impossible> {
    in_range("bytes_max", compare.bytes_max, 1..=BYTES_MAX_MOST, " bytes")?;
    let names = &compare.ignored_fields;
    in_range("ignored_fields", names.len(), 0..=FIELDS_MOST, " names")?;
    for (place, name) in names.iter().enumerate() {
        if !is_field_name(name) {
            let key = format!("ignored_fields[{place}]");
            let expected = "the name of a header field in lower case";
            return Err(Impossible::new(key, expected, format!("{name:?}")));
        }
    }
    Ok(())
}

fn is_field_name(name: &str) -> bool {
    let is_plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
    };
    !name.is_empty() && name.len() <= 256 && name.bytes().all(is_plain)
}

/// Reads whose replies were to be compared, by what came of it. With Redis and memcached a run of
/// pipelined reads is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Reads of which at least two replies were compared: `equal` and `different`.
    pub compared: u64,
    /// All compared replies were the same.
    pub equal: u64,
    /// Some of the compared replies differed.
    pub different: u64,
    /// Fewer than two replies could be compared: the others failed, were not sent, or were too
    /// large.
    pub not_compared: u64,
    /// Replies larger than `compare.bytes_max`, or than there was memory for.
    pub too_large: u64,
    /// Reads whose client got an error because no majority agreed (`refuse`).
    pub refused: u64,
}

/// Results of one server's replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCompared {
    /// Replies of the server that were compared with others.
    pub compared: u64,
    /// Replies that a majority of the others contradicted.
    pub minority: u64,
    /// Replies of a difference without a majority: with two replies nobody knows which is wrong.
    pub disputed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_off_and_can_work() {
        assert_eq!(Compare::default().mode, CompareMode::Off);
        assert_eq!(validate(&Compare::default()), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused_by_its_key() {
        type Spoil = fn(&mut Compare);
        let cases: [(&str, Spoil); 4] = [
            ("bytes_max", |compare| compare.bytes_max = 0),
            ("bytes_max", |compare| compare.bytes_max = BYTES_MAX_MOST + 1),
            ("ignored_fields[10]", |compare| compare.ignored_fields.push("Date".into())),
            ("ignored_fields", |compare| compare.ignored_fields = vec!["a".into(); 65]),
        ];
        for (key, spoil) in cases {
            let mut bad = Compare::default();
            spoil(&mut bad);
            assert_eq!(validate(&bad).unwrap_err().key, format!("compare.{key}"));
        }
    }
}
