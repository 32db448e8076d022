//! Drops root privileges after startup has used them (`server.user`, `server.group`).

use std::{
    ffi::CString,
    io,
    os::unix::fs::lchown,
    path::{Path, PathBuf},
};

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, initgroups, setgid, setgroups, setuid};

use crate::{config::Server, sockets::Sockets};

/// The server cannot run as the configured user.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("there is no user `{user}` on this machine (server.user)")]
    NoUser {
        /// Name of the user, as configured.
        user: String,
    },
    /// There is no such group.
    #[error("there is no group `{group}` on this machine (server.group)")]
    NoGroup {
        /// Name of the group, as configured.
        group: String,
    },
    /// Only root may become another user.
    #[error(
        "cannot switch to user {uid} and group {gid} (server.user, server.group): only root can, and the server runs as user {own}"
    )]
    NotRoot {
        /// The user's number.
        uid: u32,
        /// The group's number.
        gid: u32,
        /// The number of the user that runs the server.
        own: u32,
    },
    /// The owner of a Unix socket cannot be changed.
    #[error("cannot change the owner of the socket `{}` to user {uid} (server.user)", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The user's number.
        uid: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system refuses.
    #[error("cannot {what} (server.user, server.group)")]
    System {
        /// The refused operation.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Root privileges could be regained.
    #[error("refusing to start: the process could become root again after switching to user {uid}")]
    Regained {
        /// The user's number.
        uid: u32,
    },
}

fn system(what: &'static str) -> impl Fn(nix::Error) -> PrivilegeError {
    move |error| PrivilegeError::System {
        what,
        source: error.into(),
    }
}

/// Switches all threads to the configured user and group, irrevocably. Unix sockets created by this process are given to them. Does nothing
/// if the process already runs as them.
pub(crate) fn drop_privileges(server: &Server, sockets: &Sockets) -> Result<(), PrivilegeError> {
    if server.user.is_none() && server.group.is_none() {
        return Ok(());
    }
    let user = server.user.as_ref().map(|name| {
        let found = User::from_name(name).map_err(system("look up the user"))?;
        found.ok_or_else(|| PrivilegeError::NoUser { user: name.clone() })
    });
    let user = user.transpose()?;
    let group = server.group.as_ref().map(|name| {
        let found = Group::from_name(name).map_err(system("look up the group"))?;
        found.ok_or_else(|| PrivilegeError::NoGroup { group: name.clone() })
    });
    let group = group.transpose()?.map(|group| group.gid);
    let uid = user.as_ref().map_or_else(geteuid, |user| user.uid);
    let gid = group
        .or(user.as_ref().map(|user| user.gid))
        .unwrap_or_else(getegid);
    if geteuid() == uid && getegid() == gid {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(PrivilegeError::NotRoot {
            uid: uid.as_raw(),
            gid: gid.as_raw(),
            own: geteuid().as_raw(),
        });
    }
    for path in sockets.own_paths() {
        give_socket(path, uid, gid)?;
    }
    // In this order: each step needs privileges that the next one drops.
    match &user {
        Some(user) => {
            let name = CString::new(user.name.as_str()).map_err(|error| PrivilegeError::System {
                what: "use the user's name",
                source: error.into(),
            })?;
            initgroups(&name, gid).map_err(system("set the user's groups"))?;
        }
        None => setgroups(&[gid]).map_err(system("drop root's groups"))?,
    }
    setgid(gid).map_err(system("switch to the group"))?;
    setuid(uid).map_err(system("switch to the user"))?;
    if !uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
        return Err(PrivilegeError::Regained { uid: uid.as_raw() });
    }
    Ok(())
}

fn give_socket(path: &Path, uid: Uid, gid: Gid) -> Result<(), PrivilegeError> {
    lchown(path, Some(uid.as_raw()), Some(gid.as_raw())).map_err(|source| PrivilegeError::Socket {
        path: path.to_owned(),
        uid: uid.as_raw(),
        source,
    })
}
