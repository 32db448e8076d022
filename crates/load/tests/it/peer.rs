//! A peer that follows a script for each connection instead of HTTP.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Accepts connections until dropped, and runs its script on each in a thread of its own.
pub(crate) struct Peer {
    address: SocketAddr,
    accepted: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    pub(crate) fn start(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stopped, script) = (accepted.clone(), stop.clone(), Arc::new(script));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
                let (stream, script) = (stream.unwrap(), script.clone());
                // The test ends in any case.
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                std::thread::spawn(move || script(stream));
            }
        });
        Self {
            address,
            accepted,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads one request without a body; false when the other side is gone.
pub(crate) fn request(stream: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// Answers each request with these bytes as long as there are any.
pub(crate) fn answering(bytes: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |mut stream| while request(&mut stream) && stream.write_all(bytes).is_ok() {}
}

/// Makes dropping the stream reset the connection.
pub(crate) fn reset_on_drop(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}
