//! Generates load: a [`Session`] keeps threads and their connections over several measurements, each under a load of its own.

mod budget;
mod connection;
mod outbox;
mod pacing;
pub(crate) mod ring;
mod thread;
mod timeline;
mod transport;
mod window;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

#[cfg(test)]
pub(crate) use self::window::slice_latencies;
use self::{budget::Budget, thread::Thread};
pub use self::{
    timeline::{Slice, Timeline},
    window::{LATENCY_MAX_NS, Window, latencies},
};
use crate::{
    failure::Class,
    plan::{Load, Plan},
};

/// How long a thread may take to acknowledge a command.
const HEARING: Duration = Duration::from_secs(10);
/// Interval at which a session that measures calls its watcher.
const TICK: Duration = Duration::from_millis(50);
/// How long the threads have to begin a pause, which lasts beyond it.
const PAUSING: Duration = Duration::from_millis(1);

/// Time as nanoseconds since the session began.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// A command from a session to one of its threads.
#[derive(Clone, Debug)]
enum Command {
    /// A new stretch of the run begins, with so many requests to send under such a load.
    Epoch {
        number: u64,
        requests: Budget,
        load: Load,
    },
    /// The load changes within a stretch.
    Load(Load),
    End,
}

/// Commands for one thread, and the event descriptor that wakes it.
#[derive(Debug)]
struct Inbox {
    commands: Mutex<Vec<Command>>,
    bell: OwnedFd,
}

impl Inbox {
    fn new() -> std::io::Result<Arc<Self>> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Arc::new(Self {
            commands: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        }))
    }

    fn put(&self, command: Command) {
        self.commands
            .lock()
            .expect("no thread panics with its commands locked")
            .push(command);
        // The write fails only when the counter is full, and then the thread has been woken already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<Command> {
        std::mem::take(
            &mut *self
                .commands
                .lock()
                .expect("no thread panics with its commands locked"),
        )
    }
}

/// A notice from a thread to its session.
#[derive(Debug)]
enum Notice {
    /// A window of measurements, and its slot among those that wait.
    Window {
        window: Box<Window>,
        _place: Arc<outbox::Place>,
    },
    /// The first failure of a class in the stretch with this number.
    Example { epoch: u64, class: Class, text: String },
    /// The thread has begun the stretch with this number.
    Began(u64),
    /// Nothing is in flight any more, and nothing more will be sent in the stretch with this number.
    Idle(u64),
}

/// The decision of a measurement's watcher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// The measurement goes on.
    Continue,
    /// The measurement goes on under another load.
    SetLoad(Load),
    /// The measurement ends now.
    Stop,
}

/// When a measurement ends: at the first of these limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// Longest duration.
    pub duration: Option<Duration>,
    /// Number of requests, all of them answered or failed.
    pub requests: Option<u64>,
    /// Whether the load continues afterwards; otherwise it pauses.
    pub keep_going: bool,
}

impl Until {
    /// Ends after `duration`; then the load pauses.
    pub const fn passed(duration: Duration) -> Self {
        Self {
            duration: Some(duration),
            requests: None,
            keep_going: false,
        }
    }

    /// Keeps the load running after the measurement.
    #[must_use]
    pub const fn and_on(self) -> Self {
        Self {
            keep_going: true,
            ..self
        }
    }
}

/// The measurements of one stretch of a run.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The load it was measured under.
    pub load: Load,
    /// Everything together.
    pub total: Window,
    /// Rates and latencies over time.
    pub timeline: Timeline,
    /// The first failure of each class.
    pub examples: Vec<(Class, String)>,
    /// CPU time of this process, in nanoseconds.
    pub cpu_ns: u64,
    /// Whether it was ended by [`Session::stopper`].
    pub interrupted: bool,
}

impl Stretch {
    /// An empty stretch, to add others to.
    pub fn nothing(load: Load) -> Self {
        let mut total = Window::new(0, u64::MAX, false);
        total.end_ns = 0;
        Self {
            load,
            total,
            timeline: Timeline::default(),
            examples: Vec::new(),
            cpu_ns: 0,
            interrupted: false,
        }
    }

    /// Seconds from the first thread's start to the last one's end.
    pub fn seconds(&self) -> f64 {
        self.total.end_ns.saturating_sub(self.total.start_ns) as f64 / 1e9
    }

    /// Whole answers a second.
    pub fn per_second(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 {
            self.total.answers as f64 / seconds
        } else {
            0.0
        }
    }

    /// Adds responses that arrived after its end to requests that were in flight at its end. Its time stays as it is.
    pub fn absorb(&mut self, rest: &Self) {
        let Window {
            start_ns,
            end_ns,
            held,
            under_way,
            ..
        } = self.total;
        self.total.merge(&rest.total);
        (self.total.start_ns, self.total.end_ns) = (start_ns, end_ns);
        (self.total.held, self.total.under_way) = (held, under_way);
        for (class, text) in &rest.examples {
            self.note_example(*class, text);
        }
    }

    /// Adds the total of another stretch as if it had followed without a pause.
    pub fn extend(&mut self, next: &Self) {
        let length_ns = |stretch: &Self| stretch.total.end_ns.saturating_sub(stretch.total.start_ns);
        let both_ns = length_ns(self) + length_ns(next);
        // Connections and requests carried over from the first stretch are counted once, as the first stretch has them.
        let first = if self.total.end_ns == 0 { next } else { &*self };
        let (held, under_way) = (first.total.held, first.total.under_way);
        self.total.merge(&next.total);
        self.total.end_ns = self.total.start_ns + both_ns;
        (self.total.held, self.total.under_way) = (held, under_way);
    }

    fn note_example(&mut self, class: Class, text: &str) {
        if !self.examples.iter().any(|(known, _)| *known == class) {
            self.examples.push((class, text.to_owned()));
        }
    }

    fn take(&mut self, window: &Window) {
        self.total.merge(window);
        self.timeline.add(window);
    }
}

/// Threads and connections that can be put under one load after another.
#[derive(Debug)]
pub struct Session {
    plan: Arc<Plan>,
    inboxes: Vec<Arc<Inbox>>,
    notices: Receiver<Notice>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    load: Load,
    epoch: u64,
    /// Requests and responses before and between measurements.
    between: Stretch,
    /// Threads with nothing to do in this stretch.
    idle: usize,
    /// Windows of this stretch that came before all threads had begun it.
    early: Vec<Window>,
    /// Failures of this stretch that were reported before all threads had begun it.
    early_examples: Vec<(Class, String)>,
}

impl Session {
    /// Starts the threads. Nothing is connected yet.
    pub fn start(plan: Plan) -> std::io::Result<Self> {
        let plan = Arc::new(plan);
        let clock = Clock::start();
        let (sender, notices) = channel();
        let mut inboxes = Vec::new();
        let mut threads = Vec::new();
        for index in 0..plan.threads {
            let inbox = Inbox::new()?;
            let thread = Thread::new(plan.clone(), index, clock, inbox.clone(), sender.clone())?;
            inboxes.push(inbox);
            threads.push(
                std::thread::Builder::new()
                    .name(format!("load-{index}"))
                    .spawn(|| thread.run())?,
            );
        }
        Ok(Self {
            plan,
            inboxes,
            notices,
            threads,
            stop: Arc::default(),
            load: Load::PAUSED,
            epoch: 0,
            between: Stretch::nothing(Load::PAUSED),
            idle: 0,
            early: Vec::new(),
            early_examples: Vec::new(),
        })
    }

    /// The plan that this session runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Setting it ends the measurement under way, and every further one at once.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    fn tell(&self, command: &Command) {
        self.inboxes.iter().for_each(|inbox| inbox.put(command.clone()));
    }

    /// Adds the measurements of this stretch that arrived before all threads had begun it.
    fn hand_early(&mut self, stretch: &mut Stretch) {
        self.early.drain(..).for_each(|window| stretch.take(&window));
        for (class, text) in self.early_examples.drain(..) {
            stretch.note_example(class, &text);
        }
    }

    /// Starts a stretch on all threads, and adds to `before` what still belongs to the previous one.
    fn begin(&mut self, requests: Option<u64>, load: Load, before: &mut Stretch) {
        self.epoch += 1;
        self.load = load;
        self.idle = 0;
        self.hand_early(before);
        let threads = self.plan.threads;
        let shared = Budget::new(requests, threads);
        for inbox in &self.inboxes {
            inbox.put(Command::Epoch {
                number: self.epoch,
                requests: shared.clone(),
                load,
            });
        }
        let mut hearing = self.plan.threads;
        let until = Instant::now() + HEARING;
        while hearing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match self.notices.recv_timeout(left) {
                Ok(Notice::Began(number)) => hearing -= usize::from(number == self.epoch),
                Ok(Notice::Window { window, .. }) if window.epoch == self.epoch => self.early.push(*window),
                Ok(Notice::Example { epoch, class, text }) if epoch == self.epoch => {
                    self.early_examples.push((class, text));
                }
                Ok(notice) => self.take(notice, before),
                Err(error) => panic!("a thread of the load generator does not answer: {error}"),
            }
        }
    }

    /// Adds what a thread tells to a stretch.
    fn take(&mut self, notice: Notice, stretch: &mut Stretch) {
        match notice {
            Notice::Window { window, .. } => stretch.take(&window),
            Notice::Example { class, text, .. } => stretch.note_example(class, &text),
            Notice::Idle(number) => self.idle += usize::from(number == self.epoch),
            Notice::Began(_) => {}
        }
    }

    /// Puts the connections under a load and measures; `watch` is called while it lasts.
    pub fn measure(&mut self, load: Load, until: Until, watch: &mut dyn FnMut(&Stretch)) -> Stretch {
        self.steer(load, until, &mut |stretch| {
            watch(stretch);
            Control::Continue
        })
    }

    /// Measures as [`Session::measure`] does; what `watch` returns, some twenty times a second, changes the load or ends it.
    pub fn steer(&mut self, load: Load, until: Until, watch: &mut dyn FnMut(&Stretch) -> Control) -> Stretch {
        let mut between = std::mem::replace(&mut self.between, Stretch::nothing(self.load));
        let cpu_before = cpu_ns();
        self.begin(until.requests, load, &mut between);
        self.between = between;
        let mut stretch = Stretch::nothing(load);
        self.hand_early(&mut stretch);
        let begun = Instant::now();
        let end = until.duration.map(|duration| begun + duration);
        let mut look = begun + TICK;
        // Without a number of requests, a thread is idle only because it has no connections.
        while until.requests.is_none() || self.idle < self.plan.threads {
            let now = Instant::now();
            if self.stop.load(Ordering::Relaxed) {
                stretch.interrupted = true;
                break;
            }
            if end.is_some_and(|end| end <= now) {
                break;
            }
            if look <= now {
                look = now + TICK;
                match watch(&stretch) {
                    Control::Continue => {}
                    Control::SetLoad(load) => {
                        self.load = load;
                        self.tell(&Command::Load(load));
                    }
                    Control::Stop => break,
                }
            }
            let wake = end.map_or(look, |end| end.min(look));
            match self.notices.recv_timeout(wake.saturating_duration_since(now)) {
                Ok(notice) => self.take(notice, &mut stretch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the threads of the load generator have ended"),
            }
        }
        let after = if until.keep_going { self.load } else { Load::PAUSED };
        self.begin(None, after, &mut stretch);
        stretch.cpu_ns = cpu_ns() - cpu_before;
        stretch
    }

    /// Lets the load pause; connections stay open.
    pub fn pause(&mut self) {
        self.measure(Load::PAUSED, Until::passed(PAUSING), &mut |_| {});
    }

    /// Requests and responses between measurements, while the load continued.
    pub fn between(&self) -> &Stretch {
        &self.between
    }

    /// Stops sending and waits for outstanding responses, at most for the request timeout. Returns what was measured after the end of the
    /// last measurement.
    pub fn finish(mut self) -> Stretch {
        let mut after = Stretch::nothing(Load::PAUSED);
        self.begin(None, Load::PAUSED, &mut after);
        self.hand_early(&mut after);
        let until = Instant::now() + self.plan.timeout;
        while self.idle < self.plan.threads {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(notice) = self.notices.recv_timeout(left) else {
                break;
            };
            self.take(notice, &mut after);
        }
        self.tell(&Command::End);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        while let Ok(notice) = self.notices.try_recv() {
            self.take(notice, &mut after);
        }
        after
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tell(&Command::End);
        for thread in self.threads.drain(..) {
            // Its panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// CPU time of this process so far.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pace;

    #[test]
    fn stretches_that_follow_each_other_are_one() {
        let load = Load {
            connections: 2,
            pace: Pace::Closed,
        };
        let stretch = |start_ns: u64, seconds: u64, answers: u64| {
            let mut stretch = Stretch::nothing(load);
            stretch.total = Window::new(0, start_ns, false);
            stretch.total.end_ns = start_ns + seconds * 1_000_000_000;
            (stretch.total.sent, stretch.total.answers) = (answers, answers);
            stretch.total.failures.add(Class::Timeout, 1);
            stretch.total.held = start_ns;
            stretch
        };
        let mut all = Stretch::nothing(load);
        all.extend(&stretch(5, 1, 10));
        all.extend(&stretch(9_000_000_000, 2, 20));
        assert!((all.seconds() - 3.0).abs() < 1e-9, "{}", all.seconds());
        assert!((all.per_second() - 10.0).abs() < 1e-9);
        assert_eq!((all.total.sent, all.total.held), (30, 5));
        assert_eq!(all.total.failures.total(), 2);
    }
}
