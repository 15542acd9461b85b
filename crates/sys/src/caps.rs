//! Giving up capabilities (capabilities(7)).

use crate::{check, check_int};
use std::io;

/// Empties the bounding set and locks the secure bits so that user id 0 gains nothing by an exec. The calling process keeps what
/// it has; what it starts inherits this. Needs CAP_SETPCAP.
pub fn forbid_gaining() -> io::Result<()> {
    // Bits and locks of NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE; KEEP_CAPS off and locked (linux/securebits.h).
    const SECURE_BITS: libc::c_ulong = 0b1110_1111;
    for capability in 0..64 {
        // SAFETY: no memory is involved. EINVAL: past the last capability of this kernel.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINVAL) && capability > 0 {
                break;
            }
            return Err(error);
        }
    }
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS, 0, 0, 0) })?;
    Ok(())
}

/// Empties the ambient, inheritable, permitted and effective sets. Async-signal-safe, which the `caps` crate's sets are not.
pub fn drop_all() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check_int(unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    })?;
    // struct __user_cap_header_struct and two __user_cap_data_structs of version 3 (capset(2)).
    let header: [u32; 2] = [0x2008_0522, 0];
    let nothing = [0u32; 6];
    // SAFETY: header and data have the layout that version 3 asks for, and outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr()) })?;
    Ok(())
}
