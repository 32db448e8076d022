//! Durable runs as stored: `"open",CLIENT,ID` is a run accepted and unfinished; `"over",CLIENT,ID` is an outcome, for as long as it is
//! kept. `"held",SERVER,CLIENT,ID` says which server has an unfinished run. Only that server ends the run, because the end removes this node
//! and fails without it; another server takes runs over by moving it.
//!
//! Arguments and results are stored as JSON texts rather than trees: they are only read whole, and come back exactly as they were.

use std::{hash::Hasher as _, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::{
    Documents, NodeLocks, RunStorage, StorageError, WorkflowFailure, Write, Written, storage::shown,
};

const OPEN: &str = "open";
const OVER: &str = "over";
const HELD: &str = "held";
/// The document of a node that says which server has a run.
const MARK: &[u8] = b"true";
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
    /// An identifier that no two users share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_key: Option<String>,
    /// Whether some client does not wait for it, so that it is not refused any more.
    #[serde(default)]
    pub is_promised: bool,
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
    /// The name of this server among those that share the runs, different at each start.
    server: String,
}

impl Records {
    pub(super) fn new(storage: Arc<dyn RunStorage>, global: &str, kept: Duration, server: String) -> Self {
        let global = global.to_owned();
        Self {
            storage,
            global,
            kept,
            server,
        }
    }

    fn path<'p>(&'p self, part: &'p str, name: &'p RunName) -> [&'p str; 4] {
        [&self.global, part, client_of(name), &name.id]
    }

    async fn read<T: DeserializeOwned>(
        &self,
        part: &str,
        name: &RunName,
    ) -> Result<Option<T>, WorkflowFailure> {
        let path = self.path(part, name);
        let found = self.storage.fetch(&path).await?;
        let read = found.map(|text| serde_json::from_slice(&text)).transpose();
        read.map_err(|error| WorkflowFailure::ForeignRun {
            path: shown(&path),
            reason: error.to_string(),
        })
    }

    /// The request of an unfinished run.
    pub(super) async fn asked(&self, name: &RunName) -> Result<Option<RunRequest>, WorkflowFailure> {
        self.read(OPEN, name).await
    }

    pub(super) async fn over(&self, name: &RunName) -> Result<Option<Over>, WorkflowFailure> {
        self.read(OVER, name).await
    }

    /// Stores a request: the run is accepted, and this server's, once the returned write is done. It fails with the code 412 if the run is
    /// stored already.
    pub(super) fn accept(&self, name: &RunName, asked: &RunRequest) -> Result<Written, StorageError> {
        let absent = |part| Write::RequireAbsent {
            path: self.path(part, name).map(str::to_owned).into(),
        };
        self.storage.submit(vec![
            absent(OVER),
            absent(OPEN),
            self.put(OPEN, name, asked, None),
            Write::Put {
                path: self.held(&self.server, name).map(str::to_owned).into(),
                document: MARK.to_vec(),
                lifetime: None,
            },
        ])
    }

    /// Replaces a run's request by its outcome: it is over once the returned write is done. It fails with the code 404 if the run is not this
    /// server's any more.
    pub(super) fn end(&self, name: &RunName, over: &Over) -> Result<Written, StorageError> {
        let outcome = self.put(OVER, name, over, Some(self.kept));
        let [held, open] = self.remove(name);
        self.storage.submit(vec![held, open, outcome])
    }

    /// Removes a request that was accepted but never began, so that a retry counts as a new request.
    pub(super) fn forget(&self, name: &RunName) -> Result<Written, StorageError> {
        self.storage.submit(self.remove(name).into())
    }

    fn put(&self, part: &str, name: &RunName, value: &impl Serialize, lifetime: Option<Duration>) -> Write {
        Write::Put {
            path: self.path(part, name).map(str::to_owned).into(),
            document: serde_json::to_vec(value).expect("plain values become JSON"),
            lifetime,
        }
    }

    fn remove(&self, name: &RunName) -> [Write; 2] {
        [
            Write::Remove {
                path: self.held(&self.server, name).map(str::to_owned).into(),
            },
            Write::Remove {
                path: self.path(OPEN, name).map(str::to_owned).into(),
            },
        ]
    }

    fn held<'p>(&'p self, server: &'p str, name: &'p RunName) -> [&'p str; 5] {
        [&self.global, HELD, server, client_of(name), &name.id]
    }

    /// The locks with which servers show that they live.
    pub(super) fn locks(&self) -> Result<Box<dyn NodeLocks>, StorageError> {
        self.storage.locks()
    }

    /// The path whose lock this server holds as long as it lives.
    pub(super) fn own_lock(&self) -> [&str; 3] {
        self.lock_of(&self.server)
    }

    /// The path whose lock a server holds as long as it lives.
    pub(super) fn lock_of<'p>(&'p self, server: &'p str) -> [&'p str; 3] {
        [&self.global, HELD, server]
    }

    /// Whether a run is unfinished, and this server's.
    pub(super) async fn is_own(&self, name: &RunName) -> Result<bool, StorageError> {
        let held = self.storage.fetch(&self.held(&self.server, name)).await?;
        Ok(held.is_some())
    }

    /// The unfinished runs of this server.
    pub(super) fn own(&self) -> Result<Vec<RunName>, StorageError> {
        names_below(&*self.storage.snapshot()?, &self.own_lock())
    }

    /// The other servers that have unfinished runs.
    pub(super) fn other_servers(&self) -> Result<Vec<String>, StorageError> {
        let mut servers = self.storage.snapshot()?.children(&[&self.global, HELD])?;
        servers.retain(|server| *server != self.server);
        Ok(servers)
    }

    /// Makes at most `max` runs of a server that does not live any more runs of this one.
    pub(super) fn take_over(&self, server: &str, max: usize) -> Result<Vec<RunName>, StorageError> {
        let mut changes = self.storage.begin()?;
        let mut taken = names_below(&*changes, &self.lock_of(server))?;
        taken.truncate(max);
        for name in &taken {
            changes.remove(&self.held(server, name))?;
            changes.put(&self.held(&self.server, name), MARK)?;
        }
        changes.commit()?;
        Ok(taken)
    }
}

fn client_of(name: &RunName) -> &str {
    name.client.as_deref().unwrap_or(EVERYBODY)
}

/// The runs below a path, by client and id.
fn names_below<D: Documents + ?Sized>(documents: &D, path: &[&str]) -> Result<Vec<RunName>, StorageError> {
    let mut names = Vec::new();
    for client in documents.children(path)? {
        for id in documents.children(&[path, &[&client]].concat())? {
            let client = (client != EVERYBODY).then(|| client.clone());
            names.push(RunName { client, id });
        }
    }
    Ok(names)
}
