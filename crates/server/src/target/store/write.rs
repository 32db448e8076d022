//! Write requests: converts HTTP to operations, submits them to the writer, and converts its outcome to HTTP.

use std::{
    future::poll_fn,
    task::{Context, Poll},
    time::Instant,
};

use super::{StoreTarget, batch, body, json};
use crate::{
    failure::Refusal,
    front::{Client, Head},
    reply::Reply,
    store::{Change, Condition, Done, Lifetime, OPERATION_BYTES, Operation, Pending, Tag, Work, lifetime},
    target::{End, Request},
};
use forebay_router::{decode, put_encoded};

impl StoreTarget {
    pub(super) async fn write_node(
        &self,
        request: &Request<'_>,
        rest: &str,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let head = request.head;
        let method = head.method();
        let key = self.writable(rest, head)?;
        let lifetime = lifetime(head)?;
        if method == "PATCH" {
            body::check_is_merge_patch(head)?;
        }
        let condition = condition(head)?;
        let text = body::read(request, client).await?;
        let canonical = || body::canonical(&text, self.value_bytes_max);
        let change = match method {
            "PUT" => Change::Put(canonical()?),
            "PATCH" => Change::Patch(canonical()?),
            "POST" => Change::Append(canonical()?),
            _ => Change::Delete,
        };
        // A tag stands for the bytes that a later read returns, so it is sent only if those are the bytes received (RFC 9110, 9.3.4).
        let tag = match &change {
            Change::Put(stored) | Change::Append(stored) if *stored == text => Some(Tag::of(stored)),
            _ => None,
        };
        let operation = Operation {
            at: None,
            key,
            condition,
            document_bytes_max: self.value_bytes_max,
            change,
            lifetime,
        };
        let pending = self
            .open
            .writer()
            .submit(vec![Work::Node(operation)], text.len() + OPERATION_BYTES)?;
        let mut done = outcome(pending, request.deadline, client).await?;
        let done = done.pop().expect("one operation has one outcome");
        let mut reply = match done {
            Done::Created => Reply::new(201),
            Done::Changed | Done::Deleted => Reply::new(204),
            Done::Appended(id) => appended(request, &id.to_string(), format!("{{\"id\":{id}}}").into_bytes()),
            Done::Recorded(_) | Done::Answered(_) | Done::Job(_) => {
                unreachable!("it is a change of a node")
            }
        };
        if let Some(tag) = tag {
            reply.headers.to_mut().push_known("etag", &tag.to_string());
        }
        Ok(reply)
    }

    pub(super) async fn write_batch(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let text = body::read(request, client).await?;
        let operations = batch::read(&text, self.value_bytes_max)?;
        for (at, operation) in operations.iter().enumerate() {
            self.rules
                .check_write(operation.key.global_name(), request.head)
                .map_err(|refusal| refusal.in_batch(at))?;
        }
        let bytes = text.len() + operations.len() * OPERATION_BYTES;
        if operations.is_empty() {
            return Ok(json(200, b"[]".to_vec()));
        }
        let operations = operations.into_iter().map(Work::Node).collect();
        let pending = self.open.writer().submit(operations, bytes)?;
        let done = outcome(pending, request.deadline, client).await?;
        Ok(json(200, batch::results(&done)))
    }
}

/// The precondition of the request on the node.
pub(in crate::target) fn condition(head: &Head) -> Result<Condition, Refusal> {
    let (matches, matches_not) = (head.list("if-match"), head.list("if-none-match"));
    Ok(Condition::of(matches.as_deref(), matches_not.as_deref())?)
}

/// The value of `?ttl=`, the only parameter of a write.
fn lifetime(head: &Head) -> Result<Option<Lifetime>, Refusal> {
    if head.query().is_empty() {
        return Ok(None);
    }
    let wrong = |name: &[u8], what| Refusal::Query {
        name: String::from_utf8_lossy(name).into_owned(),
        what,
    };
    let query = head.query();
    match query.strip_prefix(b"ttl=") {
        _ if head.method() == "DELETE" => Err(wrong(query, "DELETE has no parameters")),
        Some(text) => {
            let lifetime = std::str::from_utf8(text).ok().and_then(Lifetime::read);
            lifetime
                .map(Some)
                .ok_or_else(|| wrong(b"ttl", lifetime::ACCEPTED))
        }
        None => Err(wrong(query, "PUT, PATCH and POST have only `ttl`, once")),
    }
}

/// The response to an append: the new child's location, below the request's path.
pub(in crate::target) fn appended(request: &Request<'_>, name: &str, body: Vec<u8>) -> Reply<'static> {
    let mut reply = json(201, body);
    let parent = request.head.path();
    let parent = parent.strip_suffix('/').unwrap_or(parent);
    let mut location = String::with_capacity(parent.len() + 8);
    // The path may have arrived with bytes that a URL must encode.
    for segment in parent.strip_prefix('/').unwrap_or(parent).split('/') {
        location.push('/');
        match decode(segment) {
            Some(decoded) => put_encoded(&decoded, &mut location),
            None => location.push_str(segment),
        }
    }
    let location = format!("{location}/{name}");
    reply.headers.to_mut().push_known("location", &location);
    reply
}

/// Waits for the writer. At the deadline, or when the client disconnects, a write that has not begun is cancelled. One that has is waited for
/// beyond the deadline, unless it is a database that has to confirm it.
pub(in crate::target) async fn outcome(
    mut pending: Pending,
    deadline: Instant,
    client: &mut dyn Client,
) -> Result<Vec<Done>, End> {
    let mut deadline = Some(deadline);
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = pending.poll(&mut Context::from_waker(&client.waker_for_others(cx))) {
            return Poll::Ready(outcome.map_err(End::from));
        }
        if client.poll_gone(cx).is_ready() {
            pending.give_up();
            return Poll::Ready(Err(End::Gone));
        }
        if deadline.is_some_and(|deadline| client.poll_limit(cx, deadline).is_ready()) {
            if pending.give_up() {
                return Poll::Ready(Err(Refusal::WriteExpired.into()));
            }
            if pending.is_remote {
                return Poll::Ready(Err(Refusal::WriteUnconfirmed.into()));
            }
            // The write has begun, so the client waits for its outcome.
            deadline = None;
        }
        Poll::Pending
    })
    .await
}
