//! Ways to other processes, and ways to outlive one's own end.

use crate::technique::Proof::{Hurts, Outlives, Reads, Says};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    sh("kill", "end another program", "kill(2)", "kill -9 {victim}", Hurts),
    sh("kill-group", "end another's process group", "kill(2)", "kill -9 -- -{victim}", Hurts),
    sh("kill-stop", "stop another program", "kill(2)", "kill -STOP {victim}", Hurts),
    py("kill-tgkill", "end another by one of its threads", "tgkill(2)", "libc.tgkill({victim}, {victim}, 9)", Hurts),
    py("kill-pidfd", "end another by a pidfd", "pidfd_send_signal(2)", "call('pidfd_send_signal', call('pidfd_open', {victim}, 0), 9, None, 0)", Hurts),
    py("kill-proc-fd", "end another by its folder in /proc", "pidfd_send_signal(2)", "
call('pidfd_send_signal', os.open('/proc/{victim}', os.O_RDONLY | os.O_DIRECTORY), 9, None, 0)", Hurts),
    py("kill-sigio", "have the kernel send the signal, as the owner of a socket", "fcntl(2), F_SETOWN", "
a, b = socket.socketpair(); fcntl.fcntl(a, fcntl.F_SETOWN, {victim}); fcntl.fcntl(a, 10, signal.SIGKILL)
fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC); b.send(b'x'); time.sleep(0.05)", Hurts),
    py("kill-sigqueue", "end another by a queued signal", "rt_sigqueueinfo(2)", "libc.sigqueue({victim}, 9, ctypes.c_void_p(0))", Hurts),
    py("ptrace-attach", "trace another program", "ptrace(2)", "libc.ptrace(16, {victim}, None, None) == 0 and print('REACHED')", Says),
    py("ptrace-seize", "trace another program without stopping it", "ptrace(2)", "libc.ptrace(0x4206, {victim}, None, None) == 0 and print('REACHED')", Says),
    py("memory-readv", "read another's memory", "process_vm_readv(2)", "
buffer = ctypes.create_string_buffer(200); here = ctypes.create_string_buffer(struct.pack('QQ', ctypes.addressof(buffer), 100))
there = ctypes.create_string_buffer(struct.pack('QQ', {victim-address}, 100)); call('process_vm_readv', {victim}, here, 1, there, 1, 0)
print(buffer.raw)", Reads),
    py("memory-file", "read another's memory as a file", "proc_pid_mem(5)", "
print(os.pread(os.open('/proc/{victim}/mem', os.O_RDONLY), 100, {victim-address}))", Reads),
    py("memory-advise", "have another's memory thrown out", "process_madvise(2)", "
area = ctypes.create_string_buffer(struct.pack('QQ', {victim-address} & ~4095, 4096))
call('process_madvise', call('pidfd_open', {victim}, 0), area, 1, 20, 0); print('REACHED')", Says).root(),
    py("memory-move", "ask where another's memory lies", "move_pages(2)", "call('move_pages', {victim}, 0, None, None, None, 0); print('REACHED')", Says),
    py("memory-migrate", "move another's memory", "migrate_pages(2)", "
mask = ctypes.create_string_buffer(struct.pack('Q', 1)); call('migrate_pages', {victim}, 64, mask, mask); print('REACHED')", Says),
    py("memory-robust", "another's list of locks", "get_robust_list(2)", "
head, size = ctypes.c_void_p(), ctypes.c_size_t()
call('get_robust_list', {victim}, ctypes.byref(head), ctypes.byref(size)); print('REACHED')", Says),
    py("fd-getfd", "take a descriptor out of another program", "pidfd_getfd(2)", "
fd = call('pidfd_getfd', call('pidfd_open', {victim}, 0), 7, 0); print(os.pread(fd, 99, 0))", Reads),
    py("kcmp", "compare kernel objects with another's", "kcmp(2)", "call('kcmp', os.getpid(), {victim}, 5, 0, 0); print('REACHED')", Says),
    py("prlimit", "change another's limits", "prlimit(2)", "
limit = ctypes.create_string_buffer(struct.pack('QQ', 64, 64)); call('prlimit64', {victim}, 7, limit, None); print('REACHED')", Says).takes("pid_namespace"),
    py("priority", "change another's priority", "setpriority(2)", "os.setpriority(os.PRIO_PROCESS, {victim}, 5); print('REACHED')", Says).takes("pid_namespace"),
    py("affinity", "bind another to one processor", "sched_setaffinity(2)", "os.sched_setaffinity({victim}, [0]); print('REACHED')", Says).takes("pid_namespace"),
    py("scheduler", "change another's scheduler", "sched_setscheduler(2)", "os.sched_setscheduler({victim}, os.SCHED_IDLE, os.sched_param(0)); print('REACHED')", Says).takes("pid_namespace"),
    sh("see-arguments", "the arguments of other programs", "proc_pid_cmdline(5)", "cat /proc/{victim}/cmdline /proc/[0-9]*/cmdline; ps axww", Reads).takes("pid_namespace"),
    sh("see-environment", "the environment of other programs", "proc_pid_environ(5)", "cat /proc/{victim}/environ", Reads),
    sh("see-parent", "the environment of the process that started one", "proc_pid_environ(5)", "cat /proc/$PPID/environ /proc/1/environ", Reads),
    sh("see-status", "that another program exists at all", "proc_pid(5)", "[ -e /proc/{victim}/status ] && kill -0 {victim} && echo REACHED", Says),
    sh("see-maps", "another's address space layout", "proc_pid_maps(5)", "grep -q stack /proc/{victim}/maps && echo REACHED", Says),
    sh("live-background", "a child in the background", "bash(1)", "sleep 60 {tag} >/dev/null 2>&1 & :", Outlives),
    sh("live-nohup", "a child that ignores the end of its terminal", "nohup(1)", "nohup bash -c 'sleep 60; : {tag}' >/dev/null 2>&1 &", Outlives),
    sh("live-setsid", "a session of its own", "setsid(2)", "setsid bash -c 'trap \"\" TERM HUP INT; sleep 60; : {tag}' >/dev/null 2>&1 &", Outlives),
    py("live-daemon", "fork twice and close everything", "daemon(7)", "
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 99); [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(60)
    os._exit(0)
os.wait()", Outlives),
    py("live-stopped", "a stopped child, which no signal but one reaches", "signal(7)", "
if os.fork() == 0:
    os.setsid(); os.closerange(0, 3); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)
time.sleep(0.05)", Outlives),
    py("live-respawn", "children that start another when they are ended", "signal(7)", "
def again(*_):
    if os.fork() == 0: time.sleep(60)
if os.fork() == 0:
    os.setsid(); os.closerange(0, 3); signal.signal(15, again); [time.sleep(1) for _ in range(60)]
time.sleep(0.05)", Outlives),
    py("live-renamed", "a child under another name, its arguments wiped", "prctl(2)", "
if os.fork() == 0:
    os.setsid(); os.closerange(0, 3); libc.prctl(15, b'kworker/0:1', 0, 0, 0); time.sleep(60)", Outlives),
    py("live-subreaper", "children adopted by a child", "prctl(2), PR_SET_CHILD_SUBREAPER", "
if os.fork() == 0:
    libc.prctl(36, 1, 0, 0, 0); os.setsid(); os.closerange(0, 3)
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
    time.sleep(60)", Outlives),
    sh("live-timeout", "outlive a timeout that ends everything polite", "timeout(1)", "
setsid bash -c 'trap \"\" TERM; sleep 60; : {tag}' >/dev/null 2>&1 & trap '' TERM; sleep 0.6", Outlives).with(&["--timeout", "300ms", "--grace", "100ms"]),
    sh("parent-kill", "end the process that started one", "kill(2)", "kill -9 $PPID; sleep 0.2; [ -e /proc/$PPID ] || echo REACHED", Says),
    py("parent-ptrace", "trace the process that started one", "CVE-2016-9962", "libc.ptrace(0x4206, os.getppid(), None, None) == 0 and print('REACHED')", Says).root(),
    sh("parent-exe", "overwrite what the process that started one executes", "CVE-2019-5736", "cp /bin/true t; head -c 4 /proc/$PPID/exe | grep -q ELF && echo REACHED", Says),
    sh("parent-fd", "open files of the process that started one", "proc_pid_fd(5)", "cat /proc/$PPID/fd/8 /proc/1/fd/8", Reads),
    sh("parent-memory", "the memory of the process that started one", "proc_pid_mem(5)", "(exec 3<>/proc/$PPID/mem) && echo REACHED", Says),
    sh("parent-oom", "let the kernel end the process that started one first", "proc_pid_oom_score_adj(5)", "(echo 900 > /proc/$PPID/oom_score_adj) && echo REACHED", Says),
];
