//! Scenarios through the simulator: one program, which builds sooner than one a file.

#![allow(clippy::unwrap_used)]

mod behaviour;
mod pieces;
mod replay;
mod theory;
