//! Watches the commits of all processes, on a thread of its own: by notifications, and where the database has none, by
//! looking at the state again and again. Also keeps the log of changes within its limit.

use std::{
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_pg::BlockingConnection;

use super::{Database, commit::CHANNEL, connections::STATEMENT_MAX, error::failed, sql::number};
use crate::error::StoreError;

/// How often the state is looked at: without notifications, and with them, one of which may have been lost with a
/// connection.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// How often the log's length is checked.
const TRIM_EVERY: Duration = Duration::from_secs(10);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the thread may take to notice that the store was closed.
const NOTICE: Duration = Duration::from_millis(200);

/// The thread, which ends soon after this is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    has_ended: Arc<AtomicBool>,
}

impl Watcher {
    pub(super) fn start(database: &Arc<Database>, log_bytes_max: u64) -> Result<Self, StoreError> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ended, database) = (Arc::clone(&has_ended), Arc::downgrade(database));
        thread::Builder::new()
            .name("store-watch".into())
            .spawn(move || {
                while !ended.load(Relaxed) {
                    // A failure is that of the database, which others report.
                    if watch(&database, &ended, log_bytes_max, LOOK_EVERY).is_err() {
                        thread::sleep(PAUSE);
                    }
                }
            })
            .map_err(StoreError::file(
                "start a thread to watch",
                Path::new("the store"),
            ))?;
        Ok(Self { has_ended })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.has_ended.store(true, Relaxed);
    }
}

/// Watches on one connection, until it breaks or the store is closed.
fn watch(
    database: &Weak<Database>,
    ended: &AtomicBool,
    log_bytes_max: u64,
    look_every: [Duration; 2],
) -> Result<(), StoreError> {
    let Some(this) = database.upgrade() else {
        ended.store(true, Relaxed);
        return Ok(());
    };
    let mut connection = this
        .connections
        .connect(this.connections.server())
        .map_err(failed(&this.address))?;
    let listens = this.announces() && run(&mut connection, &this, &format!("listen {CHANNEL}")).is_ok();
    drop(this);
    let every = look_every[usize::from(listens)];
    let mut trim_at = Instant::now();
    while !ended.load(Relaxed) {
        let Some(this) = database.upgrade() else {
            return Ok(());
        };
        look(&mut connection, &this)?;
        this.probe();
        if Instant::now() >= trim_at {
            while this.trim_log(log_bytes_max)? {}
            trim_at = Instant::now() + TRIM_EVERY;
        }
        let address = this.address.clone();
        drop(this);
        let next = Instant::now() + every;
        while Instant::now() < next && !ended.load(Relaxed) {
            let until = next.min(Instant::now() + NOTICE);
            // Also what was announced while it looked: that may have been committed after the look.
            let heard = connection
                .hear(until)
                .map_err(|error| failed(&address)(super::DatabaseError::of(&error)))?;
            if heard {
                break;
            }
        }
    }
    Ok(())
}

/// Reads the number of the last commit.
fn look(connection: &mut BlockingConnection, database: &Database) -> Result<(), StoreError> {
    let sequence = run(connection, database, &database.statements.head)?;
    database.see(sequence);
    Ok(())
}

/// Runs a statement; returns the first number of its result.
fn run(connection: &mut BlockingConnection, database: &Database, text: &str) -> Result<u64, StoreError> {
    let outcome = connection
        .run(&[(text, &[])], Instant::now() + STATEMENT_MAX)
        .remove(0);
    let rows = outcome.map_err(|error| database.failed(&error))?;
    Ok(rows.rows.first().map_or(0, |row| number(row.text(0))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use forebay_testkit::{postgres::Schema, wait_until};

    use super::*;
    use crate::{Key, Options, Store};

    const NEVER: [Duration; 2] = [Duration::from_hours(1); 2];

    #[test]
    fn the_last_commit_of_a_burst_is_noticed_by_its_notification() {
        let schema = Schema::new();
        let other = Store::open(Path::new(&schema.url()), &Options::default()).unwrap();
        // Without a watcher of its own.
        let options = Options {
            lead: false,
            ..Options::default()
        };
        let mut database = Database::open(&schema.url().parse().unwrap(), &options).unwrap();
        // A look takes so long that commits are announced before its answer, which does not contain them.
        let head = &mut Arc::get_mut(&mut database).unwrap().statements.head;
        *head = format!("select head.* from ({head}) head, pg_sleep(0.02)");
        let (weak, ended) = (Arc::downgrade(&database), Arc::default());
        let key = Key::global("G").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| watch(&weak, &ended, u64::MAX, NEVER).unwrap());
            // Ends the thread, also if this panics.
            let _watcher = Watcher {
                has_ended: Arc::clone(&ended),
            };
            for burst in 1..=20 {
                for _ in 0..10 {
                    other.transact(|transaction| transaction.set(&key, b"1")).unwrap();
                }
                wait_until("the last commit", || database.last_seen() == burst * 10);
            }
        });
    }
}
