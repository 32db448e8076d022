//! Opening a folder as a store: checks the options, shares one opening per process, and waits for compactions and
//! closings in progress.

use std::{
    collections::HashMap,
    ffi::CStr,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    changes::{self, Log},
    database::{self, Database, DatabaseUrl},
    durability::{Disk, Durability, Flusher},
    engine::Table,
    error::StoreError,
    folder::{self, Exposed},
    recovery,
    store::{Home, Shared, Store},
    sys::{self, Environment, Opening},
    tree::Tables,
};

/// Version of the layout of keys and records.
const FORMAT: u32 = 2;
/// Name of the tree's file in the store's folder. The engine's lock file is next to it.
pub(crate) const FILE: &str = "store.mdbx";
/// Three pages of 4 KiB, which the engine keeps for itself.
const TREE_BYTES_MIN: u64 = 3 * 4096;
/// How often opening is retried because the file was replaced in the meantime.
const REPLACED_MAX: u32 = 5;

/// Largest possible [`Options::value_bytes_max`]: as much as one transaction can write.
pub const VALUE_BYTES_LIMIT: usize = 1 << 30;

/// Options for opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Create a new store if there is none.
    pub create: bool,
    /// Reject every write.
    pub read_only: bool,
    /// Set the limits that all processes share, and maintain the store. Exactly one opener should lead: the server, or
    /// a program without one. During an upgrade two servers do, which is safe.
    pub lead: bool,
    /// Size limit of the file, in bytes.
    pub map_max: usize,
    /// Most concurrent snapshots in all processes.
    pub readers_max: u32,
    /// Longest time that one snapshot may be read from. While it lasts, space cannot be reused.
    pub reader_age_max: Duration,
    /// In a database: most bytes that a snapshot or transaction keeps of what it has read. Long reads keep a small part of that.
    pub reader_bytes_max: usize,
    /// Longest document or value, in bytes of JSON; [`VALUE_BYTES_LIMIT`] at most.
    pub value_bytes_max: usize,
    /// Longest subtree, in bytes of text, that is stored as one record. Affects performance only.
    pub pack_bytes_max: usize,
    /// Durability of commits that do not specify one.
    pub durability: Durability,
    /// Size limit in bytes of the change log's earlier segments; the oldest ones beyond it are dropped.
    pub changes_bytes_max: u64,
    /// Longest time until a relaxed commit of any process is on the disk. The leading process enforces it.
    pub flush_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create: true,
            read_only: false,
            lead: true,
            map_max: 64 << 30,
            readers_max: 1024,
            reader_age_max: Duration::from_mins(1),
            reader_bytes_max: 1 << 30,
            value_bytes_max: 64 << 20,
            pack_bytes_max: 2048,
            durability: Durability::Group,
            changes_bytes_max: 1 << 30,
            flush_interval: Duration::from_millis(20),
        }
    }
}

impl Options {
    /// The first option that differs in a second opening of the store by this process: its name, its value, and the
    /// requested value. `create` is not compared, a read-only opening may join a writable one, and only the first
    /// opening can lead.
    fn other(&self, wanted: &Self) -> Option<(&'static str, String, String)> {
        // Destructured completely, so that a new field must be handled here.
        let of = |options: &Self| {
            let Self {
                create: _,
                read_only,
                lead,
                map_max,
                readers_max,
                reader_age_max,
                reader_bytes_max,
                value_bytes_max,
                pack_bytes_max,
                durability,
                changes_bytes_max,
                flush_interval,
            } = *options;
            [
                ("read_only", (read_only && self.read_only).to_string()),
                ("lead", (lead || self.lead).to_string()),
                ("map_max", map_max.to_string()),
                ("readers_max", readers_max.to_string()),
                ("reader_age_max", format!("{reader_age_max:?}")),
                ("reader_bytes_max", reader_bytes_max.to_string()),
                ("value_bytes_max", value_bytes_max.to_string()),
                ("pack_bytes_max", pack_bytes_max.to_string()),
                ("durability", format!("{durability:?}").to_lowercase()),
                ("changes_bytes_max", changes_bytes_max.to_string()),
                ("flush_interval", format!("{flush_interval:?}")),
            ]
        };
        let mut pairs = of(self).into_iter().zip(of(wanted));
        pairs.find_map(|((name, found), (_, wanted))| (found != wanted).then_some((name, found, wanted)))
    }
}

/// Stores open in this process. The engine allows a file to be open only once in a process.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Shared>>>> = LazyLock::new(Mutex::default);

impl Store {
    /// The options with which this process has the store in a folder open; `None` if it is not open.
    pub fn opened(path: &Path) -> Option<Options> {
        let path = match DatabaseUrl::of(path) {
            Some(address) => address.ok()?.to_string().into(),
            None => path.canonicalize().ok()?,
        };
        let shared = OPEN.lock().get(&path).and_then(Weak::upgrade)?;
        Some(shared.options)
    }

    /// Restricts the files in a store's folder to its owner. Returns those that were open to others: created by an
    /// earlier version of this program, or copied there.
    pub fn restrict(path: &Path) -> Result<Vec<Exposed>, StoreError> {
        if DatabaseUrl::of(path).is_some() {
            return Ok(Vec::new());
        }
        folder::restrict(path).map_err(StoreError::file("look into", path))
    }

    /// Opens the store in a folder, or in the database whose URL the path is. Opening the same again in a process returns
    /// the same store; different options are an error.
    pub fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        if let Some(address) = DatabaseUrl::of(path) {
            let address = address?;
            return Self::open_once(address.to_string().into(), options, |path| {
                let database = Database::open(&address, options)?;
                Ok(Arc::new(Shared::new(
                    path.to_owned(),
                    *options,
                    Home::Database(database),
                    database_tables(options),
                )))
            });
        }
        check_tree(path)?;
        if options.create && !options.read_only {
            folder::make(path).map_err(StoreError::file("make the folder", path))?;
        } else if !path.join(FILE).is_file() {
            return Err(StoreError::Absent { path: path.into() });
        }
        let path = path.canonicalize().map_err(StoreError::file("find", path))?;
        Self::open_once(path, options, |path| {
            let shared = Arc::new(open_when_free(path, *options)?);
            if let Home::Folder { disk, .. } = &shared.home {
                recovery::recover(&shared, disk, path)?;
            }
            Ok(shared)
        })
    }

    /// The store that is open already, or else a new opening.
    fn open_once(
        path: PathBuf,
        options: &Options,
        open_new: impl FnOnce(&Path) -> Result<Arc<Shared>, StoreError>,
    ) -> Result<Self, StoreError> {
        let mut open = OPEN.lock();
        if let Some(shared) = open.get(&path).and_then(Weak::upgrade) {
            return match shared.options.other(options) {
                None => Ok(Self { shared }),
                Some((option, found, wanted)) => Err(StoreError::OpenAlready {
                    path,
                    option,
                    found,
                    wanted,
                }),
            };
        }
        let shared = open_new(&path)?;
        if options.lead && !options.read_only {
            shared.start_to_sweep()?;
        }
        open.retain(|_, other| other.strong_count() > 0);
        open.insert(path, Arc::downgrade(&shared));
        Ok(Self { shared })
    }
}

/// Rejects a log without its tree: the engine would create an empty tree, to which the log does not belong.
fn check_tree(path: &Path) -> Result<(), StoreError> {
    let found = match fs::metadata(path.join(FILE)) {
        Ok(tree) if tree.len() >= TREE_BYTES_MIN => return Ok(()),
        Ok(tree) => format!("has {} bytes, less than any tree", tree.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => "is missing".to_owned(),
        // Opening the file will report this error.
        Err(_) => return Ok(()),
    };
    no_log(path, &found)
}

/// Rejects a change log next to a missing or truncated tree.
fn no_log(path: &Path, found: &str) -> Result<(), StoreError> {
    match changes::extent(path)? {
        None => Ok(()),
        Some((first, last)) => Err(StoreError::LogWithoutTree {
            path: path.into(),
            found: found.to_owned(),
            first,
            last,
        }),
    }
}

/// Opens the files, waiting for an earlier opening of this process that is still closing, because the engine opens a
/// file only once in a process. Retries if a compaction has replaced the file in the meantime.
fn open_when_free(path: &Path, options: Options) -> Result<Shared, StoreError> {
    let patience = Instant::now() + Duration::from_secs(5);
    let mut replaced = 0;
    loop {
        match open_files(path.to_owned(), options) {
            // `EAGAIN` is reported while the other opening releases its locks.
            Err(StoreError::Engine {
                code: sys::BUSY | libc::EAGAIN,
                ..
            }) if Instant::now() < patience => {
                thread::sleep(Duration::from_millis(1));
            }
            // The engine's error for a file that has been unlinked. The compaction is over by then, however long it
            // took.
            Err(StoreError::Engine {
                code: libc::EBADFD, ..
            }) if replaced < REPLACED_MAX => replaced += 1,
            Err(StoreError::Engine {
                code: sys::UNRECOVERED,
                ..
            }) => return Err(StoreError::Unrecovered { path: path.into() }),
            outcome => return outcome,
        }
    }
}

/// Opens the files and starts the flusher's thread.
fn open_files(path: PathBuf, options: Options) -> Result<Shared, StoreError> {
    let environment = Environment::open(
        &path.join(FILE),
        Opening {
            leads: options.lead && !options.read_only,
            read_only: options.read_only,
            map_max: options.map_max,
            readers_max: options.readers_max,
            reader_age_max: options.reader_age_max,
        },
    )?;
    let (tables, meta) = prepare(&environment, &path, &options)?;
    let log = Log::new(&path, options.changes_bytes_max, options.lead);
    let disk = Arc::new(Disk::new(environment, log, meta, options.read_only));
    let flusher = if options.read_only {
        None
    } else {
        Some(Flusher::start(
            &disk,
            options.lead.then_some(options.flush_interval),
        )?)
    };
    Ok(Shared::new(path, options, Home::Folder { disk, flusher }, tables))
}

/// Opens the tables, creating them in a new store, and checks the format.
fn prepare(
    environment: &Arc<Environment>,
    path: &Path,
    options: &Options,
) -> Result<(Tables, sys::Table), StoreError> {
    const FORMAT_KEY: &[u8] = b"format";
    let wrong = |found: String| StoreError::Format {
        path: path.into(),
        found,
        expected: FORMAT,
    };
    let open = |transaction: &sys::Transaction, create| {
        let table = |name: &CStr| {
            let table = transaction.table(name, create)?;
            table.ok_or_else(|| wrong(format!("without the table {}", name.to_string_lossy())))
        };
        let meta = table(c"meta")?;
        let tables = Tables {
            nodes: Table::Embedded(table(c"nodes")?),
            meta: Table::Embedded(meta),
            index: Table::Embedded(table(c"index")?),
            expiry: Table::Embedded(table(c"expiry")?),
            due: Table::Embedded(table(c"due")?),
            pack_bytes_max: options.pack_bytes_max,
            value_bytes_max: options.value_bytes_max.min(VALUE_BYTES_LIMIT),
        };
        Ok::<_, StoreError>((tables, meta))
    };
    let snapshot = environment.read()?;
    if let Some(meta) = snapshot.table(c"meta", false)? {
        let found = snapshot.get(meta, FORMAT_KEY)?.unwrap_or_default();
        let found = String::from_utf8_lossy(found).into_owned();
        if found != FORMAT.to_string() {
            return Err(wrong(found));
        }
        let tables = open(&snapshot, false)?;
        // A table handle outlives its transaction only if that commits.
        snapshot.commit()?;
        return Ok(tables);
    }
    drop(snapshot);
    no_log(path, "holds no store")?;
    if options.read_only {
        return Err(StoreError::Absent { path: path.into() });
    }
    let mut transaction = environment.write()?;
    let (tables, meta) = open(&transaction, true)?;
    transaction.put(meta, FORMAT_KEY, &[FORMAT.to_string().as_bytes()])?;
    recovery::mark(&mut transaction, meta)?;
    transaction.commit()?;
    environment.flushing(|| environment.write()?.flush_before())?;
    folder::flush(path).map_err(StoreError::file("flush", path))?;
    Ok((tables, meta))
}

/// The tables of a store in a database.
fn database_tables(options: &Options) -> Tables {
    let table = Table::Database;
    Tables {
        nodes: table(database::Table::Nodes),
        meta: table(database::Table::Meta),
        index: table(database::Table::Index),
        expiry: table(database::Table::Expiry),
        due: table(database::Table::Due),
        pack_bytes_max: options.pack_bytes_max,
        value_bytes_max: options.value_bytes_max.min(database::VALUE_BYTES_LIMIT),
    }
}
