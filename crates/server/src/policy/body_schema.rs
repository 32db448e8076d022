//! Bodies of requests that are checked before the target gets them.

use std::path::Path;

use forebay_workflow::Schema;

use crate::{
    app::BuildError,
    failure::Refusal,
    front::{Client, Framing},
    target::{End, Request, essence},
};

/// Longest body that is checked, in bytes: checking takes the I/O thread a few milliseconds for each of these.
pub(crate) const CHECKED_BYTES_MAX: u64 = 1 << 20;

/// The JSON Schema of a route's bodies.
#[derive(Debug)]
pub(crate) struct BodySchema(Schema);

impl BodySchema {
    pub(crate) fn read(file: &Path) -> Result<Self, BuildError> {
        let error = |why: String| BuildError::BodySchema {
            file: file.to_owned(),
            why,
        };
        let text = std::fs::read(file).map_err(|source| error(source.to_string()))?;
        let schema = serde_json::from_slice(&text).map_err(|source| error(source.to_string()))?;
        Schema::for_strangers(&schema).map(Self).map_err(error)
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
        let value = serde_json::from_slice(&body).map_err(|error| Refusal::BodyNotJson {
            what: error.to_string(),
        })?;
        self.0.check(&value).map_err(Refusal::BodySchema)?;
        client.give_back(body);
        Ok(())
    }
}
