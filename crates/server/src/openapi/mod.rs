//! The OpenAPI document (3.1) of a configuration's routes: what they are for, what they take, and what the server itself answers. What a
//! handler, a server behind or a statement makes of a request is not in the configuration, and the document says nothing about it.

mod operations;
mod path;
mod responses;
mod schemas;
mod security;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use forebay_workflow::{BundleErrors, SourceParser};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use self::{
    path::{escaped, parameters, shape, template},
    responses::{RATE_LIMIT_HEADERS, error_name, error_response, problem_schema},
};
use crate::{
    app::{BuildError, compat_of},
    config::{Config, OpenApi, Route, RouteDoc, Target},
    policy::{BodySchemas, CHECKED_BYTES_MAX},
    target::{Tagged, workflow::Bundle},
};

/// Methods that a document can describe.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];
/// Methods whose requests have a body.
const WITH_BODY: [&str; 3] = ["post", "put", "patch"];

/// The sources of a document.
pub(crate) struct Sources<'a> {
    pub(crate) config: &'a Config,
    pub(crate) body_schemas: &'a BodySchemas,
    /// The workflows of a release, or of the published one; `None` if they are not known.
    pub(crate) workflows: &'a dyn Fn(Option<u64>) -> Option<Arc<Bundle>>,
}

/// Why a document cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    /// A schema of bodies cannot be used.
    #[error(transparent)]
    BodySchemas(#[from] BuildError),
    /// The files of the workflows have errors.
    #[error(transparent)]
    Workflows(#[from] BundleErrors),
}

/// The document of a configuration, as JSON for people. No server is needed; workflows in the store are not read.
pub fn openapi(config: &Config, parser: SourceParser) -> Result<String, OpenApiError> {
    let workflow = config.workflow.as_ref();
    let bundle = workflow.and_then(|workflow| Some((workflow.folder()?, compat_of(workflow))));
    let bundle = bundle.map(|(folder, compat)| Bundle::read(folder, compat, parser)?.whole());
    let bundle = bundle.transpose()?.map(Arc::new);
    let document = Document::new(&Sources {
        config,
        body_schemas: &BodySchemas::read(config)?,
        workflows: &|_| bundle.clone(),
    });
    Ok(serde_json::to_string_pretty(&document).expect("the names in it are texts"))
}

/// The members of an OpenAPI document.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    openapi: &'static str,
    info: Value,
    paths: BTreeMap<String, Map<String, Value>>,
    components: BTreeMap<&'static str, Map<String, Value>>,
}

impl Document {
    pub(crate) fn new(sources: &Sources<'_>) -> Self {
        let config = sources.config;
        let mut builder = Builder {
            sources,
            paths: BTreeMap::new(),
            keys: HashMap::new(),
            ids: Names::default(),
            errors: BTreeSet::new(),
            has_rate_limits: false,
            schemas: Map::new(),
            schema_names: Names([("Problem".to_owned(), 1)].into()),
            files: HashMap::new(),
            security_schemes: Map::new(),
        };
        let is_shown = |route: &&Route| {
            let is_hidden = route.doc.as_ref().is_some_and(|doc| doc.hidden);
            !is_hidden && route.target != Target::OpenApi
        };
        let mut routes: Vec<&Route> = config.routes.iter().filter(is_shown).collect();
        // If two routes have the same path in the document, the one that is for more requests has it as it is.
        routes.sort_by_key(|route| (route.host.is_some(), route.path.contains("/*")));
        for route in routes {
            builder.put_route(route);
        }
        let OpenApi {
            title,
            version,
            description,
        } = &config.openapi;
        let mut info = json!({ "title": title, "version": version });
        if let Some(description) = description {
            info["description"] = description.as_str().into();
        }
        Self {
            openapi: "3.1.0",
            info,
            components: builder.components(),
            paths: builder.paths,
        }
    }
}

/// The document of an app as JSON: it is written when it is first asked for, and again once other workflows are in force.
#[derive(Debug, Default)]
pub(crate) struct WrittenDocument(Mutex<Option<(Vec<Weak<Bundle>>, Tagged)>>);

impl WrittenDocument {
    pub(crate) fn get(&self, sources: &Sources<'_>) -> Tagged {
        let routes = sources.config.routes.iter();
        let releases: BTreeSet<Option<u64>> = routes
            .filter_map(|route| match &route.target {
                Target::Workflow(way) => Some(way.release),
                _ => None,
            })
            .collect();
        let bundle =
            |release| (sources.workflows)(release).map_or_else(Weak::new, |bundle| Arc::downgrade(&bundle));
        let bundles: Vec<Weak<Bundle>> = releases.into_iter().map(bundle).collect();
        let is_same = |(before, _): &&(Vec<Weak<Bundle>>, Tagged)| {
            before
                .iter()
                .zip(&bundles)
                .all(|(before, now)| before.ptr_eq(now))
        };
        if let Some((_, written)) = self.0.lock().as_ref().filter(is_same) {
            return written.clone();
        }
        // Without the lock, so that no thread waits for another one that writes.
        let written = serde_json::to_vec(&Document::new(sources)).expect("the names in it are texts");
        let written = Tagged::new(written.into());
        *self.0.lock() = Some((bundles, written.clone()));
        written
    }
}

/// The operations of a route at one path: by method, without what all routes have in common.
struct PathOperations {
    /// In the syntax of the document.
    path: String,
    /// None if only the application knows its methods. A path whose operations say what they do is left out if it has none.
    operations: Vec<(String, Map<String, Value>)>,
    /// Statuses of error responses that the target causes.
    errors: &'static [u16],
    /// Whether the operations say themselves what they do.
    have_summaries: bool,
}

/// A document under construction.
struct Builder<'a> {
    sources: &'a Sources<'a>,
    paths: BTreeMap<String, Map<String, Value>>,
    /// Keys of `paths` by their shape, in which all parameters are alike.
    keys: HashMap<String, String>,
    ids: Names,
    /// Statuses of the error responses in use; 0: all others.
    errors: BTreeSet<u16>,
    has_rate_limits: bool,
    schemas: Map<String, Value>,
    schema_names: Names,
    /// Names of schemas that are in files.
    files: HashMap<PathBuf, String>,
    security_schemes: Map<String, Value>,
}

impl Builder<'_> {
    fn put_route(&mut self, route: &Route) {
        // The path whose last parameter is the rest of it, if there is one.
        let rest = if route.path.contains("/*") {
            template(&route.path)
        } else {
            String::new()
        };
        let paths = self.operations(route).into_iter();
        for at_path in paths.filter(|path| !(path.have_summaries && path.operations.is_empty())) {
            let path = escaped(&at_path.path);
            let methods: Vec<&str> = at_path.operations.iter().map(|(method, _)| &**method).collect();
            let key = self.key(&path, route, &methods);
            let is_new = !self.paths.contains_key(&key);
            let mut item = Map::new();
            if is_new {
                let parameters = parameters(&path, at_path.path == rest);
                if !parameters.is_empty() {
                    item.insert("parameters".to_owned(), parameters.into());
                }
            }
            let doc = route.doc.as_ref();
            if at_path.have_summaries || at_path.operations.is_empty() {
                put_doc(&mut item, doc);
            }
            if at_path.operations.is_empty()
                && let Some(doc) = doc.filter(|doc| !doc.tags.is_empty())
            {
                item.insert("x-tags".to_owned(), doc.tags.clone().into());
            }
            for (method, mut operation) in at_path.operations {
                if !at_path.have_summaries {
                    put_doc(&mut operation, doc);
                }
                self.finish(&mut operation, route, &path, &method, at_path.errors);
                item.insert(method, operation.into());
            }
            self.paths.entry(key).or_default().extend(item);
        }
    }

    /// The key of `paths` for operations with these methods. OpenAPI knows one operation for each method and path, whatever the host is and
    /// however much of a path a parameter takes. The next one has a fragment in its key, which no client sends. So has a route whose methods
    /// are not known, beside one whose methods are.
    fn key(&mut self, path: &str, route: &Route, methods: &[&str]) -> String {
        let shape = shape(path);
        let mark = route.host.as_deref().unwrap_or("other");
        let fragments = (1..).map(|number| match number {
            1 => String::new(),
            2 => format!("#{mark}"),
            _ => format!("#{mark}-{}", number - 1),
        });
        for fragment in fragments {
            let key = self.keys.entry(format!("{shape}{fragment}"));
            let key = key.or_insert_with(|| format!("{path}{fragment}")).clone();
            let is_free = self.paths.get(&key).is_none_or(|item| {
                let has = |method: &&str| item.contains_key(*method);
                !methods.is_empty() && METHODS.iter().any(has) && !methods.iter().any(has)
            });
            if is_free {
                return key;
            }
        }
        unreachable!("numbers do not end")
    }

    /// Adds what operations of all targets have in common.
    fn finish(
        &mut self,
        operation: &mut Map<String, Value>,
        route: &Route,
        path: &str,
        method: &str,
        errors: &[u16],
    ) {
        if let Some(doc) = route.doc.as_ref().filter(|doc| !doc.tags.is_empty()) {
            operation.insert("tags".to_owned(), doc.tags.clone().into());
        }
        operation.insert("operationId".to_owned(), self.operation_id(method, path).into());
        if let Some(host) = &route.host {
            let server = match host.strip_prefix("*.") {
                None => json!({ "url": format!("//{host}") }),
                Some(domain) => json!({
                    "url": format!("//{{subdomain}}.{domain}"), "variables": { "subdomain": { "default": "www" } },
                }),
            };
            operation.insert("servers".to_owned(), json!([server]));
        }
        let requirements = self.security(route);
        if !requirements.is_empty() {
            operation.insert("security".to_owned(), requirements.into());
        }
        let mut errors = errors.to_vec();
        let config = self.sources.config;
        let required = config.auth_requirement(Some(route));
        if !required.any_of.is_empty() {
            errors.push(401);
        }
        if !required.scopes.is_empty() {
            errors.push(403);
        }
        let policies = config.policies_of(Some(route));
        let policies: Vec<_> = policies.map(|name| &config.policies[name]).collect();
        if policies
            .iter()
            .any(|policy| !(policy.allow.is_empty() && policy.deny.is_empty()))
        {
            errors.push(403);
        }
        if WITH_BODY.contains(&method) {
            self.put_body(operation, route, &mut errors);
        }
        let is_limited = policies.iter().any(|policy| !policy.rate_limits.is_empty());
        if is_limited {
            self.has_rate_limits = true;
            errors.push(429);
        }
        let responses = operation.entry("responses").or_insert_with(|| json!({}));
        let Some(responses) = responses.as_object_mut() else {
            return;
        };
        for response in responses.values_mut() {
            if response.get("$ref").is_some() {
                self.errors.insert(0);
            } else if is_limited {
                for (name, _) in RATE_LIMIT_HEADERS {
                    response["headers"][name] = reference("headers", name);
                }
            }
        }
        for status in errors {
            self.errors.insert(status);
            responses
                .entry(status.to_string())
                .or_insert_with(|| reference("responses", &error_name(status)));
        }
    }

    /// Adds what is known of the bodies of requests.
    fn put_body(&mut self, operation: &mut Map<String, Value>, route: &Route, errors: &mut Vec<u16>) {
        if matches!(
            route.target,
            Target::Respond(_) | Target::Redirect(_) | Target::Files(_)
        ) {
            return;
        }
        errors.push(413);
        let bytes_max = match route.body_schema {
            Some(_) => route.body_bytes_max.min(CHECKED_BYTES_MAX),
            None => route.body_bytes_max,
        };
        let limit = crate::config::print_size(bytes_max);
        if let Some(file) = &route.body_schema {
            errors.extend([400, 415, 422]);
            let schema = self.body_schema(file);
            let body = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
            operation.insert("requestBody".to_owned(), body);
        }
        let body = operation
            .entry("requestBody")
            .or_insert_with(|| json!({ "content": { "*/*": {} } }));
        body["description"] = format!("At most {limit}.").into();
    }

    /// A reference to the schema in a file.
    fn body_schema(&mut self, file: &Path) -> Value {
        if let Some(name) = self.files.get(file) {
            return reference("schemas", name);
        }
        let stem = file.file_name().unwrap_or_default().to_string_lossy();
        let stem = stem.split('.').find(|part| !part.is_empty()).unwrap_or("schema");
        let name = self.put_schema(stem, &self.sources.body_schemas.get(file).written);
        self.files.insert(file.to_owned(), name.clone());
        reference("schemas", &name)
    }

    /// Adds a schema under a name like this one, which it returns.
    fn put_schema(&mut self, name: &str, schema: &Value) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let name = self.schema_names.unlike_others(&name);
        let schema = schemas::embedded(schema, &format!("#/components/schemas/{name}"));
        self.schemas.insert(name.clone(), schema);
        name
    }

    /// A name for programs: `getUsersById` for GET `/users/{id}`.
    fn operation_id(&mut self, method: &str, path: &str) -> String {
        let mut id = method.to_owned();
        if path == "/" {
            id.push_str("Root");
        }
        for segment in path.split('/') {
            if segment.starts_with('{') {
                id.push_str("By");
            }
            for word in segment.split(|c: char| !c.is_ascii_alphanumeric()) {
                let (first, rest) = word.split_at(word.len().min(1));
                id.push_str(&first.to_ascii_uppercase());
                id.push_str(rest);
            }
        }
        self.ids.unlike_others(&id)
    }

    fn components(&mut self) -> BTreeMap<&'static str, Map<String, Value>> {
        let mut responses = Map::new();
        for &status in &self.errors {
            responses.insert(error_name(status), error_response(status));
        }
        if !responses.is_empty() {
            self.schemas.insert("Problem".to_owned(), problem_schema());
        }
        let headers = RATE_LIMIT_HEADERS.iter().filter(|_| self.has_rate_limits);
        let headers = headers.map(|(name, description)| {
            let header = json!({ "description": description, "schema": { "type": "integer" } });
            ((*name).to_owned(), header)
        });
        let components = [
            ("headers", headers.collect()),
            ("responses", responses),
            ("schemas", std::mem::take(&mut self.schemas)),
            ("securitySchemes", std::mem::take(&mut self.security_schemes)),
        ];
        components
            .into_iter()
            .filter(|(_, all)| !all.is_empty())
            .collect()
    }
}

/// Names that are in use, each with the number of the last one like it.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    /// This name, or if it is in use, the same with a number behind it.
    fn unlike_others(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        while self.0.contains_key(&unique) {
            let last = self.0.entry(name.to_owned()).or_default();
            *last += 1;
            unique = format!("{name}{last}");
        }
        self.0.insert(unique.clone(), 1);
        unique
    }
}

/// A reference to a component of the document.
fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

fn put_doc(into: &mut Map<String, Value>, doc: Option<&RouteDoc>) {
    let Some(doc) = doc else { return };
    for (name, text) in [("summary", &doc.summary), ("description", &doc.description)] {
        if let Some(text) = text {
            into.insert(name.to_owned(), text.as_str().into());
        }
    }
}
