//! Streamed answers: pieces from an executor to the sending task, at the pace of the client.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::answer::{Answer, Body};

/// Pieces are collected up to this size in bytes before an answer begins, as pool workers do.
const GATHER_BYTES: usize = 32_768;
/// Number of pieces buffered between a script and the sending task; the SDK cuts pieces to 64 KiB.
const PIECES_MAX: usize = 4;

/// A piece of an answer.
#[derive(Debug)]
pub struct Piece {
    /// The bytes; never empty.
    pub bytes: Bytes,
    /// The last commit to the store that the thread's scripts had made by then; 0 if there is none.
    pub commit: u64,
}

/// The progress of a call's answer.
#[derive(Debug)]
pub(crate) enum Stage {
    /// No answer yet.
    Open,
    /// Pieces are collected, and nothing was sent.
    Gathering(Box<Gathering>),
    /// Pieces are sent as they arrive.
    Sending(Outlet),
}

/// Whether the next piece may be sent.
#[derive(Debug)]
pub(crate) enum Room {
    /// It may be sent at once.
    Free,
    /// When there is room: for this piece, or for the next if this one was accepted.
    Full(Option<Piece>),
    /// Never: the receiver is gone.
    Gone,
}

/// The pieces of an answer that are produced at once.
#[derive(Debug)]
pub(crate) struct Gathering {
    head: Answer,
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Gathering {
    pub(crate) fn new(head: Answer) -> Self {
        Self {
            head,
            pieces: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, piece: Piece) -> Room {
        self.bytes += piece.bytes.len();
        self.pieces.push_back(piece);
        if self.bytes < GATHER_BYTES {
            Room::Free
        } else {
            Room::Full(None)
        }
    }

    /// Makes a complete answer of the pieces.
    pub(crate) fn whole(self) -> Answer {
        let mut body = Vec::with_capacity(self.bytes);
        for piece in &self.pieces {
            body.extend_from_slice(&piece.bytes);
        }
        Answer {
            body: Body::Whole(body.into()),
            ..self.head
        }
    }

    pub(crate) fn into_parts(self) -> (Answer, VecDeque<Piece>) {
        (self.head, self.pieces)
    }
}

/// Receives a script's pieces.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    sender: mpsc::Sender<Piece>,
    is_complete: Arc<AtomicBool>,
}

impl Outlet {
    pub(crate) fn send(&self, piece: Piece) -> Room {
        match self.sender.try_send(piece) {
            Ok(()) => Room::Free,
            Err(mpsc::error::TrySendError::Full(piece)) => Room::Full(Some(piece)),
            Err(mpsc::error::TrySendError::Closed(_)) => Room::Gone,
        }
    }

    /// Waits until there is room, and sends a piece if there is one.
    pub(crate) async fn wait(self, piece: Option<Piece>) {
        match piece {
            // A receiver that is gone is noticed elsewhere.
            Some(piece) => drop(self.sender.send(piece).await),
            None => drop(self.sender.reserve().await),
        }
    }

    /// Marks the answer as complete.
    pub(crate) fn end(self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

/// The pieces of an answer. Dropping it cancels the call.
#[derive(Debug)]
pub struct Stream {
    first: VecDeque<Piece>,
    pieces: mpsc::Receiver<Piece>,
    is_complete: Arc<AtomicBool>,
    /// Closes when its thread is abandoned or done with the call.
    pub(crate) thread: Option<oneshot::Receiver<()>>,
}

/// Creates a stream that begins with these pieces.
pub(crate) fn stream(first: VecDeque<Piece>) -> (Outlet, Stream) {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    let is_complete = Arc::new(AtomicBool::new(false));
    let stream = Stream {
        first,
        pieces,
        is_complete: is_complete.clone(),
        thread: None,
    };
    (Outlet { sender, is_complete }, stream)
}

/// An empty stream, of which only the head is sent.
pub(crate) fn empty() -> Stream {
    let (outlet, stream) = stream(VecDeque::new());
    outlet.end();
    stream
}

/// The next item of a stream.
#[derive(Debug)]
pub enum Next {
    /// The next piece.
    Piece(Piece),
    /// The stream is complete.
    End,
    /// The stream ends early: the script has failed, and the log says why.
    Broken,
}

impl Stream {
    /// Whether a piece is available without waiting.
    pub fn has_piece(&self) -> bool {
        !self.first.is_empty()
    }

    /// Polls for the next item.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Some(piece) = self.first.pop_front() {
            return Poll::Ready(Next::Piece(piece));
        }
        match self.pieces.poll_recv(cx) {
            Poll::Ready(Some(piece)) => Poll::Ready(Next::Piece(piece)),
            Poll::Ready(None) if self.is_complete.load(Ordering::Acquire) => Poll::Ready(Next::End),
            Poll::Ready(None) => Poll::Ready(Next::Broken),
            Poll::Pending => {
                let thread = self.thread.as_mut();
                if thread.is_some_and(|thread| Pin::new(thread).poll(cx).is_ready()) {
                    return Poll::Ready(self.last());
                }
                Poll::Pending
            }
        }
    }

    /// The rest when the thread is done with the call. It may have sent everything since `pieces` was polled, and other senders may keep
    /// the channel open although nothing more comes.
    fn last(&mut self) -> Next {
        self.pieces.close();
        while let Ok(piece) = self.pieces.try_recv() {
            self.first.push_back(piece);
        }
        self.thread = None;
        match self.first.pop_front() {
            Some(piece) => Next::Piece(piece),
            None if self.is_complete.load(Ordering::Acquire) => Next::End,
            None => Next::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn piece(text: &'static str) -> Piece {
        Piece {
            bytes: Bytes::from_static(text.as_bytes()),
            commit: 0,
        }
    }

    #[test]
    fn what_came_between_two_looks_is_not_lost() {
        let (outlet, mut stream) = stream(VecDeque::new());
        let (there, thread) = oneshot::channel();
        stream.thread = Some(thread);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(stream.poll_next(cx).is_pending());
        // The channel is polled first and the thread after it; all of this may happen in between.
        let other = outlet.clone();
        assert!(matches!(outlet.send(piece("a")), Room::Free));
        outlet.end();
        drop(there);
        assert!(matches!(stream.last(), Next::Piece(piece) if *piece.bytes == *b"a"));
        assert!(matches!(stream.poll_next(cx), Poll::Ready(Next::End)));
        drop(other);
    }

    #[test]
    fn an_answer_is_complete_though_more_pieces_could_come() {
        let (outlet, mut stream) = stream(VecDeque::new());
        let (there, thread) = oneshot::channel();
        stream.thread = Some(thread);
        let other = outlet.clone();
        outlet.end();
        drop(there);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(matches!(stream.poll_next(cx), Poll::Ready(Next::End)));
        drop(other);
    }

    #[test]
    fn a_stream_whose_thread_is_done_in_the_middle_is_broken() {
        let (outlet, mut stream) = stream(VecDeque::new());
        let (there, thread) = oneshot::channel();
        stream.thread = Some(thread);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(stream.poll_next(cx).is_pending());
        drop(there);
        assert!(matches!(stream.poll_next(cx), Poll::Ready(Next::Broken)));
        drop(outlet);
    }
}
