//! A batch of changes to a pool's state, made under one lock. What they put out is applied after unlocking, by [`Session::apply`] and nothing
//! else.

use std::{os::fd::OwnedFd, rc::Rc, sync::Arc, time::Instant};

use bytes::Bytes;
use forebay_wire::{FailureReason, FrameType, Header, WireError, flag};
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::{
    Delivery,
    calls::Arrived,
    delivery::ReplyTo,
    dialect::Answered,
    link::Link,
    mailbox::LocalMailbox,
    pool::Shared,
    state::{Outlet, ROOM_NAME_MAX, State, UnattributedAnswer},
    worker_log::{self, Level},
};

fn truncated(kind: &'static str, needed: u64, payload: &[u8]) -> WireError {
    WireError::Truncated {
        kind,
        needed,
        present: payload.len(),
    }
}

fn check_room(name: &[u8]) -> Result<(), WireError> {
    let (length, max) = (name.len(), ROOM_NAME_MAX);
    if length == 0 || length > max {
        return Err(WireError::RoomName { length, max });
    }
    Ok(())
}

/// The locked state, and what its changes have put out so far: answers, writes, wake-ups, log entries.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    shared: &'a Shared,
    state: MutexGuard<'a, State<Arc<Link>>>,
    outputs: Outputs<'a>,
}

#[derive(Debug, Default)]
struct Outputs<'a> {
    mailbox: Option<&'a Rc<LocalMailbox>>,
    deliveries: SmallVec<[(ReplyTo, Delivery); 1]>,
    links: SmallVec<[Arc<Link>; 1]>,
    logged: Vec<Logged>,
    wake: bool,
}

/// A log entry of a worker, with its context.
#[derive(Debug)]
struct Logged {
    worker: u64,
    request: Option<String>,
    entry: Entry,
}

#[derive(Debug)]
enum Entry {
    /// The content of a LOG frame.
    Frame(Bytes),
    Printed(String),
    Noted(Level, String, Option<String>),
}

impl Outlet<Arc<Link>> for Outputs<'_> {
    fn deliver(&mut self, to: ReplyTo, delivery: Delivery) {
        self.deliveries.push((to, delivery));
    }

    fn written(&mut self, link: &Arc<Link>) {
        let known = self.links.iter().any(|known| Arc::ptr_eq(known, link));
        if !known && !self.mailbox.is_some_and(|mailbox| mailbox.will_write(link)) {
            self.links.push(link.clone());
        }
    }

    fn wake_supervisor(&mut self) {
        self.wake = true;
    }
}

impl<'a> Session<'a> {
    /// Locks a pool's state. Deliveries for the current thread's mailbox stay on the thread.
    pub(crate) fn lock(shared: &'a Shared, mailbox: Option<&'a Rc<LocalMailbox>>) -> Self {
        Self {
            shared,
            state: shared.state.lock(),
            outputs: Outputs {
                mailbox,
                ..Outputs::default()
            },
        }
    }

    /// Unlocks the state, then delivers answers, writes links, wakes the supervisor and logs.
    pub(crate) fn apply(self) {
        let Self {
            shared,
            state,
            outputs,
        } = self;
        drop(state);
        let Outputs {
            mailbox,
            deliveries,
            links,
            logged,
            wake,
        } = outputs;
        match mailbox {
            Some(local) => {
                let mut remote: SmallVec<[_; 1]> = SmallVec::new();
                for (to, delivery) in deliveries {
                    if local.owns(to) {
                        local.deliver(to, delivery);
                    } else {
                        remote.push((to, delivery));
                    }
                }
                local.all().deliver(remote);
                links.into_iter().for_each(|link| local.write_later(link));
            }
            None => {
                shared.mailboxes.deliver(deliveries);
                links.iter().for_each(|link| link.flush());
            }
        }
        if wake {
            shared.wake.notify_one();
        }
        // Logging comes last: it may be slow.
        for Logged {
            worker,
            request,
            entry,
        } in logged
        {
            let (pool, request) = (&shared.name, request.as_deref());
            match entry {
                Entry::Frame(content) => worker_log::structured(pool, worker, request, &content),
                Entry::Printed(line) => {
                    worker_log::printed(pool, worker, request, worker_log::Stream::Stdout, &line);
                }
                Entry::Noted(level, message, fields) => {
                    worker_log::noted(pool, worker, request, level, &message, fields.as_deref());
                }
            }
        }
    }

    /// The state, and the receiver of its outputs.
    pub(crate) fn parts(&mut self) -> (&mut State<Arc<Link>>, &mut impl Outlet<Arc<Link>>) {
        (&mut self.state, &mut self.outputs)
    }

    pub(crate) fn answer(
        &mut self,
        from: usize,
        header: &Header,
        payload: Bytes,
        file: Option<OwnedFd>,
        now: Instant,
    ) -> Result<(), WireError> {
        let (state, outputs) = self.parts();
        state.answer(from, header, payload, file, now, outputs)
    }

    pub(crate) fn message(
        &mut self,
        from: usize,
        job: (u32, u32),
        flags: u8,
        bytes: Bytes,
    ) -> Result<(), WireError> {
        let (state, outputs) = self.parts();
        state.message(from, job, flags, bytes, outputs)
    }

    /// Handles a CLOSE: a code, then the reason.
    pub(crate) fn close(&mut self, from: usize, job: (u32, u32), payload: &Bytes) -> Result<(), WireError> {
        let Some((code, reason)) = payload.split_first_chunk::<2>() else {
            return Err(truncated("CLOSE", 2, payload));
        };
        let code = u16::from_le_bytes(*code);
        if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
            return Err(WireError::CloseCode { code });
        }
        let reason = payload.slice_ref(reason);
        let (state, outputs) = self.parts();
        state.close(from, job, code, reason, outputs)
    }

    pub(crate) fn room(
        &mut self,
        from: usize,
        job: (u32, u32),
        joins: bool,
        name: &[u8],
        now: Instant,
    ) -> Result<(), WireError> {
        check_room(name)?;
        let (state, outputs) = self.parts();
        state.room(from, job, joins, name, now, outputs)
    }

    /// Handles a PUBLISH: the length of the room's name, the name, the message.
    pub(crate) fn publish(
        &mut self,
        from: usize,
        except: (u32, u32),
        flags: u8,
        payload: &Bytes,
    ) -> Result<(), WireError> {
        let Some((length, rest)) = payload.split_first_chunk::<4>() else {
            return Err(truncated("PUBLISH", 4, payload));
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some((name, bytes)) = rest.split_at_checked(length) else {
            return Err(truncated("PUBLISH", 4 + length as u64, payload));
        };
        check_room(name)?;
        let (state, outputs) = self.parts();
        state.publish(from, except, name, flags, &payload.slice_ref(bytes), outputs);
        Ok(())
    }

    pub(crate) fn chunk(
        &mut self,
        from: usize,
        job: (u32, u32),
        flags: u8,
        bytes: Bytes,
        now: Instant,
    ) -> Result<(), WireError> {
        let (state, outputs) = self.parts();
        state.chunk(from, job, flags, bytes, now, outputs)
    }

    pub(crate) fn trailers(&mut self, from: usize, job: (u32, u32), block: Bytes) -> Result<(), WireError> {
        let (state, outputs) = self.parts();
        state.trailers(from, job, block, outputs)
    }

    /// Ends a job whose response cannot be used.
    pub(crate) fn refuse(&mut self, from: usize, job: (u32, u32), what: &str, now: Instant) {
        let (state, outputs) = self.parts();
        state.refuse_answer(from, job, what.to_owned(), now, outputs);
    }

    pub(crate) fn reset(&mut self, from: usize, job: (u32, u32), now: Instant) {
        let (state, outputs) = self.parts();
        state.reset(from, job, now, outputs);
    }

    /// Handles a READY that comes after the handshake of a process: a host has answered INIT.
    pub(crate) fn ready(&mut self, from: usize, now: Instant) {
        let (state, outputs) = self.parts();
        state.worker_ready(from, false, now, outputs);
    }

    /// Handles a FAILURE: the reason, then a text.
    pub(crate) fn failure(
        &mut self,
        from: usize,
        job: (u32, u32),
        payload: &[u8],
        now: Instant,
    ) -> Result<(), WireError> {
        let Some((&reason, text)) = payload.split_first() else {
            return Err(truncated("FAILURE", 1, payload));
        };
        let (reason, text) = (FailureReason::from_code(reason), String::from_utf8_lossy(text));
        let (state, outputs) = self.parts();
        state.host_failed(from, job, reason, &text, now, outputs);
        Ok(())
    }

    pub(crate) fn window(&mut self, from: usize, job: (u32, u32), bytes: u32) {
        let (state, outputs) = self.parts();
        state.window(from, job, bytes, outputs);
    }

    pub(crate) fn stray(&mut self) {
        self.parts().0.counters.stray_frames += 1;
    }

    pub(crate) fn log(&mut self, from: usize, (slot, number): (u32, u32), entry: Bytes) {
        let (state, _) = self.parts();
        let request = state.request_id(from, slot, number);
        let worker = state.worker(from).map_or(0, |worker| worker.id);
        self.outputs.logged.push(Logged {
            worker,
            request,
            entry: Entry::Frame(entry),
        });
    }

    /// Processes a CALL frame, and queues the call once it is complete. The call may belong to a job or to none. The worker is given by its
    /// key and its number.
    pub(crate) fn call(
        &mut self,
        worker: (usize, u64),
        link: &Arc<Link>,
        header: &Header,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), WireError> {
        if let Some(arrived) = link.intake.take(link, header, payload)? {
            self.queue_call(worker, link, arrived, now);
        }
        Ok(())
    }

    /// Queues a call that came as a message under the worker's id for it; its content may be an error message.
    pub(crate) fn call_message(
        &mut self,
        worker: (usize, u64),
        link: &Arc<Link>,
        id: String,
        body: Result<String, String>,
        now: Instant,
    ) {
        match body {
            Ok(body) => {
                let arrived = link.intake.message(link, id, body);
                self.queue_call(worker, link, arrived, now);
            }
            Err(error) => {
                link.put_message_error(&id, &error);
                self.outputs.written(link);
            }
        }
    }

    fn queue_call(&mut self, worker: (usize, u64), link: &Arc<Link>, arrived: Arrived, now: Instant) {
        let (state, outputs) = self.parts();
        let calls = state.calls(worker, arrived.job(), now);
        if arrived.hand_over(&link.intake, calls) {
            outputs.written(link);
        }
    }

    /// Logs a line of a worker's standard output.
    pub(crate) fn printed(&mut self, from: usize, line: String) {
        self.log_entry(from, None, Entry::Printed(line));
    }

    fn log_entry(&mut self, from: usize, job: Option<(u32, u32)>, entry: Entry) {
        let (state, _) = self.parts();
        let worker = state.worker(from).map_or(0, |worker| worker.id);
        let request = match job {
            Some((slot, number)) => state.request_id(from, slot, number),
            None => state.running_request_id(worker),
        };
        self.outputs.logged.push(Logged {
            worker,
            request,
            entry,
        });
    }

    /// Logs a message of a worker, or one about it.
    pub(crate) fn noted(
        &mut self,
        from: usize,
        request: Option<String>,
        level: Level,
        message: String,
        fields: Option<String>,
    ) {
        self.log_entry(from, None, Entry::Noted(level, message, fields));
        if let (Some(_), Some(logged)) = (&request, self.outputs.logged.last_mut()) {
            logged.request = request;
        }
    }

    /// Handles the answer of a worker that speaks no frames. `read` is the latest time at which it can have been read.
    pub(crate) fn answered(&mut self, from: usize, answered: Answered, read: Instant, now: Instant) {
        let (state, _) = self.parts();
        let job = match state.job_named(from, answered.to, read) {
            Ok(job) => job,
            Err(why) => return self.unclaimed(from, answered, why),
        };
        if let Some((message, fields)) = answered.note {
            self.log_entry(from, Some(job), Entry::Noted(Level::Warn, message, Some(fields)));
        }
        match answered.payload {
            Ok(mut payload) => {
                let (state, outputs) = self.parts();
                forebay_wire::set_run_us(&mut payload, state.run_time(from, job, now));
                let flags = flag::END | if answered.faulted { flag::FAULT } else { 0 };
                let header = Header {
                    kind: FrameType::Response,
                    flags,
                    generation: 0,
                    job: job.1,
                    slot: job.0,
                };
                let taken = state.answer(from, &header, payload.into(), None, now, outputs);
                taken.expect("the payload was written here");
            }
            Err(what) => {
                let message = format!("answer cannot be used: {what}");
                self.log_entry(from, Some(job), Entry::Noted(Level::Error, message, None));
                let (state, outputs) = self.parts();
                state.refuse_answer(from, job, what, now, outputs);
            }
        }
    }

    /// Handles an answer that matches no job: it lost a race, or is plain output.
    fn unclaimed(&mut self, from: usize, answered: Answered, why: UnattributedAnswer) {
        match (answered.text, why) {
            (Some(text), _) => self.printed(from, text),
            (None, UnattributedAnswer::Over) => self.stray(),
            (None, UnattributedAnswer::NotOne(jobs)) => {
                self.stray();
                let message = format!("an answer names no request, and the worker has {jobs}; it is dropped");
                self.noted(from, None, Level::Warn, message, None);
            }
        }
    }

    pub(crate) fn worker_gone(&mut self, worker: usize) {
        let (state, outputs) = self.parts();
        state.worker_gone(worker, Instant::now(), outputs);
    }
}
