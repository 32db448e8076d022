//! The private temporary folder of a worker.

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, openat, renameat, unlinkat},
    io::Errno,
    path::Arg,
};

/// Makes an empty folder that only this user, or `owner` with its group, can enter.
pub(super) fn create(owner: Option<(u32, u32)>) -> io::Result<PathBuf> {
    let folder = tempfile::Builder::new()
        .prefix("forebay-worker-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))?;
    }
    Ok(folder.keep())
}

/// Removes a folder and everything in it, following no links. Folders in folders are first moved up to `folder`, so that neither the stack
/// nor the number of open files grows with the depth, which the worker chose.
///
/// # Errors
/// Something can neither be removed nor moved.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let top = enter(CWD, folder)?;
    let mut moved = 0_u64;
    loop {
        let mut left = None;
        let mut has_progress = false;
        for name in names(&top)? {
            let removed = unlinkat(&top, &*name, AtFlags::empty()).or_else(|error| match error {
                Errno::ISDIR => {
                    has_progress |= lift(&top, &name, &mut moved)?;
                    unlinkat(&top, &*name, AtFlags::REMOVEDIR)
                }
                error => Err(error),
            });
            match removed {
                Ok(()) => has_progress = true,
                Err(error) => left = Some(error),
            }
        }
        match left {
            Some(error) if !has_progress => return Err(error.into()),
            None if !has_progress => return Ok(unlinkat(CWD, folder, AtFlags::REMOVEDIR)?),
            _ => {}
        }
    }
}

/// Removes the files of a folder in `top` and moves the folders in it to `top`. Returns whether there was any.
fn lift(top: &OwnedFd, name: &CStr, moved: &mut u64) -> Result<bool, Errno> {
    let inner = enter(top, name)?;
    let mut has_progress = false;
    for child in names(&inner)? {
        match unlinkat(&inner, &*child, AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                *moved += 1;
                // Only a folder that may be written can be moved.
                drop(enter(&inner, &*child)?);
                renameat(&inner, &*child, top, format!(".moved-{moved}"))?;
            }
            removed => removed?,
        }
        has_progress = true;
    }
    Ok(has_progress)
}

/// Opens a folder, with all rights on it even if the worker has taken them away.
fn enter(parent: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
    // It fails for a folder of another user, whose rights do not bind this process then.
    let _ = chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU);
    openat(&folder, ".", flags, Mode::empty())
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let names = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_owned()));
    names
        .filter(|name| !matches!(name.as_deref().map(CStr::to_bytes), Ok(b"." | b"..")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_however_deep_it_is_and_nothing_that_it_links_to() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let folder = create(None).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(outside.path(), folder.join("link")).unwrap();
        let mut deepest = enter(CWD, &folder).unwrap();
        for _ in 0..5_000 {
            rustix::fs::mkdirat(&deepest, "inner", Mode::RWXU).unwrap();
            let file = OFlags::CREATE | OFlags::WRONLY;
            openat(&deepest, "file", file, Mode::RUSR).unwrap();
            deepest = enter(&deepest, "inner").unwrap();
        }
        fs::set_permissions(folder.join("inner/inner"), fs::Permissions::from_mode(0o000)).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists());
        assert!(outside.path().join("kept").exists());
    }
}
