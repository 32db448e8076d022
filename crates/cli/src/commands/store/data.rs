//! Which store is meant, and how a command opens it.

use std::{path::PathBuf, time::Duration};

use forebay_store::{Options, Store, StoreError};

use crate::output;

/// How long one command may read one state of the store: an export of much takes its time.
const READER_AGE_MAX: Duration = Duration::from_hours(24);

/// Which store is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Data {
    /// The folder of the store. Example: forebay store ls --data shop/data
    #[arg(long = "data", value_name = "DIR", default_value = "data")]
    pub(super) folder: PathBuf,
}

impl Data {
    /// The store in a folder.
    pub(crate) fn of(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Opens a store that is there, to read.
    pub(crate) fn read(&self) -> Result<Store, StoreError> {
        let read_only = Options {
            read_only: true,
            ..follower()
        };
        match Store::open(&self.folder, &read_only) {
            Err(StoreError::Unrecovered { .. }) => self.write(),
            outcome => outcome,
        }
    }

    /// Opens a store that is there, to write.
    pub(super) fn write(&self) -> Result<Store, StoreError> {
        Store::open(&self.folder, &follower())
    }

    /// Opens a store to write, and makes one where there is none.
    pub(crate) fn write_or_make(&self) -> Result<Store, StoreError> {
        match self.write() {
            Err(StoreError::Absent { .. }) => {
                let maker = Options {
                    create: true,
                    lead: true,
                    ..follower()
                };
                let store = Store::open(&self.folder, &maker)?;
                output::complaint(&format!("made a new store in {}", self.folder.display()));
                Ok(store)
            }
            outcome => outcome,
        }
    }
}

/// Takes the limits that the server, or whoever made the store, has settled.
fn follower() -> Options {
    Options {
        create: false,
        lead: false,
        reader_age_max: READER_AGE_MAX,
        ..Options::default()
    }
}
