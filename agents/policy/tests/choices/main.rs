//! The policies' rules: one program, which builds sooner than one a file.

#![allow(clippy::unwrap_used)]

mod decisions;
mod invariants;
mod literal_pool;
