//! The kernel's requests: each is done to the folder underneath, reads, writes and fsyncs by the
//! workers, when the fault in force lets them.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{symlink, DirBuilderExt, FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    FileAttr, Filesystem, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
};
use nix::errno::Errno;
use nix::fcntl::{
    fallocate, readlinkat, renameat2, AtFlags, FallocateFlags, RenameFlags, AT_FDCWD,
};
use nix::sys::stat::{mknod, Mode, SFlag};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::linkat;

use super::files::{number, read_all, PassThrough};
use super::io_faults::{error, Ask};

/// The folder underneath changes through here only, so the kernel may keep what it was told.
const KEPT: Duration = Duration::from_secs(3600);
/// A file that is opened again may have its pages in the cache yet (`FOPEN_KEEP_CACHE`).
const KEEP_CACHE: u32 = 1 << 1;

macro_rules! answer {
    ($reply:expr, $result:expr, |$value:pat_param, $with:ident| $told:expr) => {
        match $result {
            Ok($value) => {
                let $with = $reply;
                $told
            }
            Err(error) => $reply.error(number(&error)),
        }
    };
}

impl Filesystem for PassThrough {
    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let entry = self.inodes.look_up(parent, name);
        answer!(reply, entry, |entry, to| to.entry(&KEPT, &entry, 0));
    }

    fn forget(&mut self, _: &Request<'_>, id: u64, times: u64) {
        self.inodes.forget(id, times);
    }

    fn getattr(&mut self, _: &Request<'_>, id: u64, _: Option<u64>, reply: ReplyAttr) {
        answer!(reply, self.inodes.attributes(id), |entry, to| to.attr(&KEPT, &entry));
    }

    fn setattr(
        &mut self,
        _: &Request<'_>,
        id: u64,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<u64>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<u32>,
        reply: ReplyAttr,
    ) {
        let mut change = || -> io::Result<FileAttr> {
            if user.is_some() || group.is_some() {
                self.change_owner(id, user, group)?;
            }
            if let Some(mode) = mode {
                let permissions = Permissions::from_mode(mode & 0o7777);
                fs::set_permissions(self.inodes.path(id)?, permissions)?;
            }
            if let Some(size) = size {
                self.resize(id, handle, size)?;
            }
            if accessed.is_some() || modified.is_some() {
                self.touch(id, [accessed, modified])?;
            }
            self.inodes.attributes(id)
        };
        answer!(reply, change(), |entry, to| to.attr(&KEPT, &entry));
    }

    fn readlink(&mut self, _: &Request<'_>, id: u64, reply: ReplyData) {
        let target = self.inodes.file(id).and_then(|file| Ok(readlinkat(file, "")?));
        answer!(reply, target, |target, to| to.data(target.as_encoded_bytes()));
    }

    fn mknod(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let mut make = || -> io::Result<FileAttr> {
            let path = self.inodes.child(parent, name)?;
            let kind = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT;
            mknod(&path, kind, Mode::from_bits_truncate(mode), device.into())?;
            self.own(request, parent, name)
        };
        answer!(reply, make(), |made, to| to.entry(&KEPT, &made, 0));
    }

    fn mkdir(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let mut make = || -> io::Result<FileAttr> {
            let path = self.inodes.child(parent, name)?;
            fs::DirBuilder::new().mode(mode).create(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
            self.own(request, parent, name)
        };
        answer!(reply, make(), |made, to| to.entry(&KEPT, &made, 0));
    }

    fn unlink(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.remove(parent, name), |(), to| to.ok());
    }

    fn rmdir(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        let result = self.inodes.child(parent, name).and_then(fs::remove_dir);
        answer!(reply, result, |(), to| to.ok());
    }

    fn symlink(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let path = self.inodes.child(parent, name);
        let entry = path
            .and_then(|path| symlink(target, path))
            .and_then(|()| self.own(request, parent, name));
        answer!(reply, entry, |entry, to| to.entry(&KEPT, &entry, 0));
    }

    fn rename(
        &mut self,
        _: &Request<'_>,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let rename = || -> io::Result<()> {
            let (from, to) = (self.inodes.file(parent)?, self.inodes.file(new_parent)?);
            renameat2(from, name, to, new_name, RenameFlags::from_bits_retain(flags))?;
            Ok(())
        };
        answer!(reply, rename(), |(), to| to.ok());
    }

    fn link(
        &mut self,
        _: &Request<'_>,
        id: u64,
        new_parent: u64,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut link = || -> io::Result<FileAttr> {
            let (from, to) = (self.inodes.path(id)?, self.inodes.file(new_parent)?);
            let follow = AtFlags::AT_SYMLINK_FOLLOW;
            linkat(AT_FDCWD, &from, to, new_name, follow)?;
            self.inodes.look_up(new_parent, new_name)
        };
        answer!(reply, link(), |entry, to| to.entry(&KEPT, &entry, 0));
    }

    fn open(&mut self, _: &Request<'_>, id: u64, flags: i32, reply: ReplyOpen) {
        answer!(reply, self.open_file(id, flags), |handle, to| to.opened(handle, KEEP_CACHE));
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let entry = self.create_file(request, (parent, name), mode, flags);
        answer!(reply, entry, |(entry, handle), to| to
            .created(&KEPT, &entry, 0, handle, KEEP_CACHE));
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        _: u64,
        handle: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let file = match self.opened(handle) {
            Ok(file) => file,
            Err(error) => return reply.error(number(&error)),
        };
        self.workers.submit(Ask::Read, move |fate| {
            let data = fate.map_err(error).and_then(|()| {
                let mut data = vec![0; size as usize];
                let count = read_all(&file, &mut data, offset as u64)?;
                data.truncate(count);
                Ok(data)
            });
            answer!(reply, data, |data, to| to.data(&data));
        });
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        _: u64,
        handle: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        let end = offset as u64 + data.len() as u64;
        let result = self.opened(handle).and_then(|file| {
            let grows = end.saturating_sub(file.metadata()?.len());
            Ok((file, grows))
        });
        let (file, grows) = match result {
            Ok(pair) => pair,
            Err(error) => return reply.error(number(&error)),
        };
        let data = data.to_vec();
        self.workers.submit(Ask::Write { grows }, move |fate| {
            let result = fate.map_err(error).and_then(|()| file.write_all_at(&data, offset as u64));
            answer!(reply, result, |(), to| to.written(data.len() as u32));
        });
    }

    fn flush(&mut self, _: &Request<'_>, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &mut self,
        _: &Request<'_>,
        _: u64,
        handle: u64,
        _: i32,
        _: Option<u64>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.remove(&handle);
        reply.ok();
    }

    fn fsync(&mut self, _: &Request<'_>, _: u64, handle: u64, data: bool, reply: ReplyEmpty) {
        let file = match self.opened(handle) {
            Ok(file) => file,
            Err(error) => return reply.error(number(&error)),
        };
        self.workers.submit(Ask::Sync, move |fate| {
            let result = fate.map_err(error).and_then(|()| match data {
                true => file.sync_data(),
                false => file.sync_all(),
            });
            answer!(reply, result, |(), to| to.ok());
        });
    }

    fn opendir(&mut self, _: &Request<'_>, id: u64, _: i32, reply: ReplyOpen) {
        answer!(reply, self.read_folder(id), |handle, to| to.opened(handle, 0));
    }

    fn readdir(
        &mut self,
        _: &Request<'_>,
        _: u64,
        handle: u64,
        offset: i64,
        mut reply: ReplyDirectory,
    ) {
        let Some(entries) = self.folders.get(&handle) else {
            return reply.error(Errno::EBADF as i32);
        };
        for (place, entry) in entries.iter().enumerate().skip(offset as usize) {
            if reply.add(entry.id, place as i64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&mut self, _: &Request<'_>, _: u64, handle: u64, _: i32, reply: ReplyEmpty) {
        self.folders.remove(&handle);
        reply.ok();
    }

    fn fsyncdir(&mut self, _: &Request<'_>, id: u64, _: u64, _: bool, reply: ReplyEmpty) {
        let folder = self.inodes.path(id).and_then(File::open);
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => return reply.error(number(&error)),
        };
        self.workers.submit(Ask::Sync, move |fate| {
            let result = fate.map_err(error).and_then(|()| folder.sync_all());
            answer!(reply, result, |(), to| to.ok());
        });
    }

    fn statfs(&mut self, _: &Request<'_>, id: u64, reply: ReplyStatfs) {
        let free = self.desk.free();
        let statistics = self.inodes.file(id).and_then(|file| Ok(fstatvfs(file)?));
        answer!(reply, statistics, |statistics, to| {
            let size = statistics.fragment_size().max(1);
            let at_most = |blocks: u64| free.map_or(blocks, |free| blocks.min(free / size));
            to.statfs(
                statistics.blocks(),
                at_most(statistics.blocks_free()),
                at_most(statistics.blocks_available()),
                statistics.files(),
                statistics.files_free(),
                statistics.block_size() as u32,
                statistics.name_max() as u32,
                size as u32,
            );
        });
    }

    fn fallocate(
        &mut self,
        _: &Request<'_>,
        _: u64,
        handle: u64,
        offset: i64,
        length: i64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let result = self.opened(handle).and_then(|file| {
            let end = (offset + length) as u64;
            let grows = end.saturating_sub(file.metadata()?.len());
            Ok((file, grows))
        });
        let (file, grows) = match result {
            Ok(pair) => pair,
            Err(error) => return reply.error(number(&error)),
        };
        self.workers.submit(Ask::Write { grows }, move |fate| {
            let mode = FallocateFlags::from_bits_retain(mode);
            let allocated =
                fate.map_err(error).and_then(|()| Ok(fallocate(&*file, mode, offset, length)?));
            answer!(reply, allocated, |(), to| to.ok());
        });
    }
}
