//! Who may have workflows run, how many at a time and how often; and what single workflows leave of the engines to others.

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

/// The rules of `workflow.clients` and `workflow.scenes`, and what is under way.
#[derive(Debug)]
pub(super) struct Admission {
    /// None: everybody may.
    clients: Option<BTreeMap<String, Client>>,
    scenes: BTreeMap<String, Scene>,
}

/// A client that may have workflows run.
#[derive(Debug)]
pub(super) struct Client {
    rules: WorkflowClient,
    running: AtomicUsize,
    quota: Option<DefaultDirectRateLimiter>,
}

/// A workflow with bounds of its own.
#[derive(Debug)]
struct Scene {
    rules: WorkflowScene,
    running: Option<Semaphore>,
    waiting: AtomicUsize,
}

/// Who asks for a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asker<'a> {
    /// What rules are told.
    pub(super) id: Option<&'a str>,
    client: Option<&'a Client>,
}

/// A run that may begin: it has its places as long as this is there.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    pub(super) priority: Priority,
    _of_client: Option<Place<'a>>,
    _of_scene: Option<SemaphorePermit<'a>>,
}

/// One of those that are counted.
#[derive(Debug)]
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    /// A further one, where there are fewer than `max`.
    fn take(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let before = count.fetch_add(1, Ordering::AcqRel);
        // What is refused goes with this.
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

    /// Whether everybody may.
    pub(super) fn is_open(&self) -> bool {
        self.clients.is_none()
    }

    /// Refuses those who may not have this workflow run.
    pub(super) fn check(asker: Asker<'_>, workflow: &str) -> Result<(), Refusal> {
        asker.client.map_or(Ok(()), |client| client.check(workflow))
    }

    /// Who asks, as the head of a request says.
    pub(super) fn asker(&self, head: &Head) -> Result<Asker<'_>, Refusal> {
        let Some(clients) = &self.clients else {
            return Ok(Asker::default());
        };
        if let Some(token) = bearer(head) {
            // All are compared, so that the time does not say which.
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

    /// Who asks with this id and secret. Without clients everybody may, whatever they are.
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
        // Who is not there takes as long as who is.
        let expected_text = expected.map_or("none", Secret::reveal);
        let is_right = is_same(secret.as_bytes(), expected_text.as_bytes()) && expected.is_some();
        match client {
            Some((id, client)) if is_right => Ok(Asker::of(id, client)),
            _ => Err(WorkflowFailure::WrongCredentials.into()),
        }
    }

    /// A client whose secret was looked at before.
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

    /// How long a run of this workflow may take at most, where it has a time of its own.
    pub(super) fn timeout(&self, workflow: &str) -> Option<Duration> {
        self.scenes.get(workflow)?.rules.timeout
    }

    /// Has a run begin, when its workflow has room for it, at the latest at `deadline`.
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

/// The priority of a run whose client and whose workflow have these.
fn of_both(client: Option<Priority>, scene: Option<Priority>) -> Priority {
    match (client.unwrap_or_default(), scene.unwrap_or_default()) {
        (Priority::Normal, other) | (other, Priority::Normal) => other,
        (client, scene) if client == scene => client,
        _ => Priority::Normal,
    }
}

impl<'a> Asker<'a> {
    /// How many runs this may have at a time.
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
