//! The signals by which a person or a supervisor stops `stockade`.

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The numbers of SIGINT, SIGTERM and SIGHUP as they come in. One that is ignored already stays so: `nohup` and
/// background jobs mean it. Must be called inside a tokio runtime.
pub fn listen() -> io::Result<mpsc::UnboundedReceiver<i32>> {
    listen_to(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

/// The same of these signals.
pub fn listen_to(signals: &[i32]) -> io::Result<mpsc::UnboundedReceiver<i32>> {
    let ignored = ignored_signals();
    let (sender, receiver) = mpsc::unbounded_channel();
    for &number in signals {
        if ignored & (1 << (number - 1)) != 0 {
            continue;
        }
        let mut stream = signal(SignalKind::from_raw(number))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() && sender.send(number).is_ok() {}
        });
    }
    Ok(receiver)
}

/// The mask of ignored signals, by proc_pid_status(5). Where it cannot be read none is taken to be.
fn ignored_signals() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| mask(&status))
}

fn mask(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_found() {
        let status = "Name:\tcat\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(mask(status), 0x1001);
        assert_eq!(mask("Name:\tcat\n"), 0);
        // Rust ignores SIGPIPE, so that this very process has a mask.
        assert_ne!(ignored_signals() & (1 << (libc::SIGPIPE - 1)), 0);
    }
}
