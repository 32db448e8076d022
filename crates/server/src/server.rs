//! A server from its start to its end.

use std::{io, sync::Arc, time::Instant};

use forebay_pool::{Mailboxes, Supervisor};

use crate::{
    app::{App, BuildError},
    config::{Config, Listen},
    front::{Bound, Front},
};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address as configured.
        listen: Listen,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Threads cannot be started.
    #[error("cannot start the server's threads")]
    Threads(#[from] io::Error),
    /// The configuration does not become routes and pools.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    front: Front,
    bound: Vec<Bound>,
    supervisor: Supervisor,
    mailboxes: Arc<Mailboxes>,
    started: Instant,
}

impl Server {
    /// Listens and starts the pools. Requests are taken at once; those for a pool wait until it is ready.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let started = Instant::now();
        let threads = config.server.threads;
        let mut bound = Vec::new();
        for listen in &config.server.listen {
            let one = Bound::bind(listen, threads).map_err(|source| StartError::Listen {
                listen: listen.clone(),
                source,
            })?;
            bound.push(one);
        }
        let supervisor = Supervisor::start()?;
        let mailboxes = Mailboxes::new(threads);
        let app = Arc::new(App::build(config, threads, &supervisor, &mailboxes)?);
        let front = Front::start(app, &bound, &mailboxes, threads)?;
        Ok(Self {
            front,
            bound,
            supervisor,
            mailboxes,
            started,
        })
    }

    /// The addresses it listens on, as URLs or `unix:path`.
    pub fn urls(&self) -> Vec<String> {
        self.bound.iter().map(Bound::url).collect()
    }

    /// Answers what was read, ends connections and workers, waits for that at most `drain_max`.
    pub async fn stop(self) {
        let app = self.front.app();
        let deadline = tokio::time::Instant::now() + app.config.server.drain_max;
        if tokio::time::timeout_at(deadline, self.front.drain())
            .await
            .is_err()
        {
            tracing::warn!("connections are left after drain_max and are cut off");
        }
        for pool in app.pools.values() {
            pool.stop();
        }
        for pool in app.pools.values() {
            if tokio::time::timeout_at(deadline, pool.stopped()).await.is_err() {
                pool.stop_now();
                pool.stopped().await;
            }
        }
        self.front.end();
    }
}
