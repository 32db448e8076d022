//! Runs in the store: `"open",CLIENT,ID` is one that was accepted and is not over, `"over",CLIENT,ID` what one has come to, for as long as that is kept.
//!
//! Arguments and results are texts of JSON, not trees: nobody asks for a part of them, and they come back as they were.

use std::{sync::Arc, time::Duration};

use forebay_store::{Key, Range, Read, key::KeyError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    failure::Refusal,
    store::{Change, Condition, Lifetime, OPERATION_BYTES, OpenStore, Operation, Pending, Work},
    target::{store::body::canonical, workflow::WorkflowFailure},
};

const OPEN: &str = "open";
const OVER: &str = "over";
/// In place of a client's id, where everybody may have workflows run.
const EVERYBODY: &str = "*";

/// Which run: what its client calls it, or what it was called for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::target::workflow) struct RunName {
    /// `None`: there are no clients.
    pub(in crate::target::workflow) client: Option<String>,
    pub(in crate::target::workflow) id: String,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::target::workflow) struct Asked {
    pub(in crate::target::workflow) workflow: String,
    /// JSON, an object.
    pub(in crate::target::workflow) args: String,
    /// The release that was asked for, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::target::workflow) release: Option<u64>,
    #[serde(default)]
    pub(in crate::target::workflow) wants_trace: bool,
    /// When, in milliseconds since 1970 UTC.
    pub(in crate::target::workflow) at_ms: u64,
}

impl Asked {
    /// Whether it is the same that is asked for: two requests with one key have to be about one run.
    pub(in crate::target::workflow) fn mark(&self) -> u128 {
        let (workflow, args) = (&self.workflow, &self.args);
        let (release, trace) = (self.release, self.wants_trace);
        forebay_store::digest(format!("{workflow}\n{release:?}\n{trace}\n{args}").as_bytes())
    }

    /// The same as it is written.
    pub(in crate::target::workflow) fn mark_text(&self) -> String {
        format!("{:032x}", self.mark())
    }
}

/// What a run has come to.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::target::workflow) struct Over {
    pub(in crate::target::workflow) workflow: String,
    /// Of what was asked for.
    pub(in crate::target::workflow) mark: String,
    /// When it was asked for, and when it ended, in milliseconds since 1970 UTC.
    pub(in crate::target::workflow) asked_ms: u64,
    pub(in crate::target::workflow) ended_ms: u64,
    /// Of the answer: 200, or of an error.
    pub(in crate::target::workflow) status: u16,
    /// With 200 JSON, otherwise what went wrong.
    pub(in crate::target::workflow) answer: String,
    /// The release that has answered, where there are releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::target::workflow) release: Option<u64>,
}

/// The runs under one global.
#[derive(Debug)]
pub(super) struct Records {
    open: Arc<OpenStore>,
    root: Key,
    /// How long what a run has come to is kept.
    kept: Duration,
}

impl Records {
    pub(super) fn new(open: Arc<OpenStore>, global: &str, kept: Duration) -> Result<Self, KeyError> {
        let root = Key::global(global)?;
        Ok(Self { open, root, kept })
    }

    fn key(&self, part: &str, name: &RunName) -> Result<Key, Refusal> {
        let client = name.client.as_deref().unwrap_or(EVERYBODY);
        let key = self.root.child(part).and_then(|key| key.child(client));
        let key = key.and_then(|key| key.child(&name.id));
        Ok(key.map_err(forebay_store::StoreError::from)?)
    }

    fn read<T: DeserializeOwned>(&self, part: &str, name: &RunName) -> Result<Option<T>, Refusal> {
        let key = self.key(part, name)?;
        let snapshot = self.open.store().snapshot()?;
        let found = snapshot.document(&key)?;
        let read = found.map(|text| serde_json::from_slice(&text)).transpose();
        read.map_err(|error| foreign(&key, &error.to_string()))
    }

    /// What a run that is not over is asked for.
    pub(super) fn asked(&self, name: &RunName) -> Result<Option<Asked>, Refusal> {
        self.read(OPEN, name)
    }

    pub(super) fn over(&self, name: &RunName) -> Result<Option<Over>, Refusal> {
        self.read(OVER, name)
    }

    /// All runs that were accepted and are not over.
    pub(super) fn all_open(&self) -> Result<Vec<RunName>, Refusal> {
        let snapshot = self.open.store().snapshot()?;
        let mut names = Vec::new();
        let root = self.root.child(OPEN).map_err(forebay_store::StoreError::from)?;
        for client in snapshot.children(&root, Range::default())? {
            let client = client?.text();
            let root = root.child(&client).map_err(forebay_store::StoreError::from)?;
            for id in snapshot.children(&root, Range::default())? {
                names.push(RunName {
                    client: (client != EVERYBODY).then(|| client.clone()),
                    id: id?.text(),
                });
            }
        }
        Ok(names)
    }

    /// A run is accepted, once what this gives is done.
    pub(super) fn accept(&self, name: &RunName, asked: &Asked) -> Result<Pending, Refusal> {
        let document = self.document(asked)?;
        let bytes = document.len() + OPERATION_BYTES;
        let operation = self.operation(self.key(OPEN, name)?, Change::Put(document), None);
        self.open.writer().submit(vec![operation], bytes)
    }

    /// A run is over, once what this gives is done.
    pub(super) fn end(&self, name: &RunName, over: &Over) -> Result<Pending, Refusal> {
        let document = self.document(over)?;
        let bytes = document.len() + 2 * OPERATION_BYTES;
        let kept = Some(Lifetime::For(self.kept));
        let operations = vec![
            self.operation(self.key(OPEN, name)?, Change::Delete, None),
            self.operation(self.key(OVER, name)?, Change::Put(document), kept),
        ];
        self.open.writer().submit(operations, bytes)
    }

    /// A run was accepted and did not begin: whoever asks again asks for the first time.
    pub(super) fn forget(&self, name: &RunName) -> Result<Pending, Refusal> {
        let operation = self.operation(self.key(OPEN, name)?, Change::Delete, None);
        self.open.writer().submit(vec![operation], OPERATION_BYTES)
    }

    fn document(&self, value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
        let text = serde_json::to_vec(value).expect("plain values become JSON");
        canonical(&text, self.open.store().options().value_bytes_max)
    }

    fn operation(&self, key: Key, change: Change, lifetime: Option<Lifetime>) -> Work {
        Work::Node(Operation {
            at: None,
            key,
            condition: Condition::default(),
            document_bytes_max: self.open.store().options().value_bytes_max,
            change,
            lifetime,
        })
    }
}

fn foreign(key: &Key, reason: &str) -> Refusal {
    Refusal::Workflow(WorkflowFailure::ForeignRun {
        path: key.to_string(),
        reason: reason.to_owned(),
    })
}
