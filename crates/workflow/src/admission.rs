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

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Priority, WorkflowFailure};

/// `workflow.clients.ID`: what a client may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// Workflows it may run; `*` is all.
    pub workflows: Vec<String>,
    /// Concurrent runs; beyond it the run is refused.
    pub runs_max: Option<usize>,
    /// Runs per second; beyond it the run is refused.
    pub runs_per_second: Option<u32>,
    /// The priority of its runs in the queue.
    pub priority: Priority,
}

/// `workflow.scenes.NAME`: limits of one workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowScene {
    /// Concurrent runs; further ones wait.
    pub runs_max: Option<usize>,
    /// Runs that may wait; beyond it the run is refused.
    pub queue_max: usize,
    /// Time limit of a run.
    pub timeout: Option<Duration>,
    /// The priority of its runs in the queue.
    pub priority: Priority,
}

/// The limits of clients and workflows, with the counts of current runs.
#[derive(Debug)]
pub struct Admission {
    /// None: anyone may run workflows.
    clients: Option<BTreeMap<String, Client>>,
    scenes: BTreeMap<String, Scene>,
}

/// A client that may run workflows.
#[derive(Debug)]
struct Client {
    rules: ClientLimits,
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
pub struct Asker<'a> {
    /// The client's id, as rules see it.
    pub id: Option<&'a str>,
    /// The user whom the server has authenticated, as rules see it: a JSON object.
    pub(crate) user: Option<&'a str>,
    client: Option<&'a Client>,
}

impl<'a> Asker<'a> {
    /// The same client, on behalf of a user: a JSON object.
    #[must_use]
    pub fn with_user(self, user: Option<&'a str>) -> Self {
        Self { user, ..self }
    }

    /// Whether nothing vouches for the client: anybody may send any id where no clients are configured.
    pub fn is_anonymous(&self) -> bool {
        self.client.is_none()
    }
}

/// Permission for a run to begin. It keeps the run's permits until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    pub(crate) priority: Priority,
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
    /// Admission with these clients and workflows. Without clients anyone may run workflows.
    pub fn new(
        clients: BTreeMap<String, ClientLimits>,
        scenes: BTreeMap<String, WorkflowScene>,
    ) -> Arc<Self> {
        let client = |(id, rules): (String, ClientLimits)| {
            let per_second = rules.runs_per_second.and_then(std::num::NonZeroU32::new);
            let client = Client {
                rules,
                running: AtomicUsize::new(0),
                quota: per_second.map(|runs| RateLimiter::direct(Quota::per_second(runs))),
            };
            (id, client)
        };
        let scene = |(name, rules): (String, WorkflowScene)| {
            let scene = Scene {
                running: rules.runs_max.map(Semaphore::new),
                rules,
                waiting: AtomicUsize::new(0),
            };
            (name, scene)
        };
        Arc::new(Self {
            clients: (!clients.is_empty()).then(|| clients.into_iter().map(client).collect()),
            scenes: scenes.into_iter().map(scene).collect(),
        })
    }

    /// Whether anyone may run workflows.
    pub fn is_open(&self) -> bool {
        self.clients.is_none()
    }

    /// Refuses clients that may not run this workflow.
    ///
    /// # Errors
    /// [`WorkflowFailure::NotAllowed`]
    pub fn check(asker: Asker<'_>, workflow: &str) -> Result<(), WorkflowFailure> {
        asker.client.map_or(Ok(()), |client| client.check(workflow))
    }

    /// A client whose credentials have been checked.
    ///
    /// # Errors
    /// If there are clients, and none has this id.
    pub fn known(&self, id: Option<&str>) -> Result<Asker<'_>, WorkflowFailure> {
        match (&self.clients, id) {
            (None, _) => Ok(Asker::default()),
            (Some(clients), Some(id)) => {
                let found = clients.get_key_value(id);
                found
                    .map(|(id, client)| Asker::of(id, client))
                    .ok_or(WorkflowFailure::WrongCredentials)
            }
            (Some(_), None) => Err(WorkflowFailure::NoCredentials),
        }
    }

    /// The workflow's own limit on the duration of a run, if it has one.
    pub(crate) fn timeout(&self, workflow: &str) -> Option<Duration> {
        self.scenes.get(workflow)?.rules.timeout
    }

    /// Waits until the workflow has room for another run, at most until `deadline`.
    pub(crate) async fn admit<'a>(
        &'a self,
        asker: Asker<'a>,
        workflow: &str,
        deadline: Instant,
    ) -> Result<Admitted<'a>, WorkflowFailure> {
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
    /// Someone who calls itself so, where no clients are configured.
    pub fn unchecked(id: &'a str) -> Self {
        Self {
            id: Some(id),
            user: None,
            client: None,
        }
    }

    /// Most concurrent runs of this client, if they are limited.
    pub fn runs_max(self) -> Option<usize> {
        self.client?.rules.runs_max
    }

    fn of(id: &'a str, client: &'a Client) -> Self {
        Self {
            id: Some(id),
            user: None,
            client: Some(client),
        }
    }
}

impl Client {
    fn check(&self, workflow: &str) -> Result<(), WorkflowFailure> {
        let may = |allowed: &String| allowed == "*" || allowed == workflow;
        if self.rules.workflows.iter().any(may) {
            return Ok(());
        }
        let name = workflow.to_owned();
        Err(WorkflowFailure::NotAllowed { name })
    }

    fn enter(&self, workflow: &str) -> Result<Option<Place<'_>>, WorkflowFailure> {
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
            return Err(WorkflowFailure::Quota { runs_per_second });
        }
        Ok(place)
    }
}

impl Scene {
    async fn enter(
        &self,
        workflow: &str,
        deadline: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, WorkflowFailure> {
        let Some(running) = &self.running else {
            return Ok(None);
        };
        if let Ok(permit) = running.try_acquire() {
            return Ok(Some(permit));
        }
        let queue_max = self.rules.queue_max;
        let Some(_waits) = Place::take(&self.waiting, queue_max) else {
            let name = workflow.to_owned();
            return Err(WorkflowFailure::SceneBusy { name, queue_max });
        };
        match tokio::time::timeout_at(deadline.into(), running.acquire()).await {
            Ok(permit) => Ok(permit.ok()),
            Err(_) => Err(WorkflowFailure::DeadlinePassed),
        }
    }
}
