//! Stands between a source and its server, and keeps what the source sends.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A relay. Its threads end with their connections.
pub(crate) struct Relay {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
                let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
                let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
                let kept = Arc::clone(&kept);
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = from_client.read(&mut buffer) {
                        kept.lock().unwrap().extend_from_slice(&buffer[..count]);
                        if to_server.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to_server.shutdown(std::net::Shutdown::Write);
                });
                thread::spawn(move || {
                    let _ = io::copy(&mut from_server, &mut to_client);
                    let _ = to_client.shutdown(std::net::Shutdown::Write);
                });
            }
        });
        Self { address, sent }
    }

    /// This URL, through here.
    pub(crate) fn url(&self, url: &str, port: u16) -> String {
        url.replace(&format!(":{port}/"), &format!(":{}/", self.address.port()))
    }

    /// The kinds of the messages that the first connection has sent after its start, in order.
    pub(crate) fn kinds(&self) -> Vec<u8> {
        let sent = self.sent.lock().unwrap();
        let length = |at: usize| u32::from_be_bytes(sent[at..at + 4].try_into().unwrap()) as usize;
        // The first message has no kind.
        let mut at = length(0);
        let mut kinds = Vec::new();
        while at < sent.len() {
            kinds.push(sent[at]);
            at += 1 + length(at + 1);
        }
        kinds
    }
}
