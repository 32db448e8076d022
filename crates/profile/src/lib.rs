//! A sampling CPU profiler for this process, run on request and for a bounded time.
//!
//! The kernel sends a signal each time the process has used a fixed amount of CPU time, to a thread that is using it. The signal handler
//! only copies registers and the top of the stack (`sys.rs`). The thread that asked for the profile does the rest from these copies: it
//! unwinds stacks (`unwind.rs`) and resolves names (`modules.rs`). So the handler takes no lock, allocates nothing, runs no foreign code
//! and cannot block.
//!
//! Not visible to it: time a thread spends waiting, time in the kernel (charged to the function that made the call), inlined functions, and
//! code that is in no file on disk.

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

/// Samples per second of CPU time. Not a divisor of common intervals, so that periodic work is not sampled in step.
pub const PER_SECOND: u32 = 99;
/// Distinct stacks kept; samples of further ones are counted as lost.
const STACKS_MAX: usize = 20_000;
/// How often samples are taken out of the ring. The ring has room for many more than arrive in that time.
const EVERY: Duration = Duration::from_millis(10);

/// The result of a profiling run.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Most frequent first.
    pub stacks: Vec<Stack>,
    /// Samples dropped because there was no room for them.
    pub lost: u64,
    /// How long the run took.
    pub took: Duration,
}

/// A stack and the number of samples that showed it.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The thread's name, then functions from the outermost to the running one.
    pub frames: Vec<String>,
    /// Number of samples.
    pub count: u64,
}

/// A profile could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Only one run at a time is possible in a process.
    #[error("the process is being profiled already")]
    Running,
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation that failed, for the sentence "cannot ...".
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Profiles this process for `time`, or until `is_over` returns true. Blocks the calling thread, which is left out of the profile.
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

/// Stacks collected so far.
struct Seen {
    unwind: Unwind,
    /// Samples by thread and return addresses, innermost first.
    stacks: HashMap<(u32, Vec<u64>), u64>,
    /// Thread names, read while the threads are alive.
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

    /// Resolves names, merging threads of the same name and addresses within the same function.
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

    // A single test, because a process has only one such timer.
    #[test]
    fn a_busy_function_is_seen_below_its_callers_on_its_thread() {
        let (until, looked) = (AtomicBool::new(false), AtomicBool::new(false));
        let profile = thread::scope(|scope| {
            let busy = thread::Builder::new().name("busy-thread".to_owned());
            let busy = busy.spawn_scoped(scope, || calls_it(&until)).unwrap();
            let looks = scope.spawn(|| {
                // Runs until there are enough samples to be sure.
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
