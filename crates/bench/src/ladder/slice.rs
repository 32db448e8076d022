//! Measures one entry for a few seconds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use forebay_load::{
    engine::{Stretch, Until, latencies},
    machine::{Machine, ServerUsage, Usage},
    plan::{Load, Pace},
    search::{self, Sweep},
};

use super::{
    contender::Contender,
    saved::{Best, Slice},
};

/// Connections of warm-ups.
pub(super) const WARM_UP_CONNECTIONS: usize = 64;
/// Requests that a program is asked for before its rate is known, a second.
const FIRST_RATE: f64 = 20_000.0;
/// Longest time for a number of requests.
const REQUESTS_MAX: Duration = Duration::from_mins(5);
/// The search for the best number of connections.
const SWEEP: Sweep = Sweep {
    connections_max: 512,
    settle: Duration::from_millis(200),
    measure: Duration::from_millis(800),
};

/// How long to load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    /// Before the measurement.
    pub(super) settle: Duration,
    /// Length of the measurement.
    pub(super) slice: Duration,
}

/// Loads an entry and measures rate, latency and CPU time. A wrong response makes the measurement worthless: an error says which.
pub(super) fn measure(
    contender: &mut Contender<'_>,
    connections: usize,
    amounts: Amounts,
    stop: &Arc<AtomicBool>,
) -> Result<Slice, String> {
    if contender.entry.measure.is_some() {
        return measure_by_program(contender, connections, amounts, stop);
    }
    let mut session = contender.session(connections)?;
    let watched = Watch::over(stop, session.stopper());
    let load = closed(connections);
    let until = Until {
        requests: contender.entry.requests,
        ..Until::passed(match contender.entry.requests {
            Some(_) => REQUESTS_MAX,
            None => amounts.slice,
        })
    };
    if !amounts.settle.is_zero() && contender.entry.requests.is_none() {
        session.measure(load, Until::passed(amounts.settle).and_on(), &mut |_| {
            watched.look();
        });
    }
    let machine = Machine::this();
    let sample = || machine.sample(contender.pid()).map_err(|error| error.to_string());
    let before = sample()?;
    let stretch = session.measure(load, until, &mut |_| watched.look());
    let usage = Usage::between(&before, &sample()?);
    session.finish();
    check(&stretch)?;
    if stretch.total.answers == 0 {
        return Err("no answer came".to_owned());
    }
    let answers = stretch.total.answers as f64;
    // Only our own server has workers: what other programs have started is a part of them.
    let is_peer = contender.is_peer;
    let own_of = |server: ServerUsage| {
        if is_peer {
            server.cpu_seconds
        } else {
            server.own_cpu_seconds
        }
    };
    let per_request = |seconds: f64| seconds * 1e6 / answers;
    let own = stretch.cpu_ns as f64 / 1e9;
    let others = |server: f64| {
        let cores = usage.cores? as f64;
        Some(((usage.busy_seconds()? - server - own) / (cores * usage.seconds)).max(0.0))
    };
    Ok(Slice {
        connections,
        seconds: stretch.seconds(),
        per_second: stretch.per_second(),
        latency: stretch.total.latency.clone(),
        server_us: usage.server.map(|server| per_request(own_of(server))),
        workers_us: usage
            .server
            .map(|server| per_request((server.cpu_seconds - own_of(server)).max(0.0))),
        client_cores: own / stretch.seconds(),
        others_share: usage.server.and_then(|server| others(server.cpu_seconds)),
        p50_ms: None,
        p99_ms: None,
    })
}

/// Says what is wrong with a measurement.
fn check(stretch: &Stretch) -> Result<(), String> {
    let failures = stretch.total.failures.total();
    if failures > 0 {
        let example = stretch.examples.first().map(|(_, text)| text.as_str());
        let of = stretch.total.answers + stretch.total.failures.without_answer();
        return Err(format!(
            "{failures} of {of} requests failed: {}",
            example.unwrap_or("no example was kept")
        ));
    }
    Ok(())
}

/// Loads an entry without measuring it, so that what runs often is compiled.
pub(super) fn warm_up(
    contender: &mut Contender<'_>,
    time: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<(), String> {
    if contender.entry.measure.is_some() {
        return Ok(());
    }
    let mut session = contender.session(WARM_UP_CONNECTIONS)?;
    let watched = Watch::over(stop, session.stopper());
    let load = closed(WARM_UP_CONNECTIONS);
    let stretch = session.measure(load, Until::passed(time), &mut |_| watched.look());
    session.finish();
    check(&stretch)
}

/// A load in which each connection sends its next request once a response has come.
fn closed(connections: usize) -> Load {
    Load {
        connections,
        pace: Pace::Closed,
    }
}

/// Loads a peer by a program of its own.
fn measure_by_program(
    contender: &mut Contender<'_>,
    connections: usize,
    amounts: Amounts,
    stop: &AtomicBool,
) -> Result<Slice, String> {
    let seconds = amounts.slice.as_secs_f64().ceil();
    let rate = if contender.rate > 0.0 {
        contender.rate
    } else {
        FIRST_RATE
    };
    let told = [
        ("connections", connections.to_string()),
        ("seconds", format!("{seconds:.0}")),
        ("requests", format!("{:.0}", rate * seconds)),
    ];
    let machine = Machine::this();
    let sample = || machine.sample(contender.pid()).map_err(|error| error.to_string());
    let before = sample()?;
    let printed = contender.run_measure(&told, stop)?;
    let usage = Usage::between(&before, &sample()?);
    let measure = contender
        .entry
        .measure
        .as_ref()
        .ok_or("it has no program that measures it")?;
    let per_second = measure.requests_per_second.find(&printed);
    let per_second = per_second.filter(|rate| *rate > 0.0);
    let per_second = per_second.ok_or_else(|| format!("its program printed no rate: {}", printed.trim()))?;
    let find = |figure: &Option<super::suite::Figure>| figure.as_ref()?.find(&printed);
    let slice = Slice {
        connections,
        seconds: usage.seconds,
        per_second,
        latency: latencies(),
        server_us: usage
            .server
            .map(|server| server.cpu_seconds * 1e6 / (per_second * usage.seconds)),
        workers_us: None,
        client_cores: 0.0,
        others_share: None,
        p50_ms: find(&measure.p50_ms),
        p99_ms: find(&measure.p99_ms),
    };
    contender.rate = per_second;
    Ok(slice)
}

/// The smallest number of connections that brings almost the highest rate.
pub(super) fn best_connections(contender: &Contender<'_>, stop: &Arc<AtomicBool>) -> Result<Best, String> {
    let mut session = contender.session(SWEEP.connections_max)?;
    let watched = Watch::over(stop, session.stopper());
    let best = search::best_connections(&mut session, SWEEP, &mut |_| watched.look());
    session.finish();
    let chosen = &best.curve[best.chosen];
    if chosen.failed > 0.0 || chosen.per_second == 0.0 {
        let connections = chosen.load.connections;
        return Err(format!(
            "with {connections} connections it does not answer rightly"
        ));
    }
    let curve = best
        .curve
        .iter()
        .map(|point| (point.load.connections, point.per_second));
    Ok(Best {
        connections: best.curve[best.chosen].load.connections,
        curve: curve.collect(),
    })
}

/// Stops a session when the run is stopped.
struct Watch {
    run: Arc<AtomicBool>,
    session: Arc<AtomicBool>,
}

impl Watch {
    fn over(run: &Arc<AtomicBool>, session: Arc<AtomicBool>) -> Self {
        Self {
            run: Arc::clone(run),
            session,
        }
    }

    fn look(&self) {
        if self.run.load(Ordering::Relaxed) {
            self.session.store(true, Ordering::Relaxed);
        }
    }
}
