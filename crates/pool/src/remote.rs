//! Hosts as workers: links whose frames another thread carries to other machines.

use std::{cell::RefCell, time::Instant};

use bytes::BytesMut;
use forebay_wire::FrameType;
use tokio::sync::mpsc;

use crate::{
    Pool,
    link::{Channel, Link},
    reader::{Input, Reader},
    supervisor::{generation, init},
};

/// Maximum number of hosts of a pool.
pub const HOSTS_MAX: usize = 4_096;

/// A host that is a worker of a pool. The owner carries the frames of its link; dropping it ends the link: the host's jobs fail, or run
/// again elsewhere.
#[derive(Debug)]
pub struct AttachedHost(Reader);

impl Pool {
    /// Attaches a host under its name. `None` if the pool is stopping or has [`HOSTS_MAX`] hosts. Frames for the host come out of
    /// `outgoing`, INIT first; `None` says that the link is to end.
    ///
    /// # Panics
    /// If the pool is not [`remote`](crate::Options::remote).
    pub fn attach(
        &self,
        name: &str,
        outgoing: mpsc::UnboundedSender<Option<Vec<u8>>>,
    ) -> Option<AttachedHost> {
        let pool = self.shared.clone();
        let (link, id, key) = {
            let mut state = pool.state.lock();
            assert!(state.options().remote, "hosts work for pools without processes");
            if state.is_stopping() || state.workers().count() >= HOSTS_MAX {
                return None;
            }
            let id = state.next_worker_id();
            let link = Link::new(Channel::Remote(outgoing), pool.protocol, generation(id), 0, None);
            link.set_reads_connection();
            link.set_takes_identity(true);
            let key = state.add_host(id, name, link.clone(), Instant::now());
            (link, id, key)
        };
        link.control(FrameType::Init, &init(&pool, id, &link));
        Some(AttachedHost(Reader {
            pool,
            link,
            worker: key,
            id,
            rest: BytesMut::new(),
            input: Input::Frames,
            files: RefCell::default(),
        }))
    }

    /// Records why the pool has no host at the moment.
    pub fn set_absence(&self, why: &str) {
        *self.shared.start_error.lock() = Some(why.to_owned());
        self.shared.state.lock().set_absence(why);
        self.shared.wake.notify_one();
    }

    /// Number of jobs that the pool has, without event streams and upgraded connections, and of those that it would run without delay.
    pub fn room(&self) -> (usize, usize) {
        self.shared.state.lock().load()
    }
}

impl AttachedHost {
    /// Takes the next bytes that the host has sent. Returns false if they break the protocol: then the link is to end.
    pub fn receive(&mut self, bytes: &[u8]) -> bool {
        self.0.rest.extend_from_slice(bytes);
        match self.0.take_frames(None) {
            Ok(()) => true,
            Err(error) => {
                self.0.cut_off(&error);
                false
            }
        }
    }

    /// Records how many more jobs the host takes. One that drains gets no more, and is told so.
    pub fn announced(&self, room: usize, is_draining: bool) {
        let Reader {
            pool, link, worker, ..
        } = &self.0;
        let is_told = pool.change(None, |session| {
            let (state, out) = session.parts();
            state.host_announced(*worker, room, is_draining, Instant::now(), out)
        });
        if is_told {
            link.control(FrameType::Drain, &[]);
        }
    }

    /// Gives the jobs from this number on to other hosts: this one is gone and has never got them.
    pub fn has_not_got(&self, first: u32) {
        let Reader { pool, worker, .. } = &self.0;
        pool.change(None, |session| {
            let (state, out) = session.parts();
            state.host_has_not_got(*worker, first, Instant::now(), out);
        });
    }
}

impl Drop for AttachedHost {
    fn drop(&mut self) {
        let Reader {
            pool, link, worker, ..
        } = &self.0;
        pool.change(None, |session| session.worker_gone(*worker));
        link.hang_up();
    }
}
