//! System calls that are refused for a role's programs: no server makes them, but attacks on a
//! kernel do.
//!
//! Docker's own filter lets most of them pass here, for a machine has `SYS_ADMIN`; on a host of one's
//! own there is none. What a capability guards is gone with it, and is named where a user name space
//! would bring it back.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use nix::libc;
use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

const REFUSED: [i64; 34] = [
    // Mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // Other processes and their name spaces.
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_syslog,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
];

/// Flags of `clone` and `unshare` that make a name space.
const NAME_SPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Refuses these calls to the calling process and its children, for good; needs `no_new_privs`.
pub fn refuse() -> Result<()> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    refused.insert(libc::SYS_unshare, makes_name_space()?);
    refused.insert(libc::SYS_clone, makes_name_space()?);
    answer(refused, libc::EPERM)?;
    // Its flags lie in memory, where no filter sees them: libc asks `clone` where there is no clone3.
    answer(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn makes_name_space() -> Result<Vec<SeccompRule>> {
    let has = |flag: &libc::c_int| -> Result<SeccompRule> {
        let flag = u64::try_from(*flag)?;
        let set = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, set, flag)?;
        Ok(SeccompRule::new(vec![condition])?)
    };
    NAME_SPACES.iter().map(has).collect()
}

fn answer(calls: BTreeMap<i64, Vec<SeccompRule>>, error: libc::c_int) -> Result<()> {
    let refusal = SeccompAction::Errno(u32::try_from(error)?);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refusal, architecture)?;
    let program = BpfProgram::try_from(filter)?;
    apply_filter(&program).context("cannot refuse system calls to the role")
}
