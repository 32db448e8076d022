//! Bodies of requests that write: JSON, read whole.

use forebay_store::json;

use crate::{
    failure::Refusal,
    front::{Head, RequestBody, Socket, Stream},
    target::{End, Request, media_type::is_body},
};

/// What PATCH takes (RFC 7396).
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Reads a body whole, at most until the request's deadline. What `body_bytes_max` says has been checked by then.
pub(in crate::target) async fn read<S: Stream>(
    request: &Request<'_>,
    body: &mut RequestBody,
    socket: &mut Socket<S>,
) -> Result<Vec<u8>, End> {
    if body.ended() {
        return Ok(Vec::new());
    }
    body.read(socket, usize::MAX, request.deadline).await
}

/// The canonical text of a body.
pub(in crate::target) fn canonical(text: &[u8], value_bytes_max: usize) -> Result<Vec<u8>, Refusal> {
    if text.len() > value_bytes_max {
        return Err(too_long(text.len(), value_bytes_max));
    }
    Ok(json::canonical(text).map_err(forebay_store::StoreError::from)?)
}

fn too_long(bytes: usize, max: usize) -> Refusal {
    forebay_store::StoreError::ValueTooLong { bytes, max }.into()
}

/// Refuses patches of another kind.
pub(in crate::target) fn check_is_merge_patch(head: &Head) -> Result<(), Refusal> {
    if is_body(head, MERGE_PATCH) {
        Ok(())
    } else {
        Err(Refusal::MediaType {
            accepted: MERGE_PATCH,
        })
    }
}
