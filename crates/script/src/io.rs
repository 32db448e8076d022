//! A script on a thread that others wait for.
//!
//! A step of the engine that takes long by itself cannot be stopped, so a request comes here only when others of its shape have been
//! answered by an executor in next to no time; the first that takes too long, or wants something that only an executor does, is done
//! again by one (nothing has happened yet: here a script can only read), and its shape stays there.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState},
    rc::Rc,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use crate::{
    Answer, ReadRecord,
    instance::{Instance, Place},
    modules::Modules,
    options::Options,
};

/// Light answers of executors after which requests of their shape are answered here.
const PROBATION: u8 = 4;
/// At least so much time lies between the loading of two engines on one thread.
const LOAD_PAUSE: Duration = Duration::from_secs(1);
/// Most shapes that are remembered; beyond, all begin anew.
const SHAPES_MAX: usize = 4096;

/// Where a shape of request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// So many light answers by executors.
    Light(u8),
    /// It stays with executors.
    Heavy,
}

/// What requests have in common that one handler answers, so far as that can be seen from outside: method, and path but for the segments that have
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape(u64);

impl Shape {
    /// The shape of a request.
    pub fn of(method: &[u8], path: &[u8]) -> Self {
        // Nobody outside can find two paths that are taken for one another.
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

/// Takes a number that is a hash already.
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

/// What came of a call on this thread.
#[derive(Debug)]
pub enum Tried {
    /// It is answered.
    Answered(Answer),
    /// An executor has to do it, from the beginning: its request.
    Elsewhere(Vec<u8>),
}

/// A script on one thread that others wait for.
#[derive(Debug)]
pub struct IoScript {
    options: Arc<Options>,
    modules: Arc<Modules>,
    engine: Engine,
    /// When the last engine was made, or tried to be.
    loaded_at: Option<Instant>,
    standings: HashMap<Shape, Standing, BuildHasherDefault<AsItIs>>,
}

#[derive(Debug)]
enum Engine {
    /// Made when it is first needed.
    None,
    Ready(Rc<Instance>),
    /// It cannot be loaded here: executors do all of it.
    Unfit,
}

impl IoScript {
    pub(crate) fn new(options: Arc<Options>, modules: Arc<Modules>) -> Self {
        Self {
            modules,
            engine: if options.limits.isolated {
                Engine::Unfit
            } else {
                Engine::None
            },
            options,
            loaded_at: None,
            standings: HashMap::default(),
        }
    }

    /// Whether a request of this shape may be tried here.
    pub fn is_fit(&self, shape: Shape) -> bool {
        let is_there = match &self.engine {
            Engine::None => self.may_load(),
            Engine::Ready(_) => true,
            Engine::Unfit => false,
        };
        is_there && self.standings.get(&shape) == Some(&Standing::Light(PROBATION))
    }

    /// Has requests of this shape tried here from the first on.
    pub fn trust(&mut self, shape: Shape) {
        self.note(shape, |standing| match standing {
            Standing::Light(_) => Standing::Light(PROBATION),
            Standing::Heavy => Standing::Heavy,
        });
    }

    /// Learns from how an executor has answered a request.
    pub fn learn(&mut self, shape: Shape, is_light: bool) {
        self.note(shape, |standing| match standing {
            Standing::Light(count) if is_light => Standing::Light((count + 1).min(PROBATION)),
            Standing::Light(_) => Standing::Light(0),
            Standing::Heavy => Standing::Heavy,
        });
    }

    fn note(&mut self, shape: Shape, change: impl FnOnce(Standing) -> Standing) {
        if self.standings.len() >= SHAPES_MAX && !self.standings.contains_key(&shape) {
            self.standings.clear();
        }
        let standing = self.standings.entry(shape).or_insert(Standing::Light(0));
        *standing = change(*standing);
    }

    /// The record that a GET request for this path, without conditions, asks for, where the script has declared to answer as the SDK's `rest()`
    /// does: the answer is the script's, although it is not called.
    pub fn read_declared(&self, path: &[u8]) -> Option<ReadRecord> {
        let Engine::Ready(engine) = &self.engine else {
            return None;
        };
        let read = engine.read_declared(path)?;
        self.options.counts.declared_read();
        Some(read)
    }

    /// Answers a request, given as the payload of a REQUEST frame, if that is done at once.
    pub fn call(&mut self, shape: Shape, payload: Vec<u8>, deadline: Option<Instant>) -> Tried {
        let Some(engine) = self.engine() else {
            return Tried::Elsewhere(payload);
        };
        let id = engine.open(payload, deadline);
        let step = engine.run(id, self.options.limits.io_cpu_max);
        let wants_more = engine.take_elsewhere();
        let over = engine.next_over();
        let (payload, answer) = match over {
            Some(over) => (over.payload, over.outcome.ok()),
            None => {
                let is_usable = step.stopped.is_none();
                let payload = if is_usable {
                    engine.abandon(id)
                } else {
                    engine.close(id)
                };
                (payload.unwrap_or_default(), None)
            }
        };
        if step.stopped.is_some() || engine.is_worn() {
            // Nobody knows in the middle of what it was stopped.
            self.engine = Engine::None;
        }
        match answer.filter(|_| !wants_more && step.stopped.is_none()) {
            Some(answer) => {
                if step.took > self.options.limits.io_cpu_max {
                    // It was in a step that cannot be stopped: the next like it must not keep others waiting.
                    self.standings.insert(shape, Standing::Heavy);
                }
                self.options.counts.answer_on_io(&answer);
                Tried::Answered(answer)
            }
            None => {
                self.options.counts.handed_over();
                self.standings.insert(shape, Standing::Heavy);
                Tried::Elsewhere(payload)
            }
        }
    }

    /// To load the script takes others' time: after an engine that did not last there are only executors for a while.
    fn may_load(&self) -> bool {
        !self.modules.is_left_to_executors()
            && self
                .loaded_at
                .is_none_or(|loaded_at| loaded_at.elapsed() >= LOAD_PAUSE)
    }

    fn engine(&mut self) -> Option<Rc<Instance>> {
        if let Engine::None = self.engine
            && self.may_load()
        {
            self.loaded_at = Some(Instant::now());
            let loaded = self.modules.check_io_load().and_then(|()| {
                let loaded = Instance::load(&self.options, &self.modules, &Place::Io);
                loaded.map_err(|failure| failure.to_string())
            });
            self.engine = match loaded {
                Ok(instance) => Engine::Ready(Rc::new(instance)),
                Err(reason) => {
                    if self.modules.leave_to_executors() {
                        tracing::info!(
                            target: "forebay::script",
                            script = self.options.name,
                            "answers on executors only: {reason}"
                        );
                    }
                    Engine::Unfit
                }
            };
        }
        match &self.engine {
            Engine::Ready(instance) => Some(instance.clone()),
            Engine::None | Engine::Unfit => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
