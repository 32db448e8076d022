//! Where the threads of this process spend their CPU time: looked at many times a second, on request, for a bounded time.
//!
//! The system sends a signal whenever the process has used so much CPU time, to a thread that is using it. The handler of that signal only copies: registers, and the
//! top of the stack (`sys.rs`). Everything else, following stacks (`unwind.rs`) and finding names (`modules.rs`), is done by the thread that has asked, from the copies. So no
//! lock, no allocation and no code of anybody else's runs inside a signal handler, and nothing there can wait.
//!
//! What it cannot see: time during which a thread waits, what the kernel does on behalf of a thread (it is charged to the function that has called it), functions that were made part
//! of others by the compiler, and code that no file on the disk has.

#![deny(unsafe_code)]

mod modules;
mod sys;
mod unwind;

use std::{
    collections::HashMap,
    fs, io, thread,
    time::{Duration, Instant},
};

use self::{
    modules::Modules,
    sys::{Sample, Sampler},
    unwind::Unwind,
};

/// Looks for each second of CPU time. No divisor of what programs do at regular intervals.
pub const PER_SECOND: u32 = 99;
/// Different stacks that are kept; what comes beyond is counted as lost.
const STACKS_MAX: usize = 20_000;
/// How often copies are taken to be followed; there is room for many more.
const EVERY: Duration = Duration::from_millis(10);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The most frequent first.
    pub stacks: Vec<Stack>,
    /// Looks that are in no stack because there was no room for them.
    pub lost: u64,
    /// How long it took.
    pub took: Duration,
}

/// A stack, and how often it was seen.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The name of the thread, then functions from the outermost to the one that was running.
    pub frames: Vec<String>,
    /// How often.
    pub count: u64,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is one at a time.
    #[error("the process is being profiled already")]
    Running,
    /// The system refuses.
    #[error("cannot {what}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Looks at this process for so long, or until `is_over` says so. It blocks its thread, which is left out of what is seen.
pub fn record(time: Duration, is_over: impl Fn() -> bool) -> Result<Profile, ProfileError> {
    let modules = Modules::of_this_process().map_err(|source| ProfileError::System {
        what: "read which files the process has loaded",
        source,
    })?;
    let mut seen = Seen {
        unwind: Unwind::new(&modules),
        stacks: HashMap::new(),
        threads: HashMap::new(),
        lost: 0,
    };
    let sampler = Sampler::start(PER_SECOND)?;
    let begun = Instant::now();
    while begun.elapsed() < time && !is_over() {
        thread::sleep(EVERY.min(time.saturating_sub(begun.elapsed())));
        sampler.take(|sample| seen.add(sample));
    }
    let took = begun.elapsed();
    seen.lost += sampler.lost();
    drop(sampler);
    Ok(seen.named(&modules, took))
}

/// Stacks as they are met.
struct Seen {
    unwind: Unwind,
    /// How often, by thread and addresses, the innermost first.
    stacks: HashMap<(u32, Vec<u64>), u64>,
    /// The names of threads, read while they live.
    threads: HashMap<u32, String>,
    lost: u64,
}

impl Seen {
    fn add(&mut self, sample: &Sample) {
        let key = (sample.thread, self.unwind.addresses(sample));
        self.threads
            .entry(sample.thread)
            .or_insert_with(|| thread_name(sample.thread));
        if self.stacks.len() < STACKS_MAX || self.stacks.contains_key(&key) {
            *self.stacks.entry(key).or_default() += 1;
        } else {
            self.lost += 1;
        }
    }

    /// Threads of one name are one, and so are addresses within one function.
    fn named(self, modules: &Modules, took: Duration) -> Profile {
        let mut names: HashMap<u64, String> = HashMap::new();
        let mut named: HashMap<Vec<String>, u64> = HashMap::new();
        for ((thread, addresses), count) in self.stacks {
            let mut frames = vec![self.threads[&thread].clone()];
            for address in addresses.into_iter().rev() {
                let name = names.entry(address).or_insert_with(|| modules.name(address));
                frames.push(name.clone());
            }
            *named.entry(frames).or_default() += count;
        }
        let mut stacks: Vec<Stack> = named
            .into_iter()
            .map(|(frames, count)| Stack { frames, count })
            .collect();
        stacks.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.frames.cmp(&b.frames)));
        Profile {
            stacks,
            lost: self.lost,
            took,
        }
    }
}

fn thread_name(number: u32) -> String {
    let name = fs::read_to_string(format!("/proc/self/task/{number}/comm"));
    name.map_or_else(|_| "[ended]".to_owned(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    /// Keeps a thread busy.
    #[inline(never)]
    fn turns_in_circles(until: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !until.load(Ordering::Relaxed) {
            for number in 0..1000 {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
        sum
    }

    #[inline(never)]
    fn calls_it(until: &AtomicBool) -> u64 {
        black_box(turns_in_circles(until)) + 1
    }

    // One test: there is one timer in a process.
    #[test]
    fn a_busy_function_is_seen_below_its_callers_on_its_thread() {
        let (until, looked) = (AtomicBool::new(false), AtomicBool::new(false));
        let profile = thread::scope(|scope| {
            let busy = thread::Builder::new().name("busy-thread".to_owned());
            let busy = busy.spawn_scoped(scope, || calls_it(&until)).unwrap();
            let looks = scope.spawn(|| {
                // As many looks as it takes to be sure.
                record(Duration::from_mins(1), || {
                    looked.store(true, Ordering::Relaxed);
                    until.load(Ordering::Relaxed)
                })
            });
            while !looked.load(Ordering::Relaxed) && !looks.is_finished() {
                thread::yield_now();
            }
            let refused = record(Duration::from_millis(1), || false);
            let cpu_ms = || {
                let stat = fs::read_to_string("/proc/self/stat").unwrap();
                let ticks = stat.rsplit(") ").next().unwrap().split(' ').nth(11).unwrap();
                ticks.parse::<u64>().unwrap() * 10
            };
            let before = cpu_ms();
            while cpu_ms() < before + 500 {
                thread::yield_now();
            }
            until.store(true, Ordering::Relaxed);
            black_box(busy.join().unwrap());
            assert!(matches!(refused, Err(ProfileError::Running)), "{refused:?}");
            looks.join().unwrap().unwrap()
        });
        let busy: Vec<&Stack> = profile
            .stacks
            .iter()
            .filter(|stack| stack.frames[0] == "busy-thread")
            .collect();
        let at = |stack: &Stack, name: &str| stack.frames.iter().position(|frame| frame.ends_with(name));
        let whole = busy.iter().find(|stack| {
            at(stack, "calls_it").is_some() && at(stack, "calls_it") < at(stack, "turns_in_circles")
        });
        assert!(whole.is_some_and(|stack| stack.count > 1), "{profile:?}");
        let again = record(Duration::from_millis(1), || false);
        assert!(again.is_ok(), "{again:?}");
    }
}
