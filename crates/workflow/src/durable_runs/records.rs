//! Durable runs as stored: `"open",CLIENT,ID` is a run accepted and unfinished; `"over",CLIENT,ID` is an outcome, for as long as it is
//! kept.
//!
//! Arguments and results are stored as JSON texts rather than trees: they are only read whole, and come back exactly as they were.

use std::{hash::Hasher as _, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::{RunStorage, StorageError, WorkflowFailure, Write, Written, storage::shown};

const OPEN: &str = "open";
const OVER: &str = "over";
/// Stands for the client's id where no clients are configured.
const EVERYBODY: &str = "*";

/// Key of a run: the client's name for it, or a generated one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunName {
    /// `None`: no clients are configured.
    pub client: Option<String>,
    /// The client's name for it, or a generated one.
    pub id: String,
}

/// A request for a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// Name of the workflow.
    pub workflow: String,
    /// A JSON object.
    pub args: String,
    /// The requested release, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<u64>,
    #[serde(default)]
    /// Whether the result includes a trace.
    pub wants_trace: bool,
    /// The user whom the server has authenticated, as rules see it: a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What no two users share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_key: Option<String>,
    /// Time of the request, in milliseconds since 1970 UTC.
    pub at_ms: u64,
}

impl RunRequest {
    /// A digest of the request: two requests with one key must ask for the same run, for the same user.
    pub(super) fn mark(&self) -> u128 {
        let (workflow, args) = (&self.workflow, &self.args);
        let (release, trace) = (self.release, self.wants_trace);
        let mut hasher = SipHasher13::new();
        hasher.write(format!("{workflow}\n{release:?}\n{trace}\n{args}").as_bytes());
        if let Some(user) = &self.user_key {
            hasher.write(format!("\n{user}").as_bytes());
        }
        hasher.finish128().as_u128()
    }

    /// The digest in hexadecimal, as it is stored.
    pub(super) fn mark_text(&self) -> String {
        format!("{:032x}", self.mark())
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Over {
    /// Name of the workflow.
    pub workflow: String,
    /// Digest of the request.
    pub mark: String,
    /// Time of the request, in milliseconds since 1970 UTC.
    pub asked_ms: u64,
    /// Time of the end, in milliseconds since 1970 UTC.
    pub ended_ms: u64,
    /// 200, or the code of the error (see [`crate::FailureKind::code`]).
    pub status: u16,
    /// JSON if the status is 200, otherwise the error's text.
    pub answer: String,
    /// The trace of a run that failed, as members of an object, if it was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
    /// The release that ran, if there are releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<u64>,
}

/// Runs stored under one global.
#[derive(Debug)]
pub(super) struct Records {
    storage: Arc<dyn RunStorage>,
    global: String,
    /// How long outcomes are kept.
    kept: Duration,
}

impl Records {
    pub(super) fn new(storage: Arc<dyn RunStorage>, global: &str, kept: Duration) -> Self {
        let global = global.to_owned();
        Self {
            storage,
            global,
            kept,
        }
    }

    fn path<'p>(&'p self, part: &'p str, name: &'p RunName) -> [&'p str; 4] {
        let client = name.client.as_deref().unwrap_or(EVERYBODY);
        [&self.global, part, client, &name.id]
    }

    fn read<T: DeserializeOwned>(&self, part: &str, name: &RunName) -> Result<Option<T>, WorkflowFailure> {
        let path = self.path(part, name);
        let found = self.storage.snapshot()?.get(&path)?;
        let read = found.map(|text| serde_json::from_slice(&text)).transpose();
        read.map_err(|error| WorkflowFailure::ForeignRun {
            path: shown(&path),
            reason: error.to_string(),
        })
    }

    /// The request of an unfinished run.
    pub(super) fn asked(&self, name: &RunName) -> Result<Option<RunRequest>, WorkflowFailure> {
        self.read(OPEN, name)
    }

    pub(super) fn over(&self, name: &RunName) -> Result<Option<Over>, WorkflowFailure> {
        self.read(OVER, name)
    }

    /// All runs that are accepted and unfinished.
    pub(super) fn all_open(&self) -> Result<Vec<RunName>, StorageError> {
        let snapshot = self.storage.snapshot()?;
        let mut names = Vec::new();
        for client in snapshot.children(&[&self.global, OPEN])? {
            for id in snapshot.children(&[&self.global, OPEN, &client])? {
                let client = (client != EVERYBODY).then(|| client.clone());
                names.push(RunName { client, id });
            }
        }
        Ok(names)
    }

    /// Stores a request: the run is accepted once the returned write is done.
    pub(super) fn accept(&self, name: &RunName, asked: &RunRequest) -> Result<Written, StorageError> {
        self.storage.submit(vec![self.put(OPEN, name, asked, None)])
    }

    /// Replaces a run's request by its outcome: it is over once the returned write is done.
    pub(super) fn end(&self, name: &RunName, over: &Over) -> Result<Written, StorageError> {
        let outcome = self.put(OVER, name, over, Some(self.kept));
        self.storage.submit(vec![self.remove(name), outcome])
    }

    /// Removes a request that was accepted but never began, so that a retry counts as a new request.
    pub(super) fn forget(&self, name: &RunName) -> Result<Written, StorageError> {
        self.storage.submit(vec![self.remove(name)])
    }

    fn put(&self, part: &str, name: &RunName, value: &impl Serialize, lifetime: Option<Duration>) -> Write {
        Write::Put {
            path: self.path(part, name).map(str::to_owned).into(),
            document: serde_json::to_vec(value).expect("plain values become JSON"),
            lifetime,
        }
    }

    fn remove(&self, name: &RunName) -> Write {
        Write::Remove {
            path: self.path(OPEN, name).map(str::to_owned).into(),
        }
    }
}
