//! Builds a plan from options. Nothing is connected, started or written here: access to the machine comes in as an [`Environment`], so that
//! every error is reported before anything happens.

use std::{io, net::SocketAddr, path::Path, time::Duration};

use forebay_load::{
    Plan, Url,
    engine::Until,
    expect::{Check, Expect, FirstLength},
    plan::{Engine, Load, Pace, PlanError},
    report::{Run, format::several},
    search::WarmUp,
};

use super::{
    arguments::{EngineName, Options},
    lanes, searches,
    stages::Schedule,
};
use crate::failure::UsageError;

/// Default number of connections.
pub(crate) const CONNECTIONS: usize = 64;
/// Default duration of a measurement.
const DURATION: Duration = Duration::from_secs(10);

/// The properties of the machine that a plan needs.
pub(crate) struct Environment<'a> {
    /// Number of processors.
    pub(crate) cores: usize,
    /// Asks the system for a host's address.
    pub(crate) resolve: &'a dyn Fn(&Url) -> io::Result<SocketAddr>,
    /// Reads a file; `-` is standard input.
    pub(crate) read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Number of local ports for connections; `None` if unknown.
    pub(crate) ports: Option<usize>,
}

/// A run, ready to start.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) plan: Plan,
    pub(crate) run: Run,
    /// The load to measure; with stages only the first one.
    pub(crate) load: Load,
    pub(crate) until: Until,
    pub(crate) warm_up: WarmUp,
    /// The stages, if any.
    pub(crate) schedule: Option<Schedule>,
    /// Most simultaneous connections.
    pub(crate) connections_max: usize,
}

/// Builds a job from options.
pub(crate) fn job(options: &Options, environment: &Environment<'_>) -> anyhow::Result<Job> {
    let schedule = (!options.stages.is_empty())
        .then(|| Schedule::new(&options.stages, options.connections.unwrap_or(CONNECTIONS)))
        .transpose()
        .map_err(UsageError)?;
    let connections = options
        .of_tool
        .sizes
        .first()
        .copied()
        .or(options.connections)
        .unwrap_or(CONNECTIONS);
    let searched = searches::connections_max(options);
    let steps_max = searched.or(options.of_tool.sizes.iter().copied().max());
    let connections_max = schedule
        .as_ref()
        .map(Schedule::connections_max)
        .or(steps_max)
        .unwrap_or(connections);
    let threads = threads(options, environment.cores, connections_max)?;
    let (lanes, described) = lanes::read(options, environment)?;
    let load = schedule.as_ref().map_or_else(
        || Load {
            connections,
            pace: pace(options),
        },
        |schedule| schedule.at(Duration::ZERO),
    );
    load.pace.check().map_err(refused)?;
    let mut plan = Plan {
        threads,
        pipeline: options.pipeline.unwrap_or(1),
        keep_alive: !options.no_keepalive,
        timeout: options.timeout.unwrap_or(Duration::from_secs(10)),
        connect_timeout: options.connect_timeout.unwrap_or(Duration::from_secs(5)),
        expect: expect(options)?,
        seed: options.seed.unwrap_or(1),
        engine: match options.engine {
            None | Some(EngineName::Auto) => Engine::Auto,
            Some(EngineName::Epoll) => Engine::Epoll,
            Some(EngineName::IoUring) => Engine::IoUring,
        },
        ..Plan::new(lanes)
    };
    // A comparison of two servers holds the connections of both all the time.
    let sides = if options.vs.is_some() || options.vs_cmd.is_some() {
        2
    } else {
        1
    };
    plan.check(sides * connections_max, options.allow_remote)
        .map_err(refused)?;
    plan.settle_engine(Load {
        connections: connections_max,
        ..load
    })
    .map_err(refused)?;
    ports(&plan, connections_max, environment)?;
    let until = until(options, schedule.as_ref());
    let run = Run {
        stages: schedule.as_ref().map(Schedule::words).unwrap_or_default(),
        title: options.title.clone(),
        threads,
        engine: plan.engine,
        connections: connections_max,
        pipeline: plan.pipeline,
        keep_alive: plan.keep_alive,
        load: Some(load),
        duration_seconds: until.duration.map(|duration| duration.as_secs_f64()),
        requests: until.requests,
        ..described
    };
    Ok(Job {
        warm_up: warm_up(options),
        plan,
        run,
        load,
        until,
        schedule,
        connections_max,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is a step of map_err")]
fn refused(error: PlanError) -> UsageError {
    UsageError(error.to_string())
}

fn pace(options: &Options) -> Pace {
    // A search begins with a rate of its own.
    let rate = options.rate.or(options.find_rate.then_some(searches::FIRST_RATE));
    rate.map_or(Pace::Closed, |per_second| Pace::Open { per_second })
}

/// Number of threads, no more than have something to do.
fn threads(options: &Options, cores: usize, connections: usize) -> Result<usize, UsageError> {
    match options.threads {
        Some(threads) if threads > connections => Err(UsageError(format!(
            "{threads} threads are too many for {}: some would have nothing to do",
            several(connections as u64, "connection")
        ))),
        Some(threads) => Ok(threads),
        None => Ok((cores / 2).max(1).min(connections)),
    }
}

fn until(options: &Options, schedule: Option<&Schedule>) -> Until {
    let requests = options.count;
    Until {
        duration: match schedule {
            Some(schedule) => Some(schedule.duration()),
            None => options.duration.or(requests.is_none().then_some(DURATION)),
        },
        requests,
        keep_going: false,
    }
}

fn warm_up(options: &Options) -> WarmUp {
    let counted = options.count.is_some() || !options.stages.is_empty();
    options
        .warmup
        .unwrap_or(if counted { WarmUp::NONE } else { WarmUp::AUTO })
}

fn expect(options: &Options) -> Result<Expect, UsageError> {
    let mut expect = Expect::default();
    if !options.expect_status.is_empty() {
        expect.statuses.clone_from(&options.expect_status);
    }
    if let Some(text) = &options.expect_body {
        let check = Check::body(text);
        let check = check.map_err(|error| UsageError(format!("--expect-body: {error}")))?;
        expect.checks.push(check);
    }
    if options.of_tool.same_length {
        expect.checks.push(Check::LengthOfFirst(FirstLength::default()));
    }
    Ok(expect)
}

/// Checks that the system has a port for each connection.
fn ports(plan: &Plan, connections: usize, environment: &Environment<'_>) -> Result<(), UsageError> {
    let mut addresses: Vec<SocketAddr> = plan.lanes.iter().map(|lane| lane.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    match environment.ports {
        Some(ports) if connections > ports * addresses.len() => Err(UsageError(format!(
            "{connections} connections need as many local ports, the system gives out {ports}; give it more with: sysctl -w \
             net.ipv4.ip_local_port_range=\"1024 65535\""
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
