//! Requests that read the store. They begin on the I/O thread, from a snapshot. Most finish at once; the others continue in pieces, between
//! which the thread serves other requests.

use std::{borrow::Cow, fmt, task::Context};

use bytes::Bytes;
use forebay_store::{Document, Key, Read, Snapshot};

use super::{End, Request, pending::wait_for};
use crate::{
    failure::Refusal,
    front::{Client, Head},
    reply::{Body, HeaderLines, Reply},
    store::{Collected, DocumentPieces, OpenStore, Pieces, collect, collect_here},
};

/// The outcome of a read's first piece.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    Answered(Reply<'static>),
    /// Takes longer than one piece.
    Unfinished(Unfinished),
}

/// A read in progress, from one snapshot of the store.
#[derive(Debug)]
pub(super) struct Unfinished {
    reading: Box<dyn Reading>,
    found: Vec<u8>,
}

/// A response that is read in pieces and sent once it is complete.
pub(super) trait Reading: Pieces {
    /// The response with `text`, the concatenation of all pieces.
    fn reply(&mut self, head: &Head, text: Vec<u8>) -> Result<Reply<'static>, Refusal>;
}

impl ReadOutcome {
    /// Reads the first piece, which is mostly all there is.
    pub(super) fn with(mut reading: Box<dyn Reading>, head: &Head) -> Result<Self, Refusal> {
        let mut found = Vec::new();
        if reading.next(&mut found)? {
            return Ok(Self::Unfinished(Unfinished { reading, found }));
        }
        reading.reply(head, found).map(Self::Answered)
    }

    /// Reads a document and hands it to `reply`. `None`: there is no such document.
    pub(super) fn document(
        snapshot: Snapshot,
        key: &Key,
        depth: usize,
        bytes_max: usize,
        head: &Head,
        reply: impl FnOnce(&Head, Cow<'_, [u8]>) -> Result<Reply<'static>, Refusal> + Send + 'static,
    ) -> Result<Option<Self>, Refusal> {
        let walk = match snapshot.document_walk(key, depth, bytes_max)? {
            None => return Ok(None),
            Some(Document::Text(text)) => return reply(head, text).map(|reply| Some(Self::Answered(reply))),
            Some(Document::Nodes(walk)) => walk,
        };
        let reading = DocumentReading {
            pieces: DocumentPieces { snapshot, walk },
            reply: Some(reply),
        };
        Self::with(Box::new(reading), head).map(Some)
    }
}

/// A complete response, as a thread that may wait has made it.
#[derive(Debug)]
struct WholeReply {
    status: u16,
    headers: Cow<'static, HeaderLines>,
    bytes: Option<Bytes>,
}

/// Answers a request that only reads from a store in a database: on a thread that may wait.
pub(super) async fn read_remote(
    open: &OpenStore,
    request: &Request<'_>,
    client: &mut dyn Client,
    begin: impl FnOnce(&Head) -> Result<ReadOutcome, Refusal> + Send + 'static,
) -> Result<Reply<'static>, End> {
    let deadline = request.deadline;
    let whole = move |head: &Head| {
        let reply = match begin(head)? {
            ReadOutcome::Answered(reply) => reply,
            ReadOutcome::Unfinished(Unfinished {
                mut reading,
                mut found,
            }) => match collect_here(&mut *reading, &mut found, usize::MAX, deadline)? {
                Collected::Whole => reading.reply(head, found)?,
                Collected::Late | Collected::Full | Collected::Gone => return Err(Refusal::DeadlinePassed),
            },
        };
        Ok(WholeReply {
            status: reply.status,
            headers: reply.headers,
            bytes: match reply.body {
                Body::Bytes(bytes) => Some(bytes),
                _ => None,
            },
        })
    };
    let WholeReply {
        status,
        headers,
        bytes,
    } = off_thread(open, request, client, whole).await?;
    Ok(Reply {
        headers,
        body: bytes.map_or(Body::Empty, Body::Bytes),
        ..Reply::new(status)
    })
}

/// Runs a part of a request on a thread that may wait.
pub(super) async fn off_thread<T: Send + 'static>(
    open: &OpenStore,
    request: &Request<'_>,
    client: &mut dyn Client,
    read: impl FnOnce(&Head) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, End> {
    client.before_waiting().await?;
    let head = request.head.clone();
    let run = open.off_thread(request.deadline, move || read(&head));
    wait_for(run, request.deadline, client).await?.map_err(End::from)
}

/// Whether a request only reads.
pub(super) fn only_reads(head: &Head) -> bool {
    matches!(head.method(), "GET" | "HEAD")
}

/// Answers a request that only reads, and that `begin` begins.
pub(super) async fn read(
    open: &OpenStore,
    request: &Request<'_>,
    client: &mut dyn Client,
    begin: impl Fn() -> Result<ReadOutcome, Refusal>,
) -> Result<Reply<'static>, End> {
    match begin()? {
        ReadOutcome::Answered(reply) => Ok(reply),
        ReadOutcome::Unfinished(unfinished) => {
            client.before_waiting().await?;
            unfinished.finish(open, request, client, begin).await
        }
    }
}

impl Unfinished {
    /// Reads the rest. Long-lived snapshots are limited, so this first takes a permit for one. A read that has to wait for a permit gives
    /// its snapshot back and begins again.
    async fn finish(
        mut self,
        open: &OpenStore,
        request: &Request<'_>,
        client: &mut dyn Client,
        begin: impl Fn() -> Result<ReadOutcome, Refusal>,
    ) -> Result<Reply<'static>, End> {
        let _place = match open.reading() {
            Some(place) => place,
            None => {
                drop(self);
                let place = wait_for(open.next_reading(), request.deadline, client).await?;
                self = match begin()? {
                    ReadOutcome::Answered(reply) => return Ok(reply),
                    ReadOutcome::Unfinished(again) => again,
                };
                place
            }
        };
        let Self { reading, found } = &mut self;
        let is_gone = |cx: &mut Context<'_>| client.poll_gone(cx).is_ready();
        match collect(&mut **reading, found, usize::MAX, request.deadline, is_gone).await? {
            Collected::Whole => Ok(reading.reply(request.head, std::mem::take(found))?),
            Collected::Late | Collected::Full => Err(Refusal::DeadlinePassed.into()),
            Collected::Gone => Err(End::Gone),
        }
    }
}

/// A document being assembled, and the function that turns it into a response.
struct DocumentReading<F> {
    pieces: DocumentPieces,
    /// `None` once the response is made.
    reply: Option<F>,
}

impl<F> fmt::Debug for DocumentReading<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.fmt(out)
    }
}

impl<F: Send> Pieces for DocumentReading<F> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.pieces.next(out)
    }
}

impl<F> Reading for DocumentReading<F>
where
    F: FnOnce(&Head, Cow<'_, [u8]>) -> Result<Reply<'static>, Refusal> + Send,
{
    fn reply(&mut self, head: &Head, text: Vec<u8>) -> Result<Reply<'static>, Refusal> {
        let reply = self.reply.take().expect("it is answered once");
        reply(head, text.into())
    }
}
