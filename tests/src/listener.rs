use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Listens on loopback, on a port of its own, answers `heard you`, and counts who came.
pub struct Listener {
    port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Listener {
    /// Starts to listen; goes on until the process ends.
    pub fn start() -> Self {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let port = socket.local_addr().expect("the address of a bound socket").port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in socket.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                if let Ok(mut stream) = stream {
                    answer(&mut stream);
                }
            }
        });
        Self { port, accepted }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has accepted so far.
    pub fn accepted(&self) -> usize {
        // A connection that the kernel has completed may still wait for the accepting thread.
        thread::sleep(Duration::from_millis(50));
        self.accepted.load(Ordering::SeqCst)
    }
}

fn answer(stream: &mut std::net::TcpStream) {
    use std::io::{Read, Write};
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok();
    let mut request = [0; 1024];
    let _part_of_it = stream.read(&mut request);
    stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nheard you\n").ok();
}
