//! The releases of a configuration: in the server that has them open, or else in the store itself. Both take the same requests, so that a
//! command does the same with a server and without.

use std::{future, sync::Arc, time::Duration};

use forebay_server::{
    config::{Config, Workflow, WorkflowSource},
    workflow::{OfflineEnvironment, ReleaseApi, ReleaseRequest, WorkflowStore},
};
use forebay_store::StoreError;
use forebay_workflow::{Releases, WorkflowFiles};
use serde_json::{Value, json};

use super::{WorkflowError, opening::configuration};
use crate::{
    arguments::ConfigFile,
    commands::{store::Data, strip::PARSER},
    control::{Control, ControlError, put_encoded},
};

/// The path of releases on a control socket.
const ROOT: &str = "/releases";
/// Longest time without a byte from the server, which runs the stored tests of a release for ten minutes at most.
const SILENCE_MAX: Duration = Duration::from_mins(11);

/// Answers requests about releases.
#[derive(Debug)]
pub(super) enum Source {
    Server(Control),
    Store(Box<ReleaseApi>),
}

impl Source {
    /// The releases of a configuration; `is_changing` creates the store if there is none.
    pub(super) fn open(file: &ConfigFile, is_changing: bool) -> anyhow::Result<(Self, Config)> {
        let config = configuration(file)?;
        let global = match config.workflow.as_ref().map(Workflow::source) {
            Some(WorkflowSource::Store { global }) => global,
            Some(WorkflowSource::Folder { path, .. }) => {
                return Err(WorkflowError::Folder { folder: path }.into());
            }
            None => return Err(WorkflowError::NoSection.into()),
        };
        if let Some(control) = server_of(&config, &global)? {
            return Ok((Self::Server(control), config));
        }
        let location = config.store.as_ref().map(forebay_server::config::Store::location);
        let data = Data::of(location.unwrap_or_default());
        let store = if is_changing {
            data.write_or_make()?
        } else {
            data.read().map_err(|error| match error {
                StoreError::Absent { path } => WorkflowError::NoStore { folder: path }.into(),
                error => anyhow::Error::from(error),
            })?
        };
        let releases = Releases::new(Arc::new(WorkflowStore(store)), &global);
        let environment = OfflineEnvironment {
            config: config.clone(),
            parser: PARSER,
        };
        let api = ReleaseApi::new(releases, environment);
        Ok((Self::Store(Box::new(api)), config))
    }

    /// Reads the resource at `path`.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.request("GET", path, &[], None)
    }

    /// Makes a change in the name of `by`.
    pub(super) fn change(
        &self,
        method: &str,
        path: &str,
        by: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        self.request(method, path, &[("by", by)], body)
    }

    /// Sends a request; returns the body of its response, null if there is none.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        parameters: &[(&str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut query = String::new();
        for (at, (name, value)) in parameters.iter().enumerate() {
            query.push_str(if at > 0 { "&" } else { "" });
            query.push_str(name);
            query.push('=');
            put_encoded(value, &mut query);
        }
        let (status, body) = match self {
            Self::Server(control) => {
                let target = format!("{ROOT}{path}?{query}");
                let (status, text) = control.exchange(method, &target, &text, SILENCE_MAX)?;
                let body = match &*text {
                    "" => Value::Null,
                    text => serde_json::from_str(text).map_err(|error| control.broken(error.into()))?,
                };
                (status, body)
            }
            Self::Store(api) => {
                let request = ReleaseRequest {
                    method: method.to_owned(),
                    root: ROOT.to_owned(),
                    path: path.to_owned(),
                    query,
                    body: text.into_bytes(),
                    client: None,
                };
                let response = api.answer(&request, future::pending());
                (response.status, response.body.unwrap_or_default())
            }
        };
        if status < 300 {
            return Ok(body);
        }
        Err(WorkflowError::Release { problem: body }.into())
    }

    /// The files of a release.
    pub(super) fn files(&self, number: u64) -> anyhow::Result<WorkflowFiles> {
        let mut files = WorkflowFiles::default();
        for (path, text) in self
            .get(&format!("/{number}/files"))?
            .as_object()
            .into_iter()
            .flatten()
        {
            let added = files.add(path, text.as_str().unwrap_or_default().to_owned());
            added.map_err(|reason| anyhow::anyhow!("release {number}: {path:?}: {reason}"))?;
        }
        Ok(files)
    }
}

/// The control socket of the server that has these releases open, if one runs.
fn server_of(config: &Config, global: &str) -> Result<Option<Control>, ControlError> {
    let (Some(socket), Some(store)) = (&config.admin.socket, &config.store) else {
        return Ok(None);
    };
    let control = Control::at(socket.clone());
    let status = match control.ask("GET", "/status", "") {
        Err(ControlError::Unreachable { .. }) => return Ok(None),
        status => status?,
    };
    let status: Value = serde_json::from_str(&status).map_err(|error| control.broken(error.into()))?;
    // It may be a server of another configuration, or have an earlier version of this one.
    let Ok(path) = store.path.canonicalize() else {
        return Ok(None);
    };
    let is_same = status["workflow_store"] == json!({ "path": path.to_string_lossy(), "global": global });
    Ok(is_same.then_some(control))
}
