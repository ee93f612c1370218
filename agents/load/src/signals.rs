//! SIGTERM and SIGINT as a call on a thread, so that nothing is interrupted by them.

use std::thread;

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};

/// Calls `on_end` when the process is told to end. Call it before any thread is started: those that
/// it starts inherit that they are not interrupted.
pub fn on_end(on_end: impl Fn() + Send + 'static) -> Result<()> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    set.thread_block()?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        while set.wait().is_ok() {
            on_end();
        }
    })?;
    Ok(())
}
