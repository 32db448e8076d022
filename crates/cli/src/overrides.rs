//! Options of `forebay serve` that override the configuration, at the start and at every reload.

use std::{path, str::FromStr, time::Duration};

use clap::{ArgAction, ValueEnum};
use forebay_server::config::{Certificate, Config, Listen, ListenError, Recycle, Target, Worker, Workers};

use crate::failure::UsageError;

/// The time limits of a pool under a debugger: the longest that a configuration can express, instead of none.
const INSPECTED_TIME: Duration = Duration::from_hours(24);

/// The name of the certificate for development among those of the configuration.
///
/// No section can have it, and it comes after all others, so that clients who ask for no name get another.
pub(crate) const DEVELOPMENT: &str = "~development";

/// Options that override the configuration.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Overrides {
    /// Listen here instead of `server.listen`; may be repeated. Example: --listen 127.0.0.1:9000 --listen unix:web.sock
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Vec<Listen>,

    /// Listen with TLS, too, with a certificate for localhost that this server makes itself. For development: browsers warn, and `curl`
    /// takes it with --cacert. Example: --tls-dev=0.0.0.0:8443
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8443", value_parser = tls_address)]
    tls_dev: Option<Listen>,

    /// Report here instead of `admin.listen`; `off`: nowhere. Example: --admin 127.0.0.1:9001
    #[arg(long, value_name = "ADDR")]
    admin: Option<AdminAddress>,

    /// I/O threads, 1 to 256, instead of `server.threads`. Example: --threads 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Worker processes of every pool, 1 to 1024: `workers.min` and `workers.max` at once. Example: --workers 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// Log each request or not, instead of `log.access`. Example: --access-log on
    #[arg(long, value_name = "on|off")]
    access_log: Option<Switch>,

    /// Debug a pool: one worker, started with --inspect, its time limits off. Without a name, the first route's pool of handlers.
    /// Example: --inspect=api
    #[arg(long, value_name = "POOL", num_args = 0..=1, require_equals = true, default_missing_value = "",
          hide_default_value = true, action = ArgAction::Set)]
    inspect: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// The address of the admin listener; `None` for off.
#[derive(Debug, Clone)]
struct AdminAddress(Option<Listen>);

impl FromStr for AdminAddress {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        if text == "off" {
            Ok(Self(None))
        } else {
            match address(text)? {
                listen if listen.is_tls() => Err(ListenError {
                    text: text.to_owned(),
                }),
                listen => Ok(Self(Some(listen))),
            }
        }
    }
}

/// Parses an address; the path of a Unix socket is relative to the working folder, like all paths on a command line.
fn address(text: &str) -> Result<Listen, ListenError> {
    Ok(match text.parse()? {
        Listen::Unix(file) => Listen::Unix(path::absolute(&file).map_err(|_| ListenError {
            text: text.to_owned(),
        })?),
        tcp @ Listen::Tcp { .. } => tcp,
    })
}

/// Parses the address of a listener with TLS, which need not say so.
fn tls_address(text: &str) -> Result<Listen, ListenError> {
    let address = text.strip_prefix("https://").unwrap_or(text);
    match format!("https://{address}").parse() {
        Ok(listen) => Ok(listen),
        Err(ListenError { .. }) => Err(ListenError {
            text: text.to_owned(),
        }),
    }
}

impl Overrides {
    /// Applies the options to a configuration.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), UsageError> {
        if !self.listen.is_empty() {
            config.server.listen.clone_from(&self.listen);
        }
        if let Some(listen) = &self.tls_dev {
            let files = forebay_server::development_certificate()
                .map_err(|error| UsageError(format!("--tls-dev: the certificate cannot be made: {error}")))?;
            config
                .tls
                .insert(DEVELOPMENT.to_owned(), Certificate::Files(files));
            config.server.listen.push(listen.clone());
        }
        let bare = self
            .listen
            .iter()
            .find(|listen| listen.is_tls() && config.tls.is_empty());
        if let Some(listen) = bare {
            return Err(UsageError(format!(
                "--listen {listen} needs a certificate: add [tls.NAME] with `cert` and `key`, or with `acme`, to {}",
                config.file.display()
            )));
        }
        let server = &config.server;
        if server.https_only && !server.listen.iter().any(Listen::is_tls) {
            return Err(UsageError(
                "--listen names no `https://` address, but server.https_only sends all requests to one"
                    .to_owned(),
            ));
        }
        if let Some(AdminAddress(listen)) = &self.admin {
            config.admin.listen.clone_from(listen);
        }
        if let Some(threads) = self.threads {
            config.server.threads = threads.into();
        }
        if let Some(workers) = self.workers {
            for pool in config.pools.values_mut() {
                pool.workers = Workers {
                    min: workers.into(),
                    max: workers.into(),
                };
            }
        }
        if let Some(switch) = self.access_log {
            config.log.access = switch == Switch::On;
        }
        match &self.inspect {
            Some(pool) => inspect(config, pool),
            None => Ok(()),
        }
    }
}

/// Starts one worker of the pool under its runtime's debugger, without time limits that a breakpoint would exceed.
fn inspect(config: &mut Config, named: &str) -> Result<(), UsageError> {
    let name = inspected_pool(config, named)?;
    let pool = config.pools.get_mut(&name).expect("the pool was found");
    if let Worker::Script { runtime_flags, .. } = &mut pool.worker {
        runtime_flags.push("--inspect".to_owned());
    }
    pool.workers = Workers { min: 1, max: 1 };
    pool.queue_timeout = INSPECTED_TIME;
    pool.run_timeout = INSPECTED_TIME;
    pool.recycle = Recycle {
        jobs: 0,
        age: Duration::ZERO,
        rss: 0,
    };
    for route in &mut config.routes {
        if matches!(&route.target, Target::Pool(pool) if *pool == name) {
            route.deadline = INSPECTED_TIME;
            route.queue_timeout = Some(INSPECTED_TIME);
            route.run_timeout = Some(INSPECTED_TIME);
        }
    }
    Ok(())
}

/// The named pool, or the one of the first route with a handler.
fn inspected_pool(config: &Config, named: &str) -> Result<String, UsageError> {
    let is_script = |name: &&str| {
        matches!(
            config.pools.get(*name).map(|pool| &pool.worker),
            Some(Worker::Script { .. })
        )
    };
    let mut ways = config.routes.iter().filter_map(|route| match &route.target {
        Target::Pool(name) => Some(name.as_str()),
        _ => None,
    });
    let found = if named.is_empty() {
        ways.find(is_script)
    } else {
        Some(named).filter(is_script)
    };
    found.map(ToOwned::to_owned).ok_or_else(|| {
        let names: Vec<&str> = config
            .pools
            .keys()
            .map(String::as_str)
            .filter(is_script)
            .collect();
        UsageError(match names.as_slice() {
            [] => "--inspect: the configuration has no pool with a JavaScript handler".to_owned(),
            names => format!(
                "--inspect: found {named:?}, expected a pool with a JavaScript handler: {}",
                names.join(", ")
            ),
        })
    })
}
