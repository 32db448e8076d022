//! Answers requests with a script: on the I/O thread if it is quick, otherwise on an executor thread.

use std::{
    borrow::Cow,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_script::{
    Answer, Body as ScriptBody, Failure, Finished, IoScript, Next, Script, Shape, Tried, Waiting,
};

use forebay_trace::{Kind, Span};

use super::{
    End, Request,
    body_stream::{BodyStream, NextPiece, Piece},
    durability::wait_for_disk,
    pending::wait_for,
    pool::encode,
    response_headers::{Length, answer_headers, invalid, latin1_pair},
    store::json,
};
use crate::{
    config::ScriptPlacement,
    failure::Refusal,
    front::Client,
    reply::{Body, Reply},
    store::{OpenStore, Tag},
};

/// Name in traces of a script that runs on the I/O thread.
const RUNNING_HERE: &str = "script, on the I/O thread";

/// A script, and where it may run.
#[derive(Clone, Debug)]
pub(crate) struct ScriptTarget {
    script: Arc<Script>,
    place: ScriptPlacement,
    io_input_max: usize,
    store: Option<Arc<OpenStore>>,
}

/// A call that takes time.
#[derive(Debug)]
pub(crate) struct ScriptCall {
    place: CallPlace,
    /// Set if calls of this shape may run on the I/O thread, which learns from how long this one takes.
    shape: Option<Shape>,
}

#[derive(Debug)]
enum CallPlace {
    /// Started on this thread, waiting for statements.
    Here(Waiting),
    /// Request payload for an executor.
    Executor(Vec<u8>),
}

impl ScriptTarget {
    pub(crate) fn new(
        script: Arc<Script>,
        place: ScriptPlacement,
        io_input_max: usize,
        store: Option<Arc<OpenStore>>,
    ) -> Self {
        // An I/O thread must not wait for the network.
        let is_remote = store.as_ref().is_some_and(|store| store.is_remote());
        let place = if is_remote {
            ScriptPlacement::Executor
        } else {
            place
        };
        Self {
            script,
            place,
            io_input_max,
            store,
        }
    }

    pub(crate) fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// Answers a request: on this thread if that is quick, otherwise on an executor.
    pub(crate) async fn answer<'a>(
        &'a self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        let has_body = !client.body_ended();
        if let Some(reply) = (!has_body).then(|| self.read_declared(request)).flatten() {
            return Ok(reply);
        }
        let input = if has_body {
            client.read_body(usize::MAX, request.deadline).await?
        } else {
            Vec::new()
        };
        let payload = encode(request, &input);
        let head = request.head;
        let is_safe = matches!(head.method(), "GET" | "HEAD");
        // A single built-in of the language cannot be interrupted, and its cost grows with its input, so the size of the whole request
        // counts.
        let is_small =
            is_safe && payload.len() <= self.io_input_max && self.place != ScriptPlacement::Executor;
        let shape = is_small.then(|| Shape::of(head.method().as_bytes(), head.path_bytes()));
        let trace = forebay_trace::current().map(|trace| (trace, Instant::now()));
        let place = match shape {
            Some(shape) => match self.call_here(shape, payload, request) {
                Tried::Answered(answer) => {
                    if let Some((trace, from)) = trace {
                        trace.record(Span::new(Kind::Running, RUNNING_HERE, from, Instant::now()));
                    }
                    // It has taken time, too.
                    client.begin_wait();
                    return self.reply(answer, hold_max(request));
                }
                Tried::Waits(waiting) => {
                    if let Some((trace, from)) = trace {
                        trace.record(Span::new(Kind::Running, RUNNING_HERE, from, Instant::now()));
                    }
                    CallPlace::Here(waiting)
                }
                Tried::Elsewhere(payload) => CallPlace::Executor(payload),
            },
            None => CallPlace::Executor(payload),
        };
        // The others take time.
        client.before_waiting().await?;
        self.finish(ScriptCall { place, shape }, request, client).await
    }

    /// Answers an unconditional request for a record without calling the script, if the script has declared that response.
    fn read_declared(&self, request: &Request<'_>) -> Option<Reply<'static>> {
        let head = request.head;
        let is_plain = head.method() == "GET" && self.place != ScriptPlacement::Executor;
        if !is_plain || head.list("if-match").is_some() || head.list("if-none-match").is_some() {
            return None;
        }
        let read = request
            .thread
            .with_script(&self.script, |script| script.read_declared(head.path_bytes()))?;
        let tag = read.is_tagged.then(|| Tag::of(&read.body[read.record]));
        let mut reply = json(200, read.body);
        if let Some(tag) = tag {
            let text = tag.text();
            reply
                .headers
                .to_mut()
                .push_known("etag", std::str::from_utf8(&text).unwrap_or_default());
        }
        Some(reply)
    }

    fn call_here(&self, shape: Shape, payload: Vec<u8>, request: &Request<'_>) -> Tried {
        request.thread.with_script(&self.script, |script| {
            if self.place == ScriptPlacement::Io {
                script.trust(shape);
            }
            if script.is_fit(shape) {
                script.call(shape, payload, Some(request.deadline))
            } else {
                Tried::Elsewhere(payload)
            }
        })
    }

    /// Finishes a call that takes time.
    async fn finish<'a>(
        &'a self,
        ScriptCall { place, shape }: ScriptCall,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        let learn = |learn: &dyn Fn(&mut IoScript, Shape)| {
            if let Some(shape) = shape {
                request
                    .thread
                    .with_script(&self.script, |script| learn(script, shape));
            }
        };
        let payload = match place {
            CallPlace::Executor(payload) => payload,
            CallPlace::Here(waiting) => {
                let trace = forebay_trace::current().map(|trace| (trace, Instant::now()));
                let finished = wait_for(waiting.finish(), request.deadline, client).await;
                if matches!(finished, Err(End::Refused(_)) | Ok(Err(_))) {
                    learn(&IoScript::was_late);
                }
                let finished = finished?.map_err(Refusal::from)?;
                if let Some((trace, from)) = trace {
                    trace.record(Span::new(Kind::Handler, "script", from, Instant::now()));
                }
                learn(&|script, shape| script.finished(shape, &finished));
                match finished {
                    Finished::Answered(answer) => return self.reply(answer, hold_max(request)),
                    Finished::Elsewhere { payload, .. } => payload,
                }
            }
        };
        let answer = self.run(payload, request.deadline, client).await?;
        learn(&|script, shape| script.learn(shape, answer.weight));
        wait_for_disk(self.store.as_deref(), answer.commit, request.deadline, client).await?;
        self.reply(answer, hold_max(request))
    }

    /// Runs the call on an executor.
    async fn run(&self, payload: Vec<u8>, deadline: Instant, client: &mut dyn Client) -> Result<Answer, End> {
        let awaited = self.script.call(payload, Some(deadline)).map_err(Refusal::from)?;
        let outcome = wait_for(awaited, deadline, client).await?;
        outcome.map_err(|failure| Refusal::from(failure).into())
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Script(failure)
    }
}

impl ScriptTarget {
    fn reply(&self, answer: Answer, hold_max: Duration) -> Result<Reply<'_>, End> {
        let mut reply = Reply::new(answer.status);
        let pairs = answer.headers.as_chunks().0.iter();
        let pairs = pairs.map(|[name, value]| latin1_pair(name, value));
        let (lines, announced) = answer_headers(answer.content.media_type(), pairs)?;
        reply.headers = Cow::Owned(lines);
        reply.body = match answer.body {
            ScriptBody::Whole(body) => {
                // The response to a HEAD request may announce the length of the body that a GET would get.
                reply.length = announced.filter(|_| body.is_empty());
                if !body.is_empty() && announced.is_some_and(|length| length != body.len() as u64) {
                    return Err(invalid("its body is not as long as announced"));
                }
                Body::Bytes(body)
            }
            ScriptBody::Stream(pieces) => Body::Stream(Box::new(ScriptStream {
                pieces,
                store: self.store.as_deref(),
                hold_max,
                length: Length::new(announced),
            })),
        };
        Ok(reply)
    }
}

/// How long a piece may wait for the disk: as long as the response might have taken to begin.
fn hold_max(request: &Request<'_>) -> Duration {
    request.deadline.saturating_duration_since(request.arrived)
}

/// The rest of a response that a script has begun. It has no time limit.
#[derive(Debug)]
pub(crate) struct ScriptStream<'a> {
    pieces: forebay_script::Stream,
    store: Option<&'a OpenStore>,
    hold_max: Duration,
    length: Length,
}

impl BodyStream for ScriptStream<'_> {
    fn announced(&self) -> Option<u64> {
        self.length.announced()
    }

    fn has_piece(&self) -> bool {
        self.pieces.has_piece()
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(async {
            let next = poll_fn(|cx| {
                let waker = client.waker_for_others(cx);
                if let Poll::Ready(next) = self.pieces.poll_next(&mut Context::from_waker(&waker)) {
                    return Poll::Ready(Ok(next));
                }
                client.poll_gone(cx).map(|()| Err(End::Gone))
            })
            .await?;
            let (bytes, end) = match next {
                Next::Piece(piece) => {
                    let until = Instant::now() + self.hold_max;
                    wait_for_disk(self.store, piece.commit, until, client).await?;
                    (piece.bytes, false)
                }
                Next::End => (Bytes::new(), true),
                Next::Broken => {
                    return Err(invalid("it broke off"));
                }
            };
            self.length.pass(bytes.len(), end)?;
            Ok(Piece::new(bytes, end))
        })
    }
}
