use std::{io, time::Instant};

use forebay_server::{Server, config::Config};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{arguments::ConfigFile, output, overrides::Overrides};

/// Run the server until SIGINT or SIGTERM
///
/// Prints one line to standard output when it listens; everything else is log. SIGINT or SIGTERM ends it: what has been read
/// is answered, within `server.drain_max`. A second one ends it at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    overrides: Overrides,
}

/// A second signal came while the server was stopping.
#[derive(Debug, thiserror::Error)]
#[error("ended by a second signal, before everything was answered")]
struct CutShort;

pub(crate) fn run(arguments: Arguments, started: Instant) -> anyhow::Result<()> {
    let Arguments {
        config: ConfigFile { config: file },
        overrides,
    } = arguments;
    let load = move || -> anyhow::Result<Config> {
        let mut config = Config::load(&file)?;
        overrides.apply(&mut config)?;
        Ok(config)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut stops = Stops::new()?;
        let server = Server::start(load()?)?;
        announce(&server, started)?;
        stops.next().await;
        tokio::select! {
            biased;
            () = server.stop() => Ok(()),
            () = stops.next() => Err(CutShort.into()),
        }
    })
}

/// The one line that says that requests are taken, for people and for programs that wait for it.
fn announce(server: &Server, started: Instant) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let took = started.elapsed().as_millis();
    output::line(&format!(
        "forebay {version} started in {took} ms, listening on {}",
        server.urls().join(", ")
    ))
}

/// The signals that end a server.
struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
