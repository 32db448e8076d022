//! A temporary folder for one test.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

/// A folder below the system's folder for temporary files, removed on drop.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes an empty folder.
    pub fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("forebay-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder for temporary files is writable");
        Self { path }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file; folders in `name` are created.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let file = self.path.join(name);
        fs::create_dir_all(file.parent().expect("the file lies in the folder"))
            .expect("the folder is writable");
        fs::write(file, content).expect("the folder is writable");
    }

    /// A file's text, if the file is there.
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(name)).ok()
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A process that is about to end may still write in it; the rest is left to the system's cleanup.
        let _ = fs::remove_dir_all(&self.path);
    }
}
