//! Releases at a route with `api = "releases"`, for clients with the right to change them.

use forebay_workflow::{ReleaseRequest, ReleaseResponse};

use crate::{
    failure::Refusal,
    front::{Socket, Stream},
    reply::{self, Body, Reply},
    target::{
        End, Request,
        parameters::{Parameter, parameters},
        pending::wait_for,
        workflow::{ReleaseThreads, WorkflowTarget},
    },
};

/// Answers a request with this body.
pub(in crate::target::workflow) async fn answer<S: Stream>(
    target: &WorkflowTarget,
    request: &Request<'_>,
    body: Vec<u8>,
    socket: &mut Socket<S>,
) -> Result<Reply<'static>, End> {
    let client = target.release_client(request.head)?.to_owned();
    let releases = target.releases_api().expect("the configuration was checked");
    let whole = request.head.path();
    let rest = request.rest.map_or(0, |rest| rest.len() + 1);
    let (root, path) = whole.split_at(whole.len().saturating_sub(rest));
    let request_of_client = ReleaseRequest {
        method: request.head.method().to_owned(),
        root: root.to_owned(),
        path: path.to_owned(),
        parameters: release_parameters(request.head.query()),
        body,
        client: Some(client),
    };
    let response = release_response(releases, request_of_client);
    let response = wait_for(response, request.deadline, socket).await?;
    let mut reply = Reply::new(response.status);
    let headers = reply.headers.to_mut();
    if let Some(allow) = response.allow {
        headers.push_known("allow", allow);
    }
    if let Some(location) = &response.location {
        headers.push_known("location", location);
    }
    if response.status == 503 {
        headers.push_known("retry-after", "1");
    }
    if let Some(mut text) = response.body {
        let is_problem = response.status >= 400;
        if is_problem {
            text["request_id"] = request.id.into();
        }
        headers.push_known(
            "content-type",
            if is_problem {
                "application/problem+json"
            } else {
                "application/json"
            },
        );
        reply.body = Body::Bytes(text.to_string().into());
    }
    Ok(reply)
}

/// The response to a request about releases; that of an error is problem details (RFC 9457).
pub(crate) async fn release_response(releases: &ReleaseThreads, request: ReleaseRequest) -> ReleaseResponse {
    let mut response = releases.answer(request).await;
    if response.status >= 400
        && let Some(problem) = &mut response.body
    {
        problem["type"] = "about:blank".into();
        problem["title"] = reply::reason(response.status).into();
    }
    response
}

/// The decoded parameters of a query, or why they cannot be decoded.
pub(crate) fn release_parameters(query: &[u8]) -> Result<Vec<(String, String)>, String> {
    let owned = |parameter: Result<Parameter<'_>, Refusal>| {
        let Parameter { name, value } = parameter.map_err(|refusal| refusal.to_string())?;
        Ok((name.into_owned(), value.into_owned()))
    };
    parameters(query, "").map(owned).collect()
}
