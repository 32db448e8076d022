//! A client that sends exactly the bytes it is given and reads responses one by one.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use crate::{
    PATIENCE,
    response::{Delimiting, Response},
};

/// Most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
    received: Vec<u8>,
    scratch: Box<[u8]>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    /// Connects by TCP.
    pub fn tcp(address: SocketAddr) -> Self {
        Self::try_tcp(address).expect("the server accepts connections")
    }

    /// Connects by TCP, if the server accepts it.
    pub fn try_tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Socket::Tcp(socket)))
    }

    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> Self {
        Self::over(Socket::Unix(
            UnixStream::connect(path).expect("the server accepts connections"),
        ))
    }

    fn over(socket: Socket) -> Self {
        let client = Self {
            socket,
            received: Vec::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
        };
        client.set_patience(PATIENCE);
        client
    }

    /// A second handle on the connection, to send from another thread while this one reads.
    #[must_use]
    pub fn another_half(&self) -> Self {
        let socket = match &self.socket {
            Socket::Tcp(socket) => socket.try_clone().map(Socket::Tcp),
            Socket::Unix(socket) => socket.try_clone().map(Socket::Unix),
        };
        Self::over(socket.expect("an open socket can be shared"))
    }

    /// The port of this side of the connection.
    ///
    /// # Panics
    /// If it is a Unix socket.
    pub fn local_port(&self) -> u16 {
        match &self.socket {
            Socket::Tcp(socket) => socket.local_addr().expect("the socket has an address").port(),
            Socket::Unix(_) => panic!("a Unix socket has no port"),
        }
    }

    /// How long a read or a write waits before the test fails.
    pub fn set_patience(&self, patience: Duration) {
        match &self.socket {
            Socket::Tcp(socket) => socket
                .set_read_timeout(Some(patience))
                .and_then(|()| socket.set_write_timeout(Some(patience))),
            Socket::Unix(socket) => socket
                .set_read_timeout(Some(patience))
                .and_then(|()| socket.set_write_timeout(Some(patience))),
        }
        .expect("an open socket takes options");
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes.as_ref())
            .expect("the server takes what is sent");
    }

    /// Sends bytes, as far as the server accepts them.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write_all(bytes),
            Socket::Unix(socket) => socket.write_all(bytes),
        }
    }

    /// Whether there is something to read within `patience`: bytes, or the end.
    pub fn is_readable_within(&self, patience: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut ready = [match &self.socket {
            Socket::Tcp(socket) => PollFd::new(socket, PollFlags::IN),
            Socket::Unix(socket) => PollFd::new(socket, PollFlags::IN),
        }];
        let patience = Timespec::try_from(patience).expect("tests do not wait for years");
        poll(&mut ready, Some(&patience)).is_ok_and(|count| count > 0)
    }

    /// Sends a request without a body.
    pub fn request(&mut self, method: &str, target: &str) {
        self.send(format!("{method} {target} HTTP/1.1\r\nhost: test\r\n\r\n"));
    }

    /// Sends a request with a body of known length.
    pub fn post(&mut self, target: &str, body: &[u8]) {
        let mut bytes = format!(
            "POST {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        self.send(bytes);
    }

    /// Sends a request with these lines of fields and this body, and reads its response.
    pub fn ask(&mut self, method: &str, target: &str, fields: &str, body: impl AsRef<[u8]>) -> Response {
        let body = body.as_ref();
        let length = body.len();
        let head =
            format!("{method} {target} HTTP/1.1\r\nhost: test\r\n{fields}content-length: {length}\r\n\r\n");
        self.send([head.as_bytes(), body].concat());
        self.response_to(method)
    }

    /// Sends a GET and reads its response.
    pub fn get(&mut self, target: &str) -> Response {
        self.request("GET", target);
        self.response()
    }

    /// Ends the sending direction.
    pub fn finish_sending(&self) {
        match &self.socket {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Write),
        }
        .expect("the connection is open");
    }

    /// Reads the response to a request whose method is not HEAD. Panics unless it arrives and is complete.
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// Reads the response to a request with this method. Panics unless it arrives and is complete.
    pub fn response_to(&mut self, method: &str) -> Response {
        let response = self.try_response(method).expect("an answer comes");
        assert!(response.whole, "the answer is cut off: {response:?}");
        response
    }

    /// Reads a response, which may be cut off; an error when the connection ends before any byte of its body.
    pub fn try_response(&mut self, method: &str) -> io::Result<Response> {
        let mut response = self.head()?;
        let body = match response.delimiting(method) {
            Delimiting::Length(length) => self.body_of(length),
            Delimiting::Chunked => self.chunks(),
            Delimiting::UntilClose => self.rest(),
        };
        (response.body, response.whole) = body;
        Ok(response)
    }

    /// Reads a complete response if its first bytes have arrived.
    pub fn poll_response(&mut self) -> Option<Response> {
        let Socket::Tcp(socket) = &self.socket else {
            panic!("only TCP connections are polled")
        };
        socket
            .set_nonblocking(true)
            .expect("an open socket takes options");
        let peeked = socket.peek(&mut [0]);
        socket
            .set_nonblocking(false)
            .expect("an open socket takes options");
        let there = !self.received.is_empty()
            || !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        there.then(|| self.response())
    }

    /// Reads a head only; its body is read by [`Client::some_bytes`].
    pub fn head(&mut self) -> io::Result<Response> {
        loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                let head = Response::head(&self.received[..at]);
                self.received.drain(..at + 4);
                return Ok(head);
            }
            self.fill()?;
        }
    }

    /// Reads whatever bytes come next; empty at the connection's end.
    pub fn some_bytes(&mut self) -> Vec<u8> {
        if self.received.is_empty() && self.fill().is_err() {
            return Vec::new();
        }
        std::mem::take(&mut self.received)
    }

    /// Reads until these characters have come, and returns what came. Panics if the connection ends before.
    pub fn read_until(&mut self, end: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(end) {
            let more = self.some_bytes();
            assert!(!more.is_empty(), "it ends after {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&more));
        }
        seen
    }

    /// Waits until the server ends the connection. Panics when more bytes arrive instead.
    pub fn ends(&mut self) {
        let more = self.some_bytes();
        assert!(
            more.is_empty(),
            "more comes: {:?}",
            String::from_utf8_lossy(&more)
        );
    }

    fn body_of(&mut self, length: usize) -> (Vec<u8>, bool) {
        while self.received.len() < length {
            if self.fill().is_err() {
                return (std::mem::take(&mut self.received), false);
            }
        }
        let rest = self.received.split_off(length);
        (std::mem::replace(&mut self.received, rest), true)
    }

    fn rest(&mut self) -> (Vec<u8>, bool) {
        while self.fill().is_ok() {}
        (std::mem::take(&mut self.received), true)
    }

    /// Reads chunks until the last one; this server sends neither extensions nor trailers.
    fn chunks(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.line() else {
                return (body, false);
            };
            let size =
                usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("not a chunk's size: {line:?}"));
            let (mut chunk, whole) = self.body_of(size + 2);
            if !whole {
                chunk.truncate(size);
                body.append(&mut chunk);
                return (body, false);
            }
            assert_eq!(&chunk[size..], b"\r\n", "a chunk ends with its line");
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return (body, true);
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = find(&self.received, b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..at]).into_owned();
                self.received.drain(..at + 2);
                return Some(line);
            }
            self.fill().ok()?;
        }
    }

    /// Reads once. An error at the connection's end; panics when nothing arrives for too long.
    fn fill(&mut self) -> io::Result<()> {
        let read = match &mut self.socket {
            Socket::Tcp(socket) => socket.read(&mut self.scratch),
            Socket::Unix(socket) => socket.read(&mut self.scratch),
        };
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                self.received.extend_from_slice(&self.scratch[..bytes]);
                Ok(())
            }
            // A socket with a timeout does not resume by itself after a signal (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!(
                    "nothing comes from the server; so far: {:?}",
                    String::from_utf8_lossy(&self.received)
                )
            }
            Err(error) => Err(error),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
