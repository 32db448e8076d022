//! An open store: its files, and what all its transactions share.

use std::{
    collections::HashMap,
    ffi::CStr,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, OnceLock, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    changes::{Change, ChangeWalk, Log},
    clock,
    durability::{Disk, Durability, Flusher},
    engine::{self, Environment, Opening, Parked},
    error::StoreError,
    expiry::{self, Sweeper},
    folder,
    index::Catalogue,
    locks::Locks,
    recovery,
    transaction::{Snapshot, Transaction},
    tree::Tables,
};

/// Version of the layout of keys and records.
const FORMAT: u32 = 2;
/// The tree's file in the store's folder. The engine's lock file lies beside it.
pub(crate) const FILE: &str = "store.mdbx";
/// How often a file is opened anew that was replaced while it was being opened.
const REPLACED_MAX: u32 = 5;
/// Snapshots that are kept ready.
const PARKED_MAX: usize = 16;

/// Most that [`Options::value_bytes_max`] can be: as much as one transaction can write.
pub const VALUE_BYTES_LIMIT: usize = 1 << 30;

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Make a new store where there is none.
    pub create: bool,
    /// Refuse every write.
    pub read_only: bool,
    /// Settle the limits that all processes share. Exactly one opener should: the server, or a program without one.
    pub lead: bool,
    /// How far the file may grow, in bytes.
    pub map_max: usize,
    /// Most snapshots at the same time over all processes.
    pub readers_max: u32,
    /// Longest that one snapshot may be read from. It holds back the reuse of space while it lasts.
    pub reader_age_max: Duration,
    /// Longest document or value, in bytes of JSON; [`VALUE_BYTES_LIMIT`] at most.
    pub value_bytes_max: usize,
    /// Longest subtree that is kept as one text. Answers do not depend on it.
    pub pack_bytes_max: usize,
    /// What a commit waits for when it does not say.
    pub durability: Durability,
    /// Most that earlier segments of the log of changes may take, in bytes; older ones are dropped.
    pub changes_bytes_max: u64,
    /// Longest that a relaxed commit of any process is not on the disk. The one who leads sees to that.
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
            value_bytes_max: 64 << 20,
            pack_bytes_max: 2048,
            durability: Durability::Group,
            changes_bytes_max: 1 << 30,
            flush_interval: Duration::from_millis(20),
        }
    }
}

impl Options {
    /// The first option that somebody wants otherwise who opens the store once more: its name, what it is, and what is wanted. Who makes
    /// the store is no part of that, who only reads may join one that writes, and who wants to lead has to be first.
    fn other(&self, wanted: &Self) -> Option<(&'static str, String, String)> {
        // All fields by name: a new one must find its place here.
        let of = |options: &Self| {
            let Self {
                create: _,
                read_only,
                lead,
                map_max,
                readers_max,
                reader_age_max,
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

/// A handle on an open store; cheap to clone. The files close with the last handle, snapshot and transaction.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// What the handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    path: PathBuf,
    pub(crate) options: Options,
    pub(crate) disk: Arc<Disk>,
    pub(crate) tables: Tables,
    parked: Mutex<Vec<Parked>>,
    flusher: Option<Flusher>,
    sweeper: OnceLock<Sweeper>,
    /// The catalogue that was read last, with the text that it was read from.
    catalogue: Mutex<(Vec<u8>, Arc<Catalogue>)>,
}

/// What is known about a store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// How far it may grow.
    pub map_max: u64,
    /// Size of a page, in bytes.
    pub page_bytes: u32,
    /// The last commit.
    pub last_commit: u64,
    /// Places for snapshots that are taken, over all processes.
    pub readers: u32,
    /// The last commit that this process knows to be on the disk.
    pub flushed_commit: u64,
    /// What the log alone has of the tree until the next checkpoint, in bytes of the tree's file.
    pub not_checkpointed_bytes: u64,
}

/// The engine allows a file to be open once in a process.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Shared>>>> = LazyLock::new(Mutex::default);

impl Store {
    /// With which options this process has the store in a folder open, if it has.
    pub fn opened(path: &Path) -> Option<Options> {
        let path = path.canonicalize().ok()?;
        let shared = OPEN.lock().get(&path).and_then(Weak::upgrade)?;
        Some(shared.options)
    }

    /// Opens the store in a folder. The same folder opened twice in a process gives the same store, and is refused where the options
    /// are others.
    pub fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let file_error = |what| {
            move |source| StoreError::File {
                what,
                path: path.into(),
                source,
            }
        };
        if options.create && !options.read_only {
            folder::make(path).map_err(file_error("make the folder"))?;
        } else if !path.join(FILE).is_file() {
            return Err(StoreError::Absent { path: path.into() });
        }
        let path = path.canonicalize().map_err(file_error("find"))?;
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
        let shared = Arc::new(open_when_free(&path, *options)?);
        recovery::recover(&shared, &path)?;
        if options.lead && !options.read_only {
            let sweeper = Sweeper::start(Arc::downgrade(&shared))?;
            shared.sweeper.set(sweeper).expect("it was started once");
        }
        open.retain(|_, other| other.strong_count() > 0);
        open.insert(path, Arc::downgrade(&shared));
        Ok(Self { shared })
    }

    /// The state of everything as of now. It stays as it is for as long as it can be read from, [`Options::reader_age_max`], and holds
    /// back the reuse of space while it is held.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let parked = self.shared.parked.lock().pop();
        let transaction = match parked {
            Some(parked) => parked.renew()?,
            None => self.shared.disk.environment.read()?,
        };
        Ok(Snapshot::new(Arc::clone(&self.shared), transaction))
    }

    /// Begins to write. Waits until no other thread or process writes; that wait has no bound of its own.
    pub fn begin(&self) -> Result<Transaction, StoreError> {
        Ok(Transaction::new(Arc::clone(&self.shared), self.work()?))
    }

    fn work(&self) -> Result<engine::Transaction, StoreError> {
        if self.shared.options.read_only {
            return Err(StoreError::ReadOnly);
        }
        self.shared.disk.begin()
    }

    /// Runs a transaction and commits it as the options say; rolls back when the function fails.
    pub fn transact<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = self.begin()?;
        let outcome = work(&mut transaction)?;
        transaction.commit(self.shared.options.durability)?;
        Ok(outcome)
    }

    /// Makes every commit durable that was made before the call.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.shared.disk.flush().map(|_| ())
    }

    /// Brings the tree itself to the disk. Commits are durable without that: it bounds what is to be done again after a power cut. Waits
    /// until nobody else writes. A store whose opener leads does this by itself.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.shared.disk.checkpoint().map(|_| ())
    }

    /// What the flush has said after which nothing can be written any more, in this process at least; `None` while all is well.
    pub fn flush_failure(&self) -> Option<&str> {
        self.shared.disk.environment.flush_failure()
    }

    /// What the commits after `since` did, oldest first, as of now. The first commit that changes something is number 1.
    pub fn changes(&self, since: u64) -> Result<ChangeWalk, StoreError> {
        let snapshot = self.snapshot()?;
        ChangeWalk::new(&self.shared.path, Some(snapshot.log_end()?), since)
    }

    /// Has a walk over changes go on with those that have come since.
    pub fn follow(&self, walk: &mut ChangeWalk) -> Result<(), StoreError> {
        walk.extend(self.snapshot()?.log_end()?)
    }

    /// Does again what another store's log holds beyond this one's last change, as far as `wanted` says yes: after a backup has been
    /// restored, up to a point in time. Says how many changes those were. The store must not be one that leads, for that removes
    /// what is due meanwhile; and what the other log has behind its last whole record is not known.
    pub fn replay(&self, other: &Path, mut wanted: impl FnMut(&Change) -> bool) -> Result<u64, StoreError> {
        let refused = |reason: &'static str| Err(StoreError::Replay { reason });
        if self.shared.options.lead {
            return refused("the store must be opened without leading it");
        }
        if other.canonicalize().is_ok_and(|other| other == self.shared.path) {
            return refused("the log must be another store's");
        }
        let since = self.snapshot()?.sequence()?;
        let mut count = 0;
        for change in ChangeWalk::new(other, None, since)? {
            let change = change?;
            if !wanted(&change) {
                break;
            }
            let mut transaction = Transaction::again(Arc::clone(&self.shared), self.work()?);
            for operation in &change.operations {
                transaction.apply(operation)?;
            }
            transaction.commit(Durability::Relaxed)?;
            count += 1;
        }
        self.flush()?;
        Ok(count)
    }

    /// Waits until a commit is on the disk.
    pub fn wait_flushed(&self, commit: u64) -> Result<(), StoreError> {
        self.shared.wait_flushed(commit)
    }

    /// Has a function called when a commit is on the disk, from another thread, or at once if it is there already, with the last
    /// commit that is known to be. A commit that is yet to come is taken for the last one there is. The function must not block.
    pub fn when_flushed(&self, commit: u64, call: impl FnOnce(Result<u64, StoreError>) + Send + 'static) {
        match (&self.shared.flusher, self.shared.last_commit()) {
            (Some(flusher), Ok(last)) => flusher.when_flushed(commit.min(last), Box::new(call)),
            (None, Ok(_)) => call(self.shared.disk.flush()),
            (_, Err(error)) => call(Err(error)),
        }
    }

    /// Frees the places of snapshots whose process has died; says how many.
    pub fn clear_dead_readers(&self) -> Result<u32, StoreError> {
        self.shared.disk.environment.clear_dead_readers()
    }

    /// Removes every node whose time has come; says how many. A store whose opener leads does this by itself.
    pub fn sweep(&self) -> Result<u64, StoreError> {
        expiry::sweep(self, clock::now_ms())
    }

    /// A new owner of locks.
    pub fn locks(&self) -> Result<Locks, StoreError> {
        Locks::open(&self.shared.path)
    }

    /// Figures about the store as a whole.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let info = self.shared.disk.environment.info()?;
        Ok(Stats {
            file_bytes: info.file_bytes,
            map_max: info.map_max,
            page_bytes: info.page_bytes,
            last_commit: info.last_transaction,
            readers: info.readers,
            flushed_commit: self.shared.disk.flushed(),
            not_checkpointed_bytes: info.unsynced_bytes,
        })
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The options it was opened with.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }
}

impl Shared {
    fn open(path: PathBuf, options: Options) -> Result<Self, StoreError> {
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
        let tables = prepare(&environment, &path, &options)?;
        let log = Log::new(&path, options.changes_bytes_max, options.lead);
        let disk = Arc::new(Disk::new(environment, log, options.read_only));
        let flusher = if options.read_only {
            None
        } else {
            Some(Flusher::start(
                &disk,
                options.lead.then_some(options.flush_interval),
            )?)
        };
        Ok(Self {
            path,
            options,
            tables,
            disk,
            parked: Mutex::default(),
            flusher,
            sweeper: OnceLock::new(),
            catalogue: Mutex::default(),
        })
    }

    /// The indexes that a transaction finds; parsed only when they have changed.
    pub(crate) fn catalogue(&self, transaction: &engine::Transaction) -> Result<Arc<Catalogue>, StoreError> {
        let text = Catalogue::text(transaction, self.tables)?;
        let mut known = self.catalogue.lock();
        if known.0 != text {
            *known = (text.to_vec(), Arc::new(Catalogue::parse(text)?));
        }
        Ok(Arc::clone(&known.1))
    }

    /// What has never been committed would never be flushed either: whoever waits waits for this at most.
    fn last_commit(&self) -> Result<u64, StoreError> {
        Ok(self.disk.environment.info()?.last_transaction)
    }

    pub(crate) fn wait_flushed(&self, commit: u64) -> Result<(), StoreError> {
        let commit = commit.min(self.last_commit()?);
        match &self.flusher {
            Some(flusher) => flusher.wait(commit),
            None => self.disk.flush().map(|_| ()),
        }
    }

    pub(crate) fn park(&self, parked: Parked) {
        let mut places = self.parked.lock();
        if places.len() < PARKED_MAX {
            places.push(parked);
        }
    }
}

/// The engine opens a file once in a process: while a thread of an earlier opening still ends, this waits for it. It also opens the file
/// anew that a compaction has replaced meanwhile.
fn open_when_free(path: &Path, options: Options) -> Result<Shared, StoreError> {
    let patience = Instant::now() + Duration::from_secs(5);
    let mut replaced = 0;
    loop {
        match Shared::open(path.to_owned(), options) {
            // The second is what it says while the other one lets go of its locks.
            Err(StoreError::Engine {
                code: engine::BUSY | libc::EAGAIN,
                ..
            }) if Instant::now() < patience => {
                thread::sleep(Duration::from_millis(1));
            }
            // What it says of a file that has no name any more. It has waited for the compaction by then, however long that took.
            Err(StoreError::Engine {
                code: libc::EBADFD, ..
            }) if replaced < REPLACED_MAX => replaced += 1,
            Err(StoreError::Engine {
                code: engine::UNRECOVERED,
                ..
            }) => return Err(StoreError::Unrecovered { path: path.into() }),
            outcome => return outcome,
        }
    }
}

/// Opens the tables, making them in a new store, and checks the format.
fn prepare(environment: &Arc<Environment>, path: &Path, options: &Options) -> Result<Tables, StoreError> {
    const FORMAT_KEY: &[u8] = b"format";
    let wrong = |found: String| StoreError::Format {
        path: path.into(),
        found,
        expected: FORMAT,
    };
    let open = |transaction: &engine::Transaction, create| {
        let table = |name: &CStr| {
            let table = transaction.table(name, create)?;
            table.ok_or_else(|| wrong(format!("without the table {}", name.to_string_lossy())))
        };
        Ok::<_, StoreError>(Tables {
            nodes: table(c"nodes")?,
            meta: table(c"meta")?,
            index: table(c"index")?,
            expiry: table(c"expiry")?,
            due: table(c"due")?,
            pack_bytes_max: options.pack_bytes_max,
            value_bytes_max: options.value_bytes_max.min(VALUE_BYTES_LIMIT),
        })
    };
    let snapshot = environment.read()?;
    if let Some(meta) = snapshot.table(c"meta", false)? {
        let found = snapshot.get(meta, FORMAT_KEY)?.unwrap_or_default();
        let found = String::from_utf8_lossy(found).into_owned();
        if found != FORMAT.to_string() {
            return Err(wrong(found));
        }
        let tables = open(&snapshot, false)?;
        // A table stays open after its transaction only when that commits.
        snapshot.commit()?;
        return Ok(tables);
    }
    drop(snapshot);
    if options.read_only {
        return Err(StoreError::Absent { path: path.into() });
    }
    let mut transaction = environment.write()?;
    let tables = open(&transaction, true)?;
    transaction.put(tables.meta, FORMAT_KEY, &[FORMAT.to_string().as_bytes()])?;
    recovery::mark(&mut transaction, tables)?;
    transaction.commit()?;
    environment.flushing(|| environment.write()?.flush_before())?;
    folder::flush(path).map_err(|source| StoreError::File {
        what: "flush",
        path: path.into(),
        source,
    })?;
    Ok(tables)
}
