//! The files that the kernel knows of, each by a handle of the file underneath, whatever its name
//! becomes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FUSE_ROOT_ID};
use nix::errno::Errno;

use super::open_path;

/// The kernel's inode numbers, with the file that each means.
pub struct Inodes {
    nodes: HashMap<u64, Node>,
    root: (u64, u64),
}

struct Node {
    file: File,
    /// Lookups by the kernel.
    lookups: u64,
}

impl Inodes {
    /// Creates the table with the folder underneath as the root.
    pub fn new(root: File) -> io::Result<Inodes> {
        let metadata = root.metadata()?;
        let node = Node { file: root, lookups: 1 };
        Ok(Inodes {
            nodes: HashMap::from([(FUSE_ROOT_ID, node)]),
            root: (metadata.dev(), metadata.ino()),
        })
    }

    /// The handle of a file that the kernel knows.
    pub fn file(&self, id: u64) -> io::Result<&File> {
        let node = self.nodes.get(&id);
        node.map(|node| &node.file).ok_or_else(|| Errno::ESTALE.into())
    }

    /// A path that leads to it, through any symbolic link but the last.
    pub fn path(&self, id: u64) -> io::Result<PathBuf> {
        let number = self.file(id)?.as_raw_fd();
        Ok(PathBuf::from(format!("/proc/self/fd/{number}")))
    }

    /// The path of a name in a folder.
    pub fn child(&self, parent: u64, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    /// Looks a name up and counts that the kernel was told.
    pub fn look_up(&mut self, parent: u64, name: &OsStr) -> io::Result<FileAttr> {
        let file = open_path(&self.child(parent, name)?).map_err(|error| {
            let cause = error.downcast::<io::Error>();
            cause.unwrap_or_else(|_| Errno::EIO.into())
        })?;
        let attributes = self.attributes_of(&file.metadata()?);
        let node = self.nodes.entry(attributes.ino);
        node.or_insert(Node { file, lookups: 0 }).lookups += 1;
        Ok(attributes)
    }

    /// The kernel has forgotten it so often.
    pub fn forget(&mut self, id: u64, times: u64) {
        if let Some(node) = self.nodes.get_mut(&id).filter(|_| id != FUSE_ROOT_ID) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                self.nodes.remove(&id);
            }
        }
    }

    /// Current attributes.
    pub fn attributes(&self, id: u64) -> io::Result<FileAttr> {
        Ok(self.attributes_of(&self.file(id)?.metadata()?))
    }

    fn attributes_of(&self, metadata: &Metadata) -> FileAttr {
        FileAttr {
            ino: self.id(metadata),
            size: metadata.size(),
            blocks: metadata.blocks(),
            atime: time(metadata.atime(), metadata.atime_nsec()),
            mtime: time(metadata.mtime(), metadata.mtime_nsec()),
            ctime: time(metadata.ctime(), metadata.ctime_nsec()),
            crtime: UNIX_EPOCH,
            kind: kind(metadata.file_type()),
            perm: (metadata.mode() & 0o7777) as u16,
            nlink: metadata.nlink() as u32,
            uid: metadata.uid(),
            gid: metadata.gid(),
            rdev: metadata.rdev() as u32,
            blksize: metadata.blksize() as u32,
            flags: 0,
        }
    }

    /// The file's own number; where another device has it too, or it is the root's, one beside it.
    fn id(&self, metadata: &Metadata) -> u64 {
        let (device, number) = (metadata.dev(), metadata.ino());
        if (device, number) == self.root {
            FUSE_ROOT_ID
        } else if device == self.root.0 && number != FUSE_ROOT_ID {
            number
        } else {
            number ^ device.rotate_left(40) ^ (1 << 63)
        }
    }
}

/// Returns FUSE's name of a file type.
pub fn kind(file_type: FileType) -> fuser::FileType {
    if file_type.is_dir() {
        fuser::FileType::Directory
    } else if file_type.is_symlink() {
        fuser::FileType::Symlink
    } else if file_type.is_fifo() {
        fuser::FileType::NamedPipe
    } else if file_type.is_socket() {
        fuser::FileType::Socket
    } else if file_type.is_block_device() {
        fuser::FileType::BlockDevice
    } else if file_type.is_char_device() {
        fuser::FileType::CharDevice
    } else {
        fuser::FileType::RegularFile
    }
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    base + Duration::from_nanos(nanoseconds.unsigned_abs())
}
