//! Has a script answer, on this thread where that is soon done, else on one of its own.

use std::{
    borrow::Cow,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use forebay_script::{Answer, Body as ScriptBody, Failure, Script, Shape, Tried};

use super::{
    End, Request,
    committed::wait_for_disk,
    pool::{encode, is_servers_own},
};
use crate::{
    config::ScriptPlace,
    failure::Refusal,
    front::{RequestBody, Socket, Stream, Thread, decimal},
    reply::{Body, HeaderLines, Reply},
    store::OpenStore,
};

/// A script.
#[derive(Clone, Debug)]
pub(crate) struct ScriptTarget {
    script: Arc<Script>,
    place: ScriptPlace,
    io_input_max: usize,
    store: Option<Arc<OpenStore>>,
}

impl ScriptTarget {
    pub(crate) fn new(
        script: Arc<Script>,
        place: ScriptPlace,
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

    pub(crate) async fn answer<'a, S: Stream>(
        &'a self,
        request: &Request<'_>,
        peer: &str,
        thread: &Thread,
        body: &mut RequestBody,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'a>, End> {
        let input = if body.ended() {
            Vec::new()
        } else {
            body.read(socket, usize::MAX, request.deadline).await?
        };
        let payload = encode(request, peer, &input);
        let head = request.head;
        let is_safe = matches!(head.method(), "GET" | "HEAD");
        let is_small = is_safe && input.len() <= self.io_input_max && self.place != ScriptPlace::Executor;
        let shape = is_small.then(|| Shape::of(head.method().as_bytes(), head.path_bytes()));
        let payload = match shape {
            Some(shape) => match self.try_here(shape, payload, request.deadline, thread) {
                Tried::Answered(answer) => return reply(answer),
                Tried::Elsewhere(payload) => payload,
            },
            None => payload,
        };
        let answer = self.run(payload, request.deadline, socket).await?;
        if let Some(shape) = shape {
            thread.with_script(&self.script, |script| script.learn(shape, answer.is_light));
        }
        wait_for_disk(self.store.as_deref(), answer.commit, request.deadline, socket).await?;
        reply(answer)
    }

    fn try_here(&self, shape: Shape, payload: Vec<u8>, deadline: Instant, thread: &Thread) -> Tried {
        thread.with_script(&self.script, |script| {
            if self.place == ScriptPlace::Io {
                script.trust(shape);
            }
            if script.is_fit(shape) {
                script.call(shape, payload, Some(deadline))
            } else {
                Tried::Elsewhere(payload)
            }
        })
    }

    /// Has an executor answer.
    async fn run<S: Stream>(
        &self,
        payload: Vec<u8>,
        deadline: Instant,
        socket: &mut Socket<S>,
    ) -> Result<Answer, End> {
        let mut awaited = self.script.call(payload, Some(deadline)).map_err(Refusal::from)?;
        poll_fn(|cx| {
            let waker = socket.waker_for_others(cx);
            if let Poll::Ready(outcome) = Pin::new(&mut awaited).poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(outcome.map_err(|failure| Refusal::from(failure).into()));
            }
            if socket.poll_gone(cx).is_ready() {
                return Poll::Ready(Err(End::Gone));
            }
            socket
                .poll_limit(cx, deadline)
                .map(|()| Err(Refusal::DeadlinePassed.into()))
        })
        .await
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Script(failure)
    }
}

fn reply<'a>(answer: Answer) -> Result<Reply<'a>, End> {
    let invalid = |what| End::from(Refusal::InvalidAnswer { what });
    let mut reply = Reply::new(answer.status);
    let mut lines = HeaderLines::default();
    if let Some(media_type) = answer.content.media_type() {
        lines.push_known("content-type", media_type);
    }
    let ScriptBody::Whole(body) = answer.body;
    for pair in answer.headers.chunks_exact(2) {
        // Characters of up to U+00FF, each a byte.
        let latin1 = |text: &str| text.chars().map(|character| character as u8).collect::<Vec<u8>>();
        let (name, value) = (latin1(&pair[0]), latin1(&pair[1]));
        match &name[..] {
            name if is_servers_own(name) => {}
            b"content-length" => {
                let length = decimal(&value).ok_or(invalid("its content-length is not a decimal number"))?;
                // The answer to a HEAD request may announce the length of what a GET would bring.
                reply.length = Some(length).filter(|_| body.is_empty());
                if !body.is_empty() && length != body.len() as u64 {
                    return Err(invalid("its body is not as long as announced"));
                }
            }
            name => lines.push(name, &value).map_err(invalid)?,
        }
    }
    reply.headers = Cow::Owned(lines);
    reply.body = Body::Bytes(body);
    Ok(reply)
}
