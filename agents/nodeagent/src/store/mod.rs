//! A FUSE pass-through over the folder of a role's data, in a process of its own: what the disk is
//! told to do goes through it, so that a fault can fail it, hold it up or never let it return.
//!
//! It is there only where the role's variables ask for it (`STORE_FAULTS=on`), from before the role
//! starts: a file that was opened before would go past it. It outlives the agent, as the role does,
//! and ends when its folder is unmounted. What it costs without a fault: a change of process and a
//! copy for each read and write that the page cache does not answer, and that `O_DIRECT` is buffered
//! underneath.

pub mod control;
mod files;
mod inodes;
pub mod io_faults;
mod requests;
mod workers;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use fuser::{MountOption, Session};
use nix::fcntl::OFlag;
use nix::sys::resource::{getrlimit, setrlimit, Resource};

use files::PassThrough;
use io_faults::Desk;

/// The name of the mount's source.
pub const SOURCE: &str = "nodeagent-store";

/// The body of `nodeagent store FOLDER SOCKET`: mounts, and serves until it is unmounted.
pub fn run(words: &[String]) -> Result<i32> {
    let [folder, socket] = words else {
        anyhow::bail!("store: expected a folder and a socket (got {})", words.join(" "))
    };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    serve(Path::new(folder), Path::new(socket))?;
    Ok(0)
}

fn serve(folder: &Path, socket: &Path) -> Result<()> {
    let desk = Arc::new(Desk::default());
    // Opened before it is covered: this is the folder underneath.
    let beneath = open_path(folder)?;
    let files = PassThrough::new(beneath, desk.clone())?;
    let options = [
        MountOption::FSName(SOURCE.into()),
        MountOption::AllowOther,
        MountOption::DefaultPermissions,
    ];
    // One that was left by a store that died.
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot listen at {}", socket.display()))?;
    let mut session = Session::new(files, folder, &options)
        .with_context(|| format!("cannot mount a FUSE file system at {}", folder.display()))?;
    thread::spawn(move || control::serve(&listener, &desk));
    let served = session.run();
    let _ = fs::remove_file(socket);
    served.context("the pass-through ended")
}

/// A handle of a file itself, not of its content.
fn open_path(path: &Path) -> Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits());
    options.open(path).with_context(|| format!("cannot open {}", path.display()))
}
