//! The agents' log lines, on standard error: text, or JSON where it is asked for.
//!
//! A line has a level, a message and fields, such as a fault's id; libraries write them by `tracing`,
//! and a program's `main` calls [`begin`] once.

use std::io;

use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::Subscriber;

/// The environment variable for [`begin`]: a level and a form, by a comma, or one of them.
pub const VARIABLE: &str = "SPARECRAFT_LOG";

/// A word that is neither a level nor a form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{VARIABLE}: not a level (off, error, warn, info, debug, trace) or a form (text, json) (got {0:?})")]
pub struct Unknown(String);

/// Format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    level: LevelFilter,
    json: bool,
}

impl Form {
    fn parse(text: &str) -> Result<Self, Unknown> {
        let mut form = Self { level: LevelFilter::INFO, json: false };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match (word, word.parse()) {
                ("json", _) => form.json = true,
                ("text", _) => form.json = false,
                (_, Ok(level)) => form.level = level,
                (_, Err(_)) => return Err(Unknown(word.to_owned())),
            }
        }
        Ok(form)
    }
}

/// Begins to write lines, in the form that the variable says; `info,text` where it says nothing.
/// A second call changes nothing.
pub fn begin(variable: Option<&str>) -> Result<(), Unknown> {
    let form = Form::parse(variable.unwrap_or_default())?;
    let lines =
        Subscriber::builder().with_max_level(form.level).with_writer(io::stderr).with_target(false);
    // An error says that it was called before.
    let _ = match form.json {
        true => lines.json().try_init(),
        false => lines.with_ansi(false).try_init(),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_has_a_level_and_a_form_in_any_order() {
        for (text, level, json) in [
            ("", LevelFilter::INFO, false),
            ("json", LevelFilter::INFO, true),
            ("debug", LevelFilter::DEBUG, false),
            ("warn,json", LevelFilter::WARN, true),
            ("json, off", LevelFilter::OFF, true),
        ] {
            assert_eq!(Form::parse(text), Ok(Form { level, json }), "{text}");
        }
    }

    #[test]
    fn another_word_is_refused() {
        for text in ["loud", "info,xml"] {
            assert!(Form::parse(text).is_err(), "{text}");
        }
    }
}
