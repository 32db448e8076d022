//! Several pools, or one in several sizes, measured by turns.

use std::{path::Path, time::Instant};

use forebay_load::machine::Machine;
use forebay_runtimes::Sdk;

use crate::{BenchError, Contender, Outcome, Peer, Plan, Report, Subject, driver, served};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Whose pools; the first one is compared with the others.
    pub contenders: Vec<Contender>,
    /// In which sizes.
    pub workers: Vec<usize>,
    /// How often each is.
    pub repeats: usize,
    /// How.
    pub plan: Plan,
}

/// What a suite tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A measurement begins: so many there are.
    Begins {
        /// What is measured.
        name: &'a str,
        /// From 1.
        number: usize,
        /// How many.
        of: usize,
    },
    /// How far it is.
    Progress {
        /// This is not what counts.
        warming_up: bool,
        /// Messages that have ended.
        answered: u64,
        /// Of so many.
        messages: u64,
    },
    /// A line of `QOper8`'s benchmark.
    Line(&'a str),
    /// A line that a pool of somebody else or a handler has printed.
    Stray(&'a str),
    /// It has ended.
    Ends {
        /// With this, or with an error.
        outcome: Result<&'a Outcome, &'a BenchError>,
    },
}

/// Who is told.
pub(crate) type Tell<'a> = dyn FnMut(News<'_>) + 'a;

/// Measures everything. A pool of somebody else that fails is left out from then on, and the report says why; one of ours that fails ends
/// it.
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
        // What the driver costs does not depend on the number of workers that it has not.
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
            tell(News::Begins {
                name: &subject.name(suite.workers.len() > 1),
                number,
                of,
            });
            let measured = measure(subject, &suite.plan, &sdk, tell);
            tell(News::Ends {
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
        Contender::Server(language) => served::measure(language, subject.workers, plan, sdk, tell),
        contender @ Contender::Nothing(_) => {
            driver::measure(contender, subject.workers, &plan.of_driver_alone(), sdk, tell)
        }
        contender => driver::measure(contender, subject.workers, plan, sdk, tell),
    }
}

/// The order of a round: every second one goes backwards, so that a machine that drifts does so for all, and each pair begins one place
/// further, so that nobody always comes first.
fn order(subjects: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..subjects)
        .map(|place| (place + round / 2) % subjects)
        .collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Whether all packages are there, before any time is spent.
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
