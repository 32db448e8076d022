//! Opens files below a folder, and never one outside it.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Attempts at an open that a concurrent rename disturbs (openat2(2), EAGAIN).
const TRIES_MAX: usize = 8;

/// A pipe or a device must not block the open, nor become the controlling terminal.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens files below one folder.
#[derive(Debug)]
pub(super) struct Opener {
    folder: OwnedFd,
    resolve: Resolve,
}

/// How paths are kept below the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolve {
    /// By the kernel (`openat2`, Linux 5.6): symbolic links are followed as long as they stay below the folder.
    Kernel,
    /// Without `openat2`: one name at a time, following no symbolic link at all.
    Names,
}

impl Opener {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let mut opener = Self {
            folder,
            resolve: Resolve::Kernel,
        };
        // Sandboxes answer EPERM to system calls they do not know.
        if let Err(Errno::NOSYS | Errno::PERM) = opener.open_beneath(".") {
            opener.resolve = Resolve::Names;
        }
        Ok(opener)
    }

    /// Opens `path`: names joined by `/`, without `.` and `..`; empty means the folder itself. `None`: there is nothing to serve.
    pub(super) fn open(&self, path: &str) -> io::Result<Option<(File, Metadata)>> {
        let path = if path.is_empty() { "." } else { path };
        let opened = match self.resolve {
            Resolve::Kernel => self.open_beneath(path),
            Resolve::Names => self.open_by_names(path),
        };
        match opened {
            Ok(file) => {
                let file = File::from(file);
                let meta = file.metadata()?;
                Ok(Some((file, meta)))
            }
            Err(error) if is_absent(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open_beneath(&self, path: &str) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(&self.folder, path, READ, Mode::empty(), resolve);
        let mut opened = open();
        for _ in 1..TRIES_MAX {
            let Err(Errno::AGAIN) = opened else { break };
            opened = open();
        }
        opened
    }

    fn open_by_names(&self, path: &str) -> Result<OwnedFd, Errno> {
        let through = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = rustix::io::dup(&self.folder)?;
        for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
            at = rustix::fs::openat(&at, folder, through, Mode::empty())?;
        }
        rustix::fs::openat(&at, name, READ | OFlags::NOFOLLOW, Mode::empty())
    }
}

/// Whether an error concerns this path rather than the system.
fn is_absent(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::ACCESS
            | Errno::PERM
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::NXIO
            | Errno::NODEV
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A folder `inside` with a file, a link to it, and links that leave; beside it a secret.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("fbo-{}-{name}", std::process::id()));
            std::fs::create_dir_all(root.join("inside/sub")).unwrap();
            std::fs::write(root.join("inside/sub/file"), "in").unwrap();
            std::fs::write(root.join("secret"), "out").unwrap();
            symlink("sub/file", root.join("inside/near")).unwrap();
            symlink("../secret", root.join("inside/up")).unwrap();
            symlink(root.join("secret"), root.join("inside/absolute")).unwrap();
            symlink("..", root.join("inside/folder-up")).unwrap();
            symlink("loop", root.join("inside/loop")).unwrap();
            Self(root)
        }

        fn opener(&self, resolve: Resolve) -> Opener {
            Opener {
                resolve,
                ..Opener::new(&self.0.join("inside")).unwrap()
            }
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn opens(opener: &Opener, path: &str) -> bool {
        opener.open(path).unwrap().is_some()
    }

    #[test]
    fn no_link_and_no_dots_lead_out_of_the_folder() {
        let tree = Tree::new("out");
        for resolve in [Resolve::Kernel, Resolve::Names] {
            let opener = tree.opener(resolve);
            assert!(
                opens(&opener, "") && opens(&opener, "sub") && opens(&opener, "sub/file"),
                "{resolve:?}"
            );
            for path in [
                "up",
                "absolute",
                "folder-up",
                "folder-up/secret",
                "loop",
                "absent",
                "sub/file/x",
            ] {
                assert!(!opens(&opener, path), "{resolve:?} {path}");
            }
        }
        assert!(!opens(&tree.opener(Resolve::Kernel), "../secret"));
        assert!(!opens(&tree.opener(Resolve::Kernel), "/etc/passwd"));
    }

    #[test]
    fn a_link_inside_the_folder_is_followed_when_the_kernel_can_check_it() {
        let tree = Tree::new("near");
        assert!(opens(&tree.opener(Resolve::Kernel), "near"));
        assert!(!opens(&tree.opener(Resolve::Names), "near"));
    }

    #[test]
    fn this_kernel_resolves_paths_itself() {
        let tree = Tree::new("kernel");
        assert_eq!(Opener::new(&tree.0).unwrap().resolve, Resolve::Kernel);
    }
}
