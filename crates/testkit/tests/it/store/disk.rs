//! A disk whose flushes a test controls, through a library that is preloaded before the system's.

use std::{fs, path::PathBuf, process::Command};

use forebay_testkit::{Folder, Setup};

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int file)
{
    while (access(getenv("HOLD_FLUSHES"), F_OK) == 0)
        usleep(1000);
    if (access(getenv("REFUSE_FLUSHES"), F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    return real(file);
}
"#;

pub(super) struct Disk {
    folder: Folder,
}

impl Disk {
    pub(super) fn new() -> Self {
        let folder = Folder::new();
        folder.write("flushes.c", LIBRARY);
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join("flushes.so"))
            .arg(folder.path().join("flushes.c"))
            .arg("-ldl")
            .status()
            .expect("a C compiler is needed to build the server, too");
        assert!(compiled.success());
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a server on this disk.
    pub(super) fn under(&self, server: Setup) -> Setup {
        let path = |name| {
            self.file(name)
                .into_os_string()
                .into_string()
                .expect("folders of tests are named in ASCII")
        };
        server
            .env("LD_PRELOAD", &path("flushes.so"))
            .env("HOLD_FLUSHES", &path("hold"))
            .env("REFUSE_FLUSHES", &path("refuse"))
    }

    /// Makes every flush wait until [`Disk::go_on`].
    pub(super) fn hold(&self) {
        fs::write(self.file("hold"), "").expect("a test's folder takes files");
    }

    pub(super) fn go_on(&self) {
        fs::remove_file(self.file("hold")).expect("flushes were held");
    }

    /// Makes every flush fail.
    pub(super) fn refuse(&self) {
        fs::write(self.file("refuse"), "").expect("a test's folder takes files");
    }

    pub(super) fn refuse_no_more(&self) {
        fs::remove_file(self.file("refuse")).expect("flushes were refused");
    }
}

/// Releases the disk, so that the server can end.
impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.file("hold"));
    }
}
