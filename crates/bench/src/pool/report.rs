//! A finished suite and the figures derived from it.

pub mod html;
pub mod json;
pub mod text;

use forebay_load::{
    machine::Environment,
    report::format::several,
    stats::{self, Ratio},
};

use crate::pool::{Contender, Outcome, Suite};

/// A finished suite.
#[derive(Clone, Debug)]
pub struct Report {
    /// The machine before the suite ran.
    pub environment: Environment,
    /// The suite that was run.
    pub suite: Suite,
    /// Results per contender and size, in that order of sizes and contenders.
    pub subjects: Vec<Subject>,
    /// Duration of the whole suite.
    pub seconds: f64,
}

/// A pool of one size, with its results.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The pool that was measured.
    pub contender: Contender,
    /// Number of workers.
    pub workers: usize,
    /// The result of each measurement.
    pub runs: Vec<Outcome>,
    /// Why the pool was dropped from the suite, if it was.
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

    /// The pool's name in reports, with its number of workers if `with_size`.
    pub fn name(&self, with_size: bool) -> String {
        if with_size && !self.contender.is_nobody() {
            let workers = several(self.workers as u64, "worker");
            format!("{}, {workers}", self.contender.name())
        } else {
            self.contender.name()
        }
    }

    /// The median of a figure over all measurements; `None` if no measurement has it.
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

    /// Median of messages per second.
    pub fn rate(&self) -> Option<f64> {
        self.median(|run| Some(run.rate))
    }

    /// Messages without a valid reply, over all measurements.
    pub fn errors(&self) -> u64 {
        self.runs.iter().map(|run| run.errors).sum()
    }
}

impl Report {
    /// The first contender's rate divided by the subject's, from measurements of the same size and round.
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

    /// The first contender at this size.
    fn first(&self, workers: usize) -> Option<&Subject> {
        self.subjects.iter().find(|each| each.workers == workers)
    }

    /// Rates by size of a contender that was measured in several sizes.
    pub fn curve(&self, contender: Contender) -> Vec<(usize, f64)> {
        self.subjects
            .iter()
            .filter(|each| {
                each.contender == contender && self.suite.workers.len() > 1 && !contender.is_nobody()
            })
            .filter_map(|each| Some((each.workers, each.rate()?)))
            .collect()
    }

    /// The size with a contender's highest rate, and the smallest size that reaches nine tenths of it.
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

    /// Other processes' share of the machine, for each run that reports it.
    pub(crate) fn shares_of_others(&self) -> Vec<f64> {
        let runs = self.subjects.iter().flat_map(|subject| &subject.runs);
        runs.filter_map(|run| run.others_share).collect()
    }

    /// Messages of our own pools without a valid reply, and the total number of messages.
    pub fn own_errors(&self) -> (u64, u64) {
        let own = self.subjects.iter().filter(|each| each.contender.is_own());
        own.fold((0, 0), |(errors, all), each| {
            let messages: u64 = each.runs.iter().map(|run| run.messages).sum();
            (errors + each.errors(), all + messages)
        })
    }
}

/// The share of the best rate above which more workers bring little.
const ENOUGH: f64 = 0.9;

/// The recommended size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Number of workers with the highest rate.
    pub workers: usize,
    /// The highest rate, in messages per second.
    pub rate: f64,
    /// The fewest workers that reach nine tenths of it.
    pub enough: usize,
    /// The lowest rate of all sizes as a share of the highest.
    pub lowest_share: f64,
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
