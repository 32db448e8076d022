//! Measures several pools, or one pool in several sizes, in alternation.

use std::{path::Path, time::Instant};

use forebay_load::machine::Machine;
use forebay_runtimes::Sdk;

use crate::pool::{BenchError, Contender, Outcome, Peer, Plan, Report, Subject, driver, server_pool};

/// The contenders, sizes and plan of a benchmark.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The pools to measure; the others are compared with the first.
    pub contenders: Vec<Contender>,
    /// Numbers of workers to try.
    pub workers: Vec<usize>,
    /// Measurements of each pool and size.
    pub repeats: usize,
    /// The settings of each measurement.
    pub plan: Plan,
}

/// Progress events of a running suite.
#[derive(Clone, Copy, Debug)]
pub enum SuiteEvent<'a> {
    /// A measurement begins.
    Begins {
        /// The contender's name.
        name: &'a str,
        /// Its position in the sequence, counted from 1.
        number: usize,
        /// Total number of measurements.
        of: usize,
    },
    /// Progress within the measurement.
    Progress {
        /// The messages belong to the warm-up and are not measured.
        warming_up: bool,
        /// Messages that have ended.
        answered: u64,
        /// Messages of the run in total.
        messages: u64,
    },
    /// A line in the format of `QOper8`'s benchmark.
    Line(&'a str),
    /// Output of a peer's pool or of a handler.
    Stray(&'a str),
    /// The measurement has ended.
    Ends {
        /// Its result or error.
        outcome: Result<&'a Outcome, &'a BenchError>,
    },
}

/// The callback that receives progress events.
pub(crate) type Tell<'a> = dyn FnMut(SuiteEvent<'_>) + 'a;

/// Runs all measurements. If a peer's pool fails, it is left out from then on and the report says why; if one of ours fails, the suite
/// fails.
pub fn run(suite: &Suite, tell: &mut Tell<'_>) -> Result<Report, BenchError> {
    check_packages(suite)?;
    let sdk = Sdk::unpack()?;
    let machine = Machine::this();
    let environment = machine.environment();
    let begun = Instant::now();
    let mut subjects: Vec<Subject> = suite
        .workers
        .iter()
        .flat_map(|workers| suite.contenders.iter().map(|contender| (*contender, *workers)))
        // The driver alone has no workers, so one size is enough.
        .filter(|(contender, workers)| !contender.is_nobody() || *workers == suite.workers[0])
        .map(|(contender, workers)| Subject::new(contender, workers))
        .collect();
    let of = subjects.len() * suite.repeats;
    let mut number = 0;
    for round in 0..suite.repeats {
        for place in order(subjects.len(), round) {
            number += 1;
            let subject = &mut subjects[place];
            if subject.failure.is_some() {
                continue;
            }
            tell(SuiteEvent::Begins {
                name: &subject.name(suite.workers.len() > 1),
                number,
                of,
            });
            let measured = measure(subject, &suite.plan, &sdk, tell);
            tell(SuiteEvent::Ends {
                outcome: measured.as_ref(),
            });
            match measured {
                Ok(outcome) => subject.runs.push(outcome),
                Err(error) if subject.contender.is_own() => return Err(error),
                Err(error) => subject.failure = Some(error.to_string()),
            }
        }
    }
    Ok(Report {
        environment,
        suite: suite.clone(),
        subjects,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn measure(subject: &Subject, plan: &Plan, sdk: &Sdk, tell: &mut Tell<'_>) -> Result<Outcome, BenchError> {
    match subject.contender {
        Contender::Server(language) => server_pool::measure(language, subject.workers, plan, sdk, tell),
        contender @ Contender::Nothing(_) => {
            driver::measure(contender, subject.workers, &plan.of_driver_alone(), sdk, tell)
        }
        contender => driver::measure(contender, subject.workers, plan, sdk, tell),
    }
}

/// The order of a round. Every second round runs backwards, so that drift of the machine affects all alike, and every pair of rounds starts
/// one subject later, so that no subject always comes first.
fn order(subjects: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..subjects)
        .map(|place| (place + round / 2) % subjects)
        .collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Checks that all packages are installed, before any time is spent.
fn check_packages(suite: &Suite) -> Result<(), BenchError> {
    let folder = &suite.plan.packages;
    let missing: Vec<(Peer, &str)> = suite
        .contenders
        .iter()
        .filter_map(|contender| match contender {
            Contender::Peer(_, peer) => Some((*peer, peer.version()?)),
            _ => None,
        })
        .filter(|(peer, _)| !is_installed(peer.name(), folder))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(peer, _)| peer.name()).collect();
    let wanted: Vec<String> = missing
        .iter()
        .map(|(peer, version)| format!("{}@{version}", peer.name()))
        .collect();
    Err(BenchError::Missing {
        names: names.join(", "),
        are: if names.len() == 1 { "is" } else { "are" },
        folder: folder.clone(),
        wanted: wanted.join(" "),
    })
}

fn is_installed(package: &str, folder: &Path) -> bool {
    let manifest = Path::new("node_modules").join(package).join("package.json");
    folder.ancestors().any(|above| above.join(&manifest).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_take_turns_and_nobody_of_several_always_comes_first() {
        let rounds: Vec<_> = (0..4).map(|round| order(2, round)).collect();
        assert_eq!(rounds, [[0, 1], [1, 0], [1, 0], [0, 1]]);
        let firsts: std::collections::BTreeSet<_> = (0..6).map(|round| order(3, round)[0]).collect();
        assert_eq!(firsts.len(), 3);
    }
}
