//! Listening sockets: bound once at startup, so that an address in use is reported before anything else happens.

use std::{
    fs, io,
    net::{SocketAddr, ToSocketAddrs},
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream as StdUnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::Mode;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::Listen;

/// Length of the accept queue; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// Pause after a failed accept, such as one without a free descriptor.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound address and its listening sockets. I/O threads get duplicates of them.
#[derive(Debug)]
pub(crate) struct Bound {
    sockets: Vec<Socket>,
    at: At,
    file_owner: SocketFileOwner,
}

#[derive(Clone, Debug)]
enum At {
    Tcp {
        address: SocketAddr,
        tls: bool,
    },
    Unix {
        path: PathBuf,
        /// The file's device and inode.
        file: (u64, u64),
    },
}

/// The process that removes the file of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketFileOwner {
    /// This process, when it exits.
    This,
    /// The process that this one replaces, or that replaces this one.
    OtherGeneration,
    /// The service manager, which keeps the socket open across restarts.
    ServiceManager,
}

impl Bound {
    /// Binds an address for `threads` threads. A Unix socket gets the permissions `unix_mode`, or those that the umask leaves.
    pub(crate) fn bind(listen: &Listen, threads: usize, unix_mode: Option<u32>) -> io::Result<Self> {
        match listen {
            Listen::Tcp { host, port, tls } => {
                let mut addresses = (host.as_str(), *port).to_socket_addrs()?;
                let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Self::bind_tcp(address, *tls, threads)
            }
            Listen::Unix(path) => Self::bind_unix(path, unix_mode.map(Mode::from_bits_truncate)),
        }
    }

    /// Binds a Unix socket for one thread. Only the current user can connect to it, from the moment it exists.
    pub(crate) fn bind_private(path: &Path) -> io::Result<Self> {
        Self::bind_unix(path, Some(Mode::RUSR | Mode::WUSR))
    }

    fn bind_tcp(address: SocketAddr, tls: bool, threads: usize) -> io::Result<Self> {
        // With SO_REUSEPORT a second server could share the port unnoticed. Without it, binding fails if anyone listens there.
        drop(tcp_socket(address, false)?);
        let first = tcp_socket(address, true)?;
        let address = tcp_address(&first)?;
        let mut sockets = vec![first];
        for _ in 1..threads {
            sockets.push(tcp_socket(address, true)?);
        }
        for socket in &sockets {
            socket.listen(BACKLOG)?;
        }
        Ok(Self {
            sockets,
            at: At::Tcp { address, tls },
            file_owner: SocketFileOwner::This,
        })
    }

    fn bind_unix(path: &Path, mode: Option<Mode>) -> io::Result<Self> {
        let socket = unix_socket(path, mode)?;
        Ok(Self {
            sockets: vec![socket],
            at: At::Unix {
                path: path.to_owned(),
                file: file_id(path)?,
            },
            file_owner: SocketFileOwner::This,
        })
    }

    /// Uses sockets, at least one, that already listen on this address.
    pub(crate) fn adopt(
        listen: &Listen,
        sockets: Vec<Socket>,
        file_owner: SocketFileOwner,
    ) -> io::Result<Self> {
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let first = sockets.first().ok_or(io::ErrorKind::NotFound)?;
        let at = match listen {
            Listen::Tcp { tls, .. } => At::Tcp {
                address: tcp_address(first)?,
                tls: *tls,
            },
            Listen::Unix(path) => At::Unix {
                path: path.clone(),
                file: file_id(path)?,
            },
        };
        Ok(Self {
            sockets,
            at,
            file_owner,
        })
    }

    /// The address as a URL, or as `unix:path`.
    pub(crate) fn url(&self) -> String {
        match &self.at {
            At::Tcp { address, tls: false } => format!("http://{address}"),
            At::Tcp { address, tls: true } => format!("https://{address}"),
            At::Unix { path, .. } => format!("unix:{}", path.display()),
        }
    }

    /// The path of a Unix socket.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.at {
            At::Tcp { .. } => None,
            At::Unix { path, .. } => Some(path),
        }
    }

    /// The port, if connections to it are encrypted.
    pub(super) fn tls_port(&self) -> Option<u16> {
        match self.at {
            At::Tcp { address, tls: true } => Some(address.port()),
            At::Tcp { .. } | At::Unix { .. } => None,
        }
    }

    /// Duplicates of the sockets for one of `threads` threads. Every thread gets at least one, and every socket is given to a thread:
    /// connections may be queued on each.
    pub(crate) fn for_thread(&self, index: usize, threads: usize) -> io::Result<Vec<Accepting>> {
        let count = self.sockets.len();
        let chosen: Vec<&Socket> = if count < threads {
            vec![&self.sockets[index % count]]
        } else {
            self.sockets.iter().skip(index).step_by(threads).collect()
        };
        chosen
            .into_iter()
            .map(|socket| {
                let socket = socket.try_clone()?;
                Ok(match self.at {
                    At::Tcp { tls, .. } => Accepting::Tcp(socket.into(), tls),
                    At::Unix { .. } => Accepting::Unix(socket.into()),
                })
            })
            .collect()
    }

    /// The sockets.
    pub(crate) fn sockets(&self) -> &[Socket] {
        &self.sockets
    }

    /// Closes these sockets. The address stays open until the threads close their duplicates.
    pub(crate) fn close(&mut self) {
        self.sockets.clear();
    }

    pub(crate) const fn file_owner(&self) -> SocketFileOwner {
        self.file_owner
    }

    /// Changes who removes the file of a Unix socket, unless that is the service manager.
    pub(crate) fn set_file_owner(&mut self, next: SocketFileOwner) {
        if self.file_owner != SocketFileOwner::ServiceManager {
            self.file_owner = next;
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let At::Unix { path, file } = &self.at
            && self.file_owner == SocketFileOwner::This
        {
            // Another server may be listening at this path by now.
            if file_id(path).is_ok_and(|found| found == *file) {
                // If the file has been removed already, there is nothing to clean up.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn tcp_address(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?.as_socket();
    address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a TCP socket"))
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn tcp_socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if shared {
        socket.set_reuse_port(true)?;
    }
    if address.ip().is_loopback() {
        // Loopback traffic meets no congestion, so its connections use the cheapest algorithm; where it is missing, any will do.
        let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Listens at a path. A socket file that nothing listens on was left by a killed server and is replaced.
fn unix_socket(path: &Path, mode: Option<Mode>) -> io::Result<Socket> {
    let left_over = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        && StdUnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if left_over {
        fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if let Some(mode) = mode {
        // Linux creates the file with the mode of the socket (unix_bind_bsd in net/unix/af_unix.c), so there is no moment at which others
        // could connect.
        rustix::fs::fchmod(&socket, mode)?;
    }
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    if let Some(mode) = mode {
        // bind applies the umask to the mode; this undoes it.
        rustix::fs::chmod(path, mode)?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// A listening socket on its way to its I/O thread.
#[derive(Debug)]
pub(crate) enum Accepting {
    /// With TLS, or without.
    Tcp(std::net::TcpListener, bool),
    Unix(std::os::unix::net::UnixListener),
}

/// A listening socket registered with its thread's runtime.
#[derive(Debug)]
pub(crate) enum Listener {
    /// With TLS, or without.
    Tcp(TcpListener, bool),
    Unix(UnixListener),
}

/// A new connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    /// The handshake is still to come.
    Tls(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Accepting {
    pub(crate) fn register(self) -> io::Result<Listener> {
        Ok(match self {
            Self::Tcp(socket, tls) => Listener::Tcp(TcpListener::from_std(socket)?, tls),
            Self::Unix(socket) => Listener::Unix(UnixListener::from_std(socket)?),
        })
    }
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener, tls) => {
                let (socket, peer) = listener.accept().await?;
                socket.set_nodelay(true)?;
                Ok(if *tls {
                    Accepted::Tls(socket, peer)
                } else {
                    Accepted::Tcp(socket, peer)
                })
            }
            Self::Unix(listener) => Ok(Accepted::Unix(listener.accept().await?.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("fb-{name}-{}.sock", std::process::id()))
    }

    #[test]
    fn a_private_socket_is_its_owners_whatever_the_umask() {
        let path = place("private");
        let bound = Bound::bind_private(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_left_over_socket_is_replaced_and_a_living_one_is_not() {
        let path = place("left");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the file outlives its socket");
        let bound = Bound::bind_private(&path).unwrap();
        let again = Bound::bind_private(&path).map(drop).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        drop(bound);
        fs::write(&path, "not a socket").unwrap();
        let again = Bound::bind_private(&path).map(drop).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn each_socket_is_of_a_thread_and_each_thread_has_one() {
        for (count, threads) in [(1, 1), (1, 4), (3, 3), (3, 2), (5, 2), (2, 5)] {
            let bound = Bound::bind_tcp("127.0.0.1:0".parse().unwrap(), false, count).unwrap();
            let of_threads = (0..threads).map(|index| bound.for_thread(index, threads).unwrap());
            let lengths: Vec<usize> = of_threads.map(|sockets| sockets.len()).collect();
            assert!(
                !lengths.contains(&0),
                "{count} sockets of {threads} threads: {lengths:?}"
            );
            assert_eq!(lengths.iter().sum::<usize>(), count.max(threads), "{lengths:?}");
        }
    }

    #[test]
    fn the_file_of_another_server_is_left_alone() {
        let path = place("other");
        let bound = Bound::bind_private(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let other = Bound::bind_private(&path).unwrap();
        drop(bound);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }
}
