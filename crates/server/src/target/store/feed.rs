//! The change feed: `GET /store:changes`, as server-sent events (HTML, "Server-sent events") or as messages of a WebSocket.
//!
//! An event's id is the change's number, so a client that reconnects resumes where it was, by `Last-Event-ID` or by `?since=`. Positions, which
//! also keep the connection alive, carry the number of the last change examined, so changes that a client may not see advance it too. The log
//! is read on the store's own thread for that, a bounded piece at a time, and only one piece is held here.

use std::{
    borrow::Cow,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use forebay_store::{
    Store, StoreError,
    changes::{Change, ChangeWalk, Operation, Outline, Step},
};
use tokio::sync::{oneshot, watch};

use crate::{
    app::App,
    config::WebSocket,
    failure::Refusal,
    front::{Client, Head, Thread, decimal},
    reply::{Body, HeaderLines, Reply},
    store::OpenStore,
    target::{
        End, Request,
        access::Readable,
        body_stream::{BodyStream, NextPiece, Piece},
        websocket::{INTERNAL_ERROR, Incoming, Output, SERVICE_RESTART, Session, WebSocketError, put_text},
    },
};

/// Bytes of events collected before they are sent.
const PIECE_BYTES: usize = 32 * 1024;
/// Bytes of the log read in one turn, before other followers get theirs and this one's client is checked.
const TURN_BYTES: u64 = 1 << 20;
/// Largest change, in bytes of the log, that is sent whole. For a larger one, the client learns which globals to read again.
const CHANGE_BYTES_MAX: u64 = 1 << 20;
/// Interval of positions: they keep proxies from closing the connection, and reveal a dead one.
const BEAT: Duration = Duration::from_secs(15);
/// Limits of the feed's WebSockets, whose clients send no messages.
const WEBSOCKET: WebSocket = WebSocket {
    message_bytes_max: 0,
    messages_per_second_max: 0,
    idle_timeout: Duration::from_mins(1),
    compress: false,
};

/// The form of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    ServerSentEvents,
    /// Text messages: JSON objects with the fields that server-sent events have.
    WebSocket,
}

/// A client's position in the change log.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    encoding: Encoding,
    open: Arc<OpenStore>,
    log: Log,
    /// Globals that this client may read.
    readable: Arc<Readable>,
    /// Number of the last change on disk.
    last: watch::Receiver<u64>,
    /// When the next position is due.
    beat_at: Instant,
    /// The I/O thread, and the routes in force when the client asked: under others it has to ask again.
    thread: Rc<Thread>,
    app: Arc<App>,
    request_id: String,
}

/// The log as one client reads it.
#[derive(Debug)]
pub(super) enum Log {
    At(ChangeWalk),
    /// It is being read.
    Reading(oneshot::Receiver<Turn>),
    /// It cannot be read further, as the client has still to be told.
    Failed(StoreError),
    Ended,
}

/// Result of one turn of reading the log.
#[derive(Debug)]
pub(super) struct Turn {
    walk: ChangeWalk,
    events: Vec<u8>,
    /// An error ends the feed, after these events.
    outcome: Result<(), StoreError>,
}

/// Why a feed has no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedEnd {
    /// The configuration has been reloaded: clients connect again under the new one, and nothing more is sent under the old one.
    Reloaded,
    /// The client has been told why.
    Failed,
}

/// The feed as server-sent events: every change after a given one, past and future.
pub(super) fn reply(
    open: &Arc<OpenStore>,
    request: &Request<'_>,
    log: Log,
    readable: Readable,
) -> Result<Reply<'static>, Refusal> {
    if let Log::Failed(error) = log {
        return Err(error.into());
    }
    let feed = ChangeFeed::new(Encoding::ServerSentEvents, open, request, log, readable);
    let mut reply = Reply::new(200);
    let headers = reply.headers.to_mut();
    headers.push_known("content-type", "text/event-stream");
    headers.push_known("cache-control", "no-cache");
    reply.body = Body::Stream(Box::new(feed));
    Ok(reply)
}

/// The feed over a WebSocket. Browsers tell a page nothing about a handshake that fails, so that the log does not reach back as far as the
/// client asks is an event here.
pub(super) fn socket(
    open: &Arc<OpenStore>,
    request: &Request<'_>,
    log: Log,
    readable: Readable,
) -> Result<Reply<'static>, End> {
    let mut headers = HeaderLines::default();
    let socket = FeedSocket {
        feed: ChangeFeed::new(Encoding::WebSocket, open, request, log, readable),
        session: Session::accept(request, &WEBSOCKET, &mut headers)?,
    };
    let mut reply = Reply::new(101);
    reply.headers = Cow::Owned(headers);
    reply.body = Body::Stream(Box::new(socket));
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

/// Finds the place in the log at which a request wants to begin. In a database that waits for it.
pub(super) fn begin(store: &Store, head: &Head) -> Result<Log, Refusal> {
    let since = match since(head)? {
        Some(since) => since,
        None if store.is_remote() => store.stats()?.last_commit,
        None => store.snapshot()?.sequence()?,
    };
    match store.changes(since) {
        Ok(walk) => Ok(Log::At(walk)),
        Err(error @ StoreError::ChangesGone { .. }) => Ok(Log::Failed(error)),
        Err(error) => Err(error.into()),
    }
}

impl ChangeFeed {
    fn new(
        encoding: Encoding,
        open: &Arc<OpenStore>,
        request: &Request<'_>,
        log: Log,
        readable: Readable,
    ) -> Self {
        Self {
            encoding,
            open: Arc::clone(open),
            log,
            readable: Arc::new(readable),
            last: open.news().listen(),
            // Due at once, so that the client knows its position and can resume there even if no change happens first.
            beat_at: Instant::now(),
            thread: Rc::clone(request.thread),
            app: Arc::clone(request.app),
            request_id: request.id.to_owned(),
        }
    }

    /// Waits for changes and returns them as events, or a position when one is due. Nothing is lost if it is dropped while it waits.
    async fn next_events(&mut self) -> Result<Vec<u8>, FeedEnd> {
        let events = self.read_events().await;
        if !Arc::ptr_eq(&self.app, &self.thread.app()) {
            return Err(FeedEnd::Reloaded);
        }
        self.beat_at = Instant::now() + BEAT;
        events.ok_or(FeedEnd::Failed)
    }

    /// The next events; `None` if no more can come.
    async fn read_events(&mut self) -> Option<Vec<u8>> {
        loop {
            let turn = match &mut self.log {
                Log::Reading(turn) => turn.await,
                Log::At(walk) => {
                    let last = *self.last.borrow_and_update();
                    if Instant::now() >= self.beat_at {
                        return Some(self.encoding.position(walk.since()));
                    }
                    if walk.since() >= last {
                        tokio::select! {
                            biased;
                            changed = self.last.changed() => changed.ok()?,
                            () = tokio::time::sleep_until(self.beat_at.into()) => {}
                        }
                    } else {
                        self.begin_turn(last);
                    }
                    continue;
                }
                Log::Failed(_) | Log::Ended => match std::mem::replace(&mut self.log, Log::Ended) {
                    Log::Failed(error) => return Some(self.encoding.error(error, &self.request_id)),
                    _ => return None,
                },
            };
            let Turn {
                walk,
                events,
                outcome,
            } = turn.ok()?;
            self.log = match outcome {
                Ok(()) => Log::At(walk),
                Err(error) => Log::Failed(error),
            };
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    /// Has more of the log read.
    fn begin_turn(&mut self, last: u64) {
        if let Log::At(walk) = std::mem::replace(&mut self.log, Log::Ended) {
            let (encoding, readable) = (self.encoding, Arc::clone(&self.readable));
            let turn = move |store: &Store| read_turn(store, walk, last, &readable, encoding);
            self.log = Log::Reading(self.open.news().read(turn));
        }
    }
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
        let over = poll_fn(|cx| match client.poll_gone(cx) {
            Poll::Ready(()) => Poll::Ready(Err(End::Gone)),
            Poll::Pending if client.is_draining() => Poll::Ready(Ok(Piece::new("", true))),
            Poll::Pending => Poll::Pending,
        });
        Box::pin(async {
            tokio::select! {
                biased;
                over = over => over,
                events = self.next_events() => Ok(match events {
                    Ok(events) => Piece::new(events, false),
                    Err(FeedEnd::Reloaded | FeedEnd::Failed) => Piece::new("", true),
                }),
            }
        })
    }
}

/// A feed over a WebSocket.
#[derive(Debug)]
struct FeedSocket {
    feed: ChangeFeed,
    session: Session,
}

impl BodyStream for FeedSocket {
    fn has_piece(&self) -> bool {
        false
    }

    fn ends_connection(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(async {
            let Self { feed, session } = self;
            if session.is_closing() {
                return Ok(poll_fn(|cx| poll_client(session, cx, client)).await?.into());
            }
            let events = tokio::select! {
                biased;
                output = poll_fn(|cx| poll_client(session, cx, client)) => return Ok(output?.into()),
                events = feed.next_events() => events,
            };
            let mut out = Output::default();
            match events {
                Ok(events) => out.bytes = events,
                Err(FeedEnd::Reloaded) => {
                    session.begin_closing(&mut out, SERVICE_RESTART, b"the configuration has changed");
                }
                Err(FeedEnd::Failed) => session.begin_closing(&mut out, INTERNAL_ERROR, b""),
            }
            Ok(out.into())
        })
    }
}

/// Waits until the client has to be answered or pinged, or the server stops.
fn poll_client(
    session: &mut Session,
    cx: &mut Context<'_>,
    client: &mut dyn Client,
) -> Poll<Result<Output, End>> {
    let mut out = Output::default();
    session.drain(client, &mut out);
    while out.bytes.is_empty() && !out.end {
        match session.poll_incoming(cx, client, &mut out) {
            Poll::Ready(Ok(Some(Incoming::Message { .. }))) => {
                session.fail(&WebSocketError::NoMessages, &mut out);
            }
            Poll::Ready(Ok(Some(Incoming::Closed { .. }) | None)) => {}
            Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
            Poll::Pending => ready!(session.poll_timers(cx, client, &mut out))?,
        }
    }
    Poll::Ready(Ok(out))
}

impl Encoding {
    /// Appends an event. `data` is one line, and JSON unless the event says why the feed ends.
    fn put(self, out: &mut Vec<u8>, id: Option<u64>, event: &str, data: &[u8]) {
        match self {
            Self::ServerSentEvents => {
                if let Some(id) = id {
                    out.extend_from_slice(format!("id: {id}\n").as_bytes());
                }
                out.extend_from_slice(format!("event: {event}\ndata: ").as_bytes());
                out.extend_from_slice(data);
                out.extend_from_slice(b"\n\n");
            }
            Self::WebSocket => {
                let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
                let mut message = format!("{{{id}\"event\":\"{event}\",\"data\":").into_bytes();
                message.extend_from_slice(data);
                message.push(b'}');
                put_text(out, &message);
            }
        }
    }

    /// The number of the last change examined, for a client to resume at.
    fn position(self, since: u64) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::ServerSentEvents => out.extend_from_slice(format!(":\nid: {since}\n\n").as_bytes()),
            Self::WebSocket => put_text(&mut out, format!("{{\"id\":{since}}}").as_bytes()),
        }
        out
    }

    /// Why the feed ends, in the words of an error response.
    fn error(self, error: StoreError, request_id: &str) -> Vec<u8> {
        let event = match error {
            StoreError::ChangesGone { .. } => "gone",
            _ => "failed",
        };
        let refusal = Refusal::from(error);
        refusal.log(request_id);
        let text = match self {
            Self::ServerSentEvents => refusal.to_string(),
            Self::WebSocket => serde_json::Value::from(refusal.to_string()).to_string(),
        };
        let mut out = Vec::new();
        self.put(&mut out, None, event, text.as_bytes());
        out
    }
}

/// Reads until the piece or the turn is full.
fn read_turn(
    store: &Store,
    mut walk: ChangeWalk,
    last: u64,
    readable: &Readable,
    encoding: Encoding,
) -> Turn {
    let mut events = Vec::new();
    let begun = walk.bytes_read();
    let outcome = (|| {
        store.follow(&mut walk)?;
        while walk.since() < last && events.len() < PIECE_BYTES && walk.bytes_read() - begun < TURN_BYTES {
            match walk.next_within(CHANGE_BYTES_MAX, |global| readable.has(global)) {
                Some(step) => put_step(step?, readable, encoding, &mut events),
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
fn put_step(step: Step, readable: &Readable, encoding: Encoding, out: &mut Vec<u8>) {
    let (sequence, told) = match step {
        Step::Change(change) => (change.sequence, told(change, readable)),
        Step::Outline(outline) => (outline.sequence, outlined(outline)),
    };
    if let Some(told) = told {
        encoding.put(out, Some(sequence), "change", &told);
    }
}

fn told(mut change: Change, readable: &Readable) -> Option<Vec<u8>> {
    let may = |global: &str| readable.has(global);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let readable = Readable::These(BTreeSet::from(["Open".to_owned()]));
        let mut walk = store.changes(0).unwrap();
        let mut places = Vec::new();
        let events = loop {
            let turn = read_turn(&store, walk, 13, &readable, Encoding::ServerSentEvents);
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
        let error = || StoreError::File {
            what: "read",
            path: "/secret/place".into(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(
            Encoding::ServerSentEvents.error(error(), "req-1"),
            b"event: failed\ndata: the store fails; the log says why\n\n"
        );
        assert_eq!(
            Encoding::WebSocket.error(error(), "req-1")[2..],
            *br#"{"event":"failed","data":"the store fails; the log says why"}"#
        );
    }
}
