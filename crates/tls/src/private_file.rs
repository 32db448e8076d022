//! Files that only this user can read.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
};

/// Replaces a file in one step: whatever happens, the old content or the new one is there. Only this user can read it (mode 0600), and it is
/// on the disk when this returns.
pub fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut written = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    written.write_all(text.as_bytes())?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    File::open(folder)?.sync_all()
}
