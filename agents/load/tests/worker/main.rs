//! The load worker's program and its readers: one program, which builds sooner than one a file.

#![allow(clippy::unwrap_used)]

mod replies;
mod truth;
