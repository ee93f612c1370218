//! Clients that invoke in a closed loop, until they are ended or have done what they were to do.

pub mod calls;
pub mod connections;
mod flights;
pub mod plan;
pub mod record;
mod run;

pub use run::run;
