//! Options of a command line: `--NAME VALUE ...`.

use std::collections::HashMap;
use std::str::FromStr;

/// Wrong usage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Options and their values.
pub struct Flags(HashMap<String, String>);

impl Flags {
    /// Reads options, which have to stand in `usage`.
    pub fn parse(words: impl IntoIterator<Item = String>, usage: &str) -> Result<Self, Usage> {
        let mut flags = HashMap::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").unwrap_or("");
            if name.is_empty() || !usage.contains(&format!("--{name} ")) {
                return Err(Usage(format!("{word}: expected an option of the usage")));
            }
            let missing = || Usage(format!("--{name}: expected a value (got none)"));
            flags.insert(name.to_owned(), words.next().ok_or_else(missing)?);
        }
        Ok(Self(flags))
    }

    /// The value, if there is one.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>, Usage> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        let value = text.parse().map(Some);
        value.map_err(|_| Usage(format!("--{name}: expected another value (got {text})")))
    }

    /// The value, or this one.
    pub fn or<T: FromStr>(&self, name: &str, default: T) -> Result<T, Usage> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// The value, which has to be there.
    pub fn required<T: FromStr>(&self, name: &str) -> Result<T, Usage> {
        let missing = || Usage(format!("--{name}: expected a value (got none)"));
        self.get(name)?.ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_usage_names_its_option() {
        let parse =
            |text: &str| Flags::parse(text.split(' ').map(str::to_owned), "--a N --b TEXT ");
        let flags = parse("--a 1 --b x").unwrap();
        assert_eq!((flags.get("a"), flags.or("c", 7)), (Ok(Some(1)), Ok(7)));
        let errors = [
            parse("--c 1").err(),
            parse("a 1").err(),
            parse("--a").err(),
            flags.required::<u8>("b").err(),
            flags.required::<u8>("c").err(),
        ];
        let prefixes = ["--c: ", "a: ", "--a: ", "--b: ", "--c: "];
        for (error, name) in errors.into_iter().zip(prefixes) {
            assert!(error.unwrap().0.starts_with(name), "{name}");
        }
    }
}
