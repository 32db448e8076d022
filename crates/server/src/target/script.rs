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
    body_stream::{Piece, Streamed},
    durability::wait_for_disk,
    pending::wait_for,
    pool::encode,
    response_headers::{Length, answer_headers, invalid, latin1_pair},
    store::json,
};
use crate::{
    config::ScriptPlacement,
    failure::Refusal,
    front::{RequestBody, Socket, Stream, Thread},
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

/// Result of trying to answer on the I/O thread.
#[derive(Debug)]
pub(crate) enum IoOutcome<'a> {
    Answered(Reply<'a>),
    /// It takes time: pending responses on this connection must be written first.
    Later(ScriptCall),
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

    /// Reads the request, and answers it on this thread if that is quick.
    pub(crate) async fn try_here<'a, S: Stream>(
        &'a self,
        request: &Request<'_>,
        peer: &str,
        thread: &Thread,
        body: &mut RequestBody,
        socket: &mut Socket<S>,
    ) -> Result<IoOutcome<'a>, End> {
        if let Some(reply) = self.read_declared(request, thread, body) {
            return Ok(IoOutcome::Answered(reply));
        }
        let input = if body.ended() {
            Vec::new()
        } else {
            body.read(socket, usize::MAX, request.deadline).await?
        };
        let payload = encode(request, peer, &input);
        let head = request.head;
        let is_safe = matches!(head.method(), "GET" | "HEAD");
        // A single built-in of the language cannot be interrupted, and its cost grows with its input, so the size of the whole request
        // counts.
        let is_small =
            is_safe && payload.len() <= self.io_input_max && self.place != ScriptPlacement::Executor;
        let shape = is_small.then(|| Shape::of(head.method().as_bytes(), head.path_bytes()));
        let trace = forebay_trace::current().map(|trace| (trace, Instant::now()));
        let place = match shape {
            Some(shape) => match self.call_here(shape, payload, request.deadline, thread) {
                Tried::Answered(answer) => {
                    if let Some((trace, from)) = trace {
                        trace.record(Span::new(Kind::Running, RUNNING_HERE, from, Instant::now()));
                    }
                    return self.reply(answer, hold_max(request)).map(IoOutcome::Answered);
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
        Ok(IoOutcome::Later(ScriptCall { place, shape }))
    }

    /// Answers an unconditional request for a record without calling the script, if the script has declared that response.
    fn read_declared(
        &self,
        request: &Request<'_>,
        thread: &Thread,
        body: &RequestBody,
    ) -> Option<Reply<'static>> {
        let head = request.head;
        let is_plain = head.method() == "GET" && body.ended() && self.place != ScriptPlacement::Executor;
        if !is_plain || head.list("if-match").is_some() || head.list("if-none-match").is_some() {
            return None;
        }
        let read = thread.with_script(&self.script, |script| script.read_declared(head.path_bytes()))?;
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

    fn call_here(&self, shape: Shape, payload: Vec<u8>, deadline: Instant, thread: &Thread) -> Tried {
        thread.with_script(&self.script, |script| {
            if self.place == ScriptPlacement::Io {
                script.trust(shape);
            }
            if script.is_fit(shape) {
                script.call(shape, payload, Some(deadline))
            } else {
                Tried::Elsewhere(payload)
            }
        })
    }

    /// Finishes a call that [`Self::try_here`] did not answer.
    pub(crate) async fn answer<'a, S: Stream>(
        &'a self,
        ScriptCall { place, shape }: ScriptCall,
        request: &Request<'_>,
        thread: &Thread,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'a>, End> {
        let learn = |learn: &dyn Fn(&mut IoScript, Shape)| {
            if let Some(shape) = shape {
                thread.with_script(&self.script, |script| learn(script, shape));
            }
        };
        let payload = match place {
            CallPlace::Executor(payload) => payload,
            CallPlace::Here(waiting) => {
                let trace = forebay_trace::current().map(|trace| (trace, Instant::now()));
                let finished = wait_for(waiting.finish(), request.deadline, socket).await;
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
        let answer = self.run(payload, request.deadline, socket).await?;
        learn(&|script, shape| script.learn(shape, answer.weight));
        wait_for_disk(self.store.as_deref(), answer.commit, request.deadline, socket).await?;
        self.reply(answer, hold_max(request))
    }

    /// Runs the call on an executor.
    async fn run<S: Stream>(
        &self,
        payload: Vec<u8>,
        deadline: Instant,
        socket: &mut Socket<S>,
    ) -> Result<Answer, End> {
        let awaited = self.script.call(payload, Some(deadline)).map_err(Refusal::from)?;
        let outcome = wait_for(awaited, deadline, socket).await?;
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
            ScriptBody::Stream(pieces) => Body::Script(Box::new(ScriptStream {
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

impl Streamed for ScriptStream<'_> {
    fn announced(&self) -> Option<u64> {
        self.length.announced()
    }

    fn has_piece(&self) -> bool {
        self.pieces.has_piece()
    }

    async fn next<S: Stream>(&mut self, _: &mut RequestBody, socket: &mut Socket<S>) -> Result<Piece, End> {
        let next = poll_fn(|cx| {
            let waker = socket.waker_for_others(cx);
            if let Poll::Ready(next) = self.pieces.poll_next(&mut Context::from_waker(&waker)) {
                return Poll::Ready(Ok(next));
            }
            socket.poll_gone(cx).map(|()| Err(End::Gone))
        })
        .await?;
        let (bytes, end) = match next {
            Next::Piece(piece) => {
                wait_for_disk(self.store, piece.commit, Instant::now() + self.hold_max, socket).await?;
                (piece.bytes, false)
            }
            Next::End => (Bytes::new(), true),
            Next::Broken => {
                return Err(invalid("it broke off"));
            }
        };
        self.length.pass(bytes.len(), end)?;
        Ok(Piece {
            bytes,
            end,
            windowed: false,
        })
    }

    fn grant(&self, _: &Piece) {}
}
