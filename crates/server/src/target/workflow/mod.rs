//! HTTP for workflows: heads, queries, credentials, replies, and releases as resources. A workflow is run by its name, with the arguments as
//! the body, or several as requests of Rengine name them; the crate of workflows knows the formats of their bodies.

pub(crate) mod access;
mod clients;
mod observer;
mod offline;
mod release_api;
mod requests;

use std::sync::Arc;

use forebay_script::Script;
use forebay_workflow::{ActiveReleasesError, Admission, RunLimits, RunStorage, Runner, WorkflowFailure};

pub use self::offline::{OfflineEnvironment, OfflineStartError, check, start_offline};
pub(crate) use self::release_api::ReleaseThreads;
pub use self::release_api::{ReleaseApi, ReleaseRequest, ReleaseResponse};
use self::{
    clients::Clients,
    observer::WorkflowObserver,
    requests::{named, rengine},
};
use super::{
    End, Request,
    post_only::{POSTED, unless_posted},
    store::body,
};
pub use crate::store::WorkflowStore;
use crate::{
    app::WorkflowEnvironment,
    config::{self, WorkflowApi, WorkflowRoute},
    front::Client,
    logging::WorkflowLogs,
    reply::Reply,
};

/// Compiled workflows.
pub(crate) type Bundle = forebay_workflow::Bundle<Script>;
/// The workflows in force.
pub(crate) type ActiveReleases = forebay_workflow::ActiveReleases<Script>;
/// The workflows for a run.
pub(crate) type ResolvedRelease = forebay_workflow::ResolvedRelease<Script>;
/// Runs that are kept in the store.
pub(crate) type DurableRuns = forebay_workflow::DurableRuns<Script>;
/// Workflows that run without a server.
pub type Offline = forebay_workflow::Offline<Script>;

/// The workflows target: the workflows in force, and what runs them.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowTarget {
    runner: Runner<Script>,
    clients: Arc<Clients>,
    logs: Option<Arc<WorkflowLogs>>,
    /// Whether responses are exactly Rengine's wherever programs could depend on that.
    is_as_rengine: bool,
    route: WorkflowRoute,
    durable_runs: Option<Arc<DurableRuns>>,
    releases_api: Option<Arc<ReleaseThreads>>,
}

/// Names the release of a run in a response header.
fn with_release(chosen: &ResolvedRelease, mut reply: Reply<'static>) -> Reply<'static> {
    if let Some(number) = chosen.release {
        let number = number.to_string();
        reply.headers.to_mut().push_known("workflow-release", &number);
    }
    reply
}

impl WorkflowTarget {
    pub(crate) fn new(
        script: Arc<Script>,
        releases: Arc<ActiveReleases>,
        limits: RunLimits,
        workflow: &config::Workflow,
        around: WorkflowEnvironment<'_>,
    ) -> Self {
        let route = WorkflowRoute {
            api: WorkflowApi::Named,
            release: None,
        };
        let clients = workflow.clients.iter();
        let client_limits = clients.map(|(id, client)| (id.clone(), client.limits()));
        let runner = Runner {
            releases,
            evaluator: script,
            admission: Admission::new(client_limits.collect(), workflow.scenes.clone()),
            observer: Arc::new(WorkflowObserver {
                metrics: around.workflows,
                logs: around.logs.clone(),
            }),
            storage: around.open_store.map(|store| store as Arc<dyn RunStorage>),
            limits,
            held: around.held.map(|held| held as _),
        };
        Self {
            clients: Arc::new(Clients::new(workflow)),
            runner,
            logs: around.logs,
            is_as_rengine: workflow.compat == config::WorkflowCompat::Rengine,
            route,
            durable_runs: around.durable_runs,
            releases_api: None,
        }
    }

    /// The same target with what answers requests about releases.
    pub(crate) fn with_releases(self, releases_api: Option<Arc<ReleaseThreads>>) -> Self {
        Self { releases_api, ..self }
    }

    /// The same target for a route.
    pub(crate) fn at(&self, route: WorkflowRoute) -> Self {
        Self {
            route,
            ..self.clone()
        }
    }

    /// The bundle for a request with this id: of the given release, of the route's, or of the one in force.
    fn choose(&self, id: &str, release: Option<u64>) -> Result<ResolvedRelease, WorkflowFailure> {
        self.runner.releases.choose(id, release.or(self.route.release))
    }

    /// The threads that answer requests about releases; `None`: the workflows are those of a folder.
    pub(crate) fn releases_api(&self) -> Option<&Arc<ReleaseThreads>> {
        self.releases_api.as_ref()
    }

    /// Checks that the workflows after a reload may replace these.
    pub(crate) fn check_reload(&self, next: &Self) -> Result<(), ActiveReleasesError> {
        self.runner.releases.check_reload(&next.runner.releases)
    }

    /// Releases that runs get without asking, each with its state.
    pub(crate) fn releases(&self) -> Vec<(u64, &'static str)> {
        self.runner.releases.shared()
    }

    /// The durable runs, if they are configured.
    pub(crate) fn durable_runs(&self) -> Option<&Arc<DurableRuns>> {
        self.durable_runs.as_ref()
    }

    /// Log files of its rules.
    pub(crate) fn logs(&self) -> Option<Arc<WorkflowLogs>> {
        self.logs.clone()
    }

    /// The runner of these workflows.
    pub(crate) fn runner(&self) -> &Runner<Script> {
        &self.runner
    }

    pub(crate) fn script(&self) -> &Arc<Script> {
        &self.runner.evaluator
    }

    /// Dispatches a request to the route's kind of API.
    pub(crate) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        client.before_waiting().await?;
        // Systems that know nothing of workflows may send GET or POST.
        let is_read = matches!(request.head.method(), "GET" | "HEAD");
        if is_read
            && self.route.api == WorkflowApi::Named
            && let Some(runs) = &self.durable_runs
        {
            return requests::durable::tell(self, runs, request, client).await;
        }
        let is_asked = is_read && self.route.api == WorkflowApi::Custom;
        if self.route.api == WorkflowApi::Releases {
            // Before its body is read.
            self.release_client(request.head)?;
        } else if !is_asked && let Some(reply) = unless_posted(request.head, self.methods())? {
            return Ok(reply);
        }
        let text = body::read(request, client).await?;
        match self.route.api {
            WorkflowApi::Named => named::answer(self, request, &text, client).await,
            WorkflowApi::Scenes => rengine::answer(self, request, &text, client, false).await,
            WorkflowApi::RuleScript => rengine::answer(self, request, &text, client, true).await,
            WorkflowApi::Custom => rengine::answer_custom(self, request, &text, client).await,
            WorkflowApi::Releases => requests::releases::answer(self, request, text, client).await,
        }
    }

    /// Methods of the route, except for [`WorkflowApi::Custom`], which also takes GET.
    fn methods(&self) -> &'static str {
        if self.route.api == WorkflowApi::Named && self.durable_runs.is_some() {
            "GET, HEAD, OPTIONS, POST"
        } else {
            POSTED
        }
    }
}
