//! The changes of the store as they come: `GET /store:changes`, server-sent events (HTML, "Server-sent events").
//!
//! An event's id is the change's number, so a client that connects again goes on where it was, by `Last-Event-ID` or by `?since=`.

use std::{collections::BTreeSet, future::poll_fn, sync::Arc, task::Poll, time::Duration};

use forebay_store::{
    Store, StoreError,
    changes::{Change, ChangeWalk, Operation},
};
use tokio::sync::watch;

use crate::{
    failure::Refusal,
    front::{Head, Stream, Wire, decimal},
    reply::{Body, Reply},
    store::OpenStore,
};

/// Bytes of events that are put together before they are sent.
const PIECE_BYTES: usize = 32 * 1024;
/// A comment goes out when nothing else has for so long: whoever is between keeps the connection, and one that is dead is noticed.
const BEAT: Duration = Duration::from_secs(15);

/// The changes that one client follows.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    store: Store,
    walk: ChangeWalk,
    /// The globals that this client may read.
    readable: Arc<BTreeSet<String>>,
    /// The last change on the disk.
    last: watch::Receiver<u64>,
}

/// How a feed goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// There are events to send.
    More,
    /// These are the last.
    End,
    /// The client is gone.
    Gone,
}

/// Answers with what came after a change, and all that comes from now on.
pub(super) fn reply(
    open: &OpenStore,
    head: &Head,
    readable: BTreeSet<String>,
) -> Result<Reply<'static>, Refusal> {
    let store = open.store().clone();
    let since = match since(head)? {
        Some(since) => since,
        None => store.snapshot()?.sequence()?,
    };
    let walk = store.changes(since)?;
    let mut reply = Reply::new(200);
    let headers = reply.headers.to_mut();
    headers.push_known("content-type", "text/event-stream");
    headers.push_known("cache-control", "no-cache");
    reply.body = Body::Changes(Box::new(ChangeFeed {
        store,
        walk,
        readable: Arc::new(readable),
        last: open.news().listen(),
    }));
    Ok(reply)
}

/// The last change that the client knows, if it says so.
fn since(head: &Head) -> Result<Option<u64>, Refusal> {
    let wrong = |name: &str, what| Refusal::Query {
        name: name.into(),
        what,
    };
    if let Some(id) = head.field("last-event-id") {
        return match decimal(id) {
            Some(since) => Ok(Some(since)),
            None => Err(wrong("last-event-id", "it is the number of a change")),
        };
    }
    let mut since = None;
    for pair in head
        .query()
        .split(|&byte| byte == b'&')
        .filter(|pair| !pair.is_empty())
    {
        match pair.strip_prefix(b"since=").map(decimal) {
            Some(Some(number)) if since.is_none() => since = Some(number),
            Some(_) => return Err(wrong("since", "it is the number of a change, and given once")),
            None => {
                let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
                return Err(wrong(
                    &String::from_utf8_lossy(name),
                    "only `since` is known here",
                ));
            }
        }
    }
    Ok(since)
}

impl ChangeFeed {
    /// Waits for changes and writes them as events.
    pub(crate) async fn next<S: Stream>(&mut self, out: &mut Vec<u8>, wire: &mut Wire<S>) -> Fed {
        loop {
            match self.put_changes(out) {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(target: "forebay::store", cause = %error, "a feed of changes ends");
                    let gone = matches!(error, StoreError::ChangesGone { .. });
                    let what = if gone { "gone" } else { "failed" };
                    out.extend_from_slice(format!("event: {what}\ndata: {error}\n\n").as_bytes());
                    return Fed::End;
                }
            }
            if !out.is_empty() {
                return Fed::More;
            }
            let over = poll_fn(|cx| match wire.poll_gone(cx) {
                Poll::Ready(()) => Poll::Ready(Fed::Gone),
                Poll::Pending if wire.is_draining() => Poll::Ready(Fed::End),
                Poll::Pending => Poll::Pending,
            });
            tokio::select! {
                biased;
                fed = over => return fed,
                changed = self.last.changed() => if changed.is_err() { return Fed::End },
                () = tokio::time::sleep(BEAT) => {
                    out.extend_from_slice(b":\n\n");
                    return Fed::More;
                }
            }
        }
    }

    /// Writes what is there, as much as fits a piece.
    fn put_changes(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let last = *self.last.borrow_and_update();
        if self.walk.since() < last {
            self.store.follow(&mut self.walk)?;
        }
        while self.walk.since() < last {
            let Some(change) = self.walk.next().transpose()? else {
                break;
            };
            self.put_event(change, out);
            if out.len() > PIECE_BYTES {
                // The rest is news again.
                self.last.mark_changed();
                break;
            }
        }
        Ok(())
    }

    /// Writes what a client may know of a change; nothing when that is nothing.
    fn put_event(&self, mut change: Change, out: &mut Vec<u8>) {
        let may = |global: &str| self.readable.contains(global);
        change.operations.retain(|operation| match operation {
            Operation::Set(key, _)
            | Operation::Put(key, _)
            | Operation::LayOver(key, _)
            | Operation::Kill(key)
            | Operation::Expire(key, _)
            | Operation::DropIndex(key, _) => may(key.global_name()),
            Operation::Merge(to, from) => may(to.global_name()) && may(from.global_name()),
            Operation::DefineIndex(definition) => may(definition.records.global_name()),
        });
        if change.operations.is_empty() {
            return;
        }
        out.extend_from_slice(format!("id: {}\nevent: change\ndata: ", change.sequence).as_bytes());
        out.extend_from_slice(&change.to_json());
        out.extend_from_slice(b"\n\n");
    }
}
