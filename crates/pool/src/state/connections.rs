//! Jobs that have left their slots: event streams, WebSockets and other upgraded connections. They may last, and do not count as running.

use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_wire::{AbortReason, DETACHED_SLOT, FrameType, HEADER_BYTES, WireError, flag};

use super::{JobHandle, LinkPort, Outlet, Place, Protocols, ROOMS_MAX, State};
use crate::{Delivery, Failure, Message};

impl<L: LinkPort> State<L> {
    /// Frees the slot of a job whose response may last. From now on it does not count as running, and has no time limit.
    pub(super) fn detach(&mut self, key: usize, run: Duration) {
        let Place::Sent(sent) = &mut self.jobs[key].place else {
            unreachable!("only a sent job is answered")
        };
        let worker = &mut self.workers[sent.worker];
        worker.detach(sent.slot);
        worker.observe(run);
        worker.answered += 1;
        worker.stalled = false;
        sent.slot = DETACHED_SLOT;
        self.detached += 1;
    }

    /// Ends all connections, and refuses further ones: clients come again and get workers of another pool.
    pub(crate) fn end_connections(&mut self, now: Instant, out: &mut impl Outlet<L>) {
        self.ends_connections = true;
        let workers = self.workers.iter();
        let connections: Vec<_> = workers.flat_map(|(_, worker)| worker.detached()).collect();
        for key in connections {
            let pool = self.options.name.clone();
            self.fail(key, Failure::Stopping { pool }, out);
            self.abandon(key, AbortReason::ServerEnds, now, out);
        }
    }

    /// Handles a MESSAGE. An error means that the worker has broken the protocol.
    pub(crate) fn message(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        flags: u8,
        bytes: Bytes,
        out: &mut impl Outlet<L>,
    ) -> Result<(), WireError> {
        let Some(key) = self.websocket_of(from, slot, number, "MESSAGE")? else {
            return Ok(());
        };
        let job = &mut self.jobs[key];
        let is_published = flags & flag::PUBLISHED != 0 && self.workers[from].host.is_some();
        if !is_published {
            // Counted with its header: any number of empty ones could pile up for a slow client.
            let (sent, window) = ((bytes.len() + HEADER_BYTES) as u64, job.window);
            job.window = window
                .checked_sub(sent)
                .ok_or(WireError::WindowExceeded { sent, window })?;
        }
        let message = Message {
            bytes,
            is_text: flags & flag::TEXT != 0,
            end: flags & flag::END != 0,
            is_published,
            commit: self.workers[from].link.last_commit(),
        };
        if let Some(to) = job.reply_to {
            out.deliver(to, Delivery::Message(message));
        }
        Ok(())
    }

    /// Handles a CLOSE: the handler ends the WebSocket. An error means that the worker has broken the protocol.
    pub(crate) fn close(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        code: u16,
        reason: Bytes,
        out: &mut impl Outlet<L>,
    ) -> Result<(), WireError> {
        let Some(key) = self.websocket_of(from, slot, number, "CLOSE")? else {
            return Ok(());
        };
        if let Some(to) = self.jobs[key].reply_to {
            out.deliver(to, Delivery::Close { code, reason });
        }
        self.finish(key, out);
        Ok(())
    }

    /// Handles a JOIN or LEAVE. An error means that the worker has broken the protocol.
    pub(crate) fn room(
        &mut self,
        from: usize,
        (slot, number): (u32, u32),
        joins: bool,
        name: &[u8],
        now: Instant,
        out: &mut impl Outlet<L>,
    ) -> Result<(), WireError> {
        let kind = if joins { "JOIN" } else { "LEAVE" };
        let Some(key) = self.websocket_of(from, slot, number, kind)? else {
            return Ok(());
        };
        if !joins {
            self.rooms.leave(key, name);
        } else if !self.rooms.join(key, name) {
            self.fail(key, Failure::TooManyRooms { rooms_max: ROOMS_MAX }, out);
            self.abandon(key, AbortReason::ClientGone, now, out);
        }
        Ok(())
    }

    /// Handles a PUBLISH: sends a message to all members of a room but the one that is named by `except`, if any.
    pub(crate) fn publish(
        &mut self,
        from: usize,
        except: (u32, u32),
        name: &[u8],
        flags: u8,
        bytes: &Bytes,
        out: &mut impl Outlet<L>,
    ) {
        let Some(worker) = self.workers.get(from) else {
            return;
        };
        let except = worker.job_at(except.0, except.1);
        let commit = worker.link.last_commit();
        for member in self.rooms.members(name).filter(|member| Some(*member) != except) {
            let Some(to) = self.jobs[member].reply_to else {
                continue;
            };
            let message = Message {
                bytes: bytes.clone(),
                is_text: flags & flag::TEXT != 0,
                end: true,
                is_published: true,
                commit,
            };
            out.deliver(to, Delivery::Message(message));
        }
    }

    /// Finds the WebSocket that a frame of this kind is about.
    fn websocket_of(
        &mut self,
        from: usize,
        slot: u32,
        number: u32,
        kind: &'static str,
    ) -> Result<Option<usize>, WireError> {
        match self.job_of(from, slot, number) {
            Some(key) if self.jobs[key].protocols == Protocols::WebSocket => Ok(Some(key)),
            Some(_) => Err(WireError::NoWebSocket { kind }),
            None => Ok(None),
        }
    }

    /// Sends the worker a message of a WebSocket's client, or a piece of one; false if the job is over.
    pub(crate) fn send_message(
        &mut self,
        handle: JobHandle,
        bytes: &[u8],
        flags: u8,
        out: &mut impl Outlet<L>,
    ) -> bool {
        let Some(Place::Sent(sent)) = self.place_of(handle) else {
            return false;
        };
        let link = &self.workers[sent.worker].link;
        link.websocket(FrameType::Message, flags, sent.number, bytes);
        out.written(link);
        true
    }

    /// Tells the worker how a WebSocket has been closed, which ends its job.
    pub(crate) fn send_close(
        &mut self,
        handle: JobHandle,
        code: u16,
        reason: &[u8],
        out: &mut impl Outlet<L>,
    ) {
        let Some(Place::Sent(sent)) = self.place_of(handle) else {
            return;
        };
        let link = &self.workers[sent.worker].link;
        let payload = [&code.to_le_bytes(), reason].concat();
        link.websocket(FrameType::Close, 0, sent.number, &payload);
        out.written(link);
        self.finish(handle.job, out);
    }
}
