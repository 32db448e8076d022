//! Where the tests of both kinds of stores keep theirs.

use std::path::{Path, PathBuf};

use forebay_testkit::postgres;

use crate::verify::{find, flip};

/// A store in the files of a temporary folder.
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
    #[allow(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "both kinds of homes have it"
    )]
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
    schema: postgres::Schema,
    url: PathBuf,
}

impl Schema {
    /// Each case waits for the network often.
    pub(crate) const FEWER_CASES: u32 = 10;

    pub(crate) fn new() -> Self {
        let schema = postgres::Schema::new();
        let url = schema.url().into();
        Self { schema, url }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.url
    }

    #[allow(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "both kinds of homes have it"
    )]
    pub(crate) fn files(&self) -> Option<&Path> {
        None
    }

    pub(crate) fn prevent_commits(&self) {
        self.schema.run("alter table SCHEMA.changes rename to hidden");
    }

    pub(crate) fn allow_commits(&self) {
        self.schema.run("alter table SCHEMA.hidden rename to changes");
    }

    /// Runs statements as a superuser; `SCHEMA` in them is the schema's name.
    pub(crate) fn run(&self, statements: &str) {
        self.schema.run(statements);
    }

    pub(crate) fn damage(&self, content: &[u8]) {
        let hex = |bytes: &[u8]| {
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            digits.concat()
        };
        let mut damaged = content.to_vec();
        damaged[0] ^= 1;
        self.schema.run(&format!(
            "update SCHEMA.entries set value = overlay(value placing '\\x{}'::bytea from position('\\x{content}'::bytea in value)) \
             where position('\\x{content}'::bytea in value) > 0",
            hex(&damaged),
            content = hex(content)
        ));
    }
}
