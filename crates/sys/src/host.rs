//! Facts about this process and its kernel.

/// The effective user id and group id.
pub fn effective_ids() -> (u32, u32) {
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

/// The kernel's release as major and minor number, `(0, 0)` where it cannot be understood (uname(2)).
pub fn kernel_version() -> (u32, u32) {
    let Ok(name) = nix::sys::utsname::uname() else {
        return (0, 0);
    };
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
