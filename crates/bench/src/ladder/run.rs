//! Starts everything, and measures the entries in rounds.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    LadderError,
    contender::Contender,
    place::Place,
    report::Report,
    saved::Saved,
    slice::{self, Amounts},
    suite::{Entry, Suite},
};

/// The entries to measure, and the amounts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The binary of the server to measure.
    pub server: PathBuf,
    /// The folder with the pinned peers.
    pub peers_folder: PathBuf,
    /// Whether peers are measured.
    pub peers: bool,
    /// Names of the entries to measure; none for all.
    pub only: Vec<String>,
    /// The address of PostgreSQL, for the entries that need one.
    pub postgres: Option<String>,
    /// Slices of each entry.
    pub rounds: usize,
    /// Connections; `None`: the best number of each entry.
    pub connections: Option<usize>,
    /// Whether a connection carries more than one request.
    pub keep_alive: bool,
    /// Load on each entry before its first slice.
    pub warm_up: Duration,
    /// Load before each slice, which is not measured.
    pub settle: Duration,
    /// Length of a slice.
    pub slice: Duration,
}

impl Settings {
    /// The whole measurement: ten slices at the best number of connections.
    pub fn full(server: PathBuf) -> Self {
        let slice = Duration::from_secs(3);
        Self {
            server,
            peers_folder: PathBuf::from("bench/peers"),
            peers: false,
            only: Vec::new(),
            postgres: None,
            rounds: 10,
            connections: None,
            keep_alive: true,
            warm_up: slice * 2 / 3,
            settle: slice / 10,
            slice,
        }
    }

    /// Connections of an entry; `None`: the best number.
    fn connections_of(&self, entry: &Entry) -> Option<usize> {
        entry.connections.or(self.connections)
    }

    /// Sets the length of a slice, and those of what comes before it in proportion.
    pub fn set_slice(&mut self, slice: Duration) {
        let scale = slice.as_secs_f64() / self.slice.as_secs_f64();
        self.warm_up = self.warm_up.mul_f64(scale);
        self.settle = self.settle.mul_f64(scale);
        self.slice = slice;
    }

    /// A first look, in less than three minutes.
    pub fn quick(server: PathBuf) -> Self {
        Self {
            rounds: 2,
            connections: Some(64),
            warm_up: Duration::from_millis(300),
            settle: Duration::from_millis(100),
            ..Self::full(server)
        }
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A server starts.
    Starting(&'a str),
    /// An entry is measured.
    Measuring {
        /// Its name, and what is done.
        what: &'a str,
        /// Measurements that are done.
        done: usize,
        /// All measurements.
        of: usize,
        /// Estimated time left.
        left: Duration,
    },
}

/// The callback that receives events.
pub(super) type Tell<'a> = dyn FnMut(Event<'_>) + 'a;

/// Measures a ladder. Slices that `saved` has from an earlier run are not measured again. After `stop` is set, the report has what was
/// measured so far.
pub fn run(
    suite: &Suite,
    settings: &Settings,
    saved: &mut Saved,
    stop: &Arc<AtomicBool>,
    tell: &mut Tell<'_>,
) -> Result<Report, LadderError> {
    let begun = Instant::now();
    let chosen = suite
        .chosen(&settings.only)
        .map_err(|name| LadderError::Unknown {
            name,
            known: suite
                .entries()
                .map(|entry| format!("{:?}", entry.name))
                .collect::<Vec<_>>()
                .join(", "),
        })?;
    let place = Place::prepare(settings)?;
    let mut contenders = Contender::start(suite, &chosen, settings, &place, stop, tell)?;
    let amounts = Amounts {
        settle: settings.settle,
        slice: settings.slice,
    };
    let mut work = Work::new(&contenders, settings, saved);
    for contender in &mut contenders {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if contender.failure().is_some() || saved.is_complete(&contender.entry.name, settings.rounds) {
            continue;
        }
        work.tell(&format!("{}: warming up", contender.entry.name), tell);
        if let Err(why) = slice::warm_up(contender, settings.warm_up, stop) {
            give_up(contender, why, stop);
            continue;
        }
        if settings.connections_of(contender.entry).is_none()
            && saved.best(&contender.entry.name).is_none()
            && contender.entry.measure.is_none()
        {
            work.tell(
                &format!("{}: the best number of connections", contender.entry.name),
                tell,
            );
            match slice::best_connections(contender, stop) {
                Ok(best) if !stop.load(Ordering::Relaxed) => {
                    saved.put_best(&contender.entry.name, best)?;
                    work.searched += 1;
                }
                Ok(_) => {}
                Err(why) => give_up(contender, why, stop),
            }
        }
    }
    for round in 0..settings.rounds {
        for at in order(contenders.len(), round) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let contender = &mut contenders[at];
            let name = contender.entry.name.clone();
            if contender.failure().is_some() || saved.slice(&name, round).is_some() {
                continue;
            }
            work.tell(
                &format!("{name}: round {} of {}", round + 1, settings.rounds),
                tell,
            );
            // A peer with a program of its own is loaded as the rung beside it.
            let best = |name: &str| saved.best(name).map(|best| best.connections);
            let connections = settings
                .connections_of(contender.entry)
                .or_else(|| best(&name))
                .or_else(|| best(contender.entry.base.as_deref()?))
                .unwrap_or(slice::WARM_UP_CONNECTIONS);
            match slice::measure(contender, connections, amounts, stop) {
                Ok(slice) if stop.load(Ordering::Relaxed) => drop(slice),
                Ok(slice) => saved.put_slice(&name, round, slice)?,
                Err(why) => give_up(contender, why, stop),
            }
            work.measured += 1;
        }
    }
    Ok(Report::new(
        suite,
        place.versions(&suite.programs, settings.peers, stop),
        &contenders,
        settings,
        saved,
        begun.elapsed(),
        stop.load(Ordering::Relaxed),
    ))
}

/// Gives a contender up, unless the run was stopped: that is why the measurement failed then.
fn give_up(contender: &mut Contender<'_>, why: String, stop: &AtomicBool) {
    if !stop.load(Ordering::Relaxed) {
        contender.fail(why);
    }
}

/// The order of a round. Every second round runs backwards, so that a drift of the machine affects all alike.
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// How much of a run is done.
struct Work {
    searches: usize,
    searched: usize,
    slices: usize,
    measured: usize,
    slice: Duration,
}

/// How long a search for the best number of connections takes, about.
const SEARCH: Duration = Duration::from_secs(20);

impl Work {
    fn new(contenders: &[Contender<'_>], settings: &Settings, saved: &Saved) -> Self {
        let running = || {
            contenders
                .iter()
                .filter(|contender| contender.failure().is_none())
        };
        let missing = |contender: &Contender<'_>| {
            let rounds = 0..settings.rounds;
            rounds
                .filter(|round| saved.slice(&contender.entry.name, *round).is_none())
                .count()
        };
        let searches = running().filter(|contender| {
            settings.connections_of(contender.entry).is_none()
                && contender.entry.measure.is_none()
                && saved.best(&contender.entry.name).is_none()
                && missing(contender) > 0
        });
        Self {
            searches: searches.count(),
            searched: 0,
            slices: running().map(missing).sum(),
            measured: 0,
            slice: settings.settle + settings.slice,
        }
    }

    fn tell(&self, what: &str, tell: &mut Tell<'_>) {
        let left = SEARCH * self.searches.saturating_sub(self.searched) as u32
            + self.slice * self.slices.saturating_sub(self.measured) as u32;
        tell(Event::Measuring {
            what,
            done: self.searched + self.measured,
            of: self.searches + self.slices,
            left,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_run_forwards_and_backwards_by_turns() {
        assert_eq!(
            (order(3, 0), order(3, 1), order(3, 2)),
            (vec![0, 1, 2], vec![2, 1, 0], vec![0, 1, 2])
        );
    }
}
