//! The records on a call's lifeline. Fixed size and plain integers: the side that writes them may not
//! use the heap.

/// A record's size on the wire, in bytes.
pub const SIZE: usize = 64;

/// What an init or a command stage tells the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A step between the clone of the init and the exec failed; nothing of the command ran.
    Failed {
        /// The [`crate::Stage`] as a number.
        stage: u8,
        /// The kernel's error number.
        errno: i32,
        /// Which element of the stage's list (rlimit, protected path, candidate), or 0.
        index: u32,
    },
    /// The main process ended.
    MainEnded {
        /// The wait status, as wait4(2) encodes it.
        status: i32,
        /// How many other processes of the tree were alive at that moment.
        left: u32,
        /// Usage of everything reaped so far: user and system time in microseconds, peak in KiB.
        usage: RecordUsage,
    },
    /// The filter refused a system call. Each kind of attempt is reported once, and only so many.
    Denied {
        /// The call's number.
        number: u32,
        /// Who tried, in the call's pid namespace.
        pid: u32,
        /// The arguments; those that do not tell attempts apart are 0.
        arguments: [u64; 6],
    },
    /// The tree uses more memory than it may: it is killed now.
    MemoryExceeded,
    /// The tree has as many processes as it may: no more could be forked when that was tried.
    PidsMet,
    /// Neither a namespace nor a cgroup holds the tree together: what follows is done to the processes that are found.
    BestEffort,
    /// SIGTERM goes to the whole tree now.
    Terminating {
        /// To how many processes.
        processes: u32,
    },
    /// SIGKILL goes to the whole tree now.
    Killing {
        /// How many processes that are.
        processes: u32,
    },
    /// The last process of the tree other than the init has ended; the init ends now.
    TreeEnded {
        /// Usage of the whole tree.
        usage: RecordUsage,
    },
}

/// The part of a rusage that a record carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordUsage {
    /// User time, in microseconds.
    pub user_us: u64,
    /// System time, in microseconds.
    pub system_us: u64,
    /// Peak resident set of the largest process, in KiB.
    pub max_rss_kib: u64,
    /// Context switches because a process waited, as far as its record has room.
    pub voluntary_switches: u32,
    /// Context switches because a time slice was up.
    pub involuntary_switches: u32,
    /// The most anonymous memory that the whole tree was seen to use, in KiB; 0 if nobody looked.
    pub tree_peak_kib: u32,
    /// Processes and threads started so far; 0 where that is not known.
    pub started: u32,
}

/// What the runtime tells an init, one byte a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    /// SIGTERM, then SIGCONT, to every process of the tree.
    Terminate = 1,
    /// SIGKILL to every process of the tree, and end.
    Kill = 2,
    /// SIGINT to every process of the tree.
    Interrupt = 3,
    /// SIGSTOP to every process of the tree.
    Stop = 4,
    /// SIGCONT to every process of the tree.
    Continue = 5,
}

impl Order {
    /// The order with this number.
    pub fn from_u8(number: u8) -> Option<Order> {
        match number {
            1 => Some(Order::Terminate),
            2 => Some(Order::Kill),
            3 => Some(Order::Interrupt),
            4 => Some(Order::Stop),
            5 => Some(Order::Continue),
            _ => None,
        }
    }
}

impl Record {
    /// Writes the record; no heap.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut out = [0u8; SIZE];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let put_usage = |put: &mut dyn FnMut(usize, &[u8]), usage: &RecordUsage| {
            put(16, &usage.user_us.to_le_bytes());
            put(24, &usage.system_us.to_le_bytes());
            put(32, &usage.max_rss_kib.to_le_bytes());
            put(40, &usage.voluntary_switches.to_le_bytes());
            put(44, &usage.involuntary_switches.to_le_bytes());
            put(48, &usage.tree_peak_kib.to_le_bytes());
            put(52, &usage.started.to_le_bytes());
        };
        match self {
            Record::Failed { stage, errno, index } => {
                put(0, &[1, *stage]);
                put(4, &errno.to_le_bytes());
                put(8, &index.to_le_bytes());
            }
            Record::MainEnded { status, left, usage } => {
                put(0, &[2]);
                put(4, &status.to_le_bytes());
                put(8, &left.to_le_bytes());
                put_usage(&mut put, usage);
            }
            Record::Denied { number, pid, arguments } => {
                put(0, &[7]);
                put(4, &number.to_le_bytes());
                put(8, &pid.to_le_bytes());
                for (index, argument) in arguments.iter().enumerate() {
                    put(16 + 8 * index, &argument.to_le_bytes());
                }
            }
            Record::MemoryExceeded => put(0, &[5]),
            Record::BestEffort => put(0, &[8]),
            Record::PidsMet => put(0, &[9]),
            Record::Terminating { processes } => {
                put(0, &[6]);
                put(4, &processes.to_le_bytes());
            }
            Record::Killing { processes } => {
                put(0, &[4]);
                put(4, &processes.to_le_bytes());
            }
            Record::TreeEnded { usage } => {
                put(0, &[3]);
                put_usage(&mut put, usage);
            }
        }
        out
    }

    /// Reads a record; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        if bytes.len() != SIZE {
            return None;
        }
        let i32_at = |at: usize| bytes[at..at + 4].try_into().map(i32::from_le_bytes);
        let u32_at = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes);
        let u64_at = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes);
        let usage = RecordUsage {
            user_us: u64_at(16).ok()?,
            system_us: u64_at(24).ok()?,
            max_rss_kib: u64_at(32).ok()?,
            voluntary_switches: u32_at(40).ok()?,
            involuntary_switches: u32_at(44).ok()?,
            tree_peak_kib: u32_at(48).ok()?,
            started: u32_at(52).ok()?,
        };
        match bytes[0] {
            1 => Some(Record::Failed {
                stage: bytes[1],
                errno: i32_at(4).ok()?,
                index: u32_at(8).ok()?,
            }),
            2 => Some(Record::MainEnded { status: i32_at(4).ok()?, left: u32_at(8).ok()?, usage }),
            3 => Some(Record::TreeEnded { usage }),
            7 => {
                let mut arguments = [0; 6];
                for (index, argument) in arguments.iter_mut().enumerate() {
                    *argument = u64_at(16 + 8 * index).ok()?;
                }
                Some(Record::Denied { number: u32_at(4).ok()?, pid: u32_at(8).ok()?, arguments })
            }
            5 => Some(Record::MemoryExceeded),
            8 => Some(Record::BestEffort),
            9 => Some(Record::PidsMet),
            6 => Some(Record::Terminating { processes: u32_at(4).ok()? }),
            4 => Some(Record::Killing { processes: u32_at(4).ok()? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_reads_back_as_it_was_written() {
        let usage = RecordUsage {
            user_us: u64::MAX,
            system_us: 2,
            max_rss_kib: 3,
            voluntary_switches: 4,
            involuntary_switches: u32::MAX,
            tree_peak_kib: 5,
            started: 6,
        };
        for record in [
            Record::Failed { stage: 7, errno: -1, index: 9 },
            Record::MainEnded { status: 0x8b, left: 4, usage },
            Record::TreeEnded { usage },
            Record::Killing { processes: 12 },
            Record::Terminating { processes: 1000 },
            Record::MemoryExceeded,
            Record::BestEffort,
            Record::PidsMet,
            Record::Denied { number: 165, pid: 7, arguments: [1, 2, 3, 4, 5, u64::MAX] },
        ] {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert_eq!(Record::decode(&[0; SIZE]), None);
        assert_eq!(Record::decode(&[1; SIZE - 1]), None);
    }
}
