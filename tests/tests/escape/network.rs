//! Ways out by the network.

use crate::technique::Proof::{Heard, Reads, Says};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    sh("net-tcp", "a service on the host's loopback", "tcp(7)", "exec 3<>/dev/tcp/127.0.0.1/{tcp}; timeout 2 head -n 1 <&3", Reads),
    sh("net-tcp-name", "the same by name", "hosts(5)", "exec 3<>/dev/tcp/localhost/{tcp}; timeout 2 head -n 1 <&3", Reads),
    sh("net-tcp-other", "another address of loopback", "ip(7)", "exec 3<>/dev/tcp/127.3.2.1/{tcp}; timeout 2 head -n 1 <&3", Reads),
    sh("net-tcp-zero", "the address 0.0.0.0, which means loopback", "0.0.0.0-day (2024)", "exec 3<>/dev/tcp/0.0.0.0/{tcp}; timeout 2 head -n 1 <&3", Reads),
    sh("net-tcp6", "a service on loopback by IPv6", "ipv6(7)", "exec 3<>/dev/tcp/::1/{tcp6}; timeout 2 head -n 1 <&3", Reads),
    py("net-tcp-mapped", "IPv4 loopback as an IPv6 address", "ipv6(7)", "
s = socket.create_connection(('::ffff:127.0.0.1', {tcp}), 2); print(s.recv(99))", Reads),
    sh("net-curl", "by a program that is there", "curl(1)", "curl -s --max-time 2 --http0.9 http://127.0.0.1:{tcp}/; curl -s --max-time 2 --http0.9 --noproxy '*' telnet://127.0.0.1:{tcp}/", Reads),
    py("net-send", "send a secret by TCP", "tcp(7)", "s = socket.create_connection(('127.0.0.1', {tcp}), 2); s.send(b'exfil'); time.sleep(0.05)", Heard),
    py("net-fastopen", "send it with the connection's first packet", "tcp(7), MSG_FASTOPEN", "
s = socket.socket(); s.sendto(b'exfil', 0x20000000, ('127.0.0.1', {tcp})); time.sleep(0.05)", Heard),
    py("net-mptcp", "by multipath TCP, which rules for TCP may not cover", "tcp(7)", "
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.settimeout(2); s.connect(('127.0.0.1', {tcp})); print(s.recv(99))", Reads),
    py("net-udp", "by UDP", "udp(7)", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'exfil', ('127.0.0.1', {udp}))", Heard),
    py("net-udp-connected", "by connected UDP, as names are asked for", "CVE-2025-55284", "
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', {udp}))
s.send(b'\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0\\x05exfil\\7invalid\\0\\0\\1\\0\\1')", Heard),
    py("net-udp-lite", "by UDP-Lite or another transport", "udplite(7)", "
for protocol in (0, 17): socket.socket(socket.AF_INET, socket.SOCK_DGRAM, protocol).sendto(b'exfil', ('127.0.0.1', {udp}))", Heard),
    sh("net-inherited", "over a connection that was left open", "CVE-2024-21626", "echo exfil >&6", Heard),
    py("net-scan-inherited", "over whatever descriptor is a socket", "CVE-2016-9962", "
for fd in range(3, 4096):  # &6
    try: os.write(fd, b'exfil')
    except OSError: pass", Heard),
    py("net-raw", "a raw socket", "raw(7)", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('REACHED')", Says).root(),
    py("net-packet", "a packet socket", "CVE-2020-14386", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); print('REACHED')", Says).root(),
    py("net-vsock", "to the machine that runs this virtual one", "vsock(7)", "socket.socket(40, socket.SOCK_STREAM); print('REACHED')", Says),
    py("net-netlink-diag", "ask for the host's sockets", "sock_diag(7)", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4); print('REACHED')", Says),
    py("net-netlink-netfilter", "the firewall", "CVE-2024-1086", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12); print('REACHED')", Says),
    py("net-netlink-audit", "the audit log", "netlink(7)", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9); print('REACHED')", Says),
    py("net-netlink-uevent", "events of devices", "CVE-2009-1185", "socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15); print('REACHED')", Says),
    sh("net-sockets", "a list of the host's sockets", "proc_pid_net(5)", "grep -q ':{tcp-hex} ' /proc/net/tcp && echo REACHED", Says).takes("network_namespace"),
    sh("net-unix-list", "a list of the host's unix sockets", "proc_pid_net(5)", "grep -q {abstract} /proc/net/unix && echo REACHED", Says).takes("network_namespace"),
    py("net-interfaces", "the host's interfaces", "if_nameindex(3)", "
any(name != 'lo' for _, name in socket.if_nameindex()) and print('REACHED')", Says).takes("network_namespace"),
    py("net-listen-host", "a port on the host's loopback, where others expect a service", "bind(2)", "
s = socket.create_server(('127.0.0.1', 0)); print('REACHED' if any(name != 'lo' for _, name in socket.if_nameindex()) else '')", Says).takes("network_namespace"),
    py("net-tun", "a network interface of one's own", "tun driver", "
fcntl.ioctl(os.open('/dev/net/tun', os.O_RDWR), 0x400454CA, struct.pack('16sH22x', b'stockade%d', 0x1001)); print('REACHED')", Says).root(),
];
