//! The change feed: `GET /store:changes`, server-sent events (HTML, "Server-sent events").
//!
//! An event's id is the change's number, so a client that reconnects resumes where it was, by `Last-Event-ID` or by `?since=`. Keep-alive
//! comments carry the number of the last change examined, so changes that a client may not see advance it too. The log is read on the
//! store's own thread for that, a bounded piece at a time, and only one piece is held here.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_store::{
    Store, StoreError,
    changes::{Change, ChangeWalk, Operation, Outline, Step},
};
use tokio::sync::watch;

use crate::{
    app::App,
    failure::Refusal,
    front::{Client, Head, Thread, decimal},
    reply::{Body, Reply},
    store::OpenStore,
    target::{
        End, Request,
        body_stream::{BodyStream, NextPiece, Piece},
    },
};

/// Bytes of events collected before they are sent.
const PIECE_BYTES: usize = 32 * 1024;
/// Bytes of the log read in one turn, before other followers get theirs and this one's client is checked.
const TURN_BYTES: u64 = 1 << 20;
/// Largest change, in bytes of the log, that is sent whole. For a larger one, the client learns which globals to read again.
const CHANGE_BYTES_MAX: u64 = 1 << 20;
/// Interval of keep-alive comments: they keep proxies from closing the connection, and reveal a dead one.
const BEAT: Duration = Duration::from_secs(15);

/// A client's position in the change log.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    open: Arc<OpenStore>,
    /// `None` while the log is being read, and after an error.
    walk: Option<ChangeWalk>,
    /// Globals that this client may read.
    readable: Arc<BTreeSet<String>>,
    /// Number of the last change on disk.
    last: watch::Receiver<u64>,
    /// When the next keep-alive comment is due.
    beat_at: Instant,
    /// The I/O thread, and the routes in force when the client asked: under others it has to ask again.
    thread: Rc<Thread>,
    app: Arc<App>,
    request_id: String,
}

/// Result of one turn of reading the log.
struct Turn {
    walk: ChangeWalk,
    events: Vec<u8>,
    /// An error ends the feed, after these events.
    outcome: Result<(), StoreError>,
}

/// The response: every change after a given one, past and future.
pub(super) fn reply(
    open: &Arc<OpenStore>,
    request: &Request<'_>,
    readable: BTreeSet<String>,
) -> Result<Reply<'static>, Refusal> {
    let store = open.store();
    let since = match since(request.head)? {
        Some(since) => since,
        None => store.snapshot()?.sequence()?,
    };
    let walk = store.changes(since)?;
    let mut reply = Reply::new(200);
    let headers = reply.headers.to_mut();
    headers.push_known("content-type", "text/event-stream");
    headers.push_known("cache-control", "no-cache");
    reply.body = Body::Stream(Box::new(ChangeFeed {
        open: Arc::clone(open),
        walk: Some(walk),
        readable: Arc::new(readable),
        last: open.news().listen(),
        // Due at once, so that the client knows its position and can resume there even if no change happens first.
        beat_at: Instant::now(),
        thread: Rc::clone(request.thread),
        app: Arc::clone(request.app),
        request_id: request.id.to_owned(),
    }));
    Ok(reply)
}

/// The last change that the client knows, if the request names one.
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

impl BodyStream for ChangeFeed {
    /// The head goes out at once, so the client knows that the feed is open.
    fn has_piece(&self) -> bool {
        false
    }

    fn ends_connection(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(async {
            let piece = self.next_events(client).await?;
            // After a reload the feed ends, and clients reconnect under the new configuration: nothing more is sent under the old one.
            Ok(if Arc::ptr_eq(&self.app, &self.thread.app()) {
                piece
            } else {
                Piece::new("", true)
            })
        })
    }
}

impl ChangeFeed {
    /// Waits for changes and returns them as events, or a keep-alive comment when one is due.
    async fn next_events(&mut self, client: &mut dyn Client) -> Result<Piece, End> {
        loop {
            let Some(walk) = self.walk.take_if(|_| !client.is_draining()) else {
                return Ok(Piece::new("", true));
            };
            let last = *self.last.borrow_and_update();
            if Instant::now() >= self.beat_at {
                let beat = format!(":\nid: {}\n\n", walk.since());
                self.walk = Some(walk);
                return Ok(self.more(beat));
            }
            let over = poll_fn(|cx| match client.poll_gone(cx) {
                Poll::Ready(()) => Poll::Ready(Err(End::Gone)),
                Poll::Pending if client.is_draining() => Poll::Ready(Ok(Piece::new("", true))),
                Poll::Pending => Poll::Pending,
            });
            if walk.since() >= last {
                self.walk = Some(walk);
                tokio::select! {
                    biased;
                    over = over => return over,
                    changed = self.last.changed() => if changed.is_err() { return Ok(Piece::new("", true)) },
                    () = tokio::time::sleep_until(self.beat_at.into()) => {}
                }
                continue;
            }
            let readable = Arc::clone(&self.readable);
            let turn = self
                .open
                .news()
                .read(move |store| read_turn(store, walk, last, &readable));
            let turn = tokio::select! {
                biased;
                over = over => return over,
                turn = turn => turn,
            };
            let Ok(mut turn) = turn else {
                return Ok(Piece::new("", true));
            };
            if let Err(error) = turn.outcome {
                put_error(error, &mut turn.events, &self.request_id);
                return Ok(Piece::new(turn.events, true));
            }
            self.walk = Some(turn.walk);
            if !turn.events.is_empty() {
                return Ok(self.more(turn.events));
            }
        }
    }

    fn more(&mut self, events: impl Into<Bytes>) -> Piece {
        self.beat_at = Instant::now() + BEAT;
        Piece::new(events, false)
    }
}

/// Reads until the piece or the turn is full.
fn read_turn(store: &Store, mut walk: ChangeWalk, last: u64, readable: &BTreeSet<String>) -> Turn {
    let mut events = Vec::new();
    let begun = walk.bytes_read();
    let outcome = (|| {
        store.follow(&mut walk)?;
        while walk.since() < last && events.len() < PIECE_BYTES && walk.bytes_read() - begun < TURN_BYTES {
            match walk.next_within(CHANGE_BYTES_MAX, |global| readable.contains(global)) {
                Some(step) => put_step(step?, readable, &mut events),
                None => break,
            }
        }
        Ok(())
    })();
    Turn {
        walk,
        events,
        outcome,
    }
}

/// Writes the part of a change that the client may see, if any.
fn put_step(step: Step, readable: &BTreeSet<String>, out: &mut Vec<u8>) {
    let (sequence, told) = match step {
        Step::Change(change) => (change.sequence, told(change, readable)),
        Step::Outline(outline) => (outline.sequence, outlined(outline)),
    };
    if let Some(told) = told {
        out.extend_from_slice(format!("id: {sequence}\nevent: change\ndata: ").as_bytes());
        out.extend_from_slice(&told);
        out.extend_from_slice(b"\n\n");
    }
}

fn told(mut change: Change, readable: &BTreeSet<String>) -> Option<Vec<u8>> {
    let may = |global: &str| readable.contains(global);
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
    (!change.operations.is_empty()).then(|| change.to_json())
}

/// An oversized change, reduced to the globals that it touched.
fn outlined(outline: Outline) -> Option<Vec<u8>> {
    if outline.globals.is_empty() {
        return None;
    }
    let operations = outline.globals.into_iter().map(|global| {
        // A global's name needs no escaping in JSON.
        format!("{{\"op\":\"many\",\"path\":[\"{global}\"]}}")
    });
    let told = format!(
        "{{\"sequence\":{},\"time_ms\":{},\"operations\":[{}]}}",
        outline.sequence,
        outline.time_ms,
        operations.collect::<Vec<_>>().join(",")
    );
    Some(told.into_bytes())
}

/// Writes why the feed ends, in the words of an error response.
fn put_error(error: StoreError, out: &mut Vec<u8>, request_id: &str) {
    let what = match error {
        StoreError::ChangesGone { .. } => "gone",
        _ => "failed",
    };
    let refusal = Refusal::from(error);
    refusal.log(request_id);
    out.extend_from_slice(format!("event: {what}\ndata: {refusal}\n\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use forebay_store::{Durability, Key, Options};

    use super::*;

    #[test]
    fn what_a_client_may_not_hear_of_is_read_a_turn_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &Options::default()).unwrap();
        let put = |global: &str, bytes: usize| {
            let mut transaction = store.begin().unwrap();
            let text = format!("\"{}\"", "x".repeat(bytes));
            let key = Key::global(global).unwrap();
            transaction.put(&key, text.as_bytes()).unwrap();
            transaction.commit(Durability::Relaxed).unwrap();
        };
        for _ in 0..12 {
            put("Secret", 300_000);
        }
        put("Open", 1);
        let readable = BTreeSet::from(["Open".to_owned()]);
        let mut walk = store.changes(0).unwrap();
        let mut places = Vec::new();
        let events = loop {
            let turn = read_turn(&store, walk, 13, &readable);
            turn.outcome.unwrap();
            places.push(turn.walk.since());
            walk = turn.walk;
            if walk.since() == 13 {
                break turn.events;
            }
            assert_eq!(turn.events, b"");
        };
        assert_eq!(places, [4, 8, 12, 13]);
        assert!(events.starts_with(b"id: 13\nevent: change\ndata: {"));
    }

    #[test]
    fn an_error_says_nothing_of_the_server_s_files() {
        let mut out = Vec::new();
        put_error(
            StoreError::File {
                what: "read",
                path: "/secret/place".into(),
                source: std::io::ErrorKind::PermissionDenied.into(),
            },
            &mut out,
            "req-1",
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "event: failed\ndata: the store fails; the log says why\n\n"
        );
    }
}
