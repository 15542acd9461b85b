# Another program of the host, with the same user as the attack. It has a secret in its memory, its environment, its arguments, an open
# file, and in every kind of object that processes share. Says where, then waits for the end of its stdin. "clean" takes its objects away.
import ctypes, json, os, pty, signal, sys

mode, name, marker, outside = sys.argv[1:5]
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
key = int(name) % 2**31
machine = os.uname().machine
mq_open, mq_unlink, mq_timedsend = (180, 181, 182) if machine == "aarch64" else (240, 241, 242)
add_key, keyctl = (217, 219) if machine == "aarch64" else (248, 250)


def clean():
    segment = libc.shmget(key, 0, 0)
    if segment >= 0:
        libc.shmctl(segment, 0, None)
    libc.syscall(mq_unlink, name.encode())
    if os.path.exists("/dev/shm/" + name):
        os.unlink("/dev/shm/" + name)
    forget_key()


def forget_key():
    for line in open("/proc/keys"):
        number, *_, kind, description = line.split(None, 8)
        if kind == "user" and description.startswith(name + ":"):
            libc.syscall(keyctl, 9, int(number, 16), -4)


def make_room_for_keys():
    """A keyring pays for each key that expired in it until it is cleared, and nobody clears that of the user "nobody"."""
    for line in open("/proc/key-users"):
        uid, _, _, keys, size = line.replace(":", " ").split()
        used = max(int(taken) / int(limit) for taken, limit in (keys.split("/"), size.split("/")))
        if int(uid) == os.getuid() and used > 0.5:
            libc.syscall(keyctl, 7, -4)


if mode == "clean":
    clean()
    sys.exit()

# Where Yama restricts tracing to ancestors, this program lets itself be traced by anybody of its user (PR_SET_PTRACER).
libc.prctl(0x59616D61, ctypes.c_ulong(-1 % 2**64), 0, 0, 0)
secret = ctypes.create_string_buffer(marker.encode())
os.chdir(outside)
os.dup2(os.open("secret", os.O_RDONLY), 7)
segment = libc.shmget(key, 4096, 0o1600)
place = libc.shmat(segment, None, 0)
ctypes.memmove(place, marker.encode(), len(marker))
attributes = (ctypes.c_long * 8)(0, 4, 256, 0)
queue = libc.syscall(mq_open, name.encode(), 0o102, 0o600, attributes)
libc.syscall(mq_timedsend, queue, marker.encode(), len(marker), 0, None)
with open("/dev/shm/" + name, "w") as file:
    file.write(marker)
if os.getuid() == 65534:
    make_room_for_keys()
stored = libc.syscall(add_key, b"user", name.encode(), marker.encode(), len(marker), -4)
libc.syscall(keyctl, 5, stored, 0x3F3F0000)
libc.syscall(keyctl, 15, stored, 120)
master, slave = pty.openpty()
answer = dict(address=ctypes.addressof(secret), key=key, pts=os.ttyname(slave), stored=stored, queue=queue)
print(json.dumps(answer), flush=True)
signal.alarm(120)
sys.stdin.read()
clean()
