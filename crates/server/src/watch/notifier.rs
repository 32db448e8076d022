//! Notices changes in folders as soon as they happen, by inotify.

use std::{
    ffi::OsStr,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};

use super::INTERVAL;

/// The events of saving in an editor, and of moving or removing files and folders. A file that is open and written to, such as a log, is not
/// among it.
const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ONLYDIR);
/// Bytes of events that are read at a time.
const EVENT_BYTES: usize = 4096;

/// The folders of which the kernel tells changes. Without it, as far as it refuses, files are only looked at from time to time.
#[derive(Debug)]
pub(super) struct Notifier {
    inotify: Option<AsyncFd<OwnedFd>>,
    has_warned: AtomicBool,
}

impl Notifier {
    pub(super) fn start() -> Self {
        let started = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(io::Error::from);
        let started = started.and_then(|inotify| forebay_pool::watch(inotify, Interest::READABLE));
        let has_warned = AtomicBool::new(false);
        match started {
            Ok(inotify) => Self {
                inotify: Some(inotify),
                has_warned,
            },
            Err(error) => {
                let notifier = Self {
                    inotify: None,
                    has_warned,
                };
                notifier.warn(&error);
                notifier
            }
        }
    }

    /// Watches this folder, without its subfolders, until it is removed. Does nothing if it is watched already.
    pub(super) fn add(&self, folder: &Path) {
        let Some(inotify) = &self.inotify else { return };
        match add_watch(inotify.get_ref(), folder, EVENTS) {
            // It has been removed meanwhile, or cannot be read anyway.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(error) => self.warn(&error.into()),
        }
    }

    /// Waits for a change of a folder, or of a file with a name that `is_watched` accepts.
    pub(super) async fn changed(&self, is_watched: impl Fn(&OsStr) -> bool) {
        if let Some(inotify) = &self.inotify {
            match changed(inotify, is_watched).await {
                Ok(()) => return,
                Err(error) => self.warn(&error),
            }
        }
        std::future::pending::<()>().await;
    }

    /// Says once why changes are noticed late: the user has as many instances or watches as the system allows (`fs.inotify`).
    fn warn(&self, error: &io::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "forebay::server",
                "--watch: the system does not tell of all changes, so some are noticed only within {} s: {error}",
                INTERVAL.as_secs()
            );
        }
    }
}

async fn changed(inotify: &AsyncFd<OwnedFd>, is_watched: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    loop {
        let mut ready = inotify.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut events = Reader::new(inotify.get_ref(), &mut buffer);
        let mut is_change = false;
        loop {
            match events.next() {
                Ok(event) => {
                    let of_folder = ReadFlags::ISDIR | ReadFlags::QUEUE_OVERFLOW;
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    is_change |= event.events().intersects(of_folder) || name.is_some_and(&is_watched);
                }
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        if is_change {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, time::Duration};

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn what_is_saved_is_told_of_and_what_is_appended_to_an_open_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = fs::File::create(folder.path().join("log.mjs")).unwrap();
        let notifier = Notifier::start();
        notifier.add(folder.path());
        let told = || {
            timeout(
                PATIENCE,
                notifier.changed(|name| name.as_bytes().ends_with(b".mjs")),
            )
        };
        let save = |name: &str| fs::write(folder.path().join(name), "a").unwrap();
        save("api.mjs");
        told().await.unwrap();
        fs::rename(folder.path().join("api.mjs"), folder.path().join("new.mjs")).unwrap();
        told().await.unwrap();
        fs::remove_file(folder.path().join("new.mjs")).unwrap();
        told().await.unwrap();
        fs::create_dir(folder.path().join("lib")).unwrap();
        told().await.unwrap();
        log.write_all(b"line").unwrap();
        save("data.json");
        // It is told of nothing that is left, so this is what it hears of next.
        let is_told = timeout(
            Duration::ZERO,
            notifier.changed(|name| name.as_bytes().ends_with(b".mjs")),
        );
        assert!(is_told.await.is_err());
    }
}
