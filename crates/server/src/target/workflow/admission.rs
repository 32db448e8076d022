//! Admission control for runs: which clients may run which workflows, how many at a time and how often; and how much of the engines one
//! workflow may take from the others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_script::Priority;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::WorkflowFailure;
use crate::{
    config::{self, Secret, WorkflowClient, WorkflowScene},
    failure::Refusal,
    front::Head,
    target::credentials::{basic, bearer, is_same},
};

/// The rules of `workflow.clients` and `workflow.scenes`, with the counts of current runs.
#[derive(Debug)]
pub(super) struct Admission {
    /// None: anyone may run workflows.
    clients: Option<BTreeMap<String, Client>>,
    scenes: BTreeMap<String, Scene>,
}

/// A client that may run workflows.
#[derive(Debug)]
pub(super) struct Client {
    rules: WorkflowClient,
    running: AtomicUsize,
    quota: Option<DefaultDirectRateLimiter>,
}

/// A workflow with limits of its own.
#[derive(Debug)]
struct Scene {
    rules: WorkflowScene,
    running: Option<Semaphore>,
    waiting: AtomicUsize,
}

/// The client that requests a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asker<'a> {
    /// The client's id, as rules see it.
    pub(super) id: Option<&'a str>,
    client: Option<&'a Client>,
}

impl Asker<'_> {
    /// Whether nothing vouches for the client: anybody may send any id where no clients are configured.
    pub(super) fn is_anonymous(&self) -> bool {
        self.client.is_none()
    }
}

/// Permission for a run to begin. It keeps the run's permits until it is dropped.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    pub(super) priority: Priority,
    _of_client: Option<Place<'a>>,
    _of_scene: Option<SemaphorePermit<'a>>,
}

/// A permit: one of a counted number.
#[derive(Debug)]
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    /// Takes a permit if fewer than `max` are out.
    fn take(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let before = count.fetch_add(1, Ordering::AcqRel);
        // If refused, dropping this takes the count back.
        let place = Self(count);
        (before < max).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Admission {
    pub(super) fn new(workflow: &config::Workflow) -> Arc<Self> {
        let client = |(id, rules): (&String, &WorkflowClient)| {
            let per_second = rules.runs_per_second.and_then(std::num::NonZeroU32::new);
            let client = Client {
                rules: rules.clone(),
                running: AtomicUsize::new(0),
                quota: per_second.map(|runs| RateLimiter::direct(Quota::per_second(runs))),
            };
            (id.clone(), client)
        };
        let scene = |(name, rules): (&String, &WorkflowScene)| {
            let scene = Scene {
                rules: rules.clone(),
                running: rules.runs_max.map(Semaphore::new),
                waiting: AtomicUsize::new(0),
            };
            (name.clone(), scene)
        };
        Arc::new(Self {
            clients: (!workflow.clients.is_empty()).then(|| workflow.clients.iter().map(client).collect()),
            scenes: workflow.scenes.iter().map(scene).collect(),
        })
    }

    /// Whether anyone may run workflows.
    pub(super) fn is_open(&self) -> bool {
        self.clients.is_none()
    }

    /// Refuses clients that may not run this workflow.
    pub(super) fn check(asker: Asker<'_>, workflow: &str) -> Result<(), Refusal> {
        asker.client.map_or(Ok(()), |client| client.check(workflow))
    }

    /// The client, by the credentials in a request's head.
    pub(super) fn asker(&self, head: &Head) -> Result<Asker<'_>, Refusal> {
        let Some(clients) = &self.clients else {
            return Ok(Asker::default());
        };
        if let Some(token) = bearer(head) {
            // Compares with every token, so that timing does not reveal which one matched.
            let mut found = None;
            for (id, client) in clients {
                let expected = client.rules.token.as_ref();
                if expected.is_some_and(|expected| is_same(token, expected.reveal().as_bytes())) {
                    found = Some(Asker::of(id, client));
                }
            }
            return found.ok_or_else(|| WorkflowFailure::WrongCredentials.into());
        }
        match basic(head) {
            Some((id, secret)) => self.named(&id, &secret),
            None => Err(WorkflowFailure::NoCredentials.into()),
        }
    }

    /// The client with this id and secret. If no clients are configured, any id and secret will do.
    pub(super) fn asker_with<'a>(&'a self, id: &'a str, secret: &str) -> Result<Asker<'a>, Refusal> {
        match &self.clients {
            None => Ok(Asker {
                id: Some(id),
                client: None,
            }),
            Some(_) => self.named(id, secret),
        }
    }

    fn named(&self, id: &str, secret: &str) -> Result<Asker<'_>, Refusal> {
        let client = self
            .clients
            .as_ref()
            .and_then(|clients| clients.get_key_value(id));
        let expected = client.and_then(|(_, client)| client.rules.secret.as_ref());
        // An unknown id takes as long as a known one.
        let expected_text = expected.map_or("none", Secret::reveal);
        let is_right = is_same(secret.as_bytes(), expected_text.as_bytes()) && expected.is_some();
        match client {
            Some((id, client)) if is_right => Ok(Asker::of(id, client)),
            _ => Err(WorkflowFailure::WrongCredentials.into()),
        }
    }

    /// A client whose secret was checked earlier.
    pub(super) fn known(&self, id: Option<&str>) -> Result<Asker<'_>, Refusal> {
        match (&self.clients, id) {
            (None, _) => Ok(Asker::default()),
            (Some(clients), Some(id)) => {
                let found = clients.get_key_value(id);
                found
                    .map(|(id, client)| Asker::of(id, client))
                    .ok_or_else(|| WorkflowFailure::WrongCredentials.into())
            }
            (Some(_), None) => Err(WorkflowFailure::NoCredentials.into()),
        }
    }

    /// The workflow's own limit on the duration of a run, if it has one.
    pub(super) fn timeout(&self, workflow: &str) -> Option<Duration> {
        self.scenes.get(workflow)?.rules.timeout
    }

    /// Waits until the workflow has room for another run, at most until `deadline`.
    pub(super) async fn admit<'a>(
        &'a self,
        asker: Asker<'a>,
        workflow: &str,
        deadline: Instant,
    ) -> Result<Admitted<'a>, Refusal> {
        let of_client = asker
            .client
            .map(|client| client.enter(workflow))
            .transpose()?
            .flatten();
        let scene = self.scenes.get(workflow);
        let of_scene = match scene {
            Some(scene) => scene.enter(workflow, deadline).await?,
            None => None,
        };
        Ok(Admitted {
            priority: of_both(
                asker.client.map(|client| client.rules.priority),
                scene.map(|scene| scene.rules.priority),
            ),
            _of_client: of_client,
            _of_scene: of_scene,
        })
    }
}

/// The priority of a run, from those of its client and its workflow.
fn of_both(client: Option<Priority>, scene: Option<Priority>) -> Priority {
    match (client.unwrap_or_default(), scene.unwrap_or_default()) {
        (Priority::Normal, other) | (other, Priority::Normal) => other,
        (client, scene) if client == scene => client,
        _ => Priority::Normal,
    }
}

impl<'a> Asker<'a> {
    /// Most concurrent runs of this client, if they are limited.
    pub(super) fn runs_max(self) -> Option<usize> {
        self.client?.rules.runs_max
    }

    fn of(id: &'a str, client: &'a Client) -> Self {
        Self {
            id: Some(id),
            client: Some(client),
        }
    }
}

impl Client {
    fn check(&self, workflow: &str) -> Result<(), Refusal> {
        let may = |allowed: &String| allowed == "*" || allowed == workflow;
        if self.rules.workflows.iter().any(may) {
            return Ok(());
        }
        let name = workflow.to_owned();
        Err(WorkflowFailure::NotAllowed { name }.into())
    }

    fn enter(&self, workflow: &str) -> Result<Option<Place<'_>>, Refusal> {
        self.check(workflow)?;
        let place = match self.rules.runs_max {
            None => None,
            Some(runs_max) => {
                let place = Place::take(&self.running, runs_max);
                Some(place.ok_or(WorkflowFailure::ClientBusy { runs_max })?)
            }
        };
        if let (Some(quota), Some(runs_per_second)) = (&self.quota, self.rules.runs_per_second)
            && quota.check().is_err()
        {
            return Err(WorkflowFailure::Quota { runs_per_second }.into());
        }
        Ok(place)
    }
}

impl Scene {
    async fn enter(&self, workflow: &str, deadline: Instant) -> Result<Option<SemaphorePermit<'_>>, Refusal> {
        let Some(running) = &self.running else {
            return Ok(None);
        };
        if let Ok(permit) = running.try_acquire() {
            return Ok(Some(permit));
        }
        let queue_max = self.rules.queue_max;
        let Some(_waits) = Place::take(&self.waiting, queue_max) else {
            let name = workflow.to_owned();
            return Err(WorkflowFailure::SceneBusy { name, queue_max }.into());
        };
        match tokio::time::timeout_at(deadline.into(), running.acquire()).await {
            Ok(permit) => Ok(permit.ok()),
            Err(_) => Err(Refusal::Script(forebay_script::Failure::DeadlinePassed)),
        }
    }
}
