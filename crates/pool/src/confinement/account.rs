//! The user and groups of confined workers.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use super::ConfinementError;

/// A user and its groups, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    /// The user's home folder; `None` for a number without an entry in the user database.
    pub home: Option<String>,
}

impl Account {
    /// Looks up a user and a group, each a name or a number. Without a group it is the user's own; without a user, this process's.
    pub fn find(user: Option<&str>, group: Option<&str>) -> Result<Self, ConfinementError> {
        let error = |key, reason| ConfinementError {
            key,
            reason,
            remedy: "name an account that `getent` finds, or a number",
        };
        let entry = match user {
            None => User::from_uid(Uid::effective()),
            Some(user) => match user.parse() {
                Ok(number) => User::from_uid(Uid::from_raw(number)),
                Err(_) => User::from_name(user),
            },
        };
        let entry = entry.map_err(|errno| error("user", format!("cannot look up the user: {errno}")))?;
        let uid = match (user, &entry) {
            (_, Some(entry)) => entry.uid,
            (None, None) => Uid::effective(),
            (Some(user), None) => Uid::from_raw(
                user.parse()
                    .map_err(|_| error("user", format!("there is no user `{user}`")))?,
            ),
        };
        let gid = match (group, &entry) {
            (Some(group), _) => match group.parse() {
                Ok(number) => Gid::from_raw(number),
                Err(_) => {
                    Group::from_name(group)
                        .map_err(|errno| error("group", format!("cannot look up `{group}`: {errno}")))?
                        .ok_or_else(|| error("group", format!("there is no group `{group}`")))?
                        .gid
                }
            },
            (None, Some(entry)) => entry.gid,
            (None, None) => {
                let reason = format!("user {uid} has no entry that names a group");
                return Err(ConfinementError {
                    key: "group",
                    reason,
                    remedy: "set `group`",
                });
            }
        };
        let name = entry.as_ref().and_then(|entry| CString::new(&*entry.name).ok());
        let groups = match name {
            Some(name) => getgrouplist(&name, gid)
                .map_err(|errno| error("user", format!("cannot look up its groups: {errno}")))?,
            None => vec![gid],
        };
        Ok(Self {
            uid: uid.as_raw(),
            gid: gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            home: entry.map(|entry| entry.dir.to_string_lossy().into_owned()),
        })
    }

    /// Whether its processes run as this process's own user.
    pub fn is_own_user(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    /// Whether this process runs as this user and group, so that nothing is to be changed.
    pub(super) fn is_in_force(&self) -> bool {
        self.is_own_user() && self.gid == rustix::process::getegid().as_raw()
    }
}
