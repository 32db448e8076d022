//! A batch of changes to a pool's state: under one lock, and what they put out carried out after it.

use std::{rc::Rc, sync::Arc, time::Instant};

use bytes::Bytes;
use forebay_wire::WireError;
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::{
    Delivery,
    delivery::ReplyTo,
    link::Link,
    mailbox::LocalMailbox,
    pool::Shared,
    state::{Outlet, State},
    worker_log,
};

/// A locked state, and what its changes put out. Dropping it unlocks first; only then others are woken and links written.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    shared: &'a Shared,
    state: Option<MutexGuard<'a, State<Arc<Link>>>>,
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

/// What a worker has logged: the content of its frame, and what it is about.
#[derive(Debug)]
struct Logged {
    worker: u64,
    request: Option<String>,
    entry: Bytes,
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

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.state = None;
        let Outputs {
            mailbox,
            deliveries,
            links,
            logged,
            wake,
        } = std::mem::take(&mut self.outputs);
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
                self.shared.mailboxes.deliver(deliveries);
                links.iter().for_each(|link| link.flush());
            }
        }
        if wake {
            self.shared.wake.notify_one();
        }
        // Whoever takes the log may be slow.
        for Logged {
            worker,
            request,
            entry,
        } in logged
        {
            worker_log::structured(&self.shared.name, worker, request.as_deref(), &entry);
        }
    }
}

impl<'a> Session<'a> {
    /// Locks a pool's state. What is for the mailbox's thread stays on it.
    pub(crate) fn of(shared: &'a Shared, mailbox: Option<&'a Rc<LocalMailbox>>) -> Self {
        Self {
            shared,
            state: Some(shared.state.lock()),
            outputs: Outputs {
                mailbox,
                ..Outputs::default()
            },
        }
    }

    /// The state, and where its outputs go.
    pub(crate) fn parts(&mut self) -> (&mut State<Arc<Link>>, &mut impl Outlet<Arc<Link>>) {
        (
            self.state
                .as_mut()
                .expect("the state is locked until the session is dropped"),
            &mut self.outputs,
        )
    }

    pub(crate) fn answer(
        &mut self,
        from: usize,
        job: (u32, u32),
        flags: u8,
        payload: Bytes,
        now: Instant,
    ) -> Result<(), WireError> {
        let (state, outputs) = self.parts();
        state.answer(from, job, flags, payload, now, outputs)
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

    pub(crate) fn reset(&mut self, from: usize, job: (u32, u32), now: Instant) {
        let (state, outputs) = self.parts();
        state.reset(from, job, now, outputs);
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
            entry,
        });
    }

    pub(crate) fn worker_gone(&mut self, worker: usize) {
        let (state, outputs) = self.parts();
        state.worker_gone(worker, Instant::now(), outputs);
    }
}
