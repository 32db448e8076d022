//! A store with records, for tests.

use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_records::{
    Everything, List, Permission, RecordsError, Reference, Settings, create,
    tql::{Budget, Execution, Progress, Statement, Timing, change},
};
use forebay_store::{
    Durability, Key, Options, Read, Store,
    index::{Definition, parse_field},
};

/// A time far in the future, so that nothing expires while a test runs.
pub(crate) const NOW_MS: u64 = 4_000_000_000_000;

pub(crate) struct House {
    pub(crate) store: Store,
    pub(crate) settings: Arc<Settings>,
    /// Current time in milliseconds since 1970.
    pub(crate) now_ms: Cell<u64>,
    start: Instant,
    /// How often the clock can be read before it jumps by an hour.
    pub(crate) looks: Cell<u64>,
    _home: super::Home,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::of(settings, &Options::default())
    }

    pub(crate) fn of(settings: Settings, options: &Options) -> Self {
        let (home, path) = super::home();
        let options = Options {
            durability: Durability::Relaxed,
            ..*options
        };
        Self {
            store: Store::open(&path, &options).unwrap(),
            settings: Arc::new(settings),
            now_ms: Cell::new(NOW_MS),
            start: Instant::now(),
            looks: Cell::new(u64::MAX),
            _home: home,
        }
    }

    pub(crate) fn create(&self, document: &str) -> u64 {
        let create = |transaction: &mut _| {
            create(
                transaction,
                document.as_bytes(),
                &self.settings,
                &Everything,
                self.now_ms.get(),
            )
        };
        self.store.transact(create).unwrap().reference.0
    }

    /// Clock for statements that change something: their time runs out after as many reads as the test allows.
    fn clock(&self) -> Instant {
        let looks = self.looks.get();
        self.looks.set(looks.saturating_sub(1));
        self.start
            + if looks == 0 {
                Duration::from_hours(1)
            } else {
                Duration::ZERO
            }
    }

    /// Sets the expiry time of a record or a whole kind.
    pub(crate) fn expire(&self, kind: &str, reference: Option<u64>, at_ms: u64) {
        let mut key = Key::global(kind).unwrap();
        if let Some(reference) = reference {
            key.push(&reference.to_string()).unwrap();
        }
        let expire = |transaction: &mut forebay_store::Transaction| transaction.expire(&key, Some(at_ms));
        assert!(self.store.transact(expire).unwrap(), "there is such a node");
    }

    pub(crate) fn index(&self, name: &str, kind: &str, fields: &[&str], unique: bool) {
        let definition = Definition {
            name: name.to_owned(),
            records: Key::global(kind).unwrap(),
            fields: fields.iter().map(|field| parse_field(field).unwrap()).collect(),
            unique,
        };
        let define = |transaction: &mut forebay_store::Transaction| transaction.define_index(&definition);
        self.store.transact(define).unwrap();
    }

    pub(crate) fn tql(&self, statement: &str) -> String {
        self.try_tql(statement).unwrap_or_else(|error| format!("{error}"))
    }

    pub(crate) fn try_tql(&self, statement: &str) -> Result<String, RecordsError> {
        self.tql_as(statement, &Everything, Budget::WHOLE)
    }

    /// Executes a statement, a read-only one in steps of that size.
    pub(crate) fn tql_as(
        &self,
        statement: &str,
        permission: &impl Permission,
        budget: Budget,
    ) -> Result<String, RecordsError> {
        let statement = Arc::new(Statement::read(statement.as_bytes(), &self.settings)?);
        let mut out = Vec::new();
        if statement.only_reads() {
            let mut snapshot = self.store.snapshot()?;
            let mut execution = Execution::new(
                &statement,
                &self.settings,
                &snapshot,
                permission,
                self.now_ms.get(),
            )?;
            while execution.step(&snapshot, budget, &mut out)? == Progress::More {
                snapshot.forget_read();
            }
        } else {
            self.store.transact(|transaction| {
                let mut begun = false;
                let timing = Timing {
                    now_ms: self.now_ms.get(),
                    deadline: None,
                    clock: &|| self.clock(),
                };
                change(
                    transaction,
                    &statement,
                    &self.settings,
                    permission,
                    timing,
                    &mut begun,
                    &mut out,
                )
            })?;
        }
        Ok(String::from_utf8(out).unwrap())
    }
}

/// Writes a page; returns its last reference if more records follow.
pub(crate) fn whole_page(
    list: List,
    read: &impl Read,
    now_ms: u64,
    out: &mut Vec<u8>,
) -> Result<Option<Reference>, RecordsError> {
    let mut page = list.begin(read, usize::MAX, now_ms)?;
    while page.step(read, None, out)? {}
    Ok(page.next())
}

/// The results of a statement.
pub(crate) fn results(house: &House, statement: &str) -> String {
    let answer = house.tql(statement);
    let start = answer.strip_prefix(r#"{"code":0,"results":"#);
    start
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or(&answer)
        .to_owned()
}

/// Ten records of one kind.
pub(crate) fn articles() -> House {
    let house = House::new();
    for n in 0..10 {
        house.create(&format!(
            r#"{{"kind":"Article","title":"Article-{n}","num":{n}}}"#
        ));
    }
    house
}
