//! The clients that may run workflows, by their credentials.

use std::collections::BTreeMap;

use forebay_auth::{basic, bearer, is_same};
use forebay_workflow::{Asker, WorkflowFailure};

use super::WorkflowTarget;
use crate::{
    config::{self, Secret, WorkflowClient},
    failure::Refusal,
    front::Head,
};

/// The credentials of clients.
#[derive(Debug)]
pub(super) struct Clients(BTreeMap<String, WorkflowClient>);

impl Clients {
    pub(super) fn new(workflow: &config::Workflow) -> Self {
        Self(workflow.clients.clone())
    }

    /// The id of the client with this token.
    fn with_token(&self, token: &[u8]) -> Option<&str> {
        // Compares with every token, so that timing does not reveal which one matched.
        let mut found = None;
        for (id, client) in &self.0 {
            let expected = client.token.as_ref();
            if expected.is_some_and(|expected| is_same(token, expected.reveal().as_bytes())) {
                found = Some(id.as_str());
            }
        }
        found
    }

    /// The id of the client with this id and secret.
    fn with_secret(&self, id: &str, secret: &str) -> Option<&str> {
        let client = self.0.get_key_value(id);
        let expected = client.and_then(|(_, client)| client.secret.as_ref());
        // An unknown id takes as long as a known one.
        let expected_text = expected.map_or("none", Secret::reveal);
        let is_right = is_same(secret.as_bytes(), expected_text.as_bytes()) && expected.is_some();
        client.filter(|_| is_right).map(|(id, _)| id.as_str())
    }
}

impl WorkflowTarget {
    /// The client, by the credentials in a request's head.
    pub(super) fn asker(&self, head: &Head) -> Result<Asker<'_>, WorkflowFailure> {
        if self.runner.admission.is_open() {
            return Ok(Asker::default());
        }
        let field = head.field("authorization").unwrap_or_default();
        let found = match (bearer(field), basic(field)) {
            (Some(token), _) => self.clients.with_token(token),
            (None, Ok((id, secret))) => self.clients.with_secret(&id, &secret),
            (None, Err(_)) => return Err(WorkflowFailure::NoCredentials),
        };
        self.known(found)
    }

    /// The id of the client that may change releases, by its bearer token.
    pub(super) fn release_client(&self, head: &Head) -> Result<&str, Refusal> {
        let token = head.field("authorization").and_then(bearer);
        let token = token.ok_or(Refusal::ReleaseTokenNeeded)?;
        let id = self.clients.with_token(token);
        let id = id.ok_or(WorkflowFailure::WrongCredentials)?;
        if self.clients.0[id].releases {
            Ok(id)
        } else {
            Err(Refusal::ReleasesNotAllowed)
        }
    }

    /// The client with this id and secret. If no clients are configured, any id and secret will do.
    pub(super) fn asker_with<'a>(&'a self, id: &'a str, secret: &str) -> Result<Asker<'a>, WorkflowFailure> {
        if self.runner.admission.is_open() {
            return Ok(Asker::unchecked(id));
        }
        self.known(self.clients.with_secret(id, secret))
    }

    fn known(&self, id: Option<&str>) -> Result<Asker<'_>, WorkflowFailure> {
        let id = id.ok_or(WorkflowFailure::WrongCredentials)?;
        self.runner.admission.known(Some(id))
    }
}
