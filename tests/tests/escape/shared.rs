//! Ways through what processes share: sockets, queues, memory, keys, terminals.

use crate::technique::Proof::{Heard, Reads, Says};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    py("ipc-abstract", "an abstract socket of a daemon", "CVE-2020-15257", "
s = socket.socket(socket.AF_UNIX); s.connect('\\0{abstract}'); print(s.recv(99))", Reads),
    py("ipc-abstract-host", "the same where the network is the host's", "CVE-2020-15257", "
s = socket.socket(socket.AF_UNIX); s.connect('\\0{abstract}'); print(s.recv(99))", Reads).with(&["--net", "host"]),
    py("ipc-abstract-datagram", "an abstract socket, by datagram", "unix(7)", "
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'exfil', '\\0{abstract-datagram}')", Heard),
    py("ipc-socket", "a socket outside the workspace", "unix(7)", "
s = socket.socket(socket.AF_UNIX); s.connect('{socket}'); print(s.recv(99))", Reads),
    py("ipc-socket-link", "a socket outside by a link in the workspace", "unix(7)", "
os.symlink('{socket}', 'link'); s = socket.socket(socket.AF_UNIX); s.connect('link'); print(s.recv(99))", Reads),
    py("ipc-socket-proc", "a socket outside by a descriptor left open", "unix(7)", "
s = socket.socket(socket.AF_UNIX); s.connect('/proc/self/fd/9/agent.sock'); print(s.recv(99)) # {socket}", Reads),
    sh("ipc-docker", "the container engine's socket", "dockerd(8), its socket", "curl -s --max-time 2 --unix-socket ${DOCKER_HOST#unix://} http://localhost/ --http0.9 # {socket}\ncurl -s --max-time 2 --unix-socket {socket} http://localhost/ --http0.9", Reads),
    py("ipc-agent", "the ssh agent", "ssh-agent(1)", "
s = socket.socket(socket.AF_UNIX); s.connect(os.environ.get('SSH_AUTH_SOCK', '{socket}')); print(s.recv(99))", Reads),
    py("ipc-bus", "the session's message bus", "dbus-daemon(1)", "
s = socket.socket(socket.AF_UNIX); s.connect(os.environ.get('DBUS_SESSION_BUS_ADDRESS', 'unix:path={socket}')[10:]); print(s.recv(99))", Reads),
    py("ipc-display", "the display", "X(7)", "
s = socket.create_connection(('127.0.0.1', int(os.environ.get('DISPLAY', ':{tcp}').split(':')[1])), 2); print(s.recv(99))", Reads),
    py("ipc-shm", "System V shared memory", "shmat(2)", "
libc.shmat.restype = ctypes.c_void_p; place = libc.shmat(call('shmget', {victim-key}, 0, 0), None, 0); print(ctypes.string_at(place, 99))", Reads),
    sh("ipc-shm-file", "shared memory as a file", "shm_open(3)", "cat /dev/shm/{victim-name}", Reads),
    py("ipc-queue", "a POSIX message queue", "mq_open(3)", "
queue = call('mq_open', b'{victim-name}', os.O_RDONLY, 0, None); buffer = ctypes.create_string_buffer(256)
call('mq_timedreceive', queue, buffer, 256, None, None); print(buffer.raw)", Reads),
    sh("ipc-list", "what System V objects there are", "sysvipc(7)", "grep -q {victim-key} /proc/sysvipc/shm && echo REACHED", Says).takes("ipc_namespace"),
    py("key-read", "a key in the kernel's keyring", "keyctl(2)", "
buffer = ctypes.create_string_buffer(200); call('keyctl', 11, {victim-stored}, buffer, 199); print(buffer.raw)", Reads),
    py("key-add", "put a key where the host's programs look", "add_key(2)", "
key = call('add_key', b'user', b'{tag}', b'evil', 4, -4); print('REACHED'); call('keyctl', 9, key, -4)", Says),
    py("key-request", "have the kernel ask a program for a key", "request_key(2)", "reached('request_key', b'user', b'{tag}', b'', -4)", Says),
    py("key-session", "a session keyring", "CVE-2016-0728", "call('keyctl', 1, None); print('REACHED')", Says),
    sh("tty-write", "write to somebody's terminal", "pts(4)", "echo evil > {victim-pts} && echo REACHED", Says),
    py("tty-steal", "make somebody's terminal one's own", "ioctl_tty(2), TIOCSCTTY", "
if os.fork() == 0:
    os.setsid(); fcntl.ioctl(os.open('{victim-pts}', os.O_RDWR), 0x540E, 0); print('REACHED', flush=True); os._exit(0)
os.wait()", Says),
    py("tty-inject", "type into a terminal", "CVE-2017-5226", "
import pty; pty.fork()[0] or (fcntl.ioctl(0, 0x5412, b'x'), print('REACHED', file=sys.stderr, flush=True), open('typed', 'w').write('x'), os._exit(0))
time.sleep(0.1); os.path.exists('typed') and print('REACHED')", Says).root(),
    py("tty-inject-high", "type into a terminal, with bits that the kernel ignores", "CVE-2019-10063", "
import pty
if pty.fork()[0] == 0:
    r = libc.ioctl(0, ctypes.c_ulong(0x100005412), b'x')
    r == 0 and open('typed', 'w').write('x'); os._exit(0)
time.sleep(0.1); os.path.exists('typed') and print('REACHED')", Says).root(),
    sh("tty-devices", "terminals and consoles of the machine", "console(4)", "for d in tty0 tty1 console ttyS0 vcs; do [ -e /dev/$d ] && echo REACHED $d; done", Says).takes("mount_tree"),
    sh("tty-others", "which terminals others have", "pts(4)", "[ -e {victim-pts} ] && echo REACHED", Says).takes("mount_tree"),
];
