//! A load in the background, while the command does something else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use forebay_load::{
    Session,
    engine::Until,
    plan::{Load, Pace},
};

use super::{arguments::Options, run};

/// Default number of connections.
const CONNECTIONS: usize = 16;
/// Longest duration, in case nothing ends the load.
const TIME_MAX: Duration = Duration::from_mins(5);

/// A running load.
#[derive(Debug)]
pub(crate) struct Loading {
    stopper: Arc<AtomicBool>,
    thread: thread::JoinHandle<Option<String>>,
}

impl Loading {
    /// Starts to load a URL, of this machine unless others are allowed.
    pub(crate) fn start(url: &str, connections: Option<usize>, allow_remote: bool) -> anyhow::Result<Self> {
        let connections = connections.unwrap_or(CONNECTIONS);
        let options = Options {
            url: vec![url.to_owned()],
            connections: Some(connections),
            allow_remote,
            ..Options::default()
        };
        let job = run::job(&options)?;
        run::trials(&job)?;
        let mut session = Session::start(job.plan)?;
        let stopper = session.stopper();
        let load = Load {
            connections,
            pace: Pace::Closed,
        };
        let thread = thread::spawn(move || {
            let stretch = session.measure(load, Until::passed(TIME_MAX), &mut |_| {});
            session.finish();
            let failed = stretch.total.failures.total();
            let example = stretch.examples.first().map(|(_, text)| text.clone());
            (failed > 0).then(|| format!("{failed}, the first: {}", example.unwrap_or_default()))
        });
        Ok(Self { stopper, thread })
    }

    /// Ends the load. Returns a description of failed requests, if there are any.
    pub(crate) fn end(self) -> Option<String> {
        self.stopper.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten()
    }
}
