//! Frames from workers about their jobs: answers, the rest of their bodies, and room for more of a request.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_wire::{AbortReason, Header, WireError, flag};

use super::{Job, LinkPort, Outlet, Place, Protocols, State};
use crate::{Answer, Delivery, Failure, Timing as JobTiming, Upgrade};

/// The reason why an answer that does not name its slot matches no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnattributedAnswer {
    /// The job is over.
    Over,
    /// It names no job, and the worker has this many.
    NotOne(usize),
}

impl Job {
    /// Takes the payload of a frame off the window. An error means that the worker has broken the protocol.
    fn take_window(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let (sent, window) = (payload.len() as u64, self.window);
        let left = window.checked_sub(sent);
        self.window = left.ok_or(WireError::WindowExceeded { sent, window })?;
        Ok(())
    }
}

impl<L: LinkPort> State<L> {
    /// Handles a RESPONSE or an UPGRADE. An error means that the worker has broken the protocol.
    pub(crate) fn answer(
        &mut self,
        from: usize,
        header: &Header,
        payload: Bytes,
        file: Option<OwnedFd>,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) -> Result<(), WireError> {
        let Some(key) = self.job_of(from, header.slot, header.job) else {
            return Ok(());
        };
        let commit = self.workers[from].link.last_commit();
        let (mut answer, run_us) = Answer::decode(header, payload, file, commit)?;
        let connections_max = self.options.connections_max;
        let worker = &self.workers[from];
        // A host counts the connections of its processes.
        let is_full =
            answer.is_detached() && worker.host.is_none() && worker.detached().len() >= connections_max;
        let job = &mut self.jobs[key];
        if job.answered {
            self.counters.stray_frames += 1;
            return Ok(());
        }
        let refusal = if answer.upgrade().is_some() && job.protocols == Protocols::Http {
            let what = "the client has not asked for an upgrade".to_owned();
            Some(Failure::InvalidAnswer { what })
        } else if answer.is_detached() && self.ends_connections {
            let pool = self.options.name.clone();
            Some(Failure::Stopping { pool })
        } else if is_full {
            let pool = self.options.name.clone();
            Some(Failure::TooManyConnections {
                pool,
                connections_max,
            })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.fail(key, refusal, out);
            // For the worker it is as if its client had left.
            self.detach(key, Duration::from_micros(u64::from(run_us)));
            self.abandon(key, AbortReason::ClientGone, now, out);
            self.dispatch(now, out);
            return Ok(());
        }
        job.answered = true;
        if answer.upgrade() == Some(Upgrade::WebSocket) {
            job.protocols = Protocols::WebSocket;
        }
        let run = Duration::from_micros(u64::from(run_us));
        self.timings.ran(run);
        if let Place::Sent(sent) = job.place {
            answer.set_timing(JobTiming {
                waited: sent.at.saturating_duration_since(job.waits_since),
                away: now.saturating_duration_since(sent.at),
                run,
            });
        }
        let ended = answer.ended();
        let is_detached = answer.is_detached();
        let faulted = answer.faulted();
        if let Some(to) = job.reply_to {
            if faulted {
                self.counters.faulted += 1;
            } else {
                self.counters.answered += 1;
            }
            out.deliver(to, Delivery::Answer(answer));
        }
        let worker = &mut self.workers[from];
        worker.last_answer = now;
        if ended {
            worker.observe(run);
            self.finish(key, out);
            self.dispatch(now, out);
        } else if is_detached {
            self.detach(key, run);
            self.dispatch(now, out);
        }
        Ok(())
    }

    /// Finds the job of an answer that gives only its number, or no number if the worker has one job. `now` is when the answer was read:
    /// jobs sent later cannot be meant.
    pub(crate) fn job_named(
        &self,
        from: usize,
        number: Option<u32>,
        now: Instant,
    ) -> Result<(u32, u32), UnattributedAnswer> {
        let worker = self.workers.get(from).ok_or(UnattributedAnswer::Over)?;
        match number {
            Some(number) => worker
                .slot_of(number)
                .map(|slot| (slot, number))
                .ok_or(UnattributedAnswer::Over),
            None => worker
                .only_job()
                .filter(|&(_, _, job)| matches!(self.jobs[job].place, Place::Sent(sent) if sent.at < now))
                .map(|(slot, number, _)| (slot, number))
                .ok_or(UnattributedAnswer::NotOne(worker.in_flight())),
        }
    }

    /// Time since the worker got a job.
    pub(crate) fn run_time(&self, from: usize, (slot, number): (u32, u32), now: Instant) -> Duration {
        let job = self
            .workers
            .get(from)
            .and_then(|worker| worker.job_at(slot, number));
        match job.map(|job| self.jobs[job].place) {
            Some(Place::Sent(sent)) => now.saturating_duration_since(sent.at),
            Some(Place::Queued) | None => Duration::ZERO,
        }
    }

    /// Ends a job whose answer is invalid.
    pub(crate) fn refuse_answer(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        what: String,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) {
        let Some(key) = self.job_of(from, slot, number) else {
            return;
        };
        self.workers[from].last_answer = now;
        self.fail(key, Failure::InvalidAnswer { what }, out);
        self.finish(key, out);
        self.dispatch(now, out);
    }

    /// The job that a piece behind its response belongs to, unless the job is over. The piece uses up the worker's window.
    fn job_of_piece(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        piece: &Bytes,
    ) -> Result<Option<usize>, WireError> {
        let Some(key) = self.job_of(from, slot, number) else {
            return Ok(None);
        };
        let job = &mut self.jobs[key];
        if !job.answered {
            return Err(WireError::BodyFirst);
        }
        job.take_window(piece)?;
        Ok(Some(key))
    }

    /// Handles a BODY frame of a response. An error means that the worker has broken the protocol.
    pub(crate) fn chunk(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        flags: u8,
        bytes: Bytes,
        now: Instant,
        out: &mut impl Outlet<L>,
    ) -> Result<(), WireError> {
        let Some(key) = self.job_of_piece(from, (slot, number), &bytes)? else {
            return Ok(());
        };
        let job = &self.jobs[key];
        let worker = &mut self.workers[from];
        worker.last_answer = now;
        let commit = worker.link.last_commit();
        let end = flags & flag::END != 0;
        // An empty chunk uses up no window: if it were delivered, any number could pile up for a slow client.
        let says_something = end || !bytes.is_empty();
        if let Some(to) = job.reply_to.filter(|_| says_something) {
            out.deliver(to, Delivery::Chunk { bytes, end, commit });
        }
        if end {
            self.finish(key, out);
            self.dispatch(now, out);
        }
        Ok(())
    }

    /// Handles TRAILERS of a response. An error means that the worker has broken the protocol.
    pub(crate) fn trailers(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        block: Bytes,
        out: &mut impl Outlet<L>,
    ) -> Result<(), WireError> {
        let Some(key) = self.job_of_piece(from, (slot, number), &block)? else {
            return Ok(());
        };
        let job = &self.jobs[key];
        // An empty block uses up no window, so any number of them could pile up.
        let says_something = !block.is_empty() && job.protocols != Protocols::WebSocket;
        if let Some(to) = job.reply_to.filter(|_| says_something) {
            out.deliver(to, Delivery::Trailers(block));
        }
        Ok(())
    }

    /// Handles a RESET: the handler abandons the response.
    pub(crate) fn reset(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        now: Instant,
        out: &mut impl Outlet<L>,
    ) {
        let Some(key) = self.job_of(from, slot, number) else {
            return;
        };
        self.workers[from].last_answer = now;
        self.fail(key, Failure::ResponseReset, out);
        self.finish(key, out);
        self.dispatch(now, out);
    }

    /// Handles a WINDOW: the worker has room for more of the request body.
    pub(crate) fn window(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        bytes: u32,
        out: &mut impl Outlet<L>,
    ) {
        let Some(key) = self.job_of(from, slot, number) else {
            return;
        };
        if let Some(to) = self.jobs[key].reply_to {
            out.deliver(to, Delivery::Window(bytes));
        }
    }
}
