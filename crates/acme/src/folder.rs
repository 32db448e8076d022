//! The folder where accounts and certificates are kept, only for this user. Several processes may use it: who changes something holds its lock.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use forebay_tls::{CertificateError, ServerCertificate, write_private};
use tokio::time::{Instant, sleep};

use crate::{ORDER_TIME_MAX, error::OrderError};

/// How often it is looked whether another process has released the lock.
const LOCK_POLL: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Folder<'a>(&'a Path);

impl<'a> Folder<'a> {
    pub(crate) fn new(path: &'a Path) -> Self {
        Self(path)
    }

    /// Waits for the only right to order certificates and to write in this folder, which is made if it is not there. Dropping the file gives the
    /// right back.
    pub(crate) async fn lock(self) -> Result<File, OrderError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(self.0);
        made.map_err(|source| file_error(self.0.to_owned(), source))?;
        let path = self.0.join("lock");
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let file = file.map_err(|source| file_error(path.clone(), source))?;
        // An order may take as long; it began before.
        let until = Instant::now() + ORDER_TIME_MAX;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(source)) => return Err(file_error(path, source)),
                Err(TryLockError::WouldBlock) if Instant::now() > until => {
                    let folder = self.0.to_owned();
                    return Err(OrderError::Locked { folder });
                }
                Err(TryLockError::WouldBlock) => sleep(LOCK_POLL).await,
            }
        }
    }

    /// The file with a section's certificate and key.
    pub(crate) fn certificate_file(self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.pem"))
    }

    /// The file with the accounts, by the URLs of directories.
    pub(crate) fn accounts_file(self) -> PathBuf {
        self.0.join("accounts.json")
    }

    /// The certificate that is stored for a section, if there is one.
    pub(crate) fn certificate(self, name: &str) -> Result<Option<ServerCertificate>, CertificateError> {
        let file = self.certificate_file(name);
        match std::fs::read(&file) {
            Ok(pem) => ServerCertificate::parse(&file, &pem).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CertificateError::Read { path: file, source }),
        }
    }
}

/// Replaces a file of a folder.
pub(crate) fn write(file: PathBuf, text: &str) -> Result<(), OrderError> {
    write_private(&file, text).map_err(|source| file_error(file, source))
}

pub(crate) fn file_error(path: PathBuf, source: io::Error) -> OrderError {
    OrderError::File { path, source }
}
