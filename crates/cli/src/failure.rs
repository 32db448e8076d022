//! The error message of a failed command, and its exit code.

use std::{io, process::ExitCode};

use forebay_server::{
    HandlerFaults, OpenApiError, ScriptFaults, SocketError, StartError, config::ConfigError,
};
use forebay_store::StoreError;

use crate::{
    commands::{
        check::Unreached,
        load::LoadError,
        profile::ProfileError,
        sql::DoctorError,
        store::StoreFailure,
        workflow::{self, ExitKind},
    },
    control::ControlError,
    output::{self, OutputError},
};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const CONFIGURATION: u8 = 3;
/// `load` has run to its end, but its result violates an assertion.
const ASSERTION: u8 = 3;
const UNREACHABLE: u8 = 4;
/// `store`: no node at the path.
const ABSENT: u8 = 4;

/// The command line is invalid, or does not fit the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Prints the whole chain of causes once, and the next step where there is one.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(OutputError::ReaderGone) = error.downcast_ref() {
        return ExitCode::SUCCESS;
    }
    let (bold, dim, plain) = if output::complaints_in_colour() {
        ("\x1b[1;31m", "\x1b[2m", "\x1b[0m")
    } else {
        ("", "", "")
    };
    output::complaint(&format!("{bold}error:{plain} {error}"));
    for cause in error.chain().skip(1) {
        output::complaint(&format!("  {dim}because:{plain} {cause}"));
    }
    if let Some(hint) = next_step(error) {
        output::complaint(&format!("  {dim}try:{plain} {hint}"));
    }
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() {
        USAGE
    } else if error.is::<ConfigError>()
        || error.is::<ScriptFaults>()
        || error.is::<HandlerFaults>()
        || error.is::<OpenApiError>()
    {
        CONFIGURATION
    } else if let Some(kind) = workflow::exit_kind(error) {
        match kind {
            ExitKind::Failed => FAILED,
            ExitKind::Invalid => CONFIGURATION,
            ExitKind::Absent => UNREACHABLE,
        }
    } else if error.is::<Unreached>() {
        UNREACHABLE
    } else if let Some(LoadError::Assertions { .. }) = error.downcast_ref() {
        ASSERTION
    } else if let Some(error) = error.downcast_ref::<DoctorError>() {
        match error {
            DoctorError::Unreachable { .. } => UNREACHABLE,
            DoctorError::Wrong { .. } => CONFIGURATION,
        }
    } else if let Some(error) = error.downcast_ref() {
        match error {
            StoreFailure::Absent { .. } | StoreFailure::NoValue { .. } => ABSENT,
            StoreFailure::Script { source, .. } => code(source),
            StoreFailure::Field { .. } => USAGE,
            StoreFailure::Damaged { .. }
            | StoreFailure::Unreadable
            | StoreFailure::NotEmpty { .. }
            | StoreFailure::NoLog { .. }
            | StoreFailure::BeforeBackup { .. }
            | StoreFailure::LaterBackup { .. }
            | StoreFailure::LogEnds { .. }
            | StoreFailure::File { .. } => FAILED,
        }
    } else {
        match error.downcast_ref() {
            Some(ControlError::Refused { .. }) | None => FAILED,
            Some(ControlError::Configuration(_)) => CONFIGURATION,
            Some(
                ControlError::Off { .. }
                | ControlError::Unreachable { .. }
                | ControlError::Broken { .. }
                | ControlError::Ended { .. },
            ) => UNREACHABLE,
        }
    }
}

fn next_step(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(ConfigError::Unreadable { source, .. }) = error.downcast_ref() {
        return (source.kind() == io::ErrorKind::NotFound)
            .then_some("`forebay new DIR` writes one to start with; `-c FILE` names another; `forebay serve APPLICATION` needs none");
    }
    let of_socket = match error.downcast_ref() {
        Some(StartError::Sockets(error)) => Some(error),
        _ => None,
    };
    if let Some(SocketError::Listen { source, .. }) = of_socket {
        return match source.kind() {
            io::ErrorKind::AddrInUse => {
                Some("another address with `--listen HOST:PORT`; port 0 lets the system choose a free one")
            }
            io::ErrorKind::PermissionDenied => Some(
                "a port above 1023 with `--listen HOST:PORT`; for a lower one `AmbientCapabilities=CAP_NET_BIND_SERVICE` in the unit of systemd, or as root with `server.user`",
            ),
            _ => None,
        };
    }
    if let Some(SocketError::Admin { source, .. } | SocketError::Control { source, .. }) = of_socket {
        return match source.kind() {
            io::ErrorKind::AddrInUse => Some(
                "`--admin HOST:PORT` and another `socket` under [admin], when two servers run side by side",
            ),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(
                "`socket` under [admin] in a folder in which the server may write, as `/var/lib/forebay/forebay.sock`",
            ),
            _ => None,
        };
    }
    if let Some(ProfileError::NoTraffic { .. }) = error.downcast_ref() {
        return Some("`--load URL` sends requests meanwhile; or `forebay load URL` in another terminal");
    }
    if let Some(error) = error.downcast_ref::<LoadError>() {
        return match error {
            LoadError::NothingListens { .. } => Some("start the server first"),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<StoreFailure>() {
        return match error {
            StoreFailure::Damaged { .. } | StoreFailure::Unreadable => Some(
                "`store restore DIR --data NEW` from a backup; `store export` still writes what is sound up to the first damage",
            ),
            StoreFailure::NoValue { .. } => Some("without `--value` for the document of its children"),
            StoreFailure::Script { source, .. } => next_step(source),
            StoreFailure::NoLog { .. } => {
                Some("`--changes` is the folder that has the folder `changes` in it")
            }
            StoreFailure::BeforeBackup { .. } | StoreFailure::LaterBackup { .. } => {
                Some("a restore cannot go back behind its backup: take an older one")
            }
            StoreFailure::Absent { .. }
            | StoreFailure::Field { .. }
            | StoreFailure::NotEmpty { .. }
            | StoreFailure::LogEnds { .. }
            | StoreFailure::File { .. } => None,
        };
    }
    if let Some(step) = workflow::next_step(error) {
        return Some(step);
    }
    match error.downcast_ref() {
        Some(StoreError::Absent { .. }) => {
            return Some("`--data DIR` for a store elsewhere; `store set` and `store import` make a new one");
        }
        Some(StoreError::InUse { .. }) => {
            return Some("stop it first; `store backup DIR --compact` copies while others have it open");
        }
        _ => {}
    }
    match error.downcast_ref() {
        Some(ControlError::Unreachable { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Some("the same as the user of the server, or as root")
        }
        Some(ControlError::Unreachable { .. }) => {
            Some("`forebay serve` in another terminal; `-c FILE` or `--socket FILE` for a server elsewhere")
        }
        Some(ControlError::Configuration(ConfigError::Unreadable { source, .. })) => {
            (source.kind() == io::ErrorKind::NotFound).then_some(
                "the same in the server's folder; `-c FILE` or `--socket FILE` for a server elsewhere",
            )
        }
        Some(ControlError::Off { .. }) => Some("`socket = \"forebay.sock\"` under [admin], and a restart"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(error: impl Into<anyhow::Error>) -> &'static str {
        next_step(&error.into()).expect("there is a next step")
    }

    #[test]
    fn a_server_that_may_not_listen_or_write_is_told_who_may() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let of_sockets = |error: SocketError| step(StartError::Sockets(error));
        let listen = "0.0.0.0:80".parse().expect("it is an address");
        let port = of_sockets(SocketError::Listen {
            listen,
            source: denied(),
        });
        assert!(
            port.contains("CAP_NET_BIND_SERVICE") && port.contains("server.user"),
            "{port}"
        );
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            let socket = "/srv/forebay/forebay.sock".into();
            let source = kind.into();
            let control = of_sockets(SocketError::Control { socket, source });
            assert!(control.contains("`socket` under [admin]"), "{control}");
        }
        let socket = "/var/lib/forebay/forebay.sock".into();
        let source = denied();
        let other = step(ControlError::Unreachable { socket, source });
        assert!(other.contains("as the user of the server"), "{other}");
    }
}
