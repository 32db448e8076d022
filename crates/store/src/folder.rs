//! Folders of a store. Their entries are flushed to the disk, because a file counts only if its name survives; and only
//! the owner has access to them.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Permissions of every file in a store's folder.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Permissions of every folder in it, and of a store's folder when it is created.
pub(crate) const FOLDER_MODE: u32 = 0o700;
/// Permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;

/// A file or folder of a store that was accessible to others than its owner.
#[derive(Debug)]
pub struct Exposed {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Its permissions when it was found.
    pub mode: u32,
    /// Why they could not be changed; `None` if they were.
    pub error: Option<io::Error>,
}

/// Restricts everything in a store's folder to its owner; returns what was open to others.
pub(crate) fn restrict(folder: &Path) -> io::Result<Vec<Exposed>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Removed in the meantime.
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mode = about.permissions().mode() & 0o7777;
        let (is_folder, is_file) = (about.is_dir(), about.is_file());
        if (is_folder || is_file) && mode & OTHERS != 0 {
            let own = if is_folder { FOLDER_MODE } else { FILE_MODE };
            found.push(Exposed {
                error: fs::set_permissions(&path, Permissions::from_mode(own)).err(),
                path: path.clone(),
                mode,
            });
        }
        if is_folder {
            found.append(&mut restrict(&path)?);
        }
    }
    Ok(found)
}

/// Creates a folder and its missing parents, with all their names on the disk.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    // The parent of the relative path "a" is the empty path, which stands for ".".
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Some(Path::new(".")),
        above => above,
    };
    let create = || DirBuilder::new().mode(FOLDER_MODE).create(path);
    let mut made = create();
    if let (Err(error), Some(above)) = (&made, above)
        && error.kind() == ErrorKind::NotFound
        && !above.is_dir()
    {
        make(above)?;
        made = create();
    }
    match made {
        Ok(()) => above.map_or(Ok(()), flush),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Flushes the entries of a folder to the disk.
pub(crate) fn flush(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_once_and_not_over_files() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("a/b/c");
        make(&path).unwrap();
        make(&path).unwrap();
        assert!(path.is_dir());
        fs::write(path.join("file"), "").unwrap();
        assert_eq!(
            make(&path.join("file")).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert!(make(&path.join("file/d")).is_err());
        assert!(make(Path::new("")).is_err());
        // No folder can be created in /proc, although it exists.
        assert!(make(Path::new("/proc/nothing")).is_err());
    }
}
