//! Folders for the user of the server.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, symlink},
    path::Path,
};

use super::Error;

/// Creates a folder that only its owner can enter, as PostgreSQL requires.
pub(super) fn private_folder(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(Error::file("make the folder", path))
}

/// Copies a folder recursively, and passes each copy to `own`.
pub(super) fn copy(from: &Path, to: &Path, own: &dyn Fn(&Path) -> Result<(), Error>) -> Result<(), Error> {
    private_folder(to)?;
    own(to)?;
    let read = || Error::file("read", from);
    for entry in fs::read_dir(from).map_err(read())? {
        let entry = entry.map_err(read())?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type().map_err(read())?;
        if kind.is_dir() {
            copy(&entry.path(), &target, own)?;
        } else if kind.is_symlink() {
            let name = fs::read_link(entry.path()).map_err(read())?;
            symlink(name, &target).map_err(Error::file("make", &target))?;
        } else {
            fs::copy(entry.path(), &target).map_err(Error::file("copy", entry.path()))?;
            own(&target)?;
        }
    }
    Ok(())
}
