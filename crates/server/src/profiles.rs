//! CPU profiles of this process and of the workers behind a route, for the control socket. No cost while no profile is being taken.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use forebay_pool::{Pool, WorkerProfile};
use forebay_profile::{PER_SECOND, Profile, ProfileError, record};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, oneshot},
    task::JoinSet,
    time::timeout,
};

/// Longest duration of a profile.
pub(crate) const PROFILE_MAX: Duration = Duration::from_mins(1);

/// Limit for waiting until a starting pool is ready.
const START_MAX: Duration = Duration::from_secs(5);

/// Permits one profile at a time.
#[derive(Debug)]
pub(crate) struct Profiles(Arc<Semaphore>);

impl Default for Profiles {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// A profile could not be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoProfile {
    #[error("a profile is already running for another client")]
    Busy,
    #[error("this process cannot be profiled: {0}{cause}", cause = with_cause(.0))]
    Failed(ProfileError),
    #[error("the system gives no thread for it: {0}")]
    Thread(std::io::Error),
    #[error("the profile's thread has failed")]
    Lost,
}

fn with_cause(error: &ProfileError) -> String {
    std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"))
}

/// Stops profiling this process when dropped.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Profiles {
    /// Profiles this process and the workers of these pools; returns the result as JSON. Dropping the future stops all profiling.
    pub(crate) async fn take(&self, time: Duration, pools: Vec<Pool>) -> Result<Value, NoProfile> {
        let turn = self.0.clone().try_acquire_owned().map_err(|_| NoProfile::Busy)?;
        for pool in &pools {
            // Workers that are still starting would be missing.
            let _ = timeout(START_MAX, pool.settled()).await;
        }
        let over = Over(Arc::default());
        let is_over = over.0.clone();
        // The permit is held until the thread has ended as well, which may notice cancellation a little later.
        let turn = Arc::new(turn);
        let turn_of_thread = turn.clone();
        let (sender, recorded) = oneshot::channel();
        thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let recorded = record(time, || is_over.load(Ordering::Relaxed));
                drop(turn_of_thread);
                // The receiver may be gone: the request was cancelled or the server has ended.
                let _ = sender.send(recorded);
            })
            .map_err(NoProfile::Thread)?;
        let mut asked = JoinSet::new();
        for pool in pools {
            asked.spawn(async move { (pool.name().to_owned(), pool.profile(time).await) });
        }
        let recorded = recorded.await.map_err(|_| NoProfile::Lost)?;
        let mut processes = vec![own(&recorded.map_err(NoProfile::Failed)?)];
        let mut unseen = Vec::new();
        let mut answered = Vec::new();
        while let Some(pool) = asked.join_next().await {
            answered.push(pool.map_err(|_| NoProfile::Lost)?);
        }
        answered.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, workers) in answered {
            for worker in workers {
                let place = json!({ "pool": name, "worker": worker.worker, "pid": worker.pid, "runtime": worker.runtime });
                match stacks(worker) {
                    Ok(mut process) => {
                        process["name"] = format!("worker {} of pool {name}", place["worker"]).into();
                        process["pid"] = place["pid"].clone();
                        process["runtime"] = place["runtime"].clone();
                        processes.push(process);
                    }
                    Err(why) => {
                        let mut place = place;
                        place["why"] = why.into();
                        unseen.push(place);
                    }
                }
            }
        }
        Ok(json!({ "ms": time.as_millis() as u64, "processes": processes, "unseen": unseen }))
    }
}

/// The profile of this process in microseconds of CPU time, in the same form as those of workers.
fn own(profile: &Profile) -> Value {
    let us = |looks: u64| looks * 1_000_000 / u64::from(PER_SECOND);
    let stacks: Vec<Value> = profile
        .stacks
        .iter()
        .map(|stack| json!({ "frames": stack.frames, "us": us(stack.count) }))
        .collect();
    json!({
        "name": "server",
        "pid": std::process::id(),
        "runtime": "native",
        "stacks": stacks,
        "left_out_us": us(profile.lost),
    })
}

/// A worker's profile, or the reason there is none.
fn stacks(worker: WorkerProfile) -> Result<Value, String> {
    let told = worker.profile.map_err(|why| why.to_string())?;
    let told: Value =
        serde_json::from_slice(&told).map_err(|_| "it has sent what is no profile".to_owned())?;
    match (&told["stacks"], &told["error"]) {
        (Value::Array(_), _) => Ok(told),
        (_, Value::String(error)) => Err(error.clone()),
        _ => Err("it has sent what is no profile".to_owned()),
    }
}
