//! CPU profiles of workers: each takes its own, as its runtime can, and sends it as one frame.

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

/// How much longer than its profile a worker may need until it has sent it: a handler that blocks runs to its end first.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of asking one worker.
#[derive(Debug)]
pub struct WorkerProfile {
    /// Its number in the pool.
    pub worker: u64,
    /// Its process.
    pub pid: u32,
    /// What it runs in, such as `node/22.1.0`; empty where it does not say.
    pub runtime: String,
    /// The payload of its PROFILED frame (PROTOCOL.md section 3).
    pub profile: Result<Bytes, Unprofiled>,
}

/// Why a worker has no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprofiled {
    /// What it runs in has no profiler that could be asked, or it speaks a protocol without that question.
    #[error("its runtime has no profiler that the server can ask")]
    NoProfiler,
    /// It is starting or about to end.
    #[error("it is starting or ending")]
    NotReady,
    /// Somebody else has asked it before, and it has not answered yet.
    #[error("it is being profiled already")]
    Busy,
    /// It has ended meanwhile.
    #[error("it has ended meanwhile")]
    Gone,
    /// It has not answered.
    #[error("it has sent no profile within {} s of its end: its handler blocks", PATIENCE.as_secs())]
    Silent,
}

/// One link's part.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    /// What the worker has said in HELLO: its runtime, and whether it can.
    hello: OnceLock<(String, bool)>,
    /// The question that the worker has not answered, though nobody may wait for it any more: what comes next belongs to it.
    asked: Mutex<Option<oneshot::Sender<Bytes>>>,
}

impl Profiles {
    pub(crate) fn told(&self, runtime: String, can: bool) {
        // A link has one HELLO.
        let _ = self.hello.set((runtime, can));
    }

    /// Takes what the worker has sent. False: nobody has asked.
    pub(crate) fn put(&self, profile: Bytes) -> bool {
        // Whoever has asked may have gone; the worker has done as it was told.
        let asked = self.asked.lock().take();
        asked.map(|asked| asked.send(profile)).is_some()
    }

    /// Nothing more comes.
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

/// A question, of which the worker is told when nobody waits for the answer any more.
struct Question {
    link: Arc<Link>,
    answer: oneshot::Receiver<Bytes>,
    is_over: bool,
}

impl Question {
    /// Has a worker look at itself for so long.
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

/// PROFILE: no time ends the look that goes on.
fn say(link: &Link, time: Duration) {
    let question = json!({ "ms": time.as_millis() as u64 }).to_string();
    link.control(FrameType::Profile, question.as_bytes());
}

impl Pool {
    /// Has each worker look at itself for so long, and returns when all have told what they saw. When it is dropped before, they end their look.
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
