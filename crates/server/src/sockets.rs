//! The listening sockets of a server: those that the service manager or the process before this one passes, and new ones for all other
//! addresses.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    os::fd::{AsFd as _, BorrowedFd},
    path::PathBuf,
};

use listenfd::ListenFd;
use socket2::Socket;

use crate::{
    config::{Config, Listen},
    front::{Bound, FileOf},
};

/// A listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A configured address cannot be listened on.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address as configured.
        listen: Listen,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The admin address cannot be listened on.
    #[error("cannot listen on {listen} (admin.listen)")]
    Admin {
        /// The address as configured.
        listen: Listen,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The control socket cannot be created.
    #[error("cannot make the control socket `{}` (admin.socket)", .socket.display())]
    Control {
        /// The path of the socket.
        socket: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A descriptor of the service manager is not a listening stream socket.
    #[error("descriptor {descriptor} of LISTEN_FDS{} is not a socket that listens for TCP or Unix connections", named(.name))]
    NotListening {
        /// Its number.
        descriptor: usize,
        /// Its name in `LISTEN_FDNAMES`, or nothing.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The service manager listens on an address that is not configured. Connections to it would wait without end.
    #[error(
        "the service manager passes a socket for {address}{}, and neither server.listen nor [admin] has that address", named(.name)
    )]
    NotConfigured {
        /// The address of the socket.
        address: String,
        /// Its name in `LISTEN_FDNAMES`, or nothing.
        name: String,
    },
}

fn named(name: &str) -> String {
    if name.is_empty() {
        String::new()
    } else {
        format!(" (`{name}`)")
    }
}

/// The listening sockets of a server.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) server: Vec<Bound>,
    pub(crate) admin: Option<Bound>,
    pub(crate) control: Option<Bound>,
}

/// Sockets that another process has opened for this one.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<PassedSockets>);

/// Sockets for one address.
#[derive(Debug)]
pub(crate) struct PassedSockets {
    pub(crate) of: Origin,
    pub(crate) sockets: Vec<Socket>,
}

#[derive(Debug)]
pub(crate) enum Origin {
    /// The process before this one, which used them for what this says.
    Predecessor { purpose: String, file_of: FileOf },
    /// The service manager, which may have named them. What they are for follows from their address.
    ServiceManager { name: String },
}

impl Passed {
    pub(crate) fn push(&mut self, passed: PassedSockets) {
        self.0.push(passed);
    }

    /// The sockets of the service manager (`sd_listen_fds(3)`). Without one, or if they are for another process, there are none.
    fn of_service_manager() -> Result<Self, SocketError> {
        // Also removes the variables, so that no child takes them for its own. Without LISTEN_PID they are not from systemd.
        let is_ours = std::env::var_os("LISTEN_PID").is_some();
        let mut descriptors = if is_ours {
            ListenFd::from_env()
        } else {
            ListenFd::empty()
        };
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = Self::default();
        for index in 0..descriptors.len() {
            let name = names.next().unwrap_or_default().to_owned();
            let socket: io::Result<Option<Socket>> = match descriptors.take_unix_listener(index) {
                Ok(socket) => Ok(socket.map(Into::into)),
                Err(_) => descriptors
                    .take_tcp_listener(index)
                    .map(|socket| socket.map(Into::into)),
            };
            let listening = socket.and_then(|socket| {
                let socket = socket.ok_or(io::ErrorKind::NotFound)?;
                if rustix::net::sockopt::socket_acceptconn(&socket)? {
                    Ok(socket)
                } else {
                    Err(io::Error::other("it does not listen"))
                }
            });
            let socket = listening.map_err(|source| SocketError::NotListening {
                descriptor: index + 3,
                name: name.clone(),
                source,
            })?;
            passed.push(PassedSockets {
                of: Origin::ServiceManager { name },
                sockets: vec![socket],
            });
        }
        Ok(passed)
    }

    /// Takes the sockets for an address out of these.
    fn take(&mut self, purpose: &str, listen: &Listen) -> Option<io::Result<Bound>> {
        let is_wanted = |passed: &PassedSockets| match &passed.of {
            Origin::Predecessor { purpose: of, .. } => of == purpose,
            Origin::ServiceManager { .. } => passed.sockets.iter().any(|socket| is_for(socket, listen)),
        };
        let first = self.0.remove(self.0.iter().position(is_wanted)?);
        let mut sockets = first.sockets;
        let file_of = match first.of {
            Origin::Predecessor { file_of, .. } => file_of,
            Origin::ServiceManager { .. } => {
                // There are several with `ReusePort=yes` in several units.
                while let Some(at) = self.0.iter().position(is_wanted) {
                    sockets.append(&mut self.0.remove(at).sockets);
                }
                FileOf::ServiceManager
            }
        };
        Some(Bound::adopt(listen, sockets, file_of))
    }

    /// Fails if the service manager has passed sockets that nobody has taken. Those of a predecessor are left to it.
    fn check_taken(&self) -> Result<(), SocketError> {
        let left = self.0.iter().find_map(|passed| match &passed.of {
            Origin::ServiceManager { name } => Some((name, passed.sockets.first()?)),
            Origin::Predecessor { .. } => None,
        });
        match left {
            None => Ok(()),
            Some((name, socket)) => Err(SocketError::NotConfigured {
                address: address_of(socket),
                name: name.clone(),
            }),
        }
    }
}

/// Whether a socket listens at an address. Any address of this machine is one address, whether in IPv4 or IPv6.
fn is_for(socket: &Socket, listen: &Listen) -> bool {
    let Ok(local) = socket.local_addr() else {
        return false;
    };
    match listen {
        Listen::Unix(path) => local.as_pathname() == Some(path),
        Listen::Tcp { host, port, .. } => {
            let Some(local) = local.as_socket() else {
                return false;
            };
            let is_same = |address: SocketAddr| {
                address.port() == local.port()
                    && (address.ip() == local.ip()
                        || address.ip().is_unspecified() && local.ip().is_unspecified())
            };
            (host.as_str(), *port)
                .to_socket_addrs()
                .is_ok_and(|mut addresses| addresses.any(is_same))
        }
    }
}

fn address_of(socket: &Socket) -> String {
    let Ok(local) = socket.local_addr() else {
        return "an unknown address".to_owned();
    };
    match (local.as_socket(), local.as_pathname()) {
        (Some(address), _) => address.to_string(),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => "a Unix socket without a path".to_owned(),
    }
}

/// What sockets are for, in the words that two processes of an upgrade use.
fn purpose(of: &str, listen: &Listen) -> String {
    format!("{of} {listen}")
}

impl Sockets {
    /// Takes the sockets that the process before this one has passed, or else the service manager, and binds the other addresses.
    pub(crate) fn open(config: &Config, passed: Option<Passed>) -> Result<Self, SocketError> {
        let mut passed = match passed {
            Some(passed) => passed,
            None => Passed::of_service_manager()?,
        };
        let server = |listen: &Listen| {
            let mode = config.server.unix_mode.map(|mode| mode.0);
            passed
                .take(&purpose("server", listen), listen)
                .unwrap_or_else(|| Bound::bind(listen, config.server.threads, mode))
                .map_err(|source| SocketError::Listen {
                    listen: listen.clone(),
                    source,
                })
        };
        let server = config
            .server
            .listen
            .iter()
            .map(server)
            .collect::<Result<_, _>>()?;
        let admin = config.admin.listen.as_ref().map(|listen| {
            passed
                .take(&purpose("admin", listen), listen)
                .unwrap_or_else(|| Bound::bind(listen, 1, config.admin.unix_mode.map(|mode| mode.0)))
                .map_err(|source| SocketError::Admin {
                    listen: listen.clone(),
                    source,
                })
        });
        let admin = admin.transpose()?;
        let control = config.admin.socket.as_ref().map(|socket| {
            let listen = Listen::Unix(socket.clone());
            passed
                .take(&purpose("control", &listen), &listen)
                .unwrap_or_else(|| Bound::bind_private(socket))
                .map_err(|source| SocketError::Control {
                    socket: socket.clone(),
                    source,
                })
        });
        let control = control.transpose()?;
        passed.check_taken()?;
        Ok(Self {
            server,
            admin,
            control,
        })
    }

    /// All sockets, with what this configuration uses them for, and whose the files are.
    pub(crate) fn all(&self, config: &Config) -> Vec<(String, FileOf, Vec<BorrowedFd<'_>>)> {
        fn of<'a>(of: &str, listen: &Listen, bound: &'a Bound) -> (String, FileOf, Vec<BorrowedFd<'a>>) {
            let sockets = bound.sockets().iter().map(|socket| socket.as_fd()).collect();
            (purpose(of, listen), bound.file_of(), sockets)
        }
        let server = config.server.listen.iter().zip(&self.server);
        let admin = config.admin.listen.iter().zip(&self.admin);
        let control = config.admin.socket.clone().map(Listen::Unix);
        server
            .map(|(listen, bound)| of("server", listen, bound))
            .chain(admin.map(|(listen, bound)| of("admin", listen, bound)))
            .chain(
                control
                    .iter()
                    .zip(&self.control)
                    .map(|(listen, bound)| of("control", listen, bound)),
            )
            .collect()
    }

    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Bound> {
        self.server
            .iter_mut()
            .chain(&mut self.admin)
            .chain(&mut self.control)
    }

    /// The paths of its Unix sockets that this process has made.
    pub(crate) fn own_paths(&self) -> impl Iterator<Item = &std::path::Path> {
        let all = self.server.iter().chain(&self.admin).chain(&self.control);
        all.filter(|bound| bound.file_of() == FileOf::This)
            .filter_map(Bound::path)
    }
}
