//! Ways to files that the policy does not name.

use crate::technique::Proof::{Changes, Plants, Reads, Says};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    sh("fs-absolute", "read by absolute path", "path_resolution(7)", "cat {outside}/secret", Reads),
    sh("fs-dotdot", "climb by ..", "CWE-22", "cat ../outside/secret", Reads),
    sh("fs-dotdot-many", "climb above the root", "CWE-22", "cat ../../../../../../../../{outside}/secret", Reads),
    sh("fs-prefix", "a path that only begins like the workspace", "CVE-2025-53110", "cat {work}/../outside/secret {work}x/../outside/secret", Reads),
    sh("fs-symlink-file", "a symbolic link to a file outside", "CVE-2025-53109", "ln -s {outside}/secret link; cat link", Reads),
    sh("fs-symlink-folder", "write through a symbolic link to a folder outside", "symlink(7)", "ln -s {outside} link; echo evil > link/new", Changes),
    sh("fs-symlink-chain", "a link to a link to a relative path", "symlink(7)", "ln -s link2 link; ln -s ../outside/secret link2; cat link", Reads),
    sh("fs-hardlink", "a hard link to a file outside, then write to it", "link(2)", "ln {outside}/victim link && echo evil >> link", Changes),
    sh("fs-write", "overwrite a file outside", "open(2)", "echo evil > {outside}/victim", Changes),
    sh("fs-unlink", "remove a file outside", "unlink(2)", "rm -f {outside}/victim", Changes),
    sh("fs-mkdir", "make a folder outside", "mkdir(2)", "mkdir {outside}/new", Changes),
    sh("fs-rename-out", "move a file out of the workspace", "rename(2)", "echo evil > x; mv x {outside}/new", Changes),
    sh("fs-rename-in", "move a file into the workspace", "rename(2)", "mv {outside}/secret got; cat got", Reads),
    sh("fs-home", "plant in the home folder", "bash(1)", "echo evil >> ~/.bashrc; echo evil >> {home}/.bashrc", Changes),
    sh("fs-self-root", "/proc/self/root", "proc_pid_root(5)", "cat /proc/self/root/{outside}/secret", Reads),
    sh("fs-self-cwd", "/proc/self/cwd", "proc_pid_cwd(5)", "cat /proc/self/cwd/../outside/secret", Reads),
    sh("fs-parent-root", "the root of the process that started one", "CVE-2016-9962", "cat /proc/$PPID/root/{outside}/secret /proc/1/root/{outside}/secret", Reads),
    sh("fs-parent-cwd", "the working folder of the process that started one", "proc_pid_cwd(5)", "cat /proc/$PPID/cwd/../outside/secret /proc/1/cwd/../outside/secret", Reads),
    sh("fs-victim-root", "the root of another process", "proc_pid_root(5)", "cat /proc/{victim}/root/{outside}/secret", Reads),
    sh("fs-victim-cwd", "the working folder of another process", "proc_pid_cwd(5)", "cat /proc/{victim}/cwd/secret", Reads),
    sh("fs-victim-fd", "an open file of another process", "proc_pid_fd(5)", "cat /proc/{victim}/fd/7", Reads),
    sh("fs-any-cwd", "the working folder of whatever process", "CVE-2024-21626", "for cwd in /proc/[0-9]*/cwd; do cat $cwd/../outside/secret; done 2>/dev/null # {victim}", Reads),
    sh("fs-any-fd", "whatever file any process has open", "proc_pid_fd(5)", "for pid in $(seq 20) $PPID {victim}; do timeout 1 cat /proc/$pid/fd/[78]; done", Reads),
    sh("fs-task-root", "the root of a thread of another process", "proc_pid_task(5)", "cat /proc/{victim}/task/{victim}/root/{outside}/secret", Reads),
    sh("fs-map-files", "/proc/PID/exe and map_files", "proc_pid_exe(5)", "head -c 4 /proc/{victim}/exe | grep -q ELF && echo REACHED", Says),
    sh("fs-fd-read", "a descriptor left open, to a secret", "CVE-2024-21626", "cat <&8", Reads),
    sh("fs-fd-write", "a descriptor left open, to write", "CVE-2016-9962", "echo evil >&7", Changes),
    sh("fs-fd-folder", "a descriptor left open, of a folder outside", "CVE-2024-21626", "cat /proc/self/fd/9/secret", Reads),
    py("fs-fd-fchdir", "change into a folder left open", "CVE-2024-21626", "os.fchdir(9); print(open('secret').read())", Reads),
    py("fs-fd-openat", "open below a folder left open, then up and down", "openat(2)", "print(os.read(os.open('../outside/secret', os.O_RDONLY, dir_fd=9), 99))", Reads),
    py("fs-fd-scan", "try every descriptor there could be", "CVE-2024-21626", "
for fd in range(3, 4096):
    try: print(os.pread(fd, 99, 0))
    except OSError: pass", Reads),
    py("fs-fd-link", "give a file left open a name in the workspace", "linkat(2)", "
libc.linkat(-100, b'/proc/self/fd/8', -100, b'got', 0x400); print(open('got').read())", Reads),
    py("fs-openat-dotdot", "openat of .. from a folder opened with O_PATH", "openat(2)", "
at = os.open('.', os.O_PATH); print(os.read(os.open('../outside/secret', os.O_RDONLY, dir_fd=at), 99))", Reads),
    py("fs-openat2-root", "openat2 with a root of one's own", "openat2(2)", "
how = ctypes.create_string_buffer(struct.pack('QQQ', 0, 0, 0))
fd = call('openat2', -100, b'../outside/secret', how, 24); print(os.read(fd, 99))", Reads),
    py("fs-o-path", "open with O_PATH, then again through /proc/self/fd", "open(2)", "
fd = os.open('{outside}/secret', os.O_PATH); print(open(f'/proc/self/fd/{fd}').read())", Reads),
    py("fs-handle", "open by handle", "shocker (Docker before 1.0)", "
kind, handle = {handle}
buffer = ctypes.create_string_buffer(struct.pack('Ii', len(handle), kind) + handle)
fd = call('open_by_handle_at', os.open('.', os.O_RDONLY), buffer, os.O_RDONLY); print(os.read(fd, 99))", Reads).root(),
    py("fs-tmpfile", "a file without a name outside, then a name for it", "open(2), O_TMPFILE", "
fd = os.open('{outside}', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'evil')
libc.linkat(-100, f'/proc/self/fd/{fd}'.encode(), -100, b'{outside}/new', 0x400)", Changes),
    py("fs-rename-cwd", "have the folder one stands in moved to another root, then climb", "CVE-2015-2925", "
os.makedirs('a/b/c'); os.chdir('a/b/c'); os.rename('../../../a/b/c', '{other}/c')
print(open('../../outside/secret').read())", Reads).with(&["--write", "{other}"]),
    py("fs-rename-exchange", "exchange a folder of the workspace with one outside", "rename(2), RENAME_EXCHANGE", "
os.mkdir('mine'); libc.renameat2(-100, b'mine', -100, b'{outside}/dir', 2)
os.chdir('mine/..'); os.listdir('mine'); open('{outside}/dir/new', 'w')", Changes),
    py("fs-rename-parent", "rename the folder that the workspace lies in", "rename(2)", "
os.rename(os.path.dirname('{work}') + '/outside', os.path.dirname('{work}') + '/renamed')", Changes),
    py("fs-chroot", "leave by a second root", "chroot(2)", "
os.mkdir('jail'); os.chroot('jail'); [os.chdir('..') for _ in range(64)]; os.chroot('.'); print(open('{outside}/secret').read())", Reads).root(),
    sh("fs-tar-dotdot", "an archive whose names climb", "CVE-2001-1267", "
tar -cPf x.tar --transform 's,^,{outside}/new-,' README.md; tar -xPf x.tar", Changes),
    sh("fs-tar-link", "an archive with a link, then a file behind it", "CVE-2021-32803", "
mkdir a b; ln -s {outside} a/d; mkdir b/d; echo evil > b/d/new; tar -cf x.tar -C a d; tar -rf x.tar -C b d/new; tar -xPf x.tar --keep-directory-symlink", Changes),
    sh("fs-git-worktree", "let git write where its settings say", "git(1), --work-tree", "
git -c core.worktree={outside} checkout HEAD -- README.md; git --work-tree={outside} checkout HEAD -- README.md", Changes),
    sh("fs-node", "open a device node that lies in the workspace", "mknod(2)", "head -c 4 {node} >/dev/null && echo REACHED", Says).takes("mount_tree"),
    sh("fs-mknod", "make a device node", "mknod(2)", "mknod zero c 1 5 && head -c 1 zero >/dev/null && echo REACHED", Says).root(),
    sh("fs-mknod-tmp", "make a device node in /tmp", "mknod(2)", "mknod /tmp/{tag} c 1 5 && head -c 1 /tmp/{tag} >/dev/null && echo REACHED; rm -f /tmp/{tag}", Says).root(),
    sh("fs-dev", "devices of the machine", "null(4), mem(4), kmsg", "for d in mem kmsg vda sda loop-control kvm fuse net/tun vsock; do [ -e /dev/$d ] && echo REACHED $d; done", Says).takes("mount_tree"),
    // Modes and times that they have already: nothing on the machine is changed.
    sh("dev-chmod", "change the mode of a device node", "chmod(2)", "chmod $(stat -c %a /dev/full) /dev/full && echo REACHED", Says).root().takes("mount_tree"),
    sh("dev-touch", "change the times of a device node", "utimensat(2)", "touch -c -d @$(stat -c %Y /dev/full) /dev/full && echo REACHED", Says).root().takes("mount_tree"),
    sh("dev-chown", "change the owner of a device node", "chown(2)", "chown $(id -u) /dev/full && echo REACHED", Says).root().takes("mount_tree"),
    sh("proc-keys", "the keys of the machine's users", "keyrings(7)", "grep -q . /proc/keys && echo REACHED", Says).takes("mount_tree"),
    sh("proc-memory", "the machine's memory page by page", "proc_kpageflags(5)", "[ \"$(head -c 8 /proc/kpageflags | wc -c)\" = 8 ] && echo REACHED", Says).root().takes("mount_tree"),
    sh("proc-addresses", "where the kernel keeps what", "proc_vmallocinfo(5)", "grep -q . /proc/vmallocinfo && echo REACHED", Says).root().takes("mount_tree"),
    sh("fs-core-pattern", "the program that handles crashes", "proc_sys_kernel(5)", "(exec 3>>/proc/sys/kernel/core_pattern) && echo REACHED", Says).root(),
    sh("fs-sysctl-links", "the kernel's own guard of links", "proc_sys_fs(5)", "(exec 3>>/proc/sys/fs/protected_symlinks) && echo REACHED", Says).root(),
    sh("fs-sysctl", "settings of the kernel", "proc_sys(5)", "(exec 3>>/proc/sys/vm/overcommit_memory) && echo REACHED", Says).root(),
    sh("fs-sysfs", "settings of devices", "sysfs(5)", "(exec 3>>/sys/kernel/mm/transparent_hugepage/enabled) && echo REACHED", Says).root(),
    sh("fs-kallsyms", "addresses of the kernel", "proc_kallsyms(5)", "grep -qv '^0000000000000000' /proc/kallsyms && echo REACHED", Says).root(),
    sh("fs-oom", "make the kernel end another program first", "proc_pid_oom_score_adj(5)", "(echo 900 > /proc/{victim}/oom_score_adj) && echo REACHED", Says),
    sh("suid-chmod", "a set-user-ID file left for others", "chmod(2)", "cp /bin/true t; chmod 4755 t; [ -u t ] && echo REACHED", Says),
    sh("suid-install", "the same by install", "install(1)", "install -m 4755 /bin/true t; [ -u t ] && echo REACHED", Says),
    sh("suid-tar", "the same out of an archive", "tar(1)", "printf x >t; tar -cf a t --mode=4755 && rm t && tar -xpf a; [ -u t ] && echo REACHED", Says),
    py("suid-open", "the same made with the bit", "open(2)", "os.umask(0); os.close(os.open('t', os.O_CREAT | os.O_WRONLY, 0o4755)); os.stat('t').st_mode & 0o4000 and print('REACHED')", Says),
    py("suid-mknod", "the same by mknod", "mknod(2)", "os.umask(0); os.mknod('t', 0o104755); os.stat('t').st_mode & 0o4000 and print('REACHED')", Says),
    py("suid-tmpfile", "the same without a name at first", "open(2)", "os.umask(0); fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755); os.link(f'/proc/self/fd/{fd}', 't', src_dir_fd=os.open('.', os.O_RDONLY)); os.stat('t').st_mode & 0o4000 and print('REACHED')", Says),
    py("suid-openat2", "the same by a mode in memory, where no filter sees it", "openat2(2)", "import ctypes, struct; how = struct.pack('QQQ', os.O_CREAT | os.O_RDWR, 0o4755, 0); os.umask(0); ctypes.CDLL(None).syscall(437, -100, b't', how, 24); os.stat('t').st_mode & 0o4000 and print('REACHED')", Says),
    sh("fs-setuid", "a program with root's set-user-ID bit", "credentials(7)", "cp {setuid} . 2>/dev/null; [ $(id -u) != 0 ] && [ \"$({setuid} -u)\" = 0 ] && echo REACHED", Says).ordinary().with(&["--read", "{outside}/id"]),
    // What may be read may only be read.
    sh("ro-write", "write to a read root", "open(2)", "echo evil > {shared}/victim; echo evil >> {shared}/victim", Changes).with(SHARED),
    py("ro-truncate", "cut a file of a read root", "truncate(2), Landlock before ABI 3", "os.truncate('{shared}/victim', 0)", Changes).with(SHARED),
    sh("ro-chmod", "change the mode of a read root", "chmod(2)", "chmod 777 {shared}/victim {shared}", Changes).with(SHARED).takes("mount_tree"),
    sh("ro-touch", "change the times of a read root", "utimensat(2)", "touch -d yesterday {shared}/victim", Changes).with(SHARED).takes("mount_tree"),
    sh("ro-unlink", "remove from a read root", "unlink(2)", "rm -rf {shared}/victim {shared}/dir", Changes).with(SHARED),
    sh("ro-hardlink", "a hard link from a read root into the workspace", "link(2)", "ln {shared}/victim got && echo evil >> got", Changes).with(SHARED),
    sh("ro-rename", "move a read root's file into the workspace", "rename(2), Landlock before ABI 2", "mv {shared}/victim got", Changes).with(SHARED),
    sh("ro-remount", "make a read root writable again", "mount(2)", "mount -o remount,bind,rw {shared}; umount -l {shared}; echo evil > {shared}/victim", Changes).with(SHARED),
    py("ro-mmap", "write through a shared mapping", "mmap(2)", "
import mmap
with open('{shared}/victim', 'r+') as file: mmap.mmap(file.fileno(), 0)[0:4] = b'evil'", Changes).with(SHARED),
    py("ro-reopen", "open to read, then again to write through /proc/self/fd", "CVE-2019-5736", "
fd = os.open('{shared}/victim', os.O_RDONLY); os.write(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY), b'evil')", Changes).with(SHARED),
    // What is hidden is absent.
    sh("hide-read", "read a hidden file", "spec 5.4", "cat private/key {work}/private/key", Reads).with(HIDDEN),
    sh("hide-link", "a hard or symbolic link to a hidden file", "link(2)", "ln private/key got; ln -s private/key soft; cat got soft", Reads).with(HIDDEN),
    sh("hide-rename", "rename the folder of a hidden file", "rename(2)", "mv private public; cat public/key", Reads).with(HIDDEN),
    sh("hide-detour", "reach a hidden file by other spellings", "path_resolution(7)", "cat ./private/../private//key /proc/self/cwd/private/key /proc/self/root/{work}/private/key", Reads).with(HIDDEN),
    sh("hide-umount", "take the cover away", "umount(2)", "umount {work}/private/key; umount -l private/key; cat private/key", Reads).with(HIDDEN),
    sh("hide-replace", "put something in the place of a hidden file", "unlink(2)", "rm -f private/key; echo evil > private/key", Plants("private/key")).with(HIDDEN),
];

const SHARED: &[&str] = &["--read", "{shared}"];
const HIDDEN: &[&str] = &["--hide", "{work}/private/key"];
