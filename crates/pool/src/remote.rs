//! Hosts as workers: links whose frames another thread carries to other machines.

use std::{cell::RefCell, time::Instant};

use bytes::BytesMut;
use forebay_wire::FrameType;
use tokio::sync::mpsc;

use crate::{
    Pool,
    link::{Channel, Link},
    reader::{Input, Reader},
    state::Worker,
    supervisor::{generation, init},
};

/// Maximum number of hosts of a pool.
pub const HOSTS_MAX: usize = 4_096;

/// A host that is a worker of a pool. The owner carries the frames of its link; dropping it ends the link: the host's jobs fail, or run
/// again elsewhere.
#[derive(Debug)]
pub struct AttachedHost(Reader);

impl Pool {
    /// Whether another host may be attached: the pool is not stopping, and has fewer than [`HOSTS_MAX`].
    pub fn takes_hosts(&self) -> bool {
        let state = self.shared.state.lock();
        !state.is_stopping() && state.workers().count() < HOSTS_MAX
    }

    /// Attaches a host under its name. `None` if [the pool takes none](Self::takes_hosts). Frames for the host come out of
    /// `outgoing`, INIT first; `None` says that the link is to end.
    ///
    /// # Panics
    /// If the pool is not [`remote`](crate::Options::remote).
    pub fn attach(
        &self,
        name: &str,
        outgoing: mpsc::UnboundedSender<Option<Vec<u8>>>,
    ) -> Option<AttachedHost> {
        if !self.takes_hosts() {
            return None;
        }
        let pool = self.shared.clone();
        let (link, id, key) = {
            let mut state = pool.state.lock();
            assert!(state.options().remote, "hosts work for pools without processes");
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

    /// Whether the pool waits for something that the host is to send.
    pub fn is_awaited(&self) -> bool {
        let state = self.0.pool.state.lock();
        state.worker(self.0.worker).is_some_and(Worker::is_awaited)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_wire::{
        Connection, ContentKind, DETACHED_SLOT, Header, RequestParts, ResponseHead, put_frame,
    };
    use tokio::task::LocalSet;

    use super::*;
    use crate::{
        Job, Limits, LocalMailbox, Mailboxes, Options, Program, Protocol, Recycle, Retry, Supervisor,
    };

    fn options() -> Options {
        Options {
            name: "away".into(),
            program: Program {
                argv: Vec::new(),
                env: Vec::new(),
                protocol: Protocol::Framed,
                cwd: "/".into(),
                page: false,
                handler: None,
                start: None,
            },
            workers_min: 0,
            workers_max: HOSTS_MAX,
            concurrency: 1,
            concurrency_max: 1,
            connections_max: 10,
            queue_max: 10,
            queue_bytes_max: 10_000,
            start_timeout: Duration::from_secs(1),
            kill_grace: Duration::ZERO,
            idle_retire: Duration::MAX,
            recycle: Recycle::default(),
            message_bytes_max: 0,
            call_timeout: Duration::from_secs(1),
            confinement: None,
            calls: None,
            remote: true,
            files: false,
        }
    }

    fn job() -> Job {
        let mut payload = Vec::new();
        let none = std::iter::empty::<(&[u8], &[u8])>;
        RequestParts {
            remaining_ms: 0,
            method: b"GET",
            path: b"/",
            query: b"",
            route: b"/",
            params: none(),
            headers: none(),
            peer: b"",
            id: b"1",
            identity: b"",
            body: b"",
        }
        .put(&mut payload);
        let minute = Duration::from_mins(1);
        let now = Instant::now();
        Job {
            payload,
            whole: false,
            connection: Connection::default(),
            since: now,
            deadline: now + minute,
            limits: Limits {
                queue_timeout: minute,
                run_timeout: minute,
                retry: Retry::Idempotent,
            },
            may_upgrade: true,
            trace: None,
            client: None,
        }
    }

    /// Types whose frames most depend on each other.
    const CODES: [u64; 7] = [0x11, 0x20, 0x21, 0x30, 0x31, 0x32, 0x33];

    /// Random bits (xorshift64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    #[test]
    fn whatever_a_host_sends_costs_only_its_own_link() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let supervisor = Supervisor::start().unwrap();
        let mailboxes = Mailboxes::new(1);
        let pool = Pool::start(options(), &supervisor, mailboxes.clone());
        let mut random = Random(88_172_645_463_325_252);
        let (mut taken, mut broken) = (0, 0);
        LocalSet::new().block_on(&runtime, async {
            let mailbox = LocalMailbox::open(&mailboxes, 0);
            for _ in 0..5_000 {
                let (outgoing, _frames) = mpsc::unbounded_channel();
                let mut host = pool.attach("host", outgoing).unwrap();
                let generation = host.0.link.generation;
                host.announced(3, false);
                let mut frame = Vec::new();
                put_frame(&mut frame, &Header::link(FrameType::Ready, generation), &[]);
                assert!(host.receive(&frame));
                let jobs: Vec<_> = (0..3).map(|_| pool.submit(&mailbox, job()).unwrap()).collect();
                for _ in 0..40 {
                    let job = random.below(4) as u32;
                    let is_odd = random.below(4) == 0;
                    let code = [
                        random.below(0x44),
                        CODES[random.below(CODES.len() as u64) as usize],
                    ];
                    let header = Header {
                        kind: FrameType::from_code(code[usize::from(!is_odd)] as u8),
                        flags: random.below(32) as u8,
                        generation,
                        job,
                        slot: [job.saturating_sub(1), random.below(4) as u32, DETACHED_SLOT]
                            [random.below(3) as usize],
                    };
                    // Small numbers, so that lengths and statuses are often valid.
                    let mut payload: Vec<u8> = (0..random.below(30)).map(|_| random.below(3) as u8).collect();
                    let status = match header.kind {
                        FrameType::Response => 200,
                        FrameType::Upgrade => 101,
                        _ => 0,
                    };
                    if status > 0 && random.below(16) > 0 {
                        payload.clear();
                        let head = ResponseHead {
                            status,
                            content: ContentKind::Unset,
                            run_us: 1,
                        };
                        head.put(&mut payload, &[], b"body");
                    }
                    frame.clear();
                    put_frame(&mut frame, &header, &payload);
                    taken += 1;
                    if !host.receive(&frame) {
                        broken += 1;
                        break;
                    }
                }
                drop(host);
                drop(jobs);
            }
            pool.stop_now();
            pool.stopped().await;
        });
        assert!(
            taken > 15_000 && broken > 1_000,
            "{taken} frames, {broken} of them broke a link"
        );
        let counters = pool.status().counters;
        assert_eq!((counters.accepted, counters.started), (15_000, 5_000));
    }
}
