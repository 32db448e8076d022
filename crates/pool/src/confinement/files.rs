//! The landlock ruleset of confined workers.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope, path_beneath_rules,
};

use super::ConfinementError;

/// The rights that are held: those of Linux 6.2, the first kernel on which truncating a file needs one.
const RIGHTS: ABI = ABI::V3;

/// Files that every dynamically linked program, Node, Bun and Python read to start: programs and libraries, and those files of `/etc` that hold
/// no secret.
const SYSTEM: [&str; 35] = [
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/mime.types",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
];

/// Devices that hold nothing.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Files and folders that workers may reach besides those of the system. Each must exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// May be read and executed, with all below.
    pub read: Vec<PathBuf>,
    /// May also be changed.
    pub write: Vec<PathBuf>,
}

/// A ruleset that allows these files, and `more` to be changed; without `files`, one that only makes a domain: whatever the files, a
/// process of a landlock domain cannot trace, or read the memory of, one outside.
pub(super) fn ruleset(files: Option<&Files>, more: Option<&Path>) -> Result<OwnedFd, ConfinementError> {
    let held = match files {
        Some(_) => AccessFs::from_all(RIGHTS),
        None => AccessFs::MakeBlock | AccessFs::MakeChar,
    };
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(held)
        .and_then(|ruleset| {
            // From Linux 6.12, signals to processes outside are refused as well.
            ruleset
                .set_compatibility(CompatLevel::BestEffort)
                .scope(Scope::Signal)
        })
        .and_then(Ruleset::create);
    let mut ruleset = created.map_err(|_| {
        let (key, remedy) = match files {
            Some(_) => (
                "read",
                "boot Linux 6.2 or newer, with `landlock` among the `lsm=` of its command line",
            ),
            None => (
                "network",
                "boot Linux 5.13 or newer, with `landlock` among the `lsm=` of its command line",
            ),
        };
        ConfinementError {
            key,
            reason: "the kernel has no landlock, or too old a version of it".to_owned(),
            remedy,
        }
    })?;
    if let Some(Files { read, write }) = files {
        let all = AccessFs::from_all(RIGHTS);
        ruleset = ruleset
            .add_rules(path_beneath_rules(SYSTEM, AccessFs::from_read(RIGHTS)))
            .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(RIGHTS))))
            .map_err(|error| ConfinementError {
                key: "read",
                reason: format!("cannot allow the files of the system: {error}"),
                remedy: "see the limit of open files of the server",
            })?;
        for path in read {
            ruleset = allow(ruleset, "read", path, AccessFs::from_read(RIGHTS))?;
        }
        for path in write.iter().map(PathBuf::as_path).chain(more) {
            ruleset = allow(ruleset, "write", path, all)?;
        }
    }
    let ruleset: Option<OwnedFd> = ruleset.into();
    Ok(ruleset.expect("a ruleset with hard requirements has a descriptor"))
}

fn allow(
    ruleset: RulesetCreated,
    key: &'static str,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfinementError> {
    let refused = |reason: String| ConfinementError {
        key,
        reason: format!("cannot allow {}: {reason}", path.display()),
        remedy: "each path of `read` and `write` must exist when a worker starts",
    };
    let folder = PathFd::new(path).map_err(|error| refused(error.to_string()))?;
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(RIGHTS)
    };
    let rule = PathBeneath::new(folder, access);
    ruleset.add_rule(rule).map_err(|error| refused(error.to_string()))
}
