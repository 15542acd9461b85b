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
    forget_keys(lambda description, expiry: description == name)


def forget_keys(chosen):
    """Takes keys out of the user's own keyring: a user may have 200 of them and 20,000 bytes, for as long as the machine is up."""
    for line in open("/proc/keys"):
        number, _, _, expiry, _, uid, _, kind, description = line.split(None, 8)
        description = description.rsplit(":", 1)[0]
        if kind == "user" and int(uid) == os.getuid() and chosen(description, expiry):
            libc.syscall(keyctl, 9, int(number, 16), -4)


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
# Earlier versions of the attack that adds a key left it there; a victim's key expires and an attack's is gone at once.
forget_keys(lambda description, expiry: description.isdecimal() and len(description) > 9 and expiry == "perm")
stored = libc.syscall(add_key, b"user", name.encode(), marker.encode(), len(marker), -4)
libc.syscall(keyctl, 5, stored, 0x3F3F0000)
libc.syscall(keyctl, 15, stored, 120)
master, slave = pty.openpty()
answer = dict(address=ctypes.addressof(secret), key=key, pts=os.ttyname(slave), stored=stored, queue=queue)
print(json.dumps(answer), flush=True)
signal.alarm(120)
sys.stdin.read()
clean()
