//! The web console: a page, and below `/console/api` what it reads and changes. Those are requests to the control socket, to targets that
//! routes have ([`targets`]), and the history of the last hour.
//!
//! Clients on this machine may read, unless tokens are configured; nobody changes anything without one. A page of another site can send
//! requests here but not read responses, and it cannot send the field that a request needs to do more than read.

mod history;
mod targets;

use std::sync::Arc;

use bytes::Bytes;
use forebay_auth::{bearer, is_same};
use forebay_records::tql::Statement;
use forebay_store::Read as _;
use forebay_workflow::WorkflowFiles;
use serde_json::{Value, json};

pub(super) use self::history::EVERY;
pub(crate) use self::history::History;
use self::targets::{Call, Targets};
use super::http::{BODY_BYTES_MAX, Request, Response, names_this_machine};
use crate::{
    config::{self, PathKind, WorkflowApi, WorkflowRoute, WorkflowSource},
    control::Control,
    front::Head,
    server::Shared,
    target::{RecordsTarget, Rules, StoreTarget, Tagged, Target, TqlTarget, WorkflowTarget},
};

/// The path of the page.
pub(super) const PAGE: &str = "/console/";
const API: &str = "/console/api/";
/// The field of requests that do more than read.
const FIELD: &str = "forebay-console";
/// Most names of globals in a response.
const GLOBALS_MAX: usize = 10_000;
/// Longest document or statement in a request, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 4 << 20;

/// The page may load its own script and style and talk to its own server, and nothing else.
const PAGE_HEADERS: &str = "content-type: text/html; charset=utf-8\r\ncontent-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n";
const SCRIPT_HEADERS: &str =
    "content-type: text/javascript; charset=utf-8\r\nx-content-type-options: nosniff\r\n";
const STYLE_HEADERS: &str = "content-type: text/css; charset=utf-8\r\nx-content-type-options: nosniff\r\n";

/// The rights of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Edit,
}

/// The console of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    shared: Arc<Shared>,
    control: Control,
    targets: Arc<Targets>,
    history: Arc<History>,
    page: Tagged,
    script: Tagged,
    style: Tagged,
}

impl Console {
    pub(super) fn new(shared: &Arc<Shared>, history: Arc<History>) -> Self {
        let tagged = |text: &'static str| Tagged::new(Bytes::from_static(text.as_bytes()));
        Self {
            shared: Arc::clone(shared),
            control: Control::new(Arc::clone(shared)),
            targets: Arc::default(),
            history,
            page: tagged(include_str!("../../../../../console/dist/index.html")),
            script: tagged(include_str!("../../../../../console/dist/app.js")),
            style: tagged(include_str!("../../../../../console/dist/app.css")),
        }
    }

    /// Whether requests to this path are for the console.
    pub(super) fn has(path: &str) -> bool {
        path == "/" || path == PAGE.trim_end_matches('/') || path.starts_with(PAGE)
    }

    /// Most bytes of a request's body. It is read before the request is answered, so a long one is only for clients that may send it.
    pub(super) fn body_bytes_max(&self, head: &Head) -> u64 {
        match head.path().strip_prefix(API) {
            Some(path) if (path.starts_with("store/") || path == "tql") && self.access(head).is_ok() => {
                DOCUMENT_BYTES_MAX
            }
            _ => BODY_BYTES_MAX,
        }
    }

    /// Whether a request is cancelled when its client disconnects. Orders such as a reload are carried out whole.
    pub(super) fn ends_with_client(request: &Request) -> bool {
        let path = request.path.strip_prefix(API).unwrap_or_default();
        let first = path.split('/').next().unwrap_or_default();
        ["store", "changes", "tql", "workflows", "profiles"].contains(&first)
    }

    pub(super) async fn answer(&self, mut request: Request) -> Response {
        if let Some(path) = request.path.strip_prefix(API) {
            let path = path.to_owned();
            request.path = format!("/{path}");
            return match self.access(&request.head) {
                Ok(access) => self
                    .api(&path, request, access)
                    .await
                    .unwrap_or_else(|problem| problem),
                Err(problem) => problem,
            };
        }
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            return Response::not_allowed("GET, HEAD");
        }
        let (file, headers) = match request.path.strip_prefix(PAGE) {
            Some("") => (&self.page, PAGE_HEADERS),
            Some("app.js") => (&self.script, SCRIPT_HEADERS),
            Some("app.css") => (&self.style, STYLE_HEADERS),
            Some(_) => return Response::problem(404, "the console is one page, /console/"),
            None => return Response::redirect(PAGE),
        };
        let reply = file.reply(&request.head, headers);
        targets::response(reply.unwrap_or_else(|refusal| refusal.reply("")))
    }

    /// The rights of the client that sends this request, or a response that refuses it.
    fn access(&self, head: &Head) -> Result<Access, Response> {
        let app = self.shared.front.app();
        let admin = &app.config.admin;
        let tokens = [
            (&admin.edit_token, Access::Edit),
            (&admin.read_token, Access::Read),
        ];
        let given = head.field("authorization").and_then(bearer);
        let access = match given {
            Some(given) => tokens
                .into_iter()
                .find(|(token, _)| {
                    token
                        .as_ref()
                        .is_some_and(|token| is_same(given, token.reveal().as_bytes()))
                })
                .map(|(_, access)| access)
                .ok_or_else(|| {
                    Response::unauthorized(
                        "this is neither the token of admin.read_token nor that of admin.edit_token",
                    )
                })?,
            None if admin.read_token.is_some() => {
                return Err(Response::unauthorized(
                    "the console asks for the token of admin.read_token or admin.edit_token, as Authorization: Bearer TOKEN",
                ));
            }
            None if admin.listen.as_ref().is_some_and(config::Listen::is_local)
                && names_this_machine(head) =>
            {
                Access::Read
            }
            None => {
                return Err(Response::problem(
                    403,
                    "from another machine the console needs a token: set admin.read_token, admin.edit_token or both to names of environment variables",
                ));
            }
        };
        if !matches!(head.method(), "GET" | "HEAD") && head.field(FIELD).is_none() {
            let problem = format!("a request that does more than read needs the field {FIELD}: 1");
            return Err(Response::problem(403, &problem));
        }
        Ok(access)
    }

    async fn api(&self, path: &str, request: Request, access: Access) -> Result<Response, Response> {
        let only_reads = matches!(request.method.as_str(), "GET" | "HEAD");
        let may_edit = || match access {
            Access::Edit => Ok(()),
            Access::Read => Err(Response::problem(
                403,
                "this changes something, which needs the token of admin.edit_token",
            )),
        };
        let segments: Vec<&str> = path.split('/').collect();
        match segments.as_slice() {
            ["session"] => Ok(self.session(access)),
            ["history"] => Ok(Response::json(200, &self.history.json())),
            ["globals"] => self.globals().await,
            ["workflows"] => self.workflows().await,
            ["workflows", name] => {
                may_edit()?;
                let route = WorkflowRoute {
                    api: WorkflowApi::Named,
                    release: None,
                };
                let app = self.shared.front.app();
                let target = app.workflow.as_ref().map(|workflow| workflow.at(route));
                let target = target.ok_or_else(|| absent("workflows", "[workflow]"))?;
                Ok(self.call(Target::Workflow(target), name, request).await)
            }
            ["store", ..] => {
                if !only_reads {
                    may_edit()?;
                }
                let rest = path["store".len()..].trim_start_matches('/');
                Ok(self.call(Target::Store(self.store()?), rest, request).await)
            }
            ["changes"] => {
                let target = self.store()?.at(PathKind::Changes);
                Ok(self.call(Target::Store(target), "", request).await)
            }
            ["tql"] => {
                let (target, only_reads) = self.statement(&request)?;
                if !only_reads {
                    may_edit()?;
                }
                Ok(self.call(Target::Tql(target), "", request).await)
            }
            ["stop" | "upgrade"] => Err(Response::problem(
                404,
                "a server is stopped and replaced on its own machine",
            )),
            ["samples" | "traces" | "profiles"] => Ok(self.control(request).await),
            _ => {
                if !only_reads {
                    may_edit()?;
                }
                Ok(self.control(request).await)
            }
        }
    }

    async fn control(&self, request: Request) -> Response {
        use super::http::Service as _;
        // Boxed, so that it takes no room in the futures of all other requests.
        Box::pin(self.control.answer(request)).await
    }

    async fn call(&self, target: Target, rest: &str, request: Request) -> Response {
        let call = Call::new(target, rest, request);
        self.targets.answer(&self.shared, call).await
    }

    fn session(&self, access: Access) -> Response {
        let app = self.shared.front.app();
        let admin = &app.config.admin;
        Response::json(
            200,
            &json!({
                "version": env!("CARGO_PKG_VERSION"),
                "edit": access == Access::Edit,
                "tokens": admin.read_token.is_some() || admin.edit_token.is_some(),
                "store": self.shared.services.store.is_some(),
                "workflows": app.workflow.is_some(),
                "jobs": self.shared.services.jobs.is_some(),
            }),
        )
    }

    /// The store as a route has it, without its rules of access.
    fn store(&self) -> Result<StoreTarget, Response> {
        let app = self.shared.front.app();
        let store = self.shared.services.store.as_ref().zip(app.config.store.as_ref());
        let (open, config) = store.ok_or_else(|| absent("store", "[store]"))?;
        Ok(StoreTarget::new(open, config, &Arc::new(Rules::All)))
    }

    /// The target for a statement, and whether the statement only reads. One with errors counts as reading: the target says what they are.
    fn statement(&self, request: &Request) -> Result<(TqlTarget, bool), Response> {
        let app = self.shared.front.app();
        let store = self.shared.services.store.as_ref().zip(app.config.store.as_ref());
        let (open, config) = store.ok_or_else(|| absent("store", "[store]"))?;
        let settings = app.config.records.settings();
        let statement = match request.head.field("content-type") {
            Some(kind) if kind.starts_with(b"application/json") => {
                Statement::read_json(&request.body, &settings)
            }
            _ => Statement::read(&request.body, &settings),
        };
        let only_reads = statement.map_or(true, |statement| statement.only_reads());
        let records = RecordsTarget::new(open, config, &Arc::new(Rules::All), settings);
        Ok((TqlTarget::new(records), only_reads))
    }

    /// The names of the store's globals.
    async fn globals(&self) -> Result<Response, Response> {
        let open = self.shared.services.store.as_ref();
        let store = open.ok_or_else(|| absent("store", "[store]"))?.store().clone();
        let names = tokio::task::spawn_blocking(move || -> Result<Vec<String>, forebay_store::StoreError> {
            store.snapshot()?.globals("")?.take(GLOBALS_MAX).collect()
        });
        let names = names.await.expect("reading names does not panic");
        names
            .map(|names| Response::json(200, &json!({ "globals": names })))
            .map_err(|error| Response::problem(500, &error.to_string()))
    }

    /// The graphs and decisions of a folder of workflows. Those of releases are read as files of a release.
    async fn workflows(&self) -> Result<Response, Response> {
        let app = self.shared.front.app();
        let source = app.config.workflow.as_ref().map(config::Workflow::source);
        let releases = app.workflow.as_ref().map(WorkflowTarget::releases);
        drop(app);
        let folder = match source.ok_or_else(|| absent("workflows", "[workflow]"))? {
            WorkflowSource::Folder { path, .. } => path,
            WorkflowSource::Store { .. } => {
                let published = releases.unwrap_or_default();
                let published = published.into_iter().find(|(_, state)| *state == "published");
                return Ok(Response::json(
                    200,
                    &json!({ "release": published.map(|(number, _)| number), "workflows": [] }),
                ));
            }
        };
        let read = tokio::task::spawn_blocking(move || WorkflowFiles::read(&folder));
        let files = read.await.expect("reading files does not panic");
        let files = files.map_err(|errors| Response::problem(500, &errors.to_string()))?;
        let graphs: Vec<Value> = files
            .iter()
            .filter_map(|(path, text)| {
                let name = path.strip_suffix(".json").filter(|name| !name.contains('/'))?;
                let source: Value = serde_json::from_str(text).ok()?;
                Some(json!({ "name": name, "source": source }))
            })
            .collect();
        Ok(Response::json(
            200,
            &json!({ "release": null, "workflows": graphs }),
        ))
    }
}

fn absent(what: &str, section: &str) -> Response {
    Response::problem(
        404,
        &format!("this server has no {what}: its configuration has no {section}"),
    )
}
