//! The boundary to whatever stores releases and durable runs: JSON documents under paths. A path is a list of names, the first of which is
//! that of a global; names that are whole numbers sort as numbers.

use std::{error::Error, fmt, pin::Pin, sync::Arc, time::Duration};

/// Stores documents.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// One state of all documents.
    ///
    /// # Errors
    /// If the storage fails.
    fn snapshot(&self) -> Result<Box<dyn Documents + '_>, StorageError>;

    /// Begins a transaction, which others cannot begin until this one has ended.
    ///
    /// # Errors
    /// If the storage fails.
    fn begin(&self) -> Result<Box<dyn Changes + '_>, StorageError>;

    /// Returns once everything that was committed is on disk, by others too.
    ///
    /// # Errors
    /// If the storage fails.
    fn flush(&self) -> Result<(), StorageError>;
}

/// Stores durable runs: its writes wait in a queue, and rules may write to it. Several servers may share it.
pub trait RunStorage: Storage {
    /// Puts writes into the queue, as one transaction. The future resolves once they are on disk; they are done even if it is dropped.
    ///
    /// # Errors
    /// If there is no room in the queue.
    fn submit(&self, writes: Vec<Write>) -> Result<Written, StorageError>;

    /// Reads the document at a path, without holding up the calling thread.
    fn fetch<'s>(&'s self, path: &[&str]) -> Fetched<'s>;

    /// Locks that end with this process.
    ///
    /// # Errors
    /// If the storage fails.
    fn locks(&self) -> Result<Box<dyn NodeLocks>, StorageError>;

    /// Resolves once a commit is on disk; `None` if it is already.
    fn on_disk(&self, commit: u64) -> Option<Written>;
}

/// Resolves once something is on disk.
pub type Written = Pin<Box<dyn Future<Output = Result<(), StorageError>> + Send>>;
/// Resolves to a document, if there is one.
pub type Fetched<'s> = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>, StorageError>> + Send + 's>>;

/// Locks on paths, which other processes respect. They are released when this is dropped, or a while after its process has died.
pub trait NodeLocks: Send {
    /// Whether the lock of a path is still held: it is lost when the storage cannot be reached for a while.
    ///
    /// # Errors
    /// If the path is none.
    fn holds(&mut self, path: &[&str]) -> Result<bool, StorageError>;

    /// Takes the lock of a path; `false` if another process has it.
    ///
    /// # Errors
    /// If the storage fails.
    fn try_lock(&mut self, path: &[&str]) -> Result<bool, StorageError>;

    /// Releases the lock of a path.
    ///
    /// # Errors
    /// If the storage fails. The lock ends by itself then.
    fn unlock(&mut self, path: &[&str]) -> Result<(), StorageError>;
}

/// Reads documents.
pub trait Documents {
    /// The document at a path, if there is one.
    ///
    /// # Errors
    /// If the storage fails.
    fn get(&self, path: &[&str]) -> Result<Option<Vec<u8>>, StorageError>;

    /// The names below a path, sorted.
    ///
    /// # Errors
    /// If the storage fails.
    fn children(&self, path: &[&str]) -> Result<Vec<String>, StorageError>;

    /// The last name below a path, before the given one if there is one.
    ///
    /// # Errors
    /// If the storage fails.
    fn previous(&self, path: &[&str], before: Option<&str>) -> Result<Option<String>, StorageError>;
}

/// A transaction: reads what it has written. It is undone when dropped.
pub trait Changes: Documents {
    /// Replaces whatever is at a path and below it.
    ///
    /// # Errors
    /// If the storage fails.
    fn put(&mut self, path: &[&str], document: &[u8]) -> Result<(), StorageError>;

    /// Removes whatever is at a path and below it.
    ///
    /// # Errors
    /// If the storage fails.
    fn remove(&mut self, path: &[&str]) -> Result<(), StorageError>;

    /// Makes the changes, which are on disk when this returns.
    ///
    /// # Errors
    /// If the storage fails.
    fn commit(self: Box<Self>) -> Result<(), StorageError>;
}

/// A write for a queue.
#[derive(Debug)]
pub enum Write {
    /// Changes nothing. If there is something at the path, the transaction fails with the code 412.
    RequireAbsent {
        /// Path where nothing must be.
        path: Vec<String>,
    },
    /// Replaces whatever is at a path and below it.
    Put {
        /// Path of the node that is replaced.
        path: Vec<String>,
        /// The JSON document.
        document: Vec<u8>,
        /// How long it is kept; `None`: until it is removed.
        lifetime: Option<Duration>,
    },
    /// Removes whatever is at a path and below it. If there is nothing, the transaction fails with the code 404.
    Remove {
        /// Path of the node that is removed.
        path: Vec<String>,
    },
}

/// A path as messages show it: `^Workflow("files",7)`.
pub(crate) fn shown(path: &[&str]) -> String {
    let (global, names) = path.split_first().unwrap_or((&"", &[]));
    let names = names.iter().map(|name| match name.parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("\"{}\"", name.replace('"', "\"\"")),
    });
    let names = names.collect::<Vec<_>>().join(",");
    if names.is_empty() {
        format!("^{global}")
    } else {
        format!("^{global}({names})")
    }
}

/// The storage failed.
#[derive(Clone, Debug)]
pub struct StorageError {
    code: u16,
    source: Arc<dyn Error + Send + Sync>,
}

impl StorageError {
    /// Wraps an error; for `code` see [`crate::FailureKind::code`]. A write that is too long for the storage has a code below 500.
    pub fn new(code: u16, source: impl Error + Send + Sync + 'static) -> Self {
        let source = Arc::new(source);
        Self { code, source }
    }

    /// The code of the error.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The wrapped error.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(out)
    }
}

impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

impl PartialEq for StorageError {
    /// The same error may end many runs, but two errors are never equal.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }
}
