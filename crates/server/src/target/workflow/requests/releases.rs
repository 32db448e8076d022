//! Releases at a route with `api = "releases"`, for clients with the right to change them.

use crate::{
    front::Client,
    reply::{Body, Reply},
    target::{
        End, Request,
        pending::wait_for,
        workflow::{ReleaseRequest, WorkflowTarget},
    },
};

/// Answers a request with this body.
pub(in crate::target::workflow) async fn answer(
    target: &WorkflowTarget,
    request: &Request<'_>,
    body: Vec<u8>,
    client: &mut dyn Client,
) -> Result<Reply<'static>, End> {
    let name = target.release_client(request.head)?.to_owned();
    let releases = target.releases_api().expect("the configuration was checked");
    let whole = request.head.path();
    let rest = request.rest.map_or(0, |rest| rest.len() + 1);
    let (root, path) = whole.split_at(whole.len().saturating_sub(rest));
    let request_of_client = ReleaseRequest {
        method: request.head.method().to_owned(),
        root: root.to_owned(),
        path: path.to_owned(),
        query: String::from_utf8_lossy(request.head.query()).into_owned(),
        body,
        client: Some(name),
    };
    let response = wait_for(releases.answer(request_of_client), request.deadline, client).await?;
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
