//! execve(2) with everything prepared beforehand.

use std::ffi::{CStr, CString};
use std::io;

/// A prepared exec: the pointer arrays exist, so that nothing has to be allocated any more.
pub struct Exec {
    // The pointers point into these; they are never changed. The arguments come first.
    strings: Vec<CString>,
    candidates: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Exec {
    /// Prepares. `candidates` are the files to try, in order.
    pub fn new(candidates: Vec<CString>, argv: Vec<CString>, env: Vec<CString>) -> Self {
        let pointers = |strings: &[CString]| {
            let mut pointers: Vec<_> = strings.iter().map(|s| s.as_ptr()).collect();
            pointers.push(std::ptr::null());
            pointers
        };
        // Moving a CString does not move its bytes, so the pointers stay good.
        let (argv_pointers, env_pointers) = (pointers(&argv), pointers(&env));
        let mut strings = argv;
        strings.extend(env);
        Self { strings, candidates, argv: argv_pointers, envp: env_pointers }
    }

    /// Tries the candidates; returns only if none could be executed, with the most telling error: one that existed but was
    /// refused (`EACCES`, `ENOEXEC`, …) counts more than one that was missing. Async-signal-safe.
    ///
    /// Unlike for execvp(3), and like for a shell, a program that is searched for does not exist in a folder that may not be
    /// entered: else every typing error would be a permission denied wherever `PATH` names such a folder.
    pub fn run(&self) -> io::Error {
        let searched = self.searched();
        let mut telling = libc::ENOENT;
        for candidate in &self.candidates {
            match self.run_one(candidate) {
                libc::ENOENT | libc::ENOTDIR => {}
                // What is wrong with a folder of the `PATH`, or its file system, says nothing of the others.
                libc::ELOOP
                | libc::ENAMETOOLONG
                | libc::ESTALE
                | libc::ENODEV
                | libc::ETIMEDOUT
                    if searched => {}
                libc::EACCES if searched && !is_file(candidate) => {}
                libc::EACCES => telling = libc::EACCES,
                other => return io::Error::from_raw_os_error(other),
            }
        }
        io::Error::from_raw_os_error(telling)
    }

    /// Whether the program was given as a name without a folder.
    fn searched(&self) -> bool {
        self.strings.first().is_some_and(|program| !program.to_bytes().contains(&b'/'))
    }

    fn run_one(&self, file: &CStr) -> i32 {
        // SAFETY: file, argv and envp are NUL-terminated strings and null-terminated arrays of such, owned by `self`.
        unsafe { libc::execve(file.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOENT)
    }
}

/// Whether there is a file of this name, as far as the caller may know. Async-signal-safe.
fn is_file(path: &CStr) -> bool {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `path` is a NUL-terminated string, and `status` is writable and has room for a stat.
    if unsafe { libc::stat(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: stat(2) succeeded, so it has filled in all of it.
    let status = unsafe { status.assume_init() };
    status.st_mode & libc::S_IFMT == libc::S_IFREG
}
