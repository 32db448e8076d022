//! Selects the store, and opens it for a command.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use forebay_store::{Options, Store, StoreError};

use crate::output;

/// Longest time that a command may read one snapshot of the store: a large export takes a while.
const READER_AGE_MAX: Duration = Duration::from_hours(24);

/// Which store is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Data {
    /// The folder of the store, or the URL of its database. Example: forebay store ls --data shop/data
    #[arg(long = "data", value_name = "DIR", default_value = "data")]
    pub(super) folder: PathBuf,
}

impl Data {
    /// The store in a folder.
    pub(crate) fn of(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder; an error that says what a store in a database has not.
    pub(super) fn folder(&self, what: &'static str) -> Result<&Path, StoreError> {
        if self.folder.to_str().is_some_and(forebay_store::is_url) {
            return Err(StoreError::InDatabase { what });
        }
        Ok(&self.folder)
    }

    /// Opens an existing store to read.
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

    /// Opens an existing store to write.
    pub(crate) fn write(&self) -> Result<Store, StoreError> {
        Store::open(&self.folder, &follower())
    }

    /// Opens a store to write without leading it, and creates it if there is none.
    pub(super) fn write_or_make_following(&self) -> Result<Store, StoreError> {
        let maker = Options {
            create: true,
            ..follower()
        };
        Store::open(&self.folder, &maker)
    }

    /// Opens a store to write, and creates it if there is none.
    pub(crate) fn write_or_make(&self) -> Result<Store, StoreError> {
        match self.write() {
            Err(StoreError::Absent { .. }) => {
                let maker = Options {
                    create: true,
                    lead: true,
                    ..follower()
                };
                let store = Store::open(&self.folder, &maker)?;
                // The store knows its database without the password, and its folder by another name.
                let place = self.folder("a folder").unwrap_or_else(|_| store.path());
                output::complaint(&format!("made a new store in {}", place.display()));
                Ok(store)
            }
            outcome => outcome,
        }
    }
}

/// Options that adopt the limits set by the server or the creator of the store.
fn follower() -> Options {
    Options {
        create: false,
        lead: false,
        reader_age_max: READER_AGE_MAX,
        ..Options::default()
    }
}
