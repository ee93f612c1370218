//! The privileges of a role's programs: fewer than those of the agent, which is root with the
//! capabilities for faults.
//!
//! The role's first process gives up all capabilities except `KEPT` before it runs `start.sh`, for
//! itself and all its children: no program, not even a setuid one, regains a capability outside of
//! the bounding set. `no_new_privs` does the same for the rights of a setuid bit or of a file's
//! capability.

use anyhow::{Context, Result};
use rustix::thread::{
    capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, CapabilitySet,
};

use super::system_calls;

/// Capabilities of servers that begin as root: Apache, MariaDB, memcached, Java's, stock images'.
const KEPT: CapabilitySet = CapabilitySet::empty()
    // The data folder and /run/NAME are given to the server's user, whoever made them.
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    // The server becomes that user, and ends its workers.
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    // A web server's port 80, also for an arbiter that is not root.
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Capabilities are numbered from 0; the kernel refuses to tell of those that it does not have.
const NUMBERS: std::ops::Range<u32> = 0..64;

/// Confines the calling process, for good.
pub fn confine() -> Result<()> {
    for number in NUMBERS {
        let right = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(right) || !matches!(capability_is_in_bounding_set(right), Ok(true)) {
            continue;
        }
        remove_capability_from_bounding_set(right)
            .with_context(|| format!("cannot take capability {number} from the role"))?;
    }
    // Of what is inherited a program gets its share whatever the bounding set says.
    let mut sets = capabilities(None).context("cannot read the capabilities")?;
    sets.inheritable &= KEPT;
    set_capabilities(None, sets).context("cannot limit what the role inherits")?;
    clear_ambient_capability_set().context("cannot clear the ambient capabilities")?;
    set_no_new_privs(true).context("cannot set no_new_privs for the role")?;
    system_calls::refuse()
}
