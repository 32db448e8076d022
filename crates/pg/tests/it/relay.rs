//! A proxy between a source and its server, which records what the source sends, and cuts connections.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A proxy. Its threads end with their connections.
pub(crate) struct Relay {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
    /// Number of the connections that are forgotten, which are the first ones.
    forgotten: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
}

/// A connection is cut in the middle of this text when the server sends it.
pub(crate) const CUT: &[u8] = b"CUT HERE";

impl Relay {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        let (forgotten, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (is_before, count) = (Arc::clone(&forgotten), Arc::clone(&made));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
                let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
                let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
                let kept = Arc::clone(&kept);
                let number = count.fetch_add(1, Ordering::SeqCst);
                let is_before = Arc::clone(&is_before);
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = from_client.read(&mut buffer) {
                        if number < is_before.load(Ordering::SeqCst) {
                            continue;
                        }
                        kept.lock().unwrap().extend_from_slice(&buffer[..count]);
                        if to_server.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to_server.shutdown(std::net::Shutdown::Write);
                });
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = from_server.read(&mut buffer) {
                        let sent = &buffer[..count];
                        let cut = sent.windows(CUT.len()).position(|bytes| bytes == CUT);
                        let sent = cut.map_or(sent, |at| &sent[..at + CUT.len() / 2]);
                        if to_client.write_all(sent).is_err() || cut.is_some() {
                            break;
                        }
                    }
                    let _ = to_client.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self {
            address,
            sent,
            forgotten,
            made,
        }
    }

    /// From now on drops everything that is sent on the existing connections.
    pub(crate) fn forget(&self) {
        self.forgotten
            .store(self.made.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// The URL, through this proxy.
    pub(crate) fn url(&self, url: &str, port: u16) -> String {
        url.replace(&format!(":{port}/"), &format!(":{}/", self.address.port()))
    }

    /// Types of the messages that the first connection has sent after its startup, in order.
    pub(crate) fn kinds(&self) -> Vec<u8> {
        let sent = self.sent.lock().unwrap();
        let length = |at: usize| u32::from_be_bytes(sent[at..at + 4].try_into().unwrap()) as usize;
        // The first message has no type.
        let mut at = length(0);
        let mut kinds = Vec::new();
        while at < sent.len() {
            kinds.push(sent[at]);
            at += 1 + length(at + 1);
        }
        kinds
    }
}
