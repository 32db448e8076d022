//! One front end, as a host sees it: the jobs that came over its link, and what is to be sent there.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::{Duration, Instant},
};

use async_nats::Message;
use bytes::{Bytes, BytesMut};
use forebay_pool::{Connection, Job, abort_on_panic};
use forebay_wire::{
    CONNECTION_BYTES, FailureReason, FrameType, HEADER_BYTES, Header, RequestView, Split, WireError, flag,
    put_frame, split_frame,
};
use tokio::{
    sync::{Notify, mpsc},
    task::{JoinSet, spawn_local, yield_now},
};

use crate::{
    host::{Host, Served},
    job,
    transfer::{LinkEnd, Receiver, Sender},
};

/// The link of a front end. Dropping it cancels the jobs that came over it.
#[derive(Debug)]
pub(crate) struct Session {
    host: Rc<Host>,
    link: Rc<Link>,
    receiver: Receiver,
    /// Bytes of an incomplete frame.
    rest: BytesMut,
    /// Whether the front end sends no more jobs.
    is_told_to_drain: bool,
}

/// The part of a session that its jobs share.
#[derive(Debug)]
pub(crate) struct Link {
    jobs: RefCell<HashMap<u32, RunningJob>>,
    generation: Cell<u16>,
    outgoing: RefCell<Vec<u8>>,
    /// Wakes the task that sends what is outgoing.
    send: Notify,
    /// Whether a message is to be sent even without frames.
    is_tried: Cell<bool>,
    is_over: Cell<bool>,
    /// Notified when a job has ended.
    changed: Rc<Notify>,
}

/// A job, as the reader of its link knows it.
#[derive(Debug)]
struct RunningJob {
    frames: mpsc::UnboundedSender<(Header, Bytes)>,
    /// Bytes of the request's body, or of messages, that the front end may still send.
    window: Rc<Cell<u64>>,
}

impl Session {
    /// Its frames are sent by a task of `senders`, which ends when they are sent after the session has been dropped.
    pub(crate) fn new(
        host: &Rc<Host>,
        changed: Rc<Notify>,
        sender: Sender,
        senders: &mut JoinSet<()>,
    ) -> Self {
        let link = Rc::new(Link {
            jobs: RefCell::default(),
            generation: Cell::new(0),
            outgoing: RefCell::default(),
            send: Notify::new(),
            is_tried: Cell::new(false),
            is_over: Cell::new(false),
            changed,
        });
        senders.spawn_local(abort_on_panic("sender of a link", send(link.clone(), sender)));
        Self {
            host: host.clone(),
            link,
            receiver: Receiver::default(),
            rest: BytesMut::new(),
            is_told_to_drain: false,
        }
    }

    /// Whether the front end sends no more jobs and all it has sent are over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_told_to_drain && self.link.jobs.borrow().is_empty()
    }

    /// Sends a message without frames: the server reports if nobody receives it.
    pub(crate) fn try_front(&self) {
        self.link.is_tried.set(true);
        self.link.send.notify_one();
    }

    /// Takes the frames of a message.
    pub(crate) fn receive(&mut self, message: &Message, served: &Served) -> Result<(), LinkEnd> {
        let bytes = self.receiver.take(message)?;
        self.rest.extend_from_slice(&bytes);
        let broken = |error: WireError| LinkEnd::Protocol(error.to_string());
        while let Split::Whole { frame, used } = split_frame(&self.rest).map_err(broken)? {
            let header = frame.header;
            let payload = self.rest.split_to(used).freeze().slice(HEADER_BYTES..);
            self.take(header, payload, served).map_err(broken)?;
        }
        Ok(())
    }

    fn take(&mut self, header: Header, payload: Bytes, served: &Served) -> Result<(), WireError> {
        match header.kind {
            FrameType::Init => {
                self.link.generation.set(header.generation);
                let ready = Header::link(FrameType::Ready, header.generation);
                self.link.put_with(&ready, &[]);
            }
            _ if header.generation != self.link.generation.get() => {}
            FrameType::Request => self.begin(header, payload, served)?,
            FrameType::Drain => {
                self.is_told_to_drain = true;
                self.link.changed.notify_one();
            }
            FrameType::Body | FrameType::Trailers | FrameType::Message => {
                if let Some(job) = self.link.jobs.borrow().get(&header.job) {
                    let bytes = match header.kind {
                        FrameType::Body => payload.len(),
                        FrameType::Message => payload.len() + HEADER_BYTES,
                        _ => 0,
                    } as u64;
                    let window = job.window.get();
                    let left = window.checked_sub(bytes);
                    job.window
                        .set(left.ok_or(WireError::WindowExceeded { sent: bytes, window })?);
                    // A job that is just ending takes no more.
                    let _ = job.frames.send((header, payload));
                }
            }
            FrameType::Window | FrameType::Abort | FrameType::Close => {
                if let Some(job) = self.link.jobs.borrow().get(&header.job) {
                    let _ = job.frames.send((header, payload));
                }
            }
            // Frames of the other direction mean nothing here, unknown ones are skipped.
            _ => {}
        }
        Ok(())
    }

    fn begin(&self, header: Header, mut payload: Bytes, served: &Served) -> Result<(), WireError> {
        let mut connection = Connection::default();
        if header.has(flag::CONNECTION) {
            let truncated = WireError::Truncated {
                kind: "REQUEST",
                needed: CONNECTION_BYTES as u64,
                present: payload.len(),
            };
            let at = payload.len().checked_sub(CONNECTION_BYTES).ok_or(truncated)?;
            let end = payload.split_off(at);
            connection = Connection {
                port: u16::from_le_bytes([end[0], end[1]]),
                is_tls: end[2] != 0,
            };
        }
        let now = Instant::now();
        let limits = served.limits;
        let deadline = match RequestView::decode(&payload)?.remaining_ms {
            0 => now + limits.queue_timeout + limits.run_timeout,
            left => now + Duration::from_millis(left.into()),
        };
        let job = Job {
            payload: payload.into(),
            whole: header.has(flag::END),
            connection,
            since: now,
            deadline,
            limits,
            // The front end knows whether the client has asked for it.
            may_upgrade: true,
            trace: None,
            client: None,
        };
        let (sender, frames) = mpsc::unbounded_channel();
        let window = Rc::<Cell<u64>>::default();
        let known = RunningJob {
            frames: sender,
            window: window.clone(),
        };
        self.link.jobs.borrow_mut().insert(header.job, known);
        let (host, link, pool) = (self.host.clone(), self.link.clone(), served.pool.clone());
        spawn_local(async move {
            let name = (header.slot, header.job);
            let running = job::run(&host, &link, &pool, name, job, frames, &window);
            abort_on_panic("job of a front end", running).await;
            link.jobs.borrow_mut().remove(&header.job);
            link.changed.notify_one();
        });
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.link.is_over.set(true);
        // Their tasks end, which cancels them.
        self.link.jobs.borrow_mut().clear();
        self.link.send.notify_one();
    }
}

impl Link {
    /// Appends a frame of a job.
    pub(crate) fn put(&self, kind: FrameType, flags: u8, (slot, job): (u32, u32), payload: &[u8]) {
        let header = Header {
            kind,
            flags,
            generation: self.generation.get(),
            job,
            slot,
        };
        self.put_with(&header, payload);
    }

    /// Appends the FAILURE of a job.
    pub(crate) fn fail(&self, job: (u32, u32), reason: FailureReason, text: &str) {
        let payload = [&[reason as u8], text.as_bytes()].concat();
        self.put(FrameType::Failure, 0, job, &payload);
    }

    fn put_with(&self, header: &Header, payload: &[u8]) {
        put_frame(&mut self.outgoing.borrow_mut(), header, payload);
        self.send.notify_one();
    }
}

/// Sends what is outgoing, all that has come together in one message.
async fn send(link: Rc<Link>, mut sender: Sender) {
    let mut batch = Vec::new();
    loop {
        link.send.notified().await;
        yield_now().await;
        std::mem::swap(&mut batch, &mut *link.outgoing.borrow_mut());
        if !batch.is_empty() || link.is_tried.replace(false) {
            sender.send(&batch).await;
            batch.clear();
        }
        if link.is_over.get() {
            return sender.end().await;
        }
    }
}
