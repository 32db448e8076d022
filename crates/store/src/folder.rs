//! Folders of a store: their names are on the disk, for what a file holds counts only when it can be found, and only their owner may look
//! into them.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Permissions of every file below a store's folder.
pub(crate) const FILE_MODE: u32 = 0o600;
/// The same of every folder there, and of a store's folder that is made.
pub(crate) const FOLDER_MODE: u32 = 0o700;
/// What others than the owner may do.
const OTHERS: u32 = 0o077;

/// A file or folder of a store that others than its owner could use, and what has become of it.
#[derive(Debug)]
pub struct Exposed {
    /// Which.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// Why it still has them.
    pub error: Option<io::Error>,
}

/// Takes what is below a store's folder away from everybody but its owner; says what was open to others.
pub(crate) fn restrict(folder: &Path) -> io::Result<Vec<Exposed>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // What is gone meanwhile needs nothing.
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

/// Makes a folder and those above it where there are none; the names of all of them are on the disk then.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    // "a" lies in ".", whose name is the empty path here.
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

/// Brings the names in a folder to the disk.
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
        // Nobody can make a folder there, though the one above it is.
        assert!(make(Path::new("/proc/nothing")).is_err());
    }
}
