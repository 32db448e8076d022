//! Passes requests of the console to the targets that routes have. A target runs on the thread of its request, so these have a thread of
//! their own, and no request to a route waits for them.

use std::{
    cell::{OnceCell, RefCell},
    io,
    pin::Pin,
    rc::Rc,
    sync::LazyLock,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use forebay_pool::{LocalMailbox, Mailboxes};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::{LocalSet, spawn_local},
    time::{Sleep, sleep_until, timeout_at},
};

use crate::{
    admin::http::{self, Response},
    failure::Refusal,
    front::{Client, Head, Thread},
    reply::{Body, HeaderLines, Reply},
    server::Shared,
    target::{End, Request, Target},
};

/// Time limit for a request, queue time included.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long an endless response is listened to.
const LISTENING: Duration = Duration::from_millis(200);
/// Longest response, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Requests that wait for the thread.
const CALLS_MAX: usize = 64;

static NO_TRAILERS: LazyLock<HeaderLines> = LazyLock::new(HeaderLines::default);

/// A request, and the target that is to answer it.
#[derive(Debug)]
pub(super) struct Call {
    target: Target,
    /// The part of the path that the `*` of a route would match.
    rest: String,
    head: Head,
    body: Vec<u8>,
}

impl Call {
    pub(super) fn new(target: Target, rest: &str, request: http::Request) -> Self {
        Self {
            target,
            rest: rest.to_owned(),
            head: request.head,
            body: request.body,
        }
    }
}

/// Where the response to a call goes.
type ResponseSender = oneshot::Sender<Response>;

/// The thread that answers, started with the first request.
#[derive(Debug, Default)]
pub(super) struct Targets(Mutex<Option<mpsc::Sender<(Call, ResponseSender)>>>);

impl Targets {
    /// The response; dropping the future cancels the request.
    pub(super) async fn answer(&self, shared: &Shared, call: Call) -> Response {
        let calls = self.started(shared);
        let calls = match calls {
            Ok(calls) => calls,
            Err(error) => {
                return Response::problem(
                    500,
                    &format!("the thread of the console cannot be started: {error}"),
                );
            }
        };
        let (sender, response) = oneshot::channel();
        if calls.try_send((call, sender)).is_err() {
            return Response::problem(503, &format!("{CALLS_MAX} requests of the console wait already"));
        }
        response
            .await
            .unwrap_or_else(|_| Response::problem(500, "the request has failed; the log says why"))
    }

    fn started(&self, shared: &Shared) -> io::Result<mpsc::Sender<(Call, ResponseSender)>> {
        let mut started = self.0.lock();
        if let Some(calls) = started.as_ref().filter(|calls| !calls.is_closed()) {
            return Ok(calls.clone());
        }
        let (calls, arriving) = mpsc::channel(CALLS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let front = shared.front.shared();
        std::thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || {
                let local = LocalSet::new();
                local.block_on(&runtime, async move {
                    let mailbox = LocalMailbox::open(&Mailboxes::new(1), 0);
                    serve(&Thread::new(0, front, mailbox), arriving).await;
                });
            })?;
        *started = Some(calls.clone());
        Ok(calls)
    }
}

async fn serve(thread: &Rc<Thread>, mut arriving: mpsc::Receiver<(Call, ResponseSender)>) {
    while let Some((call, sender)) = arriving.recv().await {
        let thread = Rc::clone(thread);
        spawn_local(async move { answer(&thread, call, sender).await });
    }
}

async fn answer(thread: &Rc<Thread>, call: Call, sender: ResponseSender) {
    let Call {
        target,
        rest,
        head,
        body,
    } = call;
    let (app, arrived) = (thread.app(), Instant::now());
    let id = thread.request_id();
    let request = Request {
        head: &head,
        id: std::str::from_utf8(&id).unwrap_or_default(),
        pattern: "",
        params: &[],
        via: None,
        rest: Some(&rest),
        peer: "",
        port: 0,
        is_secure: false,
        certificate: None,
        identity: &OnceCell::new(),
        upstream: &RefCell::new(None),
        thread,
        app: &app,
        arrived,
        deadline: arrived + DEADLINE,
    };
    let mut client = Reader {
        body,
        sender,
        limit: None,
    };
    let answered = match target.answer(&request, &mut client).await {
        Ok(reply) => collected(reply, &mut client, request.deadline).await,
        Err(end) => Err(end),
    };
    match answered {
        Ok(response) => drop(client.sender.send(response)),
        Err(End::Refused(refusal)) => {
            refusal.log(request.id);
            let problem = response(refusal.reply(request.id));
            drop(client.sender.send(problem));
        }
        Err(End::Gone) => {}
    }
}

/// The whole response. Of an endless one, what comes within [`LISTENING`].
async fn collected(mut reply: Reply<'_>, client: &mut Reader, deadline: Instant) -> Result<Response, End> {
    let mut body = Vec::new();
    match &mut reply.body {
        Body::Stream(stream) => {
            let is_endless = stream.ends_connection();
            let until = if is_endless {
                Instant::now() + LISTENING
            } else {
                deadline
            };
            loop {
                let piece = match timeout_at(until.into(), stream.next(client)).await {
                    Ok(piece) => piece?,
                    Err(_) if is_endless => break,
                    Err(_) => return Err(Refusal::DeadlinePassed.into()),
                };
                body.extend_from_slice(&piece.bytes);
                if piece.end || body.len() > RESPONSE_BYTES_MAX {
                    break;
                }
            }
        }
        Body::Bytes(bytes) => body.extend_from_slice(bytes),
        Body::Borrowed(bytes) => body.extend_from_slice(bytes),
        Body::Empty | Body::File { .. } => {}
    }
    if body.len() > RESPONSE_BYTES_MAX {
        return Ok(Response::problem(
            422,
            "the response is longer than 16 MiB: ask for less, by a filter or a limit",
        ));
    }
    Ok(Response::of_target(
        reply.status,
        reply.headers.into_owned(),
        body,
    ))
}

/// A response whose body is in memory.
pub(super) fn response(reply: Reply<'_>) -> Response {
    let body = match reply.body {
        Body::Bytes(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    };
    Response::of_target(reply.status, reply.headers.into_owned(), body)
}

/// The client as a target sees it: its body is in memory, and it waits until the connection ends.
struct Reader {
    body: Vec<u8>,
    sender: ResponseSender,
    /// The limit that is waited for.
    limit: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Client for Reader {
    fn limit_body(&mut self, body_bytes_max: u64) -> Result<(), Refusal> {
        if self.body.len() as u64 > body_bytes_max {
            return Err(Refusal::BodyTooLarge { body_bytes_max });
        }
        Ok(())
    }

    fn body_ended(&self) -> bool {
        self.body.is_empty()
    }

    fn trailers(&self) -> &HeaderLines {
        &NO_TRAILERS
    }

    fn permit_body(&mut self) {}

    fn poll_body(
        &mut self,
        _: &mut Context<'_>,
        room: usize,
        _: Option<Instant>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<(), End>> {
        let rest = self.body.split_off(self.body.len().min(room));
        take(&std::mem::replace(&mut self.body, rest));
        Poll::Ready(Ok(()))
    }

    fn give_back(&mut self, body: Vec<u8>) {
        self.body = body;
    }

    fn begin_tunnel(&mut self) {}

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sender.poll_closed(cx)
    }

    fn poll_limit(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        if self.limit.as_ref().is_none_or(|(known, _)| *known != limit) {
            self.limit = Some((limit, Box::pin(sleep_until(limit.into()))));
        }
        let (_, sleep) = self.limit.as_mut().expect("it was just set");
        sleep.as_mut().poll(cx)
    }

    fn waker_for_others(&self, cx: &Context<'_>) -> Waker {
        cx.waker().clone()
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn begin_wait(&mut self) -> bool {
        false
    }

    fn flush(&mut self) -> Pin<Box<dyn Future<Output = io::Result<()>> + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
