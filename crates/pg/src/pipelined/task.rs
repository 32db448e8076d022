//! The task of a connection: sends and receives its bytes, and cancels abandoned statements.

use std::{
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite as _},
    task::JoinHandle,
    time::{Instant, Sleep, sleep},
};

use super::{
    Stream,
    connection::{Mark, Shared},
    slot::Slot,
    stream,
};
use crate::{
    PgError, Settings,
    protocol::{CancelKey, Event, Outcome, Transaction, make_room, misplaced},
    settings::ServerUrl,
};

/// How long an abandoned statement may run once the server executes it: most finish sooner than a cancellation, which
/// holds up the statements behind.
const GRACE: Duration = Duration::from_millis(10);
/// When a cancellation is repeated: one that arrives before its statement has no effect.
const AGAIN: Duration = Duration::from_millis(500);
/// Most reads in a row.
const READS_MAX: usize = 16;

/// A connection's own task.
pub(super) struct Task {
    shared: Rc<Shared>,
    stream: Stream,
    received: BytesMut,
    server: ServerUrl,
    cancel_timeout: Duration,
    key: Option<CancelKey>,
    cancelling: Option<Cancelling>,
}

/// A statement to be cancelled.
struct Cancelling {
    target: Rc<Slot>,
    /// When the cancellation is sent, unless the statement has finished before.
    at: Pin<Box<Sleep>>,
    request: Option<JoinHandle<()>>,
}

impl Task {
    pub(super) async fn connect(settings: &Settings) -> Result<Self, PgError> {
        let started = stream::start(&settings.server, Some(settings.server_timeout())).await?;
        Ok(Self {
            shared: Rc::new(Shared::new(settings, started.out)),
            stream: started.stream,
            received: started.received,
            server: settings.server.clone(),
            cancel_timeout: settings.connect_timeout,
            key: started.key,
            cancelling: None,
        })
    }

    pub(super) fn shared(&self) -> Rc<Shared> {
        Rc::clone(&self.shared)
    }

    pub(super) async fn run(mut self) {
        let error = poll_fn(|context| self.poll(context)).await;
        self.shared.state.borrow_mut().end(&error);
    }

    /// Ready with the reason why the connection ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PgError> {
        if let Err(error) = self.poll_read(context) {
            return Poll::Ready(error);
        }
        self.poll_cancel(context);
        self.shared.state.borrow_mut().release();
        if let Err(error) = self.poll_write(context) {
            return Poll::Ready(error);
        }
        if self.shared.state.borrow().is_done() {
            return Poll::Ready(closed());
        }
        *self.shared.task.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    /// Reads what is available and dispatches it. A long result lets others on the thread have their turn, timers included, such as the one
    /// before a cancellation.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<(), PgError> {
        for _ in 0..READS_MAX {
            make_room(&mut self.received);
            // `read_buf` is safe with uninitialised memory; it either completes at once or leaves the waker with the
            // socket.
            let mut read = std::pin::pin!(self.stream.read_buf(&mut self.received));
            match read.as_mut().poll(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(closed()),
                Poll::Ready(Ok(_)) => self.take()?,
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<(), PgError> {
        let mut state = self.shared.state.borrow_mut();
        while !state.out.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, &state.out) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(written)) => drop(state.out.split_to(written)),
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
        state.written();
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(Err(error)) => Err(error.into()),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    fn take(&mut self) -> Result<(), PgError> {
        let mut state = self.shared.state.borrow_mut();
        state.moved = std::time::Instant::now();
        let mut failed = None;
        let mut unprepared = Vec::new();
        state
            .conversation
            .receive(&mut self.received, |event| match event {
                Event::Row(Mark::Run(slot), row) => slot.push(row),
                Event::Over(Mark::Run(slot), outcome) => slot.finish(match outcome {
                    Ok(Outcome::Run(affected)) => Ok(affected),
                    Ok(Outcome::Prepared(_)) => Err(misplaced()),
                    Err(error) => Err(error),
                }),
                Event::Over(Mark::Prepare(statement), outcome) => match outcome {
                    Ok(Outcome::Prepared(description)) => statement.finish(Ok(description.columns.into())),
                    Ok(Outcome::Run(_)) => drop(failed.get_or_insert_with(misplaced)),
                    Err(error) => {
                        statement.finish(Err(error));
                        unprepared.push(statement);
                    }
                },
                Event::Row(Mark::Prepare(_), _) => drop(failed.get_or_insert_with(misplaced)),
                Event::Suspended | Event::Complete | Event::Copy(_) => {}
            })?;
        for statement in unprepared {
            state.forget(&statement);
        }
        // A transaction left open by a function or procedure would include the statements of others.
        if state.conversation.transaction() != Transaction::None {
            failed.get_or_insert(PgError::Broken {
                reason: "a statement has left a transaction open".into(),
            });
        }
        failed.map_or(Ok(()), Err)
    }

    /// Cancels the statement that the server is executing, if it is abandoned.
    ///
    /// **Invariant:** nothing is sent from the request until the server has closed the request's connection. By then
    /// the server has signalled its process, and a signal that arrives at the end of a statement does not affect the
    /// next one. Statements sent before the request may be hit in place of the intended one; they are marked for that,
    /// and run again.
    fn poll_cancel(&mut self, context: &mut Context<'_>) {
        loop {
            let Some(cancelling) = &mut self.cancelling else {
                let state = self.shared.state.borrow();
                match state.conversation.marks().next() {
                    Some(Mark::Run(slot)) if slot.is_abandoned() && self.key.is_some() => {
                        self.cancelling = Some(Cancelling {
                            target: Rc::clone(slot),
                            at: Box::pin(sleep(GRACE)),
                            request: None,
                        });
                        continue;
                    }
                    _ => return,
                }
            };
            match cancelling.poll(context) {
                Poll::Pending => return,
                Poll::Ready(IsOver::Yes) => {
                    self.cancelling = None;
                    self.shared.state.borrow_mut().is_held = false;
                }
                Poll::Ready(IsOver::No) => {
                    let Some(key) = self.key else { return };
                    let mut state = self.shared.state.borrow_mut();
                    state.is_held = true;
                    for mark in state.conversation.marks() {
                        match mark {
                            Mark::Run(slot) => slot.expose(),
                            Mark::Prepare(statement) => statement.expose(),
                        }
                    }
                    let (server, limit) = (self.server.clone(), self.cancel_timeout);
                    cancelling.request = Some(tokio::task::spawn_local(async move {
                        // A failed request is repeated, and the server's own timeout is the last resort.
                        let _ = tokio::time::timeout(limit, stream::cancel(&server, key)).await;
                    }));
                }
            }
        }
    }
}

/// Whether the statement to be cancelled has finished, and no request is in progress.
enum IsOver {
    Yes,
    No,
}

impl Cancelling {
    /// Ready when the statement has finished, or the request is due.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<IsOver> {
        if let Some(request) = &mut self.request {
            let _ = ready!(Pin::new(request).poll(context));
            self.request = None;
            self.at.as_mut().reset(Instant::now() + AGAIN);
        }
        if self.target.is_over() {
            return Poll::Ready(IsOver::Yes);
        }
        self.at.as_mut().poll(context).map(|()| IsOver::No)
    }
}

fn closed() -> PgError {
    PgError::Broken {
        reason: "the server has closed it".into(),
    }
}
