//! A TAP device: a link whose other end is this process. It is gone when the process is.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::stat::{makedev, mknod, Mode, SFlag};
use nix::sys::time::TimeSpec;
use serde_json::Value;
use tappers::linux;
use tappers::Interface;

use super::command::run;

const DEVICE: &str = "/dev/net/tun";
/// The kernel's number of the TUN/TAP driver (Documentation/admin-guide/devices.txt).
const DEVICE_NUMBER: (u64, u64) = (10, 200);

/// The process's end of a TAP device.
pub struct Tap(linux::Tap);

impl Tap {
    /// Creates a device with the MAC address and MTU of `twin`, and sets it up.
    pub fn like(twin: &str, name: &str) -> Result<Tap> {
        let tap = create(name).with_context(|| format!("cannot make the TAP device {name}"))?;
        tap.set_nonblocking(true)?;
        let (address, mtu) = link_of(twin)?;
        run("ip", &["link", "set", name, "address", &address, "mtu", &mtu])?;
        let loose = take_packets_from_other_routes(name);
        loose.and_then(|()| run("ip", &["link", "set", name, "up"]))?;
        Ok(Tap(tap))
    }

    /// Waits for a frame, at most this long.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        let mut descriptors = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut descriptors, Some(TimeSpec::from_duration(most)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the next frame, if there is one; returns its length.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.recv(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes a frame to the machine, as if it arrived over this link.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }
}

/// The MAC address of a link.
pub fn mac_of(link: &str) -> Result<String> {
    link_of(link).map(|(address, _)| address)
}

fn link_of(link: &str) -> Result<(String, String)> {
    let links: Value = serde_json::from_str(&run("ip", &["-j", "link", "show", "dev", link])?)?;
    match (links[0]["address"].as_str(), links[0]["mtu"].as_u64()) {
        (Some(address), Some(mtu)) => Ok((address.to_owned(), mtu.to_string())),
        _ => bail!("{link} has no MAC address and MTU by `ip -j link show`"),
    }
}

/// Creates the device, and the driver's file where a container lacks it.
fn create(name: &str) -> Result<linux::Tap> {
    let name = Interface::new(name)?;
    if Path::new(DEVICE).exists() {
        return Ok(linux::Tap::create_named(name)?);
    }
    let folder = Path::new(DEVICE).parent().unwrap_or(Path::new("/"));
    let folder_was_there = folder.exists();
    fs::create_dir_all(folder)?;
    let (major, minor) = DEVICE_NUMBER;
    let number = makedev(major, minor);
    let result = mknod(DEVICE, SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, number)
        .with_context(|| format!("cannot make {DEVICE}"))
        .and_then(|()| Ok(linux::Tap::create_named(name)?));
    let _ = fs::remove_file(DEVICE);
    if !folder_was_there {
        let _ = fs::remove_dir(folder);
    }
    result
}

/// Accepts packets whose sources are routed over its twin: a strict reverse-path check would drop
/// all.
fn take_packets_from_other_routes(name: &str) -> Result<()> {
    const STRICT: &str = "1";
    let file = |name: &str| format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
    let is_strict =
        |name: &str| fs::read_to_string(file(name)).is_ok_and(|text| text.trim() == STRICT);
    if is_strict("all") || is_strict(name) {
        // The larger of the two counts; 2 is the loose check.
        fs::write(file(name), "2")
            .with_context(|| format!("{} is 1 (strict) and cannot be set to 2", file(name)))?;
    }
    Ok(())
}
