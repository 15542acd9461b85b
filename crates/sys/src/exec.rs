//! execve(2) with everything prepared beforehand.

use std::ffi::{CStr, CString};
use std::io;

/// A prepared exec: the pointer arrays exist, so that nothing has to be allocated any more.
pub struct Exec {
    // The pointers point into these; they are never changed.
    _strings: Vec<CString>,
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
        Self { _strings: strings, candidates, argv: argv_pointers, envp: env_pointers }
    }

    /// Tries the candidates; returns only if none could be executed, with the most telling error: one that existed but was
    /// refused (`EACCES`, `ENOEXEC`, …) counts more than one that was missing, as execvp(3) has it. Async-signal-safe.
    pub fn run(&self) -> io::Error {
        let mut telling = libc::ENOENT;
        for candidate in &self.candidates {
            match self.run_one(candidate) {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => telling = libc::EACCES,
                other => return io::Error::from_raw_os_error(other),
            }
        }
        io::Error::from_raw_os_error(telling)
    }

    fn run_one(&self, file: &CStr) -> i32 {
        // SAFETY: file, argv and envp are NUL-terminated strings and null-terminated arrays of such, owned by `self`.
        unsafe { libc::execve(file.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOENT)
    }
}
