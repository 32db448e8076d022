//! Runs a script on an I/O thread, for which other requests wait.
//!
//! A single operation of the engine that takes long cannot be stopped. A request therefore runs here only if executors have answered others
//! of its shape almost instantly. If one takes too long, or needs something that only an executor does, an executor runs it again from the
//! start. That is safe because a script can only read here. Its shape then stays with executors; for a minute, if it took too long.
//! Requests that wait for statements that change nothing are answered here too, in a separate engine: it has several open calls at a time,
//! which costs the engine more work for each.
//!
//! Clients choose the paths of requests and can create any number of shapes. The time that calls take beyond their limit here is therefore
//! also summed for the whole script: a script that has blocked the thread for [`OVERRUN_MAX`] in total is left to executors, each time for
//! longer.

mod call_inbox;
mod engine_slot;

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

pub use call_inbox::{Finished, Waiting};
use engine_slot::{Engine, EngineSlot};

use crate::{
    Answer, ReadRecord, Weight,
    in_flight::{InFlight, Load},
    instance::Place,
    modules::Modules,
    options::Options,
};

/// Number of light answers by executors after which requests of a shape are answered here.
const PROBATION: u8 = 4;
/// Time for which a shape stays with executors after one of its requests took too long.
const REST: Duration = Duration::from_mins(1);
/// Total time that calls of a script may take here beyond `io_cpu_max` each, before the script rests.
const OVERRUN_MAX: Duration = Duration::from_millis(50);
/// Longest rest of a script.
const REST_MAX: Duration = Duration::from_hours(1);
/// Maximum number of remembered shapes; beyond that, all start anew.
const SHAPES_MAX: usize = 4096;

/// The status of a request shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// So many light answers by executors.
    Light(u8),
    /// The same, but some have waited for statements.
    Waits(u8),
    /// It stays with executors.
    Heavy,
    /// It stays with executors until then. It took too long, perhaps because of other load on the machine: wall time is charged here.
    Rests(Instant),
}

impl Placement {
    /// That of a shape of which an executor has answered one more.
    fn after(self, weight: Weight, now: Instant) -> Self {
        let more = |count: u8| (count + 1).min(PROBATION);
        match (self, weight) {
            (Self::Heavy, _) => Self::Heavy,
            (Self::Rests(until), _) if now < until => self,
            (_, Weight::Heavy) | (Self::Rests(_), _) => Self::Light(0),
            (Self::Light(count), Weight::Light) => Self::Light(more(count)),
            (Self::Light(count) | Self::Waits(count), _) => Self::Waits(more(count)),
        }
    }
}

/// A hash of the features that requests to the same handler share, as far as visible from outside: the method, and the path without
/// segments that contain digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape(u64);

impl Shape {
    /// The shape of a request.
    pub fn of(method: &[u8], path: &[u8]) -> Self {
        // The seed is random, so clients cannot construct collisions.
        static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let mut hasher = STATE.build_hasher();
        hasher.write(method);
        for segment in path.split(|&byte| byte == b'/') {
            hasher.write_u8(b'/');
            if segment.iter().any(u8::is_ascii_digit) {
                hasher.write_u8(b'#');
            } else {
                hasher.write(segment);
            }
        }
        Self(hasher.finish())
    }
}

/// Uses a number that is already a hash.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a shape is one number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The result of trying a call on this thread.
#[derive(Debug)]
pub enum Tried {
    /// The call is answered.
    Answered(Answer),
    /// The call waits for statements. Pass its result to [`IoScript::finished`].
    Waits(Waiting),
    /// An executor must run the call from the start; this is its request.
    Elsewhere(Vec<u8>),
}

/// A script on one I/O thread.
#[derive(Debug)]
pub struct IoScript {
    options: Arc<Options>,
    load: Arc<Load>,
    /// Of calls that are over in one step.
    light: EngineSlot,
    /// Of those that wait.
    waiting: EngineSlot,
    standings: HashMap<Shape, Placement, BuildHasherDefault<AsItIs>>,
    overruns: Overruns,
}

/// Time for which the calls of a script have blocked the thread.
#[derive(Debug)]
struct Overruns {
    /// Total since the last rest.
    taken: Duration,
    /// Duration of the next rest.
    next_rest: Duration,
    until: Option<Instant>,
}

impl Overruns {
    fn new() -> Self {
        Self {
            taken: Duration::ZERO,
            next_rest: REST,
            until: None,
        }
    }

    fn add(&mut self, overrun: Duration, now: Instant) {
        self.taken += overrun;
        if self.taken > OVERRUN_MAX {
            self.taken = Duration::ZERO;
            self.until = Some(now + self.next_rest);
            self.next_rest = (self.next_rest * 2).min(REST_MAX);
        }
    }

    fn is_resting(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl IoScript {
    pub(crate) fn new(options: Arc<Options>, modules: &Arc<Modules>, load: Arc<Load>) -> Self {
        Self {
            light: EngineSlot::new(&options, modules, Place::Io),
            waiting: EngineSlot::new(&options, modules, Place::IoWaiting),
            options,
            load,
            standings: HashMap::default(),
            overruns: Overruns::new(),
        }
    }

    /// Whether a request of this shape may be tried here.
    pub fn is_fit(&self, shape: Shape) -> bool {
        if self.overruns.until.is_some() && self.overruns.is_resting(Instant::now()) {
            return false;
        }
        match self.standings.get(&shape) {
            Some(Placement::Light(PROBATION)) => self.light.may_be_used(),
            Some(Placement::Waits(PROBATION)) => self.waiting.may_be_used(),
            _ => false,
        }
    }

    /// Lets requests of this shape be tried here from the first one on.
    pub fn trust(&mut self, shape: Shape) {
        self.note(shape, |standing| match standing {
            Placement::Light(_) => Placement::Light(PROBATION),
            Placement::Waits(_) => Placement::Waits(PROBATION),
            Placement::Heavy | Placement::Rests(_) => standing,
        });
    }

    /// Records how an executor has answered a request.
    pub fn learn(&mut self, shape: Shape, weight: Weight) {
        self.note(shape, |standing| standing.after(weight, Instant::now()));
    }

    fn note(&mut self, shape: Shape, change: impl FnOnce(Placement) -> Placement) {
        if self.standings.len() >= SHAPES_MAX && !self.standings.contains_key(&shape) {
            self.standings.clear();
        }
        let standing = self.standings.entry(shape).or_insert(Placement::Light(0));
        *standing = change(*standing);
    }

    /// The record that a GET request without conditions asks for, if the script has declared to answer this path like the SDK's `rest()`:
    /// the answer is the script's, although it is not called.
    pub fn read_declared(&self, path: &[u8]) -> Option<ReadRecord> {
        let read = self.light.there()?.instance.read_declared(path)?;
        self.options.counts.declared_read();
        Some(read)
    }

    /// Answers a request, given as the payload of a REQUEST frame, if that is possible at once or after some statements.
    pub fn call(&mut self, shape: Shape, payload: Vec<u8>, deadline: Option<Instant>) -> Tried {
        match self.standings.get(&shape) {
            Some(Placement::Waits(_)) => self.call_waiting(shape, payload, deadline),
            _ => self.call_light(shape, payload, deadline),
        }
    }

    fn call_light(&mut self, shape: Shape, payload: Vec<u8>, deadline: Option<Instant>) -> Tried {
        let Some(engine) = self.light.engine() else {
            return Tried::Elsewhere(payload);
        };
        let engine = &engine.instance;
        let id = engine.open(payload, deadline);
        let io_cpu_max = self.options.limits.io_cpu_max;
        let step = engine.run(id, io_cpu_max);
        if let Some(overrun) = step.took.checked_sub(io_cpu_max) {
            self.overruns.add(overrun, Instant::now());
        }
        let wants_more = engine.take_elsewhere();
        let mut standing = match &step.stopped {
            Some(_) => rests(),
            None => Placement::Heavy,
        };
        let (payload, answer) = match engine.next_over() {
            Some(over) => (over.payload, over.outcome.ok()),
            None => {
                if !wants_more && step.stopped.is_none() && engine.weight(id) == Some(Weight::Waits) {
                    standing = Placement::Waits(0);
                }
                (engine.close(id).unwrap_or_default(), None)
            }
        };
        let is_light = |answer: &Answer| answer.weight == Weight::Light;
        match answer.filter(|answer| is_light(answer) && !wants_more && step.stopped.is_none()) {
            Some(answer) => {
                if step.took > io_cpu_max {
                    // It was in an operation that cannot be stopped; the next one like it must not block the thread.
                    self.standings.insert(shape, rests());
                }
                self.options.counts.answer_on_io(&answer);
                Tried::Answered(answer)
            }
            None => {
                // Its state is unknown, and it may have left something for other calls, such as a promise that is never resolved here.
                self.light.replace();
                self.options.counts.handed_over();
                self.standings.insert(shape, standing);
                Tried::Elsewhere(payload)
            }
        }
    }

    fn call_waiting(&mut self, shape: Shape, payload: Vec<u8>, deadline: Option<Instant>) -> Tried {
        let Some(engine) = self.waiting.engine().filter(|engine| engine.instance.has_room()) else {
            return Tried::Elsewhere(payload);
        };
        // If there is no capacity, the executor reports it.
        let Ok(in_flight) = InFlight::begin(&self.load, payload.len(), &self.options.limits) else {
            return Tried::Elsewhere(payload);
        };
        let mut waiting = Waiting::begin(engine, payload, deadline, in_flight);
        match waiting.take_finished() {
            None => Tried::Waits(waiting),
            Some(finished) => {
                self.finished(shape, &finished);
                match finished {
                    Finished::Answered(answer) => Tried::Answered(answer),
                    Finished::Elsewhere { payload, .. } => Tried::Elsewhere(payload),
                }
            }
        }
    }

    /// Records the result of a call that has waited.
    pub fn finished(&mut self, shape: Shape, finished: &Finished) {
        match finished {
            Finished::Answered(answer) => {
                if answer.weight == Weight::Heavy {
                    self.standings.insert(shape, rests());
                }
                self.options.counts.answer_on_io(answer);
            }
            Finished::Elsewhere { belongs_there, .. } => {
                self.options.counts.handed_over();
                let standing = if *belongs_there { Placement::Heavy } else { rests() };
                self.standings.insert(shape, standing);
            }
        }
    }

    /// Records that a call timed out here.
    pub fn was_late(&mut self, shape: Shape) {
        self.standings.insert(shape, rests());
    }
}

fn rests() -> Placement {
    Placement::Rests(Instant::now() + REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_on_probation_and_comes_back_to_it_after_a_rest() {
        let now = Instant::now();
        let after = |standing: Placement, weights: &[Weight]| {
            let step = |standing: Placement, weight: &Weight| standing.after(*weight, now);
            weights.iter().fold(standing, step)
        };
        let new = Placement::Light(0);
        assert_eq!(after(new, &[Weight::Light; 9]), Placement::Light(PROBATION));
        assert_eq!(
            after(new, &[Weight::Light, Weight::Waits, Weight::Light]),
            Placement::Waits(3)
        );
        assert_eq!(after(new, &[Weight::Light, Weight::Heavy]), new);
        assert_eq!(after(Placement::Heavy, &[Weight::Light; 9]), Placement::Heavy);
        let rests = Placement::Rests(now + REST);
        assert_eq!(after(rests, &[Weight::Light; 9]), rests);
        assert_eq!(after(Placement::Rests(now), &[Weight::Light]), new);
    }

    #[test]
    fn a_script_that_has_held_others_up_rests_longer_each_time() {
        let mut now = Instant::now();
        let mut overruns = Overruns::new();
        overruns.add(OVERRUN_MAX, now);
        assert!(!overruns.is_resting(now));
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            overruns.add(OVERRUN_MAX + Duration::from_millis(1), now);
            assert!(overruns.is_resting(now + Duration::from_secs(minutes * 60 - 1)));
            now += Duration::from_mins(minutes);
            assert!(!overruns.is_resting(now), "{minutes}");
        }
    }

    #[test]
    fn paths_that_differ_in_segments_with_digits_have_one_shape() {
        let shape = |path: &str| Shape::of(b"GET", path.as_bytes());
        assert_eq!(shape("/users/7"), shape("/users/812"));
        assert_eq!(shape("/users/a1/x"), shape("/users/b2/x"));
        assert_ne!(shape("/users/7"), shape("/users/seven"));
        assert_ne!(shape("/users/7"), shape("/people/7"));
        assert_ne!(shape("/a/b"), shape("/ab"));
        assert_ne!(Shape::of(b"GET", b"/a"), Shape::of(b"POST", b"/a"));
    }
}
