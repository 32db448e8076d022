//! A TQL statement in both encodings: parsed, and executed on a few records, one of which has expired. Its changes are rolled back.

#![no_main]

use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

use forebay_records::{
    Everything, RecordsError, Settings, create,
    tql::{Budget, Execution, Progress, Statement, Timing, change},
};
use forebay_store::{
    Durability, Key, Options, Store, Transaction,
    index::{Definition, parse_field},
};

const NOW_MS: u64 = 4_000_000_000_000;

struct House {
    store: Store,
    settings: Arc<Settings>,
    _folder: tempfile::TempDir,
}

static HOUSE: LazyLock<House> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("there is room for a store");
    let options = Options {
        durability: Durability::Relaxed,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).expect("a store opens in a new folder");
    let settings = Arc::new(Settings::default());
    let fill = |transaction: &mut Transaction| -> Result<(), RecordsError> {
        let kind = Key::global("Record")?;
        transaction.define_index(&Definition {
            name: "by_name".to_owned(),
            records: kind.clone(),
            fields: vec![parse_field("name").expect("it is a field")],
            unique: false,
        })?;
        for n in 0..5 {
            let record = format!(
                r#"{{"name":"Pete","age":{n},"a":{{"b c":[1,2]}},"tags":[1,2],"lines":[{{"x":1}}]}}"#
            );
            create(transaction, record.as_bytes(), &settings, &Everything, NOW_MS)?;
        }
        transaction.expire(&kind.child("2")?, Some(NOW_MS))?;
        Ok(())
    };
    store.transact(fill).expect("records can be made");
    House {
        store,
        settings,
        _folder: folder,
    }
});

/// Why a transaction is rolled back: its statement was tried, with this result, or the store failed.
enum End {
    Tried(Result<(), RecordsError>),
    Broken(RecordsError),
}

impl From<forebay_store::StoreError> for End {
    fn from(error: forebay_store::StoreError) -> Self {
        Self::Broken(error.into())
    }
}

fn execute(house: &House, statement: Statement) -> Result<(), RecordsError> {
    let (store, settings) = (&house.store, &house.settings);
    let mut out = Vec::new();
    if statement.only_reads() {
        let snapshot = store.snapshot()?;
        let statement = Arc::new(statement);
        let mut execution = Execution::new(&statement, settings, &snapshot, &Everything, NOW_MS)?;
        while execution.step(&snapshot, Budget::WHOLE, &mut out)? == Progress::More {}
        return Ok(());
    }
    let timing = Timing {
        now_ms: NOW_MS,
        deadline: None,
        clock: &Instant::now,
    };
    let outcome: Result<(), End> = store.transact(|transaction| {
        let mut begun = false;
        let tried = change(
            transaction,
            &statement,
            settings,
            &Everything,
            timing,
            &mut begun,
            &mut out,
        );
        Err(End::Tried(tried))
    });
    match outcome {
        Err(End::Tried(tried)) => tried,
        Err(End::Broken(error)) => Err(error),
        Ok(()) => unreachable!("it is rolled back"),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let house = &*HOUSE;
    for read in [Statement::read_json, Statement::read_friendly] {
        match read(bytes, &house.settings) {
            Err(error) => assert!(error.position.line >= 1 && error.position.column >= 1, "{error}"),
            Ok(statement) => {
                if let Err(error) = execute(house, statement) {
                    assert!(error.is_input(), "{error}");
                }
            }
        }
    }
});
