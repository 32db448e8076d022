//! How clients prove who they are, as security schemes of the document.

use forebay_auth::Site;
use serde_json::{Map, Value, json};

use super::Builder;
use crate::config::{Access, Auth, Permission, Route, Target, Workflow, WorkflowApi};

/// The scheme of clients of the store that have a token. `[auth.NAME]` has no points in its name.
const STORE_TOKEN: &str = "store.token";
/// Clients of workflows, with their ids and secrets.
const WORKFLOW_CLIENT: &str = "workflow.client";
/// Clients of workflows, with their tokens.
const WORKFLOW_TOKEN: &str = "workflow.token";

impl Builder<'_> {
    /// The security requirements of a route, of which a client has to meet one. Empty: none.
    pub(super) fn security(&mut self, route: &Route) -> Vec<Value> {
        let mut of_route: Vec<Map<String, Value>> = Vec::new();
        let required = self.sources.config.auth_requirement(Some(route));
        for name in &required.any_of {
            if let Some(scheme) = scheme(name, &self.sources.config.auth[name]) {
                self.security_schemes.insert(name.clone(), scheme);
                of_route.push([(name.clone(), json!(required.scopes))].into_iter().collect());
            }
        }
        let of_target = self.of_target(route);
        if of_route.is_empty() {
            return of_target.into_iter().map(Value::from).collect();
        }
        if of_target.is_empty() {
            return of_route.into_iter().map(Value::from).collect();
        }
        let pairs = of_route
            .iter()
            .flat_map(|one| of_target.iter().map(move |other| (one, other)));
        let both = pairs.map(|(one, other)| one.clone().into_iter().chain(other.clone()).collect());
        both.collect()
    }

    /// Credentials that a route's target itself asks for.
    fn of_target(&mut self, route: &Route) -> Vec<Map<String, Value>> {
        let config = self.sources.config;
        let mut names: Vec<Option<&str>> = Vec::new();
        match (&route.target, &config.store, &config.workflow) {
            (Target::Store | Target::Records | Target::Tql, Some(store), _) => {
                let permissions = store.access.values();
                let permissions = permissions.flat_map(|Access { read, write }| [read, write]);
                let (tokens, others): (Vec<_>, Vec<_>) = permissions
                    .filter(|permission| **permission != Permission::Nobody)
                    .partition(|permission| matches!(permission, Permission::Token(_)));
                if !tokens.is_empty() {
                    names.extend((!others.is_empty()).then_some(None));
                    names.push(Some(STORE_TOKEN));
                }
            }
            (Target::Workflow(way), _, Some(workflow)) => names = of_workflow(way.api, workflow),
            _ => {}
        }
        for name in names.iter().flatten() {
            let scheme = if *name == WORKFLOW_CLIENT {
                "basic"
            } else {
                "bearer"
            };
            let scheme = json!({ "type": "http", "scheme": scheme });
            self.security_schemes.insert((*name).to_owned(), scheme);
        }
        let requirement = |name: Option<&str>| name.map(|name| (name.to_owned(), json!([])));
        names
            .into_iter()
            .map(|name| requirement(name).into_iter().collect())
            .collect()
    }
}

/// The schemes of clients of workflows; `None`: their credentials are in the body, as requests of Rengine have them.
fn of_workflow(api: WorkflowApi, workflow: &Workflow) -> Vec<Option<&'static str>> {
    let clients = || workflow.clients.values();
    let has_secrets = api != WorkflowApi::Releases && clients().any(|client| client.secret.is_some());
    let has_tokens = clients().any(|client| client.token.is_some());
    let is_of_rengine = !matches!(api, WorkflowApi::Named | WorkflowApi::Releases);
    let schemes = [
        (is_of_rengine && (has_secrets || has_tokens), None),
        (has_secrets, Some(WORKFLOW_CLIENT)),
        (has_tokens, Some(WORKFLOW_TOKEN)),
    ];
    schemes
        .into_iter()
        .filter_map(|(is_there, scheme)| is_there.then_some(scheme))
        .collect()
}

/// `None` if OpenAPI has no words for it.
fn scheme(name: &str, auth: &Auth) -> Option<Value> {
    if let Some(jwt) = &auth.jwt {
        let description = format!("A token of {}", jwt.issuer);
        return Some(
            json!({ "type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": description }),
        );
    }
    if let Some(oidc) = &auth.oidc {
        let description = format!("A session, which begins with a login at {}", oidc.issuer);
        let site = Site {
            is_secure: true,
            host: "",
        };
        let cookie = site.session_cookie(name);
        return Some(json!({ "type": "apiKey", "in": "cookie", "name": cookie, "description": description }));
    }
    if auth.certificate.is_some() {
        return Some(json!({ "type": "mutualTLS" }));
    }
    if !auth.tokens.is_empty() {
        return Some(json!({ "type": "http", "scheme": "bearer" }));
    }
    if !auth.basic.is_empty() {
        return Some(json!({ "type": "http", "scheme": "basic" }));
    }
    let by_key = json!({ "type": "apiKey", "in": "header", "name": auth.header });
    (!auth.api_keys.is_empty()).then_some(by_key)
}
