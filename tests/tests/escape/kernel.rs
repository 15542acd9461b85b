//! Ways into the kernel: calls that no ordinary job makes, and that most of its holes were found in.

use crate::technique::Proof::{Reads, Says};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    py("sys-bpf", "load a program into the kernel", "CVE-2021-3490", "
attributes = ctypes.create_string_buffer(struct.pack('5I', 2, 4, 4, 1, 0)); call('bpf', 0, attributes, 20); print('REACHED')", Says).root(),
    py("sys-perf", "performance counters", "CVE-2013-2094", "
attributes = ctypes.create_string_buffer(struct.pack('IIQ', 1, 128, 0) + bytes(24) + struct.pack('Q', 0x62) + bytes(80))
call('perf_event_open', attributes, 0, -1, -1, 0); print('REACHED')", Says),
    py("sys-userfaultfd", "stop the kernel in the middle of a copy", "CVE-2022-2590", "call('userfaultfd', 1); print('REACHED')", Says),
    sh("sys-userfaultfd-device", "the same by its device", "userfaultfd(2)", "[ -e /dev/userfaultfd ] && echo REACHED", Says).takes("mount_tree"),
    py("sys-uring", "calls past the filter, by a ring", "CVE-2022-29582", "
parameters = ctypes.create_string_buffer(120); call('io_uring_setup', 4, parameters); print('REACHED')", Says),
    sh("sys-uring-open", "open a file by a ring", "io_uring(7)", "{c:uring} {outside}/secret", Reads),
    sh("sys-int80", "calls by the numbers of another architecture", "CVE-2009-0835", "{c:int80} {outside}/secret && echo REACHED", Says),
    py("sys-fanotify", "watch every file of the host", "fanotify(7)", "call('fanotify_init', 0, 0); print('REACHED')", Says).root(),
    py("sys-syslog", "the kernel's log", "syslog(2)", "buffer = ctypes.create_string_buffer(4096); call('syslog', 3, buffer, 4096); print('REACHED')", Says).root(),
    py("sys-swapon", "swap on a file", "swapon(2)", "reached('swapon', b'{outside}/victim', 0)", Says).root(),
    py("sys-acct", "accounting to a file", "acct(2)", "reached('acct', b'{outside}/absent')", Says).root(),
    py("sys-quota", "quotas", "quotactl(2)", "reached('quotactl', 0x80000800, b'/dev/absent', 0, None)", Says).root(),
    py("sys-reboot", "stop the machine (with a wrong password)", "reboot(2)", "reached('reboot', 1, 2, 3, None)", Says).root(),
    py("sys-time", "set the clock (to nothing)", "settimeofday(2)", "reached('settimeofday', None, None)", Says).root(),
    py("sys-clock", "set the clock (from nowhere)", "clock_settime(2)", "reached('clock_settime', 0, None)", Says).root(),
    py("sys-hostname", "rename the machine (to nothing)", "sethostname(2)", "reached('sethostname', None, -1)", Says).root(),
    py("sys-domainname", "rename its domain (to nothing)", "setdomainname(2)", "reached('setdomainname', None, -1)", Says).root(),
    py("sys-personality", "make all memory executable", "personality(2)", "
libc.personality(ctypes.c_ulong(0x0400000)) != -1 and libc.personality(ctypes.c_ulong(0xffffffff)) & 0x400000 and print('REACHED')", Says),
    py("sys-mounts-list", "which mounts there are, by number", "listmount(2)", "
request = ctypes.create_string_buffer(struct.pack('IIQQQ', 32, 0, 2**64 - 1, 0, 0)); ids = ctypes.create_string_buffer(4096)
call('listmount', request, ids, 512, 0); print('REACHED')", Says),
    py("sys-setsid-seccomp", "a filter of one's own that lets more through", "seccomp(2)", "
program = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000)); filter = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(program)))
libc.prctl(38, 1, 0, 0, 0); libc.prctl(22, 2, filter, 0, 0); reached('keyctl', 1, None)", Says),
    py("sys-thread", "the same call from a thread that was there before", "seccomp(2)", "
import threading
thread = threading.Thread(target=lambda: reached('keyctl', 0, -3, 0)); thread.start(); thread.join()", Says),
    py("sys-high-bits", "a call's number with bits in its upper half", "syscall(2)", "
libc.syscall(ctypes.c_long((7 << 32) | 250), ctypes.c_long(0), ctypes.c_long(-3), ctypes.c_long(0)) != -1 and print('REACHED')", Says),
    sh("sys-exec-setuid", "a program that changes its user", "execve(2)", "su -s /bin/sh -c 'echo REACHED' daemon < /dev/null", Says).root(),
    sh("sys-debugfs", "the kernel's debugging files", "debugfs", "[ -d /sys/kernel/debug ] && echo REACHED", Says).takes("mount_tree"),
    sh("sys-security", "the kernel's security files", "securityfs", "[ -d /sys/kernel/security ] && echo REACHED", Says).takes("mount_tree"),
    sh("sys-firmware", "tables of the firmware", "sysfs(5)", "[ -d /sys/firmware ] && echo REACHED", Says).takes("mount_tree"),
];
