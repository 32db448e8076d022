//! A thousand hosts and ten front ends: how evenly jobs spread, how many of them a host refuses because another front end has filled it, and
//! how long the state's lock is held for a job. Front ends know the hosts by announcements, as of `crates/cluster`, which are old by the time
//! they are used.
//!
//! `cargo test --release -p forebay-pool a_thousand_hosts -- --nocapture` prints the figures of docs/operating/scale.md.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::BinaryHeap,
    rc::Rc,
    time::{Duration, Instant},
};

use forebay_wire::{AbortReason, FailureReason, FrameType};

use super::{
    dice::Dice,
    nature::{Environment, options},
    world::{header, response},
};
use crate::{
    Delivery, Limits, Options, Retry,
    delivery::ReplyTo,
    state::{LinkPort, NewJob, Outlet, State},
};

/// Jobs that a host runs at a time.
const SLOTS: usize = 4;
/// Mean duration of a job, in nanoseconds.
const SERVICE_NS: u64 = 10_000_000;
/// Time of a message between front end and host, in nanoseconds.
const NETWORK_NS: u64 = 250_000;
/// Intervals of announcements, in nanoseconds: regular ones, and those of news.
const ANNOUNCE_NS: u64 = 200_000_000;
const NEWS_NS: u64 = 50_000_000;
/// Time that is simulated, in nanoseconds. The figures are those of its second half.
const LIFE_NS: u64 = 400_000_000;

/// One world.
#[derive(Clone, Copy)]
struct Size {
    fronts: usize,
    hosts: usize,
    /// The load, as a share of all slots, in thousandths.
    load: u64,
}

#[derive(Debug, Default)]
struct Line {
    host: usize,
    sent: RefCell<Vec<(u32, u32)>>,
}

impl LinkPort for Rc<Line> {
    fn offer(&self, slot: u32, number: u32, _end: bool, _payload: &[u8]) {
        self.sent.borrow_mut().push((slot, number));
    }
    fn revoke(&self, _slot: u32, _number: u32) -> bool {
        false
    }
    fn is_claimed(&self, _slot: u32, _number: u32) -> bool {
        true
    }
    fn last_commit(&self) -> u64 {
        0
    }
    fn abort(&self, _slot: u32, _number: u32, _reason: AbortReason) {}
    fn body(&self, _slot: u32, _number: u32, _bytes: &[u8], _end: bool) {}
    fn trailers(&self, _slot: u32, _number: u32, _block: &[u8]) {}
    fn websocket(&self, _kind: FrameType, _flags: u8, _number: u32, _payload: &[u8]) {}
    fn window(&self, _slot: u32, _number: u32, _bytes: u32) {}
}

#[derive(Debug, Default)]
struct Out {
    written: Vec<Rc<Line>>,
    answered: u64,
}

impl Outlet<Rc<Line>> for Out {
    fn deliver(&mut self, _to: ReplyTo, delivery: Delivery) {
        assert!(matches!(delivery, Delivery::Answer(_)), "{delivery:?}");
        self.answered += 1;
    }
    fn written(&mut self, line: &Rc<Line>) {
        self.written.push(line.clone());
    }
    fn wake_supervisor(&mut self) {}
}

/// A job that a front end has sent: its slot and number.
type Sent = (u32, u32);

/// An event of the simulation. Events of the same time are handled in the order of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive {
        front: usize,
    },
    AtHost {
        front: usize,
        host: usize,
        sent: Sent,
    },
    Done {
        front: usize,
        host: usize,
        sent: Sent,
    },
    AtFront {
        front: usize,
        host: usize,
        sent: Sent,
        is_refused: bool,
    },
    Announce {
        host: usize,
    },
    Heard {
        front: usize,
        host: usize,
        room: usize,
    },
}

#[derive(Debug, Default)]
struct Host {
    busy: usize,
    announced: usize,
    announced_ns: u64,
    has_news: bool,
    /// Jobs that it has run since the world was warm.
    ran: u64,
}

struct World {
    size: Size,
    start: Instant,
    now_ns: u64,
    dice: Dice,
    fronts: Vec<(State<Rc<Line>>, Out)>,
    hosts: Vec<Host>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Of the second half.
    figures: Figures,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    arrived: u64,
    refused: u64,
    waited: u64,
    locked: Duration,
    ran_mean: f64,
    ran_max: u64,
}

impl World {
    fn new(size: Size) -> Self {
        let nature = Environment {
            claims: false,
            chaos: false,
            misbehaving: 0,
            of_clients: 0,
            gaps_us: super::QUIET,
        };
        let start = Instant::now();
        let mut world = Self {
            size,
            start,
            now_ns: 0,
            dice: Dice::new(1),
            fronts: Vec::new(),
            hosts: (0..size.hosts).map(|_| Host::default()).collect(),
            events: BinaryHeap::new(),
            figures: Figures::default(),
        };
        for front in 0..size.fronts {
            let options = Options {
                remote: true,
                workers_min: 0,
                workers_max: size.hosts,
                idle_retire: Duration::MAX,
                queue_max: 100_000,
                queue_bytes_max: 100_000_000,
                ..options(&mut world.dice, nature)
            };
            let (mut state, mut out) = (State::new(options, 2), Out::default());
            for host in 0..size.hosts {
                let line = Rc::new(Line {
                    host,
                    ..Line::default()
                });
                let id = state.next_worker_id();
                assert_eq!(state.add_host(id, "host", line, start), host);
                state.host_announced(host, SLOTS, false, start, &mut out);
                state.worker_ready(host, false, start, &mut out);
            }
            world.fronts.push((state, out));
            world.at(0, Event::Arrive { front });
        }
        for host in 0..size.hosts {
            let first = world.dice.between(0, ANNOUNCE_NS);
            world.at(first, Event::Announce { host });
        }
        world
    }

    fn at(&mut self, later_ns: u64, event: Event) {
        self.events.push(Reverse((self.now_ns + later_ns, event)));
    }

    fn is_warm(&self) -> bool {
        self.now_ns >= LIFE_NS / 2
    }

    /// Has a front end's state do something, under its lock, and sends what comes out.
    fn locked(&mut self, front: usize, act: impl FnOnce(&mut State<Rc<Line>>, Instant, &mut Out)) {
        let now = self.start + Duration::from_nanos(self.now_ns);
        let is_warm = self.is_warm();
        let (state, out) = &mut self.fronts[front];
        let began = Instant::now();
        act(state, now, out);
        if is_warm {
            self.figures.locked += began.elapsed();
        }
        for line in std::mem::take(&mut out.written) {
            for sent in line.sent.take() {
                let host = line.host;
                self.at(NETWORK_NS, Event::AtHost { front, host, sent });
            }
        }
    }

    fn arrive(&mut self, front: usize) {
        let queued = self.fronts[front].0.queued().0;
        self.locked(front, |state, now, out| {
            let job = NewJob {
                payload: vec![0; 12],
                end: true,
                limits: Limits {
                    queue_timeout: Duration::from_secs(10),
                    run_timeout: Duration::from_secs(10),
                    retry: Retry::Never,
                },
                deadline: now + Duration::from_secs(20),
                may_upgrade: false,
                trace: None,
                client: None,
                reply_to: ReplyTo {
                    mailbox: 0,
                    waiter: 0,
                    nonce: 0,
                },
            };
            state.submit(job, now, out).expect("there is room to wait");
        });
        if self.is_warm() {
            self.figures.arrived += 1;
            self.figures.waited += u64::from(self.fronts[front].0.queued().0 > queued);
        }
        let Size { fronts, hosts, load } = self.size;
        let per_s = (hosts * SLOTS) as u64 * 1_000_000_000 / SERVICE_NS * load / 1_000;
        let pause_ns = self.pause(1_000_000_000 * fronts as u64 / per_s);
        self.at(pause_ns, Event::Arrive { front });
    }

    /// A random pause with this mean, in nanoseconds.
    fn pause(&mut self, mean_ns: u64) -> u64 {
        // The unit is that of the mean.
        self.dice.pause(mean_ns).as_micros() as u64
    }

    fn announce(&mut self, host: usize) {
        let host_now = &mut self.hosts[host];
        let room = SLOTS - host_now.busy;
        (host_now.announced, host_now.announced_ns, host_now.has_news) = (room, self.now_ns, false);
        for front in 0..self.size.fronts {
            self.at(NETWORK_NS, Event::Heard { front, host, room });
        }
    }

    /// As in `crates/cluster`: room that has come or gone, or has doubled, is announced at once, but not too often.
    fn note_news(&mut self, host: usize) {
        let (room, before) = (SLOTS - self.hosts[host].busy, self.hosts[host].announced);
        let is_news = (room == 0) != (before == 0) || room > 2 * before;
        if is_news && !self.hosts[host].has_news {
            self.hosts[host].has_news = true;
            let due = self.hosts[host].announced_ns + NEWS_NS;
            self.at(due.saturating_sub(self.now_ns), Event::Announce { host });
        }
    }

    /// A host's frame about a job reaches the front end.
    fn reply(&mut self, front: usize, host: usize, sent: Sent, is_refused: bool) {
        let event = Event::AtFront {
            front,
            host,
            sent,
            is_refused,
        };
        self.at(NETWORK_NS, event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { front } => self.arrive(front),
            Event::AtHost { front, host, sent } => {
                let is_refused = self.hosts[host].busy == SLOTS;
                if is_refused {
                    self.figures.refused += u64::from(self.is_warm());
                    self.reply(front, host, sent, is_refused);
                } else {
                    self.hosts[host].busy += 1;
                    self.hosts[host].ran += u64::from(self.is_warm());
                    let service = self.pause(SERVICE_NS);
                    self.at(service, Event::Done { front, host, sent });
                    self.note_news(host);
                }
            }
            Event::Done { front, host, sent } => {
                self.hosts[host].busy -= 1;
                self.reply(front, host, sent, false);
                self.note_news(host);
            }
            Event::AtFront {
                front,
                host,
                sent,
                is_refused: true,
            } => self.locked(front, |state, now, out| {
                state.host_failed(host, sent, FailureReason::NotBegun, "", now, out);
            }),
            Event::AtFront {
                front, host, sent, ..
            } => {
                let (header, body) = (header(sent, forebay_wire::flag::END), response(0, 1));
                self.locked(front, |state, now, out| {
                    let answered = state.answer(host, &header, body, None, now, out);
                    answered.expect("it is a valid answer");
                });
            }
            Event::Announce { host } => {
                let is_regular = self.now_ns >= self.hosts[host].announced_ns + ANNOUNCE_NS;
                if is_regular || self.hosts[host].has_news {
                    self.announce(host);
                    self.at(ANNOUNCE_NS, Event::Announce { host });
                }
            }
            Event::Heard { front, host, room } => self.locked(front, |state, now, out| {
                state.host_announced(host, room, false, now, out);
            }),
        }
    }

    fn run(mut self) -> Figures {
        while let Some(Reverse((at_ns, event))) = self.events.pop() {
            if at_ns > LIFE_NS {
                break;
            }
            self.now_ns = at_ns;
            self.handle(event);
        }
        let ran: Vec<u64> = self.hosts.iter().map(|host| host.ran).collect();
        self.figures.ran_mean = ran.iter().sum::<u64>() as f64 / ran.len() as f64;
        self.figures.ran_max = ran.into_iter().max().expect("there are hosts");
        self.figures
    }
}

#[test]
fn a_thousand_hosts_share_the_load_evenly_and_refuse_little() {
    println!("fronts  hosts  load   jobs/s  refused  waited  busiest host : mean  lock held for a job");
    let size = |fronts, hosts, load| Size { fronts, hosts, load };
    let mut sizes = vec![size(10, 10, 700), size(10, 100, 700), size(10, 1_000, 700)];
    sizes.extend([size(1, 1_000, 700), size(10, 1_000, 500), size(10, 1_000, 900)]);
    for size in sizes {
        let figures = World::new(size).run();
        let of_jobs = |count: u64| 100.0 * count as f64 / figures.arrived as f64;
        println!(
            "{:6} {:6} {:4} % {:8} {:6.1} % {:5.1} % {:20.2} {:17.2} us",
            size.fronts,
            size.hosts,
            size.load / 10,
            figures.arrived * 2_000_000_000 / LIFE_NS,
            of_jobs(figures.refused),
            of_jobs(figures.waited),
            figures.ran_max as f64 / figures.ran_mean,
            figures.locked.as_secs_f64() * 1e6 / figures.arrived as f64,
        );
        if size.hosts == 1_000 {
            assert!(of_jobs(figures.refused) < 8.0, "{figures:?}");
            assert!(of_jobs(figures.waited) < 0.1, "{figures:?}");
            assert!(figures.ran_max as f64 / figures.ran_mean < 3.0, "{figures:?}");
        }
    }
}
