//! A finished suite, and what follows from its figures.

pub mod html;
pub mod json;
pub mod text;

use forebay_load::{
    machine::Environment,
    report::words::several,
    stats::{self, Ratio},
};

use crate::{Contender, Outcome, Suite};

/// A finished suite.
#[derive(Clone, Debug)]
pub struct Report {
    /// The machine before it.
    pub environment: Environment,
    /// What was measured.
    pub suite: Suite,
    /// By whom, in the order of sizes and contenders.
    pub subjects: Vec<Subject>,
    /// How long it took.
    pub seconds: f64,
}

/// A pool in one size.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Whose.
    pub contender: Contender,
    /// Its workers.
    pub workers: usize,
    /// What each measurement came to.
    pub runs: Vec<Outcome>,
    /// Why it was given up, if it was.
    pub failure: Option<String>,
}

impl Subject {
    pub(crate) fn new(contender: Contender, workers: usize) -> Self {
        Self {
            contender,
            workers,
            runs: Vec::new(),
            failure: None,
        }
    }

    /// What a report calls it.
    pub fn name(&self, with_size: bool) -> String {
        if with_size && !self.contender.is_nobody() {
            let workers = several(self.workers as u64, "worker");
            format!("{}, {workers}", self.contender.name())
        } else {
            self.contender.name()
        }
    }

    /// The median over all measurements of a figure; `None` where none has it.
    pub fn median(&self, figure: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.runs.iter().filter_map(figure).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(values[middle]),
            _ => Some(f64::midpoint(values[middle - 1], values[middle])),
        }
    }

    /// Messages a second, the median.
    pub fn rate(&self) -> Option<f64> {
        self.median(|run| Some(run.rate))
    }

    /// Messages without a proper reply in all measurements.
    pub fn errors(&self) -> u64 {
        self.runs.iter().map(|run| run.errors).sum()
    }
}

impl Report {
    /// Messages a second of the first contender for each of another's, in the same size: of measurements of the same round.
    pub fn ratio(&self, subject: &Subject) -> Option<Ratio> {
        let own = self.first(subject.workers)?;
        let pairs: Vec<(f64, f64)> = own
            .runs
            .iter()
            .zip(&subject.runs)
            .map(|(a, b)| (a.rate, b.rate))
            .collect();
        stats::ratio(&pairs)
    }

    /// The first contender in a size.
    fn first(&self, workers: usize) -> Option<&Subject> {
        self.subjects.iter().find(|each| each.workers == workers)
    }

    /// The sizes of a contender with their rates, where there are several.
    pub fn curve(&self, contender: Contender) -> Vec<(usize, f64)> {
        self.subjects
            .iter()
            .filter(|each| {
                each.contender == contender && self.suite.workers.len() > 1 && !contender.is_nobody()
            })
            .filter_map(|each| Some((each.workers, each.rate()?)))
            .collect()
    }

    /// The size with the highest rate of a contender, and the smallest one that has nine tenths of it.
    pub fn best(&self, contender: Contender) -> Option<Best> {
        let curve = self.curve(contender);
        let (workers, rate) = *curve.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (enough, _) = *curve.iter().find(|(_, each)| *each >= ENOUGH * rate)?;
        let lowest = curve.iter().map(|(_, each)| *each).fold(f64::INFINITY, f64::min);
        Some(Best {
            workers,
            rate,
            enough,
            lowest_share: lowest / rate,
        })
    }

    /// The part of the machine that others used, for each run that tells.
    pub(crate) fn shares_of_others(&self) -> Vec<f64> {
        let runs = self.subjects.iter().flat_map(|subject| &subject.runs);
        runs.filter_map(|run| run.others_share).collect()
    }

    /// Messages of our own pools without a proper reply, and of how many.
    pub fn own_errors(&self) -> (u64, u64) {
        let own = self.subjects.iter().filter(|each| each.contender.is_own());
        own.fold((0, 0), |(errors, all), each| {
            let messages: u64 = each.runs.iter().map(|run| run.messages).sum();
            (errors + each.errors(), all + messages)
        })
    }
}

/// The share of the best rate from which more workers bring little.
const ENOUGH: f64 = 0.9;

/// The size to choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Workers with the highest rate.
    pub workers: usize,
    /// That rate.
    pub rate: f64,
    /// The fewest workers with at least nine tenths of it.
    pub enough: usize,
    /// The lowest rate of all sizes, as a share of the best.
    pub lowest_share: f64,
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
