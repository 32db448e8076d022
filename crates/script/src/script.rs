use std::{path::PathBuf, sync::Arc, time::Instant};

use crate::{
    Failure, IoScript,
    executor::{Awaited, Executors, Priority},
    modules::Modules,
    options::Options,
    rules::Begin,
};

/// A script that is loaded, with its threads.
#[derive(Debug)]
pub struct Script {
    options: Arc<Options>,
    modules: Arc<Modules>,
    executors: Executors,
}

impl Script {
    /// Loads a script; that it cannot be loaded is told here.
    pub fn start(options: Options) -> Result<Self, Failure> {
        let options = Arc::new(options);
        let modules = Arc::new(Modules::new(options.environment, options.program.clone()));
        let executors = Executors::start(options.clone(), modules.clone())?;
        Ok(Self {
            options,
            modules,
            executors,
        })
    }

    /// How it was made.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The files that it is made of.
    pub fn files(&self) -> Vec<PathBuf> {
        self.modules.files()
    }

    /// The same script for a thread on which others wait.
    pub fn on_io_thread(&self) -> IoScript {
        IoScript::new(self.options.clone(), &self.modules, self.executors.load())
    }

    /// Ends its executors: each does what waits for it, runs the stop hooks of its engines and is over. Calls that are open by then are given up, and
    /// no further ones may come.
    pub fn stop(&self) {
        self.executors.stop();
    }

    /// Waits until that is so; threads that cannot be stopped are not waited for.
    pub async fn stopped(&self) {
        self.executors.stopped().await;
    }

    /// Has a request answered by an executor: the payload of a REQUEST frame, with all of the body.
    pub fn call(&self, payload: Vec<u8>, deadline: Option<Instant>) -> Result<Awaited, Failure> {
        self.executors.submit(payload, deadline, Priority::Normal, None)
    }

    /// Has rules run, as the course says, for a call with this payload of a REQUEST frame.
    pub fn run(
        &self,
        payload: Vec<u8>,
        deadline: Option<Instant>,
        priority: Priority,
        begin: Begin,
    ) -> Result<Awaited, Failure> {
        self.executors.submit(payload, deadline, priority, Some(begin))
    }
}
