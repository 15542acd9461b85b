//! Everything on the fake host that listens. Whoever connects is answered with the secret; whoever sends `exfil` was heard.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use stockade_tests::unique;

/// Started for one scene; the threads wait on until the test process ends.
pub struct Listeners {
    heard: Arc<AtomicBool>,
    tcp: u16,
    tcp6: u16,
    udp: u16,
    name: String,
    socket: PathBuf,
    in_shared: PathBuf,
}

impl Listeners {
    /// Starts those that the program is about, and the one for TCP.
    pub fn start(marker: &str, scratch: &Path, program: &str) -> Self {
        let heard = Arc::new(AtomicBool::new(false));
        let name = format!("stockade-escape-{}", unique());
        let socket = scratch.join("outside/agent.sock");
        let in_shared = scratch.join("shared/daemon.sock");
        let reply: Arc<str> = format!("{marker}\n").into();
        // Port 0 of every address of loopback: an attack may choose another than 127.0.0.1.
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
        let tcp = listener.local_addr().expect("its address").port();
        serve(&heard, &reply, move || Some(listener.accept().ok()?.0));
        let mut tcp6 = 0;
        if program.contains("{tcp6}") {
            let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).expect("IPv6 on loopback");
            tcp6 = listener.local_addr().expect("its address").port();
            serve(&heard, &reply, move || Some(listener.accept().ok()?.0));
        }
        let mut udp = 0;
        if program.contains("{udp}") {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            udp = socket.local_addr().expect("its address").port();
            receive(&heard, move |buffer| socket.recv(buffer).ok());
        }
        if program.contains("{abstract}") {
            let address = SocketAddr::from_abstract_name(&name).expect("a name");
            let listener = UnixListener::bind_addr(&address).expect("an abstract socket");
            serve(&heard, &reply, move || Some(listener.accept().ok()?.0));
        }
        if program.contains("{abstract-datagram}") {
            let address = SocketAddr::from_abstract_name(format!("{name}d")).expect("a name");
            let socket = UnixDatagram::bind_addr(&address).expect("an abstract socket");
            receive(&heard, move |buffer| socket.recv(buffer).ok());
        }
        for (place, path) in [("{socket}", &socket), ("{shared-socket}", &in_shared)] {
            if program.contains(place) {
                let listener = UnixListener::bind(path).expect("a socket");
                fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("a mode");
                serve(&heard, &reply, move || Some(listener.accept().ok()?.0));
            }
        }
        Self { heard, tcp, tcp6, udp, name, socket, in_shared }
    }

    /// The port on loopback.
    pub fn tcp(&self) -> u16 {
        self.tcp
    }

    /// Whether `exfil` has arrived anywhere.
    pub fn heard(&self) -> bool {
        thread::sleep(Duration::from_millis(20));
        self.heard.load(Ordering::SeqCst)
    }

    /// What leads programs to the services of a session.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        let socket = self.socket.display().to_string();
        [
            ("SSH_AUTH_SOCK", socket.clone()),
            ("DOCKER_HOST", format!("unix://{socket}")),
            ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={socket}")),
            ("DISPLAY", format!("127.0.0.1:{}", self.tcp)),
        ]
    }

    /// Fills in where they listen.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{tcp}", &self.tcp.to_string())
            .replace("{tcp-hex}", &format!("{:04X}", self.tcp))
            .replace("{tcp6}", &self.tcp6.to_string())
            .replace("{udp}", &self.udp.to_string())
            .replace("{abstract}", &self.name)
            .replace("{abstract-datagram}", &format!("{}d", self.name))
            .replace("{socket}", &self.socket.display().to_string())
            .replace("{shared-socket}", &self.in_shared.display().to_string())
    }
}

fn serve<S: Read + Write + Send + 'static>(
    heard: &Arc<AtomicBool>,
    reply: &Arc<str>,
    accept: impl Fn() -> Option<S> + Send + 'static,
) {
    let (heard, reply) = (Arc::clone(heard), Arc::clone(reply));
    thread::spawn(move || {
        while let Some(mut stream) = accept() {
            let (heard, reply) = (Arc::clone(&heard), Arc::clone(&reply));
            thread::spawn(move || {
                stream.write_all(reply.as_bytes()).ok();
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    note(&heard, &buffer[..length]);
                }
            });
        }
    });
}

fn receive(heard: &Arc<AtomicBool>, receive: impl Fn(&mut [u8]) -> Option<usize> + Send + 'static) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Some(length) = receive(&mut buffer) {
            note(&heard, &buffer[..length]);
        }
    });
}

fn note(heard: &AtomicBool, bytes: &[u8]) {
    if bytes.windows(5).any(|window| window == b"exfil") {
        heard.store(true, Ordering::SeqCst);
    }
}
