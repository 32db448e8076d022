//! Where the tests of both kinds of stores keep theirs.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use forebay_testkit::Postgres;

use crate::verify::{find, flip};

/// A folder.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// How many times as many cases a property test has as it has here.
    pub(crate) const FEWER_CASES: u32 = 1;

    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The folder, if that is what it is.
    pub(crate) fn files(&self) -> Option<&Path> {
        Some(self.path())
    }

    /// Makes commits fail that change something, in a store that has none yet.
    pub(crate) fn prevent_commits(&self) {
        std::fs::write(self.path().join("changes"), b"no folder").unwrap();
    }

    pub(crate) fn allow_commits(&self) {
        std::fs::remove_file(self.path().join("changes")).unwrap();
    }

    /// Changes a byte of a record that contains this, while nobody has the store open.
    pub(crate) fn damage(&self, content: &[u8]) {
        flip(self.path(), find(self.path(), content)[0], 0);
    }
}

/// A schema of its own in the database of this process.
pub(crate) struct Schema {
    url: PathBuf,
    name: String,
}

impl Schema {
    /// Each case waits for the network often.
    pub(crate) const FEWER_CASES: u32 = 10;

    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("store_{}", COUNT.fetch_add(1, Relaxed));
        let url = format!("{}&schema={name}", Postgres::shared().url());
        Self {
            url: url.into(),
            name,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.url
    }

    pub(crate) fn files(&self) -> Option<&Path> {
        None
    }

    pub(crate) fn prevent_commits(&self) {
        self.run("alter table SCHEMA.changes rename to hidden");
    }

    pub(crate) fn allow_commits(&self) {
        self.run("alter table SCHEMA.hidden rename to changes");
    }

    /// Runs statements as an administrator.
    pub(crate) fn run(&self, statements: &str) {
        let statements = statements.replace("SCHEMA", &self.name);
        Postgres::shared().admin().batch_execute(&statements).unwrap();
    }

    pub(crate) fn damage(&self, content: &[u8]) {
        let mut damaged = content.to_vec();
        damaged[0] ^= 1;
        let changed = Postgres::shared().admin().execute(
            &format!(
                "update {}.entries set value = overlay(value placing $2 from position($1 in value)) \
                 where position($1 in value) > 0",
                self.name
            ),
            &[&content, &damaged],
        );
        assert_eq!(changed.unwrap(), 1);
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let dropped = format!("drop schema if exists {} cascade", self.name);
        // A store that is still open may have a lock; the database goes with the process anyway.
        let _ = Postgres::shared()
            .admin()
            .batch_execute(&format!("set lock_timeout = '2s'; {dropped}"));
    }
}
