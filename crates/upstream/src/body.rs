//! The body of a request that is being sent: one piece at a time, so that no more is read from the client than the server takes.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The sending half of a body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed(Rc<RefCell<State>>);

/// The body, as the HTTP library takes it.
#[derive(Debug)]
pub(crate) struct Upload(Feed);

#[derive(Debug, Default)]
struct State {
    piece: Option<Bytes>,
    has_ended: bool,
    is_aborted: bool,
    /// Woken when there is a piece to send.
    reader: Option<Waker>,
    /// Woken when there is room for a piece.
    giver: Option<Waker>,
}

/// The request was given up before its body had been sent.
#[derive(Debug, thiserror::Error)]
#[error("the request was given up")]
pub(crate) struct Aborted;

impl Feed {
    pub(crate) fn new(first: Bytes, has_ended: bool) -> Self {
        let piece = Some(first).filter(|first| !first.is_empty());
        Self(Rc::new(RefCell::new(State {
            piece,
            has_ended,
            ..State::default()
        })))
    }

    pub(crate) fn body(&self) -> Upload {
        Upload(self.clone())
    }

    /// Whether the whole body has been given.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.borrow().has_ended
    }

    /// Whether the whole body has been taken.
    pub(crate) fn is_sent(&self) -> bool {
        let state = self.0.borrow();
        state.has_ended && state.piece.is_none()
    }

    /// Whether another piece may be given.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        if state.piece.is_none() {
            return Poll::Ready(());
        }
        match &mut state.giver {
            Some(waker) => waker.clone_from(cx.waker()),
            giver @ None => *giver = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Gives a piece, for which there must be room.
    pub(crate) fn give(&self, piece: Bytes, is_last: bool) {
        let mut state = self.0.borrow_mut();
        debug_assert!(state.piece.is_none(), "there is room for one piece");
        state.piece = Some(piece).filter(|piece| !piece.is_empty());
        state.has_ended = is_last;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// Makes the server see that the body is not complete.
    pub(crate) fn abort(&self) {
        let mut state = self.0.borrow_mut();
        state.is_aborted = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        let mut state = self.0.0.borrow_mut();
        if let Some(piece) = state.piece.take() {
            if let Some(giver) = state.giver.take() {
                giver.wake();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if state.has_ended {
            return Poll::Ready(None);
        }
        if state.is_aborted {
            return Poll::Ready(Some(Err(Aborted)));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_sent()
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.0.borrow();
        match &state.piece {
            _ if !state.has_ended => SizeHint::default(),
            Some(piece) => SizeHint::with_exact(piece.len() as u64),
            None => SizeHint::with_exact(0),
        }
    }
}
