use std::{path::PathBuf, sync::Arc, time::Instant};

use forebay_workflow::{Begin, Priority, RunInput};

use crate::{
    Failure, IoScript,
    executor::{Awaited, Executors, Request},
    modules::Modules,
    options::Options,
    rules::engine::RuleEngine,
};

/// A loaded script with its executor threads.
#[derive(Debug)]
pub struct Script {
    options: Arc<Options>,
    modules: Arc<Modules>,
    executors: Executors,
}

impl Script {
    /// Loads a script. Fails if it cannot be loaded.
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

    /// The options of the script.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The files that the script has imported.
    pub fn files(&self) -> Vec<PathBuf> {
        self.modules.files()
    }

    /// Creates an instance of the script for an I/O thread.
    pub fn on_io_thread(&self) -> IoScript {
        IoScript::new(self.options.clone(), &self.modules, self.executors.load())
    }

    /// Ends the executors: each runs its queued jobs and then the stop hooks of its engines. Calls that are still open then are cancelled.
    /// Submit no further calls.
    pub fn stop(&self) {
        self.executors.stop();
    }

    /// Waits until the executors have ended, except for threads that cannot be stopped.
    pub async fn stopped(&self) {
        self.executors.stopped().await;
    }

    /// Answers a request on an executor. `payload` is that of a REQUEST frame with the complete body.
    pub fn call(&self, payload: Vec<u8>, deadline: Option<Instant>) -> Result<Awaited, Failure> {
        self.executors
            .submit(Request::Handler(payload), deadline, Priority::Normal)
    }

    /// Does a run of rules, which `begin` starts once it has an engine.
    pub fn run(
        &self,
        input: RunInput,
        deadline: Option<Instant>,
        priority: Priority,
        begin: Begin<RuleEngine>,
    ) -> Result<Awaited, Failure> {
        self.executors
            .submit(Request::Run(input, begin), deadline, priority)
    }
}
