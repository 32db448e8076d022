//! Ports for programs that cannot choose one themselves.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt::set_socket_reuseaddr};

/// Below the ports that the system gives to clients: a server that is stopped finds its own free again.
pub(crate) const PORTS: Range<u16> = 20_000..32_000;
/// Ports that this process has tried. None is tried twice: it may be that of a server which is to be started again.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// A port of this machine that nobody listens on, and that this process has not had before.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    // Processes started close together have neighbouring pids: each begins where the previous one would be after a few ports.
    let spread = std::process::id().wrapping_mul(16);
    let mut ports = PORTS.map(|_| {
        let place = spread.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        PORTS.start + (place % PORTS.len() as u32) as u16
    });
    ports.find(|port| is_free(*port)).expect("one of them is free")
}

/// Whether a port is free. The socket is bound without listening and with `SO_REUSEADDR`, so that a server that starts there at this moment
/// is not kept from it.
fn is_free(port: u16) -> bool {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None);
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    socket.is_ok_and(|socket| {
        set_socket_reuseaddr(&socket, true)
            .and_then(|()| bind(&socket, &address))
            .is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::{PORTS, is_free};

    #[test]
    fn a_port_is_free_when_nobody_listens_and_looking_takes_it_from_nobody() {
        // A port outside the range, so that no server takes it meanwhile.
        let mut ports = PORTS.end..32_768;
        let port = ports.find(|port| is_free(*port)).expect("one of them is free");
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| (0..10_000).filter(|_| is_free(port)).count());
            let listened = (0..1_000).filter(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
            assert_eq!(listened.count(), 1_000);
            looks.join().expect("it looks on");
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        assert!(!is_free(port));
        drop(listener);
        assert!(is_free(port));
    }
}
