//! Folders whose names are on the disk: what a file holds counts only when it can be found.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::Path,
};

/// Makes a folder and those above it where there are none; the names of all of them are on the disk then.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    // "a" lies in ".", whose name is the empty path here.
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Some(Path::new(".")),
        above => above,
    };
    let mut made = fs::create_dir(path);
    if let (Err(error), Some(above)) = (&made, above)
        && error.kind() == ErrorKind::NotFound
        && !above.is_dir()
    {
        make(above)?;
        made = fs::create_dir(path);
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
