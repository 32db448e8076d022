//! Bodies of requests that are checked before the target gets them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_workflow::Schema;
use serde_json::Value;

use crate::{
    app::BuildError,
    config::Config,
    failure::Refusal,
    front::{Client, Framing},
    target::{End, Request, essence},
};

/// Longest body that is checked, in bytes: checking takes the I/O thread a few milliseconds for each of these.
pub(crate) const CHECKED_BYTES_MAX: u64 = 1 << 20;

/// The JSON Schemas of the routes' bodies, by file.
#[derive(Debug)]
pub(crate) struct BodySchemas(HashMap<PathBuf, Arc<BodySchema>>);

impl BodySchemas {
    pub(crate) fn read(config: &Config) -> Result<Self, BuildError> {
        let mut all = HashMap::new();
        for file in config
            .routes
            .iter()
            .filter_map(|route| route.body_schema.as_ref())
        {
            if !all.contains_key(file) {
                all.insert(file.clone(), Arc::new(BodySchema::read(file)?));
            }
        }
        Ok(Self(all))
    }

    /// That of a file of the configuration.
    pub(crate) fn get(&self, file: &Path) -> &Arc<BodySchema> {
        self.0.get(file).expect("the files of all routes were read")
    }
}

/// The JSON Schema of bodies.
#[derive(Debug)]
pub(crate) struct BodySchema {
    /// As it is in its file.
    pub(crate) written: Value,
    compiled: Schema,
}

impl BodySchema {
    fn read(file: &Path) -> Result<Self, BuildError> {
        let error = |why: String| BuildError::BodySchema {
            file: file.to_owned(),
            why,
        };
        let text = std::fs::read(file).map_err(|source| error(source.to_string()))?;
        let written = serde_json::from_slice(&text).map_err(|source| error(source.to_string()))?;
        let compiled = Schema::for_strangers(&written).map_err(error)?;
        Ok(Self { written, compiled })
    }

    /// Reads the body and checks it. The target reads it again.
    pub(crate) async fn check(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<(), End> {
        let head = request.head;
        let needs_body = matches!(head.method(), "POST" | "PUT" | "PATCH");
        if !needs_body && head.framing == Framing::None {
            return Ok(());
        }
        let written = head.field("content-type").unwrap_or_default();
        let media_type = essence(written).to_ascii_lowercase();
        if media_type != b"application/json" && !media_type.ends_with(b"+json") {
            let accepted = "application/json";
            return Err(Refusal::MediaType { accepted }.into());
        }
        let body = if client.body_ended() {
            Vec::new()
        } else {
            client.read_body(usize::MAX, request.deadline).await?
        };
        let value: Value = serde_json::from_slice(&body).map_err(|error| Refusal::BodyNotJson {
            what: error.to_string(),
        })?;
        self.compiled.check(&value).map_err(Refusal::BodySchema)?;
        client.give_back(body);
        Ok(())
    }
}
