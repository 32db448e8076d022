//! CPU profiles of workers: each worker profiles itself with the means of its runtime and sends the profile as one frame.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use forebay_wire::FrameType;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{Pool, link::Link, state::Phase};

/// Extra time until a worker must have sent its profile: a handler that blocks has to finish first.
const PATIENCE: Duration = Duration::from_secs(5);

/// The profile of one worker, or why there is none.
#[derive(Debug)]
pub struct WorkerProfile {
    /// The worker's number in the pool.
    pub worker: u64,
    /// The process id of the worker.
    pub pid: u32,
    /// The worker's runtime, such as `node/22.1.0`; empty if it does not tell.
    pub runtime: String,
    /// The payload of its PROFILED frame (PROTOCOL.md, section 3).
    pub profile: Result<Bytes, Unprofiled>,
}

/// The reason why a worker has no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprofiled {
    /// Its runtime has no profiler that the server can use, or its protocol cannot ask for a profile.
    #[error("its runtime has no profiler that the server can ask")]
    NoProfiler,
    /// The worker is starting or about to end.
    #[error("it is starting or ending")]
    NotReady,
    /// Another profile of this worker is in progress.
    #[error("it is being profiled already")]
    Busy,
    /// The worker has ended.
    #[error("it has ended meanwhile")]
    Gone,
    /// The worker has not sent a profile in time.
    #[error("it has sent no profile within {} s of its end: its handler blocks", PATIENCE.as_secs())]
    Silent,
}

/// Profiling state of one link.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    /// From the worker's HELLO: its runtime, and whether it can be profiled.
    hello: OnceLock<(String, bool)>,
    /// The request that the worker has not answered, even if its sender no longer waits: the next profile belongs to it.
    asked: Mutex<Option<oneshot::Sender<Bytes>>>,
}

impl Profiles {
    pub(crate) fn told(&self, runtime: String, can: bool) {
        // There is one HELLO per link.
        let _ = self.hello.set((runtime, can));
    }

    /// Accepts a profile from the worker. Returns false if none was requested.
    pub(crate) fn put(&self, profile: Bytes) -> bool {
        // The receiver may be gone; the worker is not to blame for that.
        let asked = self.asked.lock().take();
        asked.map(|asked| asked.send(profile)).is_some()
    }

    /// Fails a pending request: the worker sends nothing more.
    pub(crate) fn end(&self) {
        drop(self.asked.lock().take());
    }

    fn ask(&self) -> Result<oneshot::Receiver<Bytes>, Unprofiled> {
        if !self.hello.get().is_some_and(|(_, can)| *can) {
            return Err(Unprofiled::NoProfiler);
        }
        let mut asked = self.asked.lock();
        if asked.is_some() {
            return Err(Unprofiled::Busy);
        }
        let (sender, receiver) = oneshot::channel();
        *asked = Some(sender);
        Ok(receiver)
    }

    fn runtime(&self) -> String {
        self.hello
            .get()
            .map(|(runtime, _)| runtime.clone())
            .unwrap_or_default()
    }
}

/// A profile request. Dropping it before the answer tells the worker to stop profiling.
struct Question {
    link: Arc<Link>,
    answer: oneshot::Receiver<Bytes>,
    is_over: bool,
}

impl Question {
    /// Asks a worker to profile itself for this long.
    fn put(link: Arc<Link>, time: Duration) -> Result<Self, Unprofiled> {
        let answer = link.profiles.ask()?;
        say(&link, time);
        Ok(Self {
            link,
            answer,
            is_over: false,
        })
    }

    async fn answer(mut self, until: Instant) -> Result<Bytes, Unprofiled> {
        let answered = timeout_at(until, &mut self.answer).await;
        self.is_over = answered.is_ok();
        match answered {
            Ok(profile) => profile.map_err(|_| Unprofiled::Gone),
            Err(_) => Err(Unprofiled::Silent),
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.is_over {
            say(&self.link, Duration::ZERO);
        }
    }
}

/// Sends PROFILE. A duration of zero stops the profile in progress.
fn say(link: &Link, time: Duration) {
    let question = json!({ "ms": time.as_millis() as u64 }).to_string();
    link.control(FrameType::Profile, question.as_bytes());
}

impl Pool {
    /// Profiles all workers for this long, and returns when all have answered. Dropping the future stops the profiles.
    pub async fn profile(&self, time: Duration) -> Vec<WorkerProfile> {
        let mut asked: Vec<_> = {
            let state = self.shared.state.lock();
            let workers = state.workers();
            workers
                .map(|(_, worker)| (worker.id, worker.pid, worker.phase, worker.link.clone()))
                .collect()
        };
        asked.sort_by_key(|(id, ..)| *id);
        let asked: Vec<_> = asked
            .into_iter()
            .map(|(worker, pid, phase, link)| {
                let question = match phase {
                    Phase::Ready => Question::put(link.clone(), time),
                    _ => Err(Unprofiled::NotReady),
                };
                (worker, pid, link, question)
            })
            .collect();
        let mut profiles = Vec::new();
        let until = Instant::now() + time + PATIENCE;
        for (worker, pid, link, question) in asked {
            let profile = match question {
                Ok(question) => question.answer(until).await,
                Err(why) => Err(why),
            };
            profiles.push(WorkerProfile {
                worker,
                pid,
                runtime: link.profiles.runtime(),
                profile,
            });
        }
        profiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_comes_late_is_given_to_nobody() {
        let profiles = Profiles::default();
        profiles.told("node/22.1.0".into(), true);
        drop(profiles.ask().unwrap());
        assert_eq!(profiles.ask().unwrap_err(), Unprofiled::Busy);
        assert!(profiles.put("late".into()));
        let mut next = profiles.ask().unwrap();
        assert!(next.try_recv().is_err());
        assert!(profiles.put("its own".into()));
        assert_eq!(next.try_recv().unwrap(), "its own");
        assert!(!profiles.put("one too many".into()));
    }
}
