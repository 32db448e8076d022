//! From options to what is run. Nothing is connected, started or written here: what is needed of the machine comes in with
//! [`Surroundings`], so that every refusal is one before anything happens.

use std::{io, net::SocketAddr, path::Path, time::Duration};

use forebay_load::{
    Plan, Url,
    engine::Until,
    expect::{Check, Expect, FirstLength},
    plan::{Arrivals, Load, Pace, PlanError},
    report::Run,
    target::Address,
};

use super::{
    arguments::{ArrivalKind, Options},
    lanes::{self, Sent},
    searches,
    stages::Schedule,
};
use crate::failure::UsageError;

/// Connections when nothing says how many.
const CONNECTIONS: usize = 64;
/// How long is measured when nothing says so.
const DURATION: Duration = Duration::from_secs(10);
/// How long is sent before measuring when nothing says so.
const WARM_UP: Duration = Duration::from_secs(1);

/// What a plan needs of the machine.
pub(crate) struct Surroundings<'a> {
    /// Processors.
    pub(crate) cores: usize,
    /// Asks the system for a host's address.
    pub(crate) resolve: &'a dyn Fn(&Url) -> io::Result<SocketAddr>,
    /// Reads a file; `-` is standard input.
    pub(crate) read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Ports that the system gives to connections.
    pub(crate) ports: Option<usize>,
}

/// A run, ready to go.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) plan: Plan,
    pub(crate) run: Run,
    /// What is measured; with stages only the first load.
    pub(crate) load: Load,
    pub(crate) until: Until,
    pub(crate) warm_up: Duration,
    /// The stages, if there are some.
    pub(crate) schedule: Option<Schedule>,
    /// Most connections at a time.
    pub(crate) connections_max: usize,
    /// What to tell before it goes, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Makes a job of options.
pub(crate) fn job(options: &Options, around: &Surroundings<'_>) -> anyhow::Result<Job> {
    together(options)?;
    let schedule = (!options.stages.is_empty())
        .then(|| Schedule::new(&options.stages, options.connections.unwrap_or(CONNECTIONS)))
        .transpose()
        .map_err(UsageError)?;
    let connections = options
        .old
        .steps
        .first()
        .copied()
        .or(options.connections)
        .unwrap_or(CONNECTIONS);
    let load = schedule.as_ref().map_or_else(
        || Load {
            connections,
            pace: pace(options),
        },
        |schedule| schedule.at(Duration::ZERO),
    );
    load.pace.check().map_err(refused)?;
    let searched = searches::connections_max(options);
    let steps_max = searched.or(options.old.steps.iter().copied().max());
    let connections_max = schedule
        .as_ref()
        .map(Schedule::connections_max)
        .or(steps_max)
        .unwrap_or(connections);
    let threads = threads(options, around.cores, connections_max)?;
    let Sent {
        lanes,
        urls,
        method,
        body_bytes,
        notes,
    } = lanes::read(options, around)?;
    let plan = Plan {
        threads,
        pipeline: options.pipeline.unwrap_or(1),
        keep_alive: !options.no_keepalive,
        requests_per_connection: options.requests_per_connection.unwrap_or(0),
        timeout: options.timeout.unwrap_or(Duration::from_secs(10)),
        connect_timeout: options.connect_timeout.unwrap_or(Duration::from_secs(5)),
        expect: expect(options)?,
        seed: options.seed.unwrap_or(1),
        ..Plan::new(lanes)
    };
    plan.check(connections_max, options.allow_remote)
        .map_err(refused)?;
    ports(&plan, connections_max, around)?;
    let until = until(options, schedule.as_ref(), connections);
    let run = Run {
        title: options.title.clone(),
        urls,
        method,
        body_bytes,
        threads,
        connections: connections_max,
        pipeline: plan.pipeline,
        keep_alive: plan.keep_alive,
        pauses: options.requests.is_some(),
        load: Some(load),
        duration_seconds: until.duration.map(|duration| duration.as_secs_f64()),
        requests: until.requests,
        ..Run::default()
    };
    Ok(Job {
        warm_up: warm_up(options),
        plan,
        run,
        load,
        until,
        schedule,
        connections_max,
        notes,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is a step of map_err")]
fn refused(error: PlanError) -> UsageError {
    UsageError(error.to_string())
}

/// What options exclude that each of them allows.
fn together(options: &Options) -> Result<(), UsageError> {
    let refuse = |text: &str| Err(UsageError(text.to_owned()));
    if options.pipeline.is_some_and(|depth| depth > 1) && options.no_keepalive {
        return refuse(
            "--pipeline needs keep-alive: a connection that is closed after one answer carries one request",
        );
    }
    if options.rate_per_connection.is_some() && options.pipeline.is_some_and(|depth| depth > 1) {
        return refuse("--rate-per-connection sends one request at a time; --rate goes with --pipeline");
    }
    let to_standard_output = [&options.json, &options.ndjson, &options.csv, &options.hgrm];
    if to_standard_output
        .into_iter()
        .flatten()
        .filter(|file| file.as_os_str() == "-")
        .count()
        > 1
    {
        return refuse(
            "two results cannot both go to standard output; give all but one a file, such as --csv=latency.csv",
        );
    }
    Ok(())
}

fn pace(options: &Options) -> Pace {
    match (options.rate, options.rate_per_connection) {
        (Some(per_second), _) => Pace::Open {
            per_second,
            arrivals: match options.arrivals {
                Some(ArrivalKind::Poisson) => Arrivals::Poisson,
                _ => Arrivals::Uniform,
            },
        },
        (None, Some(per_second)) => Pace::PerConnection { per_second },
        (None, None) => Pace::Closed,
    }
}

/// Other tools take more threads than connections; the surplus would do nothing.
fn threads(options: &Options, cores: usize, connections: usize) -> Result<usize, UsageError> {
    match options.threads {
        Some(threads) if threads > connections && options.style.is_none() => Err(UsageError(format!(
            "{threads} threads are too many for {connections} {}: some would have nothing to do",
            if connections == 1 {
                "connection"
            } else {
                "connections"
            }
        ))),
        Some(threads) => Ok(threads.min(connections)),
        None => Ok((cores / 2).max(1).min(connections)),
    }
}

fn until(options: &Options, schedule: Option<&Schedule>, connections: usize) -> Until {
    let loops = options
        .old
        .loops
        .map(|loops| loops.saturating_mul(connections as u64));
    let requests = options.count.or(loops.filter(|_| options.duration.is_none()));
    let duration = match schedule {
        Some(schedule) => Some(schedule.duration()),
        None if options.old.forever => None,
        None => options.duration.or(requests.is_none().then_some(DURATION)),
    };
    Until {
        duration,
        requests,
        keep_going: false,
    }
}

fn warm_up(options: &Options) -> Duration {
    let counted = options.count.is_some() || !options.stages.is_empty();
    options
        .warmup
        .unwrap_or(if counted { Duration::ZERO } else { WARM_UP })
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
    if let Some(text) = &options.expect_json {
        let check = Check::json(text);
        let check = check.map_err(|error| UsageError(format!("--expect-json: {error}")))?;
        expect.checks.push(check);
    }
    for text in &options.expect_header {
        let check = Check::field(text);
        let check = check.map_err(|error| UsageError(format!("--expect-header: {error}")))?;
        expect.checks.push(check);
    }
    if options.old.same_length {
        expect.checks.push(Check::LengthOfFirst(FirstLength::default()));
    }
    Ok(expect)
}

/// Whether the system has a port for each connection.
fn ports(plan: &Plan, connections: usize, around: &Surroundings<'_>) -> Result<(), UsageError> {
    let by_tcp = plan
        .lanes
        .iter()
        .filter(|lane| matches!(lane.address, Address::Tcp(_)));
    let mut addresses: Vec<String> = by_tcp.map(|lane| lane.address.to_string()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    match around.ports {
        Some(ports) if !addresses.is_empty() && connections > ports * addresses.len() => {
            Err(UsageError(format!(
                "{connections} connections need as many local ports, the system gives out {ports}; give it more with: sysctl -w \
             net.ipv4.ip_local_port_range=\"1024 65535\""
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
