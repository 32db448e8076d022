//! Requests in Rengine's format.

use std::{collections::HashSet, time::Duration};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    WorkflowFailure,
    arguments::{ARGUMENTS_DEPTH_MAX, arguments, depth_of},
};

/// Most workflows in one request.
const SCENES_MAX: usize = 100;
/// Time limit of runs if the request does not set one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request, as in section 1.2 of Rengine's model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SceneRequest<'r> {
    pub(super) request_id: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<String>,
    pub(super) scenes_codes: Option<Vec<String>>,
    /// The rule to run alone.
    pub(super) rule_script_id: Option<Value>,
    /// Language of the rule: only `JS`.
    pub(super) engine: Option<String>,
    pub(super) trace: Option<bool>,
    pub(super) timeout: Option<i64>,
    /// Accepted and ignored.
    #[serde(rename = "bestEffort")]
    pub(super) _best_effort: Option<bool>,
    #[serde(borrow)]
    pub(super) args: Option<&'r RawValue>,
}

impl<'r> SceneRequest<'r> {
    /// Parses a request.
    ///
    /// # Errors
    /// The wrong field, and what is accepted.
    pub fn read(text: &'r [u8]) -> Result<Self, WorkflowFailure> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let read: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let text = error.inner().to_string();
            match text.split_once(" at line ") {
                Some((what, _)) if error.inner().is_data() => {
                    WorkflowFailure::request(format!("`{path}`: {what}"))
                }
                _ => WorkflowFailure::request(text),
            }
        })?;
        json.end()
            .map_err(|error| WorkflowFailure::request(error.to_string()))?;
        Ok(read)
    }

    /// The client's id for the request, if there is one.
    pub fn id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The client's id for the request.
    ///
    /// # Errors
    /// If there is none.
    pub fn needed_id(&self) -> Result<&str, WorkflowFailure> {
        needed(self.id(), "requestId")
    }

    /// The client's id and secret.
    ///
    /// # Errors
    /// If one of them is missing.
    pub fn credentials(&self) -> Result<(&str, &str), WorkflowFailure> {
        let id = needed(self.client_id.as_deref(), "clientId")?;
        let secret = needed(self.client_secret.as_deref(), "clientSecret")?;
        Ok((id, secret))
    }

    /// The name of the rule to run alone.
    ///
    /// # Errors
    /// If there is none, or the rule is to be of another language.
    pub fn rule(&self) -> Result<String, WorkflowFailure> {
        if let Some(engine) = self.engine.as_deref().filter(|engine| *engine != "JS") {
            let what = format!("`engine` is {engine}: rules are written for JS");
            return Err(WorkflowFailure::request(what));
        }
        match &self.rule_script_id {
            Some(Value::String(rule)) if !rule.is_empty() => Ok(rule.clone()),
            Some(Value::Number(rule)) => Ok(rule.to_string()),
            _ => Err(WorkflowFailure::request(
                "`ruleScriptId` is missing: the name of a rule",
            )),
        }
    }

    /// The requested workflows, without duplicates.
    pub(super) fn codes(&self) -> Result<Vec<&str>, WorkflowFailure> {
        let codes = self.scenes_codes.as_deref().unwrap_or_default();
        if codes.is_empty() || codes.len() > SCENES_MAX {
            let found = codes.len();
            return Err(WorkflowFailure::request(format!(
                "`scenesCodes` has {found} entries: 1 to {SCENES_MAX} names of workflows"
            )));
        }
        let mut seen = HashSet::new();
        let codes = codes.iter().map(String::as_str);
        Ok(codes.filter(|code| seen.insert(*code)).collect())
    }

    pub(super) fn timeout(&self) -> Result<Duration, WorkflowFailure> {
        match self.timeout {
            None => Ok(TIMEOUT),
            Some(ms @ 1..) => Ok(Duration::from_millis(ms.unsigned_abs())),
            Some(ms) => Err(wrong_timeout(ms)),
        }
    }

    pub(super) fn args(&self) -> Result<&'r RawValue, WorkflowFailure> {
        let Some(args) = self.args.filter(|args| args.get() != "null") else {
            return arguments(b"");
        };
        if !args.get().starts_with('{') {
            return Err(WorkflowFailure::request("`args` is another value than an object"));
        }
        if depth_of(args.get()) > ARGUMENTS_DEPTH_MAX {
            let what = format!("`args` is nested deeper than {ARGUMENTS_DEPTH_MAX} levels");
            return Err(WorkflowFailure::request(what));
        }
        Ok(args)
    }

    /// The value of `isTrace()` in rules.
    pub(super) fn is_traced(&self) -> bool {
        self.trace.unwrap_or(true)
    }
}

pub(super) fn wrong_timeout(found: impl std::fmt::Display) -> WorkflowFailure {
    WorkflowFailure::request(format!("`timeout` is {found}: milliseconds, more than 0"))
}

fn needed<'v>(value: Option<&'v str>, name: &str) -> Result<&'v str, WorkflowFailure> {
    let is_text = |value: &&str| !value.trim().is_empty();
    value
        .filter(is_text)
        .ok_or_else(|| WorkflowFailure::request(format!("`{name}` is missing: text that is not blank")))
}
