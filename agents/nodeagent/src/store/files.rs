//! The pass-through's access to the folder underneath; `requests.rs` answers the kernel by it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{FileAttr, Request, TimeOrNow};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, AT_FDCWD};
use nix::sys::stat::{utimensat, UtimensatFlags};
use nix::sys::time::TimeSpec;
use nix::unistd::{fchownat, Gid, Uid};

use super::inodes::{kind, Inodes};
use super::io_faults::Desk;
use super::workers::Workers;

/// The folder underneath, its open files and listings.
pub struct PassThrough {
    pub inodes: Inodes,
    pub files: HashMap<u64, Arc<File>>,
    pub folders: HashMap<u64, Vec<Entry>>,
    last_handle: u64,
    pub workers: Workers,
    pub desk: Arc<Desk>,
}

/// One name of a folder.
pub struct Entry {
    pub id: u64,
    pub kind: fuser::FileType,
    pub name: OsString,
}

impl PassThrough {
    /// Over the folder of this handle.
    pub fn new(beneath: File, desk: Arc<Desk>) -> anyhow::Result<PassThrough> {
        Ok(PassThrough {
            inodes: Inodes::new(beneath)?,
            files: HashMap::new(),
            folders: HashMap::new(),
            last_handle: 0,
            workers: Workers::start(desk.clone())?,
            desk,
        })
    }

    fn next_handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    pub fn opened(&self, handle: u64) -> io::Result<Arc<File>> {
        let file = self.files.get(&handle).cloned();
        file.ok_or_else(|| Errno::EBADF.into())
    }

    fn keep(&mut self, file: File) -> u64 {
        let handle = self.next_handle();
        self.files.insert(handle, Arc::new(file));
        handle
    }

    pub fn open_file(&mut self, id: u64, flags: i32) -> io::Result<u64> {
        let file = opening(flags).open(self.inodes.path(id)?)?;
        Ok(self.keep(file))
    }

    /// Gives the file that was just made under this name to the user who asked for it.
    pub fn own(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
    ) -> io::Result<FileAttr> {
        let path = self.inodes.child(parent, name)?;
        let (user, group) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
        let no_follow = AtFlags::AT_SYMLINK_NOFOLLOW;
        fchownat(AT_FDCWD, &path, Some(user), Some(group), no_follow)?;
        self.inodes.look_up(parent, name)
    }

    pub fn create_file(
        &mut self,
        request: &Request<'_>,
        (parent, name): (u64, &OsStr),
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, u64)> {
        let path = self.inodes.child(parent, name)?;
        let file = opening(flags).create_new(true).write(true).mode(mode).open(path)?;
        // The umask is applied already, by the kernel.
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
        let attributes = self.own(request, parent, name)?;
        Ok((attributes, self.keep(file)))
    }

    pub fn read_folder(&mut self, id: u64) -> io::Result<u64> {
        let mut entries = Vec::new();
        for name in [".", ".."] {
            entries.push(Entry { id, kind: fuser::FileType::Directory, name: name.into() });
        }
        for entry in fs::read_dir(self.inodes.path(id)?)? {
            let entry = entry?;
            entries.push(Entry {
                id: entry.ino(),
                kind: kind(entry.file_type()?),
                name: entry.file_name(),
            });
        }
        let handle = self.next_handle();
        self.folders.insert(handle, entries);
        Ok(handle)
    }

    pub fn remove(&mut self, parent: u64, name: &OsStr) -> io::Result<()> {
        let path = self.inodes.child(parent, name)?;
        let metadata = fs::symlink_metadata(&path)?;
        fs::remove_file(&path)?;
        if metadata.nlink() == 1 {
            self.desk.give_back(metadata.len());
        }
        Ok(())
    }

    pub fn resize(&mut self, id: u64, handle: Option<u64>, size: u64) -> io::Result<()> {
        let before = self.inodes.file(id)?.metadata()?.len();
        match handle.and_then(|handle| self.files.get(&handle)) {
            Some(file) => file.set_len(size)?,
            None => {
                let path = self.inodes.path(id)?;
                OpenOptions::new().write(true).open(path)?.set_len(size)?;
            }
        }
        self.desk.give_back(before.saturating_sub(size));
        Ok(())
    }

    pub fn touch(&self, id: u64, times: [Option<TimeOrNow>; 2]) -> io::Result<()> {
        let [accessed, modified] = times.map(|time| match time {
            None => TimeSpec::UTIME_OMIT,
            Some(TimeOrNow::Now) => TimeSpec::UTIME_NOW,
            Some(TimeOrNow::SpecificTime(time)) => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH);
                TimeSpec::from_duration(since.unwrap_or_default())
            }
        });
        let path = self.inodes.path(id)?;
        let follow = UtimensatFlags::FollowSymlink;
        utimensat(AT_FDCWD, &path, &accessed, &modified, follow)?;
        Ok(())
    }

    pub fn change_owner(&self, id: u64, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        let itself = AtFlags::AT_EMPTY_PATH;
        fchownat(self.inodes.file(id)?, "", user, group, itself)?;
        Ok(())
    }
}

/// Options for opening a file underneath. The page cache may read files that are only written,
/// offsets come with each request, and `O_DIRECT` would need aligned buffers.
fn opening(flags: i32) -> OpenOptions {
    let flags = OFlag::from_bits_retain(flags);
    let access = flags & OFlag::O_ACCMODE;
    let dropped = OFlag::O_ACCMODE
        | OFlag::O_APPEND
        | OFlag::O_DIRECT
        | OFlag::O_CREAT
        | OFlag::O_EXCL
        | OFlag::O_TRUNC
        | OFlag::O_NOFOLLOW;
    let mut options = OpenOptions::new();
    options
        .read(access != OFlag::O_WRONLY)
        .write(access != OFlag::O_RDONLY)
        .custom_flags((flags - dropped).bits());
    options
}

/// The number of an error.
pub fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::EIO as i32)
}

/// Reads as many bytes as there are.
pub fn read_all(file: &File, data: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < data.len() {
        match file.read_at(&mut data[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
