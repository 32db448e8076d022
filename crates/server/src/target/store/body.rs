//! Bodies of write requests: JSON, read whole.

use forebay_store::json;

use crate::{
    failure::Refusal,
    front::{Client, Head},
    target::{End, Request, media_type::is_body},
};

/// The media type of PATCH (RFC 7396).
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Reads the whole body until the request's deadline. The body enforces `body_bytes_max` itself.
pub(in crate::target) async fn read(request: &Request<'_>, client: &mut dyn Client) -> Result<Vec<u8>, End> {
    if client.body_ended() {
        return Ok(Vec::new());
    }
    client.read_body(usize::MAX, request.deadline).await
}

/// The canonical JSON text of a body.
pub(in crate::target) fn canonical(text: &[u8], value_bytes_max: usize) -> Result<Vec<u8>, Refusal> {
    if text.len() > value_bytes_max {
        return Err(too_long(text.len(), value_bytes_max));
    }
    Ok(json::canonical(text).map_err(forebay_store::StoreError::from)?)
}

fn too_long(bytes: usize, max: usize) -> Refusal {
    forebay_store::StoreError::ValueTooLong { bytes, max }.into()
}

/// Refuses any other kind of patch.
pub(in crate::target) fn check_is_merge_patch(head: &Head) -> Result<(), Refusal> {
    if is_body(head, MERGE_PATCH) {
        Ok(())
    } else {
        Err(Refusal::MediaType {
            accepted: MERGE_PATCH,
        })
    }
}
