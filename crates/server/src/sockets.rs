//! The listening sockets of a server: inherited from the service manager or from the process being replaced, and newly bound for all other
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
    front::{Bound, SocketFileOwner},
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
        /// Number of the file descriptor.
        descriptor: usize,
        /// Its name in `LISTEN_FDNAMES`, or nothing.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The service manager listens on an address that is not configured, so its connections would never be accepted.
    #[error(
        "the service manager passes a socket for {address}{}, but no address in server.listen or [admin] matches it", named(.name)
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

/// Sockets opened by the service manager or by the process being replaced.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets(Vec<InheritedGroup>);

/// Sockets for one address.
#[derive(Debug)]
pub(crate) struct InheritedGroup {
    pub(crate) of: SocketOrigin,
    pub(crate) sockets: Vec<Socket>,
}

#[derive(Debug)]
pub(crate) enum SocketOrigin {
    /// The process being replaced; `purpose` says what it used them for.
    Predecessor {
        purpose: String,
        file_owner: SocketFileOwner,
    },
    /// The service manager, which may have named them. Their address decides what they are for.
    ServiceManager { name: String },
}

impl InheritedSockets {
    pub(crate) fn push(&mut self, inherited: InheritedGroup) {
        self.0.push(inherited);
    }

    /// The sockets of the service manager (`sd_listen_fds(3)`). Without one, or if they are for another process, there are none.
    fn of_service_manager() -> Result<Self, SocketError> {
        // from_env also removes the variables, so that child processes do not see them. Without LISTEN_PID they are not from systemd.
        let is_ours = std::env::var_os("LISTEN_PID").is_some();
        let mut descriptors = if is_ours {
            ListenFd::from_env()
        } else {
            ListenFd::empty()
        };
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut inherited = Self::default();
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
            inherited.push(InheritedGroup {
                of: SocketOrigin::ServiceManager { name },
                sockets: vec![socket],
            });
        }
        Ok(inherited)
    }

    /// Takes the sockets for an address out of these.
    fn take(&mut self, purpose: &str, listen: &Listen) -> Option<io::Result<Bound>> {
        let is_wanted = |inherited: &InheritedGroup| match &inherited.of {
            SocketOrigin::Predecessor { purpose: of, .. } => of == purpose,
            SocketOrigin::ServiceManager { .. } => {
                inherited.sockets.iter().any(|socket| is_for(socket, listen))
            }
        };
        let first = self.0.remove(self.0.iter().position(is_wanted)?);
        let mut sockets = first.sockets;
        let file_owner = match first.of {
            SocketOrigin::Predecessor { file_owner, .. } => file_owner,
            SocketOrigin::ServiceManager { .. } => {
                // There are several with `ReusePort=yes` in several units.
                while let Some(at) = self.0.iter().position(is_wanted) {
                    sockets.append(&mut self.0.remove(at).sockets);
                }
                SocketFileOwner::ServiceManager
            }
        };
        Some(Bound::adopt(listen, sockets, file_owner))
    }

    /// Fails if a socket of the service manager is unused: its connections would never be accepted. Unused sockets of a predecessor stay its own.
    fn check_taken(&self) -> Result<(), SocketError> {
        let left = self.0.iter().find_map(|inherited| match &inherited.of {
            SocketOrigin::ServiceManager { name } => Some((name, inherited.sockets.first()?)),
            SocketOrigin::Predecessor { .. } => None,
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

/// Whether a socket listens at an address. `0.0.0.0` and `[::]` match each other.
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

/// Identifies a listener between the two processes of an upgrade.
fn purpose(of: &str, listen: &Listen) -> String {
    format!("{of} {listen}")
}

impl Sockets {
    /// Uses the sockets inherited from the predecessor, or else from the service manager, and binds the other addresses.
    pub(crate) fn open(config: &Config, inherited: Option<InheritedSockets>) -> Result<Self, SocketError> {
        let mut inherited = match inherited {
            Some(inherited) => inherited,
            None => InheritedSockets::of_service_manager()?,
        };
        let server = |listen: &Listen| {
            let mode = config.server.unix_mode.map(|mode| mode.0);
            inherited
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
            inherited
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
            inherited
                .take(&purpose("control", &listen), &listen)
                .unwrap_or_else(|| Bound::bind_private(socket))
                .map_err(|source| SocketError::Control {
                    socket: socket.clone(),
                    source,
                })
        });
        let control = control.transpose()?;
        inherited.check_taken()?;
        Ok(Self {
            server,
            admin,
            control,
        })
    }

    /// All sockets with their purpose and the owner of their file, to be sent to a successor.
    pub(crate) fn all(&self, config: &Config) -> Vec<(String, SocketFileOwner, Vec<BorrowedFd<'_>>)> {
        fn of<'a>(
            of: &str,
            listen: &Listen,
            bound: &'a Bound,
        ) -> (String, SocketFileOwner, Vec<BorrowedFd<'a>>) {
            let sockets = bound.sockets().iter().map(|socket| socket.as_fd()).collect();
            (purpose(of, listen), bound.file_owner(), sockets)
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

    /// Paths of the Unix sockets that this process created.
    pub(crate) fn own_paths(&self) -> impl Iterator<Item = &std::path::Path> {
        let all = self.server.iter().chain(&self.admin).chain(&self.control);
        all.filter(|bound| bound.file_owner() == SocketFileOwner::This)
            .filter_map(Bound::path)
    }
}
