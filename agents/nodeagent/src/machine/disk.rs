//! The block device under the machine's root file system.

use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};
use nix::sys::stat::{major, minor, stat};

/// `major:minor` of the whole disk that carries the machine's files.
///
/// A container's root is an overlay without a device number of its own; the files that Docker puts
/// in (`/etc/hostname`) come from the same disk and have one.
pub fn root_device() -> Result<String> {
    for file in ["/", "/etc/hostname", "/etc/hosts"] {
        let Ok(metadata) = stat(file) else { continue };
        if major(metadata.st_dev) == 0 {
            continue;
        }
        return whole_disk(&format!("{}:{}", major(metadata.st_dev), minor(metadata.st_dev)));
    }
    bail!("no block device found under /: neither it nor /etc/hostname lies on one")
}

/// The kernel throttles disks, not partitions.
fn whole_disk(device: &str) -> Result<String> {
    let place = Path::new("/sys/dev/block").join(device);
    if !place.join("partition").exists() {
        return Ok(device.to_owned());
    }
    let parent =
        fs::canonicalize(&place).with_context(|| format!("cannot resolve {}", place.display()))?;
    let dev = parent.parent().map(|disk| disk.join("dev")).context("a partition without a disk")?;
    let text =
        fs::read_to_string(&dev).with_context(|| format!("cannot read {}", dev.display()))?;
    Ok(text.trim().to_owned())
}
