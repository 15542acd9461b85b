//! Ways by new mounts, new namespaces, and those of others.

use crate::technique::Proof::{Changes, Reads, Says};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    sh("mount-bind", "a bind mount of a folder outside", "mount(2)", "mkdir m; mount --bind {outside} m; cat m/secret", Reads).root(),
    sh("mount-overlay", "an overlay over a folder outside", "CVE-2023-0386", "mkdir u w m; mount -t overlay -o lowerdir={outside},upperdir=u,workdir=w none m; cat m/secret", Reads).root(),
    sh("mount-proc", "a /proc of one's own, unmasked", "mount(2)", "mkdir p; mount -t proc none p && (exec 3>>p/sys/kernel/core_pattern) && echo REACHED", Says).root(),
    sh("mount-cgroup", "the cgroup file system, for its release_agent", "CVE-2022-0492", "mkdir c; mount -t cgroup2 none c && ls c/cgroup.procs && echo REACHED", Says).root(),
    sh("mount-sysfs", "a /sys of one's own", "sysfs(5)", "mkdir s; mount -t sysfs none s && (exec 3>>s/kernel/mm/transparent_hugepage/enabled) && echo REACHED", Says).root(),
    sh("mount-devtmpfs", "the devices of the machine as a file system", "mknod(2)", "mkdir d; mount -t devtmpfs none d && [ -e d/kmsg ] && echo REACHED", Says).root(),
    sh("mount-tmpfs-hide", "cover a file with another, for those who look later", "mount(2)", "mount -t tmpfs none private && echo REACHED", Says).root(),
    sh("mount-move", "move a mount to another place", "mount(2), MS_MOVE", "mkdir m n; mount -t tmpfs none m && mount --move m n && echo REACHED", Says).root(),
    sh("mount-propagate", "mounts that show outside", "mount_namespaces(7)", "mount --make-rshared / && echo REACHED", Says).root(),
    sh("umount-proc", "take a mount away, to see what lies below", "umount(2)", "umount -l /proc && echo REACHED; mount -t proc none /proc", Says).root(),
    py("mount-open-tree", "a copy of a tree, detached", "open_tree(2)", "
fd = call('open_tree', -100, b'{outside}', 1); print(os.read(os.open('secret', os.O_RDONLY, dir_fd=fd), 99))", Reads).root(),
    py("mount-fsopen", "a file system by the new calls", "CVE-2022-0185", "
fd = call('fsopen', b'tmpfs', 0); reached('fspick', -100, b'.', 0)", Says).root(),
    py("mount-setattr", "change attributes of a mount", "mount_setattr(2)", "
attributes = ctypes.create_string_buffer(struct.pack('QQQQ', 0, 1, 0, 0))
reached('mount_setattr', -100, b'/', 0, attributes, 32)", Says).root(),
    py("mount-move-mount", "attach what was detached", "CVE-2021-41133", "
fd = call('open_tree', -100, b'{outside}', 1); os.mkdir('m')
call('move_mount', fd, b'', -100, b'm', 4); print(open('m/secret').read())", Reads).root(),
    py("pivot-root", "another root", "pivot_root(2)", "
os.makedirs('r/old'); call('mount', b'r', b'r', None, 0x1000, None)
call('pivot_root', b'r', b'r/old'); print('REACHED')", Says).root(),
    sh("ns-user", "a user namespace, and with it every capability", "CVE-2022-0185", "unshare --user --map-root-user true && echo REACHED", Says),
    sh("ns-user-mount", "a mount of one's own in a user namespace", "CVE-2023-2640", "unshare --user --map-root-user --mount sh -c 'mkdir m; mount --bind {outside} m; cat m/secret'", Reads),
    sh("ns-user-net", "a network of one's own, with its firewall code", "CVE-2024-1086", "unshare --user --map-root-user --net true && echo REACHED", Says),
    sh("ns-user-cgroup", "a cgroup namespace of one's own", "CVE-2022-0492", "unshare --user --map-root-user --cgroup true && echo REACHED", Says),
    sh("ns-user-pid", "a pid namespace in which nobody outside is seen to kill", "pid_namespaces(7)", "unshare --user --map-root-user --pid --fork true && echo REACHED", Says),
    sh("ns-mount", "a mount namespace", "mount_namespaces(7)", "unshare --mount true && echo REACHED", Says).root(),
    sh("ns-ipc", "an IPC namespace", "ipc_namespaces(7)", "unshare --ipc true && echo REACHED", Says).root(),
    sh("ns-uts", "a UTS namespace", "uts_namespaces(7)", "unshare --uts true && echo REACHED", Says).root(),
    sh("ns-net", "a network namespace", "network_namespaces(7)", "unshare --net true && echo REACHED", Says).root(),
    sh("ns-time", "a time namespace", "time_namespaces(7)", "unshare --time true && echo REACHED", Says).root(),
    py("ns-clone", "clone with a new user namespace", "clone(2)", "
pid = call('clone', 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0: os._exit(0)
print('REACHED')", Says),
    py("ns-clone3", "the same by clone3, whose flags no filter sees", "clone(2)", "
arguments = ctypes.create_string_buffer(struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
pid = call('clone3', arguments, 64)
if pid == 0: os._exit(0)
print('REACHED')", Says),
    py("setns-mount", "enter another process's mount namespace", "setns(2)", "
call('setns', os.open('/proc/{victim}/ns/mnt', os.O_RDONLY), 0); print('REACHED')", Says).root(),
    py("setns-parent", "enter the namespaces of the process that started one", "setns(2)", "
call('setns', os.open(f'/proc/{os.getppid()}/ns/net', os.O_RDONLY), 0); print('REACHED')", Says).root(),
    py("setns-pidfd", "enter all of another's namespaces by a pidfd", "setns(2)", "
call('setns', call('pidfd_open', {victim}, 0), 0x00020000 | 0x40000000); print('REACHED')", Says).root(),
    sh("nsenter", "the same by its program", "nsenter(1)", "nsenter --target {victim} --mount cat {outside}/secret", Reads).root(),
    sh("mapped-root", "a set-user-ID bit outside, by root's user id inside", "user_namespaces(7)", "cp /bin/true t; chmod 4755 t {outside}/victim", Changes).root().takes("mount_tree"),
    py("caps-gain", "regain a capability", "capabilities(7)", "
header = ctypes.create_string_buffer(struct.pack('Ii', 0x20080522, 0)); data = ctypes.create_string_buffer(struct.pack('6I', *[0x200000] * 6))
assert libc.capset(header, data) == 0; print('REACHED')", Says).root(),
    py("caps-ambient", "keep a capability over an exec", "capabilities(7)", "
print('REACHED' if any(int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('Cap')) else '')", Says).root(),
    py("setuid", "become another user", "setuid(2)", "os.setresuid(1234, 1234, 1234); print('REACHED')", Says).root(),
    py("setgroups", "join another group", "CVE-2014-8989", "os.setgroups([0, 42]); print('REACHED')", Says).root(),
];
