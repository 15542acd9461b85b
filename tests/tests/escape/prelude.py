import ctypes, errno, fcntl, os, platform, signal, socket, struct, sys, time

# syscalls(2); from 424 on, the numbers are the same everywhere.
_X86_64 = dict(
    shmget=29, shmat=30, clone=56, semget=64, msgget=68, ptrace=101, syslog=103, personality=135, pivot_root=155, chroot=161, acct=163,
    settimeofday=164, mount=165, umount2=166, swapon=167, swapoff=168, reboot=169, sethostname=170, setdomainname=171, iopl=172,
    ioperm=173, init_module=175, delete_module=176, quotactl=179, clock_settime=227, mq_open=240, mq_timedreceive=243, kexec_load=246,
    add_key=248, request_key=249, keyctl=250, migrate_pages=256, unshare=272, get_robust_list=274, move_pages=279, perf_event_open=298,
    fanotify_init=300, prlimit64=302, name_to_handle_at=303, open_by_handle_at=304, setns=308, process_vm_readv=310, kcmp=312,
    finit_module=313, kexec_file_load=320, bpf=321, userfaultfd=323,
)
_AARCH64 = dict(
    umount2=39, mount=40, pivot_root=41, chroot=51, quotactl=60, acct=89, personality=92, unshare=97, get_robust_list=100,
    kexec_load=104, init_module=105, delete_module=106, clock_settime=112, syslog=116, ptrace=117, reboot=142, sethostname=161,
    setdomainname=162, settimeofday=170, mq_open=180, mq_timedreceive=183, msgget=186, semget=190, shmget=194, shmat=196,
    add_key=217, request_key=218, keyctl=219, clone=220, swapon=224, swapoff=225, migrate_pages=238, move_pages=239,
    perf_event_open=241, prlimit64=261, fanotify_init=262, name_to_handle_at=264, open_by_handle_at=265, setns=268,
    process_vm_readv=270, kcmp=272, finit_module=273, bpf=280, userfaultfd=282, kexec_file_load=294,
)
_EVERYWHERE = dict(
    pidfd_send_signal=424, io_uring_setup=425, open_tree=428, move_mount=429, fsopen=430, fspick=433, pidfd_open=434, clone3=435,
    openat2=437, pidfd_getfd=438, process_madvise=440, mount_setattr=442, process_mrelease=448, statmount=457, listmount=458,
)
_NUMBERS = {**(_AARCH64 if platform.machine() == "aarch64" else _X86_64), **_EVERYWHERE}
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(name, *arguments):
    ctypes.set_errno(0)
    numbers = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(_NUMBERS[name]), *numbers)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def reached(name, *arguments):
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS, errno.EACCES):
            return print("refused:", error)
    print("REACHED")


print("BEGAN", flush=True)
