use std::{sync::OnceLock, time::Instant};

use forebay_server::{
    Predecessor, Reload, Role, Server, StartupResources,
    config::{Certificate, Config, Environment},
    logging::{self, Logging},
};

use crate::{
    arguments::Served,
    commands::{guard, strip::PARSER},
    output::{self, OutputError},
    overrides::{DEVELOPMENT, Overrides},
};

/// Run the server until SIGINT or SIGTERM
///
/// Prints one line to standard output when it listens; everything else is log. SIGINT or SIGTERM ends it: what has been read
/// is answered, within `server.drain_max`. A second one ends it at once. SIGHUP is `forebay reload`, SIGUSR2 `forebay upgrade`, and
/// SIGUSR1 reopens log files.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    served: Served,
    #[command(flatten)]
    overrides: Overrides,
    /// Put changes of the configuration and of handlers into effect as they are saved, and show errors in browsers. Example: forebay serve --watch
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(arguments: ServeArgs, started: Instant) -> anyhow::Result<()> {
    let ServeArgs {
        served,
        overrides,
        watch,
    } = arguments;
    let io_threads = OnceLock::new();
    let load = move || -> anyhow::Result<Config> {
        let mut environment = Environment::current();
        environment.io_threads = io_threads.get().copied();
        let mut config = served.load_in(&environment)?;
        io_threads.get_or_init(|| config.server.threads);
        overrides.apply(&mut config)?;
        Ok(config)
    };
    run_as(Role::Server, load, watch, started)
}

/// Runs a server, or a worker host, with the configuration that `load` reads, until it is stopped.
pub(super) fn run_as(
    role: Role,
    load: impl Fn() -> anyhow::Result<Config> + Send + 'static,
    watch: bool,
    started: Instant,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut predecessor = Predecessor::of_this_process().await?;
        match start(role, load, watch, predecessor.as_mut(), started).await {
            Ok((server, _logging)) => Ok(server.run(predecessor).await?),
            Err(error) => {
                if let Some(predecessor) = predecessor {
                    predecessor.refuse(&format!("{error:#}")).await;
                }
                Err(error)
            }
        }
    })
}

async fn start(
    role: Role,
    load: impl Fn() -> anyhow::Result<Config> + Send + 'static,
    watch: bool,
    predecessor: Option<&mut Predecessor>,
    started: Instant,
) -> anyhow::Result<(Server, Logging)> {
    let config = load()?;
    let opened = StartupResources::open(&config, predecessor)?;
    let logging = logging::init(&config.log)?;
    let reload = Reload {
        load: Box::new(move || load().map_err(Into::into)),
        watch,
    };
    guard::enable();
    let development = match config.tls.get(DEVELOPMENT) {
        Some(Certificate::Files(files)) => Some(files.cert.clone()),
        _ => None,
    };
    let pools: Vec<String> = config.pools.keys().cloned().collect();
    let server = Server::start(config, opened, reload, logging.handle(), PARSER, role).await?;
    let what = match role {
        Role::Server => format!("listening on {}", server.urls().join(", ")),
        Role::WorkerHost => format!("working on {}", pools.join(", ")),
    };
    announce(&what, started)?;
    if let Some(file) = development {
        output::complaint(&format!(
            "note: this server's own certificate for localhost is in {}; curl takes it with --cacert",
            file.display()
        ));
    }
    Ok((server, logging))
}

/// Prints the one line that says that the server accepts requests or works, for people and for programs that wait for it. The server serves whether
/// or not anyone reads it.
fn announce(what: &str, started: Instant) -> Result<(), OutputError> {
    let version = env!("CARGO_PKG_VERSION");
    let took = started.elapsed().as_millis();
    match output::line(&format!("forebay {version} started in {took} ms, {what}")) {
        Err(OutputError::ReaderGone) => Ok(()),
        announced => announced,
    }
}
