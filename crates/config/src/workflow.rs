//! `[workflow]`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_store::Key;
use forebay_workflow::{ClientLimits, DurableRunLimits, Priority, WorkflowApi, WorkflowRoute, WorkflowScene};

use crate::Secret;
use crate::build::Context;
use crate::fields::{Fields, Value};
use crate::key::{GIB, KIB, MIB, SECOND, TIB, YEAR};
use crate::script::{FetchLimits, ScriptAllow};
use crate::section::{Unused, section, unless, words};
use crate::server::LogRotation;

section! {
    /// Graphs of rules, which are scripts: the target `workflow` runs them.
    #[check(Workflow::check)]
    #[unused(Workflow::unused)]
    pub struct Workflow {
        /// The folder of the graphs, each a `NAME.json`, and of the rules that they run: `rules/NAME.js` or `.ts`, or the files of
        /// `rules/NAME/`, in the order of their names and `index.js` last; with what belongs to them in `modules`, `nodes`, `schemas`,
        /// `templates` and `tests`. With `store`: none.
        path: PathBuf = "workflows",
        /// Whether a server looks at the folder, and has new runs have what has changed, within a second. What cannot be read is told in
        /// the log, and changes nothing.
        watch: bool = "false",
        /// The global of the store in which the releases of workflows are, in the place of `path`: `forebay workflow import` makes them,
        /// and what `forebay workflow publish` says is in force within a second.
        store: Option<String>,
        /// `rengine`: behaves like Rengine's executor where programs could depend on it: clients such as `getDefaultHttpClient()` block the
        /// rule instead of returning promises, ALL_OR is always true, edges that a tree cannot have are left out, and
        /// `/execute/internal/workflow` always answers 200, with the code in the body.
        compat: WorkflowCompat = "none",
        /// How long a run may take, waiting for an executor included.
        timeout: Duration as TIMEOUT = "10s" => "504",
        /// Most executor threads, started when needed; 0: one per core.
        executors: usize as integer(0, 256) = "0",
        /// Engines of one executor thread, of which each may use `memory_max`: a run has one until it is over, also while it waits for
        /// something.
        engines_max: usize as integer(1, 4096) = "16" => "the next run waits; 504 when its time is over",
        /// Runs at a time, those included that wait for an executor.
        accept_queue_max: usize as integer(1, 1_000_000) = "4096" => "503 with `Retry-After`",
        /// Bytes of the arguments of these runs. A lone request may exceed it; `body_bytes_max` bounds that.
        queue_bytes_max: u64 as size(64 * KIB, TIB) = "64MiB" => "503 with `Retry-After`",
        /// Memory of one engine.
        memory_max: u64 as size(4 * MIB, 4 * GIB) = "64MiB" => "the rule fails",
        /// Longest result of a run, its trace included; and bytes of all values that its rules give.
        output_max: u64 as size(KIB, GIB) = "8MiB" => "500",
        /// Bytes that the rules of one run log.
        log_max: u64 as size(0, GIB) = "1MiB" => "further lines are left out, and counted",
        /// The folder where what rules log is written, and why runs have failed: `NAME.log` for each workflow, a JSON object a line.
        /// Without it, rules log into the trace of a run that is asked for one.
        logs: Option<PathBuf>,
        /// When such a file is renamed and begun anew; read when the server starts, or with another folder.
        logs_rotate: LogRotation,
        /// Limits of `fetch`.
        fetch: FetchLimits as group(FetchLimits::KEYS),
        /// Bytes that a program which rules run writes to standard output, and as many to standard error.
        process_output_max: u64 as size(KIB, GIB) = "1MiB" => "the program is ended, and what waits for it fails",
        /// The systems that rules may reach; no others.
        allow: WorkflowAllow,
        /// `[workflow.clients.ID]`: who may have workflows run, and how many. Without any, everybody may, and the ids and secrets of
        /// requests are not looked at.
        clients: BTreeMap<String, WorkflowClient> => "401",
        /// `[workflow.scenes.NAME]`: what bounds one workflow.
        scenes: BTreeMap<String, WorkflowScene>,
        /// Runs that are kept in the store: those that go on without their clients (`Prefer: respond-async`), and those that a key names
        /// (`Idempotency-Key`). Read when the server starts.
        runs: WorkflowRuns,
    }
}

section! {
    /// The systems that rules may reach.
    #[derive(Default)]
    pub struct WorkflowAllow {
        /// Systems that scripts may reach, too.
        common: ScriptAllow as group(ScriptAllow::KEYS),
        /// Servers of Redis: NAMEs of `[redis.NAME]`. Locks are in the first.
        redis: Vec<String> as names("redis") = "",
        /// Buckets of S3: NAMEs of `[s3.NAME]`.
        s3: Vec<String> as names("s3") = "",
        /// Servers of mail: NAMEs of `[mail.NAME]`.
        mail: Vec<String> as names("mail") = "",
        /// Clusters of Kafka: NAMEs of `[kafka.NAME]`.
        kafka: Vec<String> as names("kafka") = "",
        /// Pools whose workers answer nodes and rules: NAMEs of `[pool.NAME]`.
        pool: Vec<String> as names("pool") = "",
        /// Programs that rules may run, by their absolute paths.
        process: Vec<PathBuf> as PROGRAMS = "",
    }
}

section! {
    /// `workflow.clients.ID`
    #[check(WorkflowClient::check)]
    pub struct WorkflowClient {
        /// The environment variable with what the client sends beside its id: as `clientSecret` in requests of Rengine, else by
        /// `Authorization: Basic`.
        secret: Option<Secret> => "401",
        /// The environment variable with what it sends in place of both, by `Authorization: Bearer`.
        token: Option<Secret> => "401",
        /// The workflows, and rules run alone, that it may run; `*` is all.
        workflows: Vec<String> as at_least(1) = "*" => "403",
        /// Whether it may read, make, test and publish releases, by its `token`, at a route with `api = "releases"`.
        releases: bool = "false" => "403",
        /// Its runs at a time, those included that wait; `accept_queue_max` bounds those of all.
        runs_max: Option<usize> as integer(1, 1_000_000) => "429 with `Retry-After`",
        /// Its runs in a second; as many may come at once.
        runs_per_second: Option<u32> as integer(1, 1_000_000) => "429 with `Retry-After`",
        /// Order in which runs wait for an executor: `high` counts as arrived a second earlier, `low` as three seconds later. When
        /// `accept_queue_max` is reached, a waiting run makes room for one with a higher priority. If client and workflow differ, the one
        /// that is not `normal` applies; `high` with `low` is `normal`.
        priority: Priority = "normal",
    }
}

section! {
    /// `workflow.scenes.NAME`
    for WorkflowScene {
        /// Its runs at a time. Further ones wait without an engine, so that others have those that are left.
        runs_max: Option<usize> as integer(1, 1_000_000) => "the next run waits",
        /// How many wait for that.
        queue_max: usize as integer(0, 1_000_000) = "1024" => "503 with `Retry-After`",
        /// How long a run of it may take, where that is less than `timeout` of all.
        timeout: Option<Duration> as TIMEOUT => "504",
        /// Order in which runs wait for an executor: `high` counts as arrived a second earlier, `low` as three seconds later. When
        /// `accept_queue_max` is reached, a waiting run makes room for one with a higher priority. If client and workflow differ, the one
        /// that is not `normal` applies; `high` with `low` is `normal`.
        priority: Priority = "normal",
    }
}

section! {
    /// Runs that are kept.
    #[unused(WorkflowRuns::unused)]
    pub struct WorkflowRuns {
        /// The global of the store in which they are. Without it none is kept.
        global: Option<String>,
        /// How long the outcome of a run is kept, and its key stands for it.
        kept: Duration as duration(SECOND, YEAR) = "24h" => "404; the key names a new run",
        /// Runs that are accepted and not over.
        open_max: usize as integer(1, 1_000_000) = "10000" => "503 with `Retry-After`",
        /// Runs at a time for which no client waits.
        at_a_time: usize as integer(1, 4096) = "32" => "the next waits",
    }
}

section! {
    /// `workflow` of a route.
    pub(crate) struct WorkflowRouteKeys {
        /// The request format. `named` (default for a path that ends with `*`): the path names the workflow, the body is its arguments or a
        /// list of them. `scenes` (default otherwise): Rengine's request, whose `scenesCodes` name workflows. `rulescript`: Rengine's
        /// request whose `ruleScriptId` names one rule. `custom`: any JSON or XML, with a response made from a template, as Rengine's
        /// `/execute/custom`. `releases`: no runs, but the releases of the workflows, for clients with `releases = true`; the path ends
        /// with `/*`.
        api: Option<WorkflowApi>,
        /// The release that runs of this route have, whatever is published. With `workflow.store` alone.
        release: Option<u64> as integer(1, u32::MAX as u64),
    }
}

words! {
    /// Whose behaviour graphs and rules get.
    pub enum WorkflowCompat {
        /// That of Forebay.
        None = "none",
        /// That of Rengine where programs could depend on it.
        Rengine = "rengine",
    }
}

words! {
    for WorkflowApi {
        Named = "named",
        Scenes = "scenes",
        RuleScript = "rulescript",
        Custom = "custom",
        Releases = "releases",
    }
}

words! {
    for Priority {
        High = "high",
        Normal = "normal",
        Low = "low",
    }
}

/// The location of graphs and rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkflowSource {
    /// Files in a folder.
    Folder {
        /// The folder's absolute path.
        path: PathBuf,
        /// Whether the server watches for changes.
        watch: bool,
    },
    /// Releases in the store.
    Store {
        /// The global that holds the releases.
        global: String,
    },
}

impl Workflow {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if self.executors == 0 {
            self.executors = context.environment.cores;
        }
        let no_global = |global: &str, context: &Context<'_>| {
            if !context.has_store() {
                return Some("there is no store; a section `[store]` makes one".to_owned());
            }
            Key::global(global).err().map(|error| error.to_string())
        };
        match &self.store {
            Some(global) => {
                if let Some(message) = no_global(global, context) {
                    context.note(fields.problem("store", message));
                }
            }
            None if self.path.is_dir() => {}
            None => {
                let message = format!("there is no folder `{}`", self.path.display());
                context.note(fields.problem("path", message));
            }
        }
        if let (Some(global), Some(Value::Table(runs))) = (&self.runs.global, fields.value("runs")) {
            let releases = || format!("{global:?} has the releases of the workflows (store)");
            let has_releases = context.has_store() && self.store.as_ref() == Some(global);
            let wrong = has_releases.then(releases).or_else(|| no_global(global, context));
            if let Some(message) = wrong {
                context.note(runs.problem("global", message));
            }
        }
    }

    fn unused(&self) -> Unused {
        let Some(global) = &self.store else {
            return Unused::new();
        };
        let why = format!("it is for workflows of a folder; these are in the store (store = {global:?})");
        unless(false, &["path", "watch"], &why)
    }

    /// The location of graphs and rules.
    pub fn source(&self) -> WorkflowSource {
        match &self.store {
            Some(global) => WorkflowSource::Store {
                global: global.clone(),
            },
            None => WorkflowSource::Folder {
                path: self.path.clone(),
                watch: self.watch,
            },
        }
    }

    /// The folder, for workflows in files.
    pub fn folder(&self) -> Option<&Path> {
        self.store.is_none().then_some(&self.path)
    }

    /// Checks what a route says about releases.
    pub(crate) fn check_route(&self, route: WorkflowRoute, fields: &Fields, context: &mut Context<'_>) {
        let (has_release, is_about_releases) = (route.release.is_some(), route.api == WorkflowApi::Releases);
        let has_publishers = self.clients.values().any(|client| client.releases);
        let wrong = if (has_release || is_about_releases) && self.store.is_none() {
            "the workflows are those of a folder, which has no releases; `store` under [workflow] has"
        } else if has_release && is_about_releases {
            "with `api = \"releases\"` the path names the release"
        } else if is_about_releases && !has_publishers {
            "no client may use it: `releases = true` and `token` under [workflow.clients.ID]"
        } else {
            return;
        };
        context.note(fields.problem(if has_release { "release" } else { "api" }, wrong));
    }
}

impl WorkflowClient {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if !fields.has("secret") && !fields.has("token") {
            let message = "it has no `secret` and no `token`: one of them names an environment variable";
            context.note(fields.problem("secret", message));
        }
        if self.releases && !fields.has("token") {
            let message = "it has no `token`, by which releases are read and changed";
            context.note(fields.problem("releases", message));
        }
    }

    /// Limits on what it may run.
    pub fn limits(&self) -> ClientLimits {
        ClientLimits {
            workflows: self.workflows.clone(),
            runs_max: self.runs_max,
            runs_per_second: self.runs_per_second,
            priority: self.priority,
        }
    }
}

impl WorkflowRuns {
    fn unused(&self) -> Unused {
        let why = "it is for runs that are kept: `global` names the global of the store for them";
        unless(self.global.is_some(), &["kept", "open_max", "at_a_time"], why)
    }

    /// `None` if none are kept.
    pub fn limits(&self) -> Option<DurableRunLimits> {
        Some(DurableRunLimits {
            global: self.global.clone()?,
            kept: self.kept,
            open_max: self.open_max,
            at_a_time: self.at_a_time,
        })
    }
}
