//! One connection that tasks of its thread share.
//!
//! A task writes its statement into the connection's outgoing bytes and wakes the connection's own task once; that runs when the tasks that are ready have run, so one write carries what all of them ask.
//! Nothing here crosses threads.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    Column, PgError, Row, Rows,
    protocol::{Conversation, Event, Outcome, Startup},
    settings::ServerUrl,
};

/// Room for one read.
const READ_BYTES: usize = 65_536;

/// A connection; clones are the same one.
#[derive(Clone)]
pub(super) struct Connection {
    shared: Rc<Shared>,
}

struct Shared {
    state: RefCell<State>,
    /// Wakes the connection's task.
    writer: RefCell<Option<Waker>>,
}

struct State {
    conversation: Conversation<Rc<Slot>>,
    out: BytesMut,
    prepared: HashMap<Arc<str>, Preparation>,
    count: u64,
    broken: Option<PgError>,
}

#[derive(Clone)]
enum Preparation {
    /// Others wait for the same.
    UnderWay(Rc<Slot>),
    Ready(Prepared),
}

#[derive(Clone)]
struct Prepared {
    name: Arc<str>,
    columns: Arc<[Column]>,
}

/// Where the answer to one statement arrives.
#[derive(Default)]
struct Slot {
    rows: RefCell<Vec<Row>>,
    outcome: RefCell<Option<Result<Outcome, PgError>>>,
    wakers: RefCell<Vec<Waker>>,
    /// Nobody waits any more: rows are dropped as they come.
    is_abandoned: Cell<bool>,
}

impl Slot {
    fn is_over(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    fn finish(&self, outcome: Result<Outcome, PgError>) {
        *self.outcome.borrow_mut() = Some(outcome);
        for waker in self.wakers.borrow_mut().drain(..) {
            waker.wake();
        }
    }

    /// Resolves when it is over.
    async fn over(&self) {
        poll_fn(|context| {
            if self.is_over() {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Has rows dropped that nobody waits for.
struct Waiting(Rc<Slot>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_abandoned.set(true);
    }
}

impl Connection {
    /// Connects and logs in. The future that comes with it is the connection's own task: it ends when the connection does.
    pub(super) async fn connect(
        server: &ServerUrl,
    ) -> Result<(Self, impl Future<Output = ()> + use<>), PgError> {
        let task = Task::connect(server)
            .await
            .map_err(|error| error.at_start(server))?;
        let connection = Self {
            shared: Rc::clone(&task.shared),
        };
        Ok((connection, task.run()))
    }

    /// Statements that are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.shared.state.borrow().conversation.len()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.state.borrow().broken.is_some()
    }

    /// Runs a statement, prepared when it comes for the first time. It is sent when this is polled first.
    pub(super) async fn query(&self, text: &str, parameters: &[Option<&[u8]>]) -> Result<Rows, PgError> {
        let Prepared { name, columns } = self.prepare(text).await?;
        let slot = Rc::new(Slot::default());
        self.ask(
            |State {
                 conversation, out, ..
             }| { conversation.run(Rc::clone(&slot), &name, parameters.iter().copied(), out) },
        )?;
        let waiting = Waiting(slot);
        let slot = &waiting.0;
        slot.over().await;
        let outcome = slot.outcome.borrow_mut().take();
        match outcome {
            Some(Ok(Outcome::Run(affected))) => Ok(Rows {
                columns,
                rows: slot.rows.take(),
                affected,
            }),
            Some(Err(error)) => Err(error),
            _ => Err(misplaced()),
        }
    }

    async fn prepare(&self, text: &str) -> Result<Prepared, PgError> {
        let known = self.shared.state.borrow().prepared.get(text).cloned();
        match known {
            Some(Preparation::Ready(prepared)) => Ok(prepared),
            Some(Preparation::UnderWay(slot)) => {
                slot.over().await;
                match self.shared.state.borrow().prepared.get(text) {
                    Some(Preparation::Ready(prepared)) => Ok(prepared.clone()),
                    _ => Err(failure(&slot)),
                }
            }
            None => self.prepare_first(text).await,
        }
    }

    async fn prepare_first(&self, text: &str) -> Result<Prepared, PgError> {
        let slot = Rc::new(Slot::default());
        let key: Arc<str> = text.into();
        let mut name: Arc<str> = "".into();
        self.ask(|state| {
            state.count += 1;
            name = format!("s{}", state.count).into();
            state
                .conversation
                .prepare(Rc::clone(&slot), &name, text, &mut state.out)?;
            state
                .prepared
                .insert(Arc::clone(&key), Preparation::UnderWay(Rc::clone(&slot)));
            Ok(())
        })?;
        slot.over().await;
        let mut state = self.shared.state.borrow_mut();
        let outcome = slot.outcome.borrow();
        let Some(Ok(Outcome::Prepared(description))) = &*outcome else {
            state.prepared.remove(&key);
            drop(outcome);
            return Err(failure(&slot));
        };
        let prepared = Prepared {
            name,
            columns: description.columns.clone().into(),
        };
        state.prepared.insert(key, Preparation::Ready(prepared.clone()));
        Ok(prepared)
    }

    /// Puts something into the outgoing bytes and has them written.
    fn ask(&self, ask: impl FnOnce(&mut State) -> Result<(), PgError>) -> Result<(), PgError> {
        let mut state = self.shared.state.borrow_mut();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        ask(&mut state)?;
        if let Some(waker) = self.shared.writer.borrow_mut().take() {
            waker.wake();
        }
        Ok(())
    }
}

/// What moves the connection's bytes.
struct Task {
    shared: Rc<Shared>,
    stream: TcpStream,
    received: BytesMut,
}

impl Task {
    async fn connect(server: &ServerUrl) -> Result<Self, PgError> {
        let mut stream = TcpStream::connect((&*server.host, server.port)).await?;
        stream.set_nodelay(true)?;
        let mut out = BytesMut::new();
        let mut received = BytesMut::with_capacity(READ_BYTES);
        let mut startup = Startup::begin(server, &mut out)?;
        loop {
            stream.write_all_buf(&mut out).await?;
            if stream.read_buf(&mut received).await? == 0 {
                return Err(closed());
            }
            if startup.receive(&mut received, &mut out)? {
                break;
            }
        }
        let shared = Shared {
            state: RefCell::new(State {
                conversation: Conversation::new(),
                out,
                prepared: HashMap::new(),
                count: 0,
                broken: None,
            }),
            writer: RefCell::new(None),
        };
        Ok(Self {
            shared: Rc::new(shared),
            stream,
            received,
        })
    }

    async fn run(mut self) {
        let error = poll_fn(|context| self.poll(context)).await;
        let mut state = self.shared.state.borrow_mut();
        state.broken = Some(error.clone());
        for slot in state.conversation.broken() {
            slot.finish(Err(error.clone()));
        }
    }

    /// Ready with why the connection ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PgError> {
        if let Err(error) = self.poll_read(context) {
            return Poll::Ready(error);
        }
        if let Err(error) = self.poll_write(context) {
            return Poll::Ready(error);
        }
        *self.shared.writer.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    /// Reads until there is nothing left, and gives what has come.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<(), PgError> {
        loop {
            self.received.reserve(READ_BYTES);
            // `read_buf` is safe over memory that is not written yet, and is ready at once or leaves the waker with the socket.
            let mut read = std::pin::pin!(self.stream.read_buf(&mut self.received));
            match read.as_mut().poll(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(closed()),
                Poll::Ready(Ok(_)) => self.take()?,
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<(), PgError> {
        let mut state = self.shared.state.borrow_mut();
        while !state.out.is_empty() {
            match std::pin::Pin::new(&mut self.stream).poll_write(context, &state.out) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(written)) => drop(state.out.split_to(written)),
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), PgError> {
        let mut state = self.shared.state.borrow_mut();
        let mut failed = None;
        state
            .conversation
            .receive(&mut self.received, |event| match event {
                Event::Row(slot, body) => {
                    if slot.is_abandoned.get() {
                        return;
                    }
                    match Row::new(&body) {
                        Ok(row) => slot.rows.borrow_mut().push(row),
                        Err(error) => drop(failed.get_or_insert(error)),
                    }
                }
                Event::Over(slot, outcome) => slot.finish(outcome),
            })?;
        failed.map_or(Ok(()), Err)
    }
}

fn failure(slot: &Slot) -> PgError {
    match &*slot.outcome.borrow() {
        Some(Err(error)) => error.clone(),
        _ => misplaced(),
    }
}

fn misplaced() -> PgError {
    PgError::Protocol {
        reason: "an answer to another statement".into(),
    }
}

fn closed() -> PgError {
    PgError::Broken {
        reason: "the server has closed it".into(),
    }
}
