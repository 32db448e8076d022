//! Durable runs as stored: `"open",CLIENT,ID` is a run accepted and unfinished; `"over",CLIENT,ID` is an outcome, for as long as it is
//! kept.
//!
//! Arguments and results are stored as JSON texts rather than trees: they are only read whole, and come back exactly as they were.

use std::{sync::Arc, time::Duration};

use forebay_store::{Key, Range, Read, key::KeyError};
use forebay_workflow::WorkflowFailure;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    failure::Refusal,
    store::{Change, Condition, Lifetime, OPERATION_BYTES, OpenStore, Operation, Pending, Work},
    target::store::body::canonical,
};

const OPEN: &str = "open";
const OVER: &str = "over";
/// Stands for the client's id where no clients are configured.
const EVERYBODY: &str = "*";

/// Key of a run: the client's name for it, or a generated one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::target::workflow) struct RunName {
    /// `None`: no clients are configured.
    pub(in crate::target::workflow) client: Option<String>,
    pub(in crate::target::workflow) id: String,
}

/// A request for a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::target::workflow) struct RunRequest {
    pub(in crate::target::workflow) workflow: String,
    /// A JSON object.
    pub(in crate::target::workflow) args: String,
    /// The requested release, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::target::workflow) release: Option<u64>,
    #[serde(default)]
    pub(in crate::target::workflow) wants_trace: bool,
    /// Time of the request, in milliseconds since 1970 UTC.
    pub(in crate::target::workflow) at_ms: u64,
}

impl RunRequest {
    /// A digest of the request: two requests with one key must ask for the same run.
    pub(in crate::target::workflow) fn mark(&self) -> u128 {
        let (workflow, args) = (&self.workflow, &self.args);
        let (release, trace) = (self.release, self.wants_trace);
        forebay_store::digest(format!("{workflow}\n{release:?}\n{trace}\n{args}").as_bytes())
    }

    /// The digest in hexadecimal, as it is stored.
    pub(in crate::target::workflow) fn mark_text(&self) -> String {
        format!("{:032x}", self.mark())
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::target::workflow) struct Over {
    pub(in crate::target::workflow) workflow: String,
    /// Digest of the request.
    pub(in crate::target::workflow) mark: String,
    /// Times of the request and of the end, in milliseconds since 1970 UTC.
    pub(in crate::target::workflow) asked_ms: u64,
    pub(in crate::target::workflow) ended_ms: u64,
    /// HTTP status of the response: 200, or that of the error.
    pub(in crate::target::workflow) status: u16,
    /// JSON if the status is 200, otherwise the error's text.
    pub(in crate::target::workflow) answer: String,
    /// The release that ran, if there are releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::target::workflow) release: Option<u64>,
}

/// Runs stored under one global.
#[derive(Debug)]
pub(super) struct Records {
    open: Arc<OpenStore>,
    root: Key,
    /// How long outcomes are kept.
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

    /// The request of an unfinished run.
    pub(super) fn asked(&self, name: &RunName) -> Result<Option<RunRequest>, Refusal> {
        self.read(OPEN, name)
    }

    pub(super) fn over(&self, name: &RunName) -> Result<Option<Over>, Refusal> {
        self.read(OVER, name)
    }

    /// All runs that are accepted and unfinished.
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

    /// Stores a request: the run is accepted once the returned write is done.
    pub(super) fn accept(&self, name: &RunName, asked: &RunRequest) -> Result<Pending, Refusal> {
        let document = self.document(asked)?;
        let bytes = document.len() + OPERATION_BYTES;
        let operation = self.operation(self.key(OPEN, name)?, Change::Put(document), None);
        self.open.writer().submit(vec![operation], bytes)
    }

    /// Replaces a run's request by its outcome: it is over once the returned write is done.
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

    /// Removes a request that was accepted but never began, so that a retry counts as a new request.
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
