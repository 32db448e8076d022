//! What a search has measured under each load that it tried, as reports.

use forebay_load::{
    engine::Stretch,
    plan::{Load, Pace},
    report::{Report, Run},
};

use super::plan::Job;

/// Measurements by load, kept only where somebody wants to see them.
#[derive(Debug)]
pub(crate) struct Trials {
    run: Run,
    wanted: bool,
    measured: Vec<(Load, Stretch)>,
}

impl Trials {
    pub(crate) fn new(job: &Job, wanted: bool) -> Self {
        let run = Run {
            duration_seconds: None,
            ..job.run.clone()
        };
        Self {
            run,
            wanted,
            measured: Vec::new(),
        }
    }

    /// Adds a measurement; one under the same load as an earlier one follows it.
    pub(crate) fn add(&mut self, stretch: &Stretch) {
        if !self.wanted {
            return;
        }
        let load = stretch.load;
        match self.measured.iter_mut().find(|(known, _)| *known == load) {
            Some((_, measured)) => measured.extend(stretch),
            None => self.measured.push((load, stretch.clone())),
        }
    }

    /// A report for each load, the lightest first.
    pub(crate) fn reports(mut self) -> Vec<Report> {
        let weight = |load: &Load| match load.pace {
            Pace::Closed => (load.connections, 0.0),
            Pace::Open { per_second, .. } => (load.connections, per_second),
        };
        self.measured.sort_by(|(a, _), (b, _)| {
            let (a, b) = (weight(a), weight(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let report = |(load, stretch): &(Load, Stretch)| {
            let run = Run {
                load: Some(*load),
                connections: load.connections,
                ..self.run.clone()
            };
            Report::new(run, stretch, &Stretch::nothing(*load))
        };
        self.measured.iter().map(report).collect()
    }
}
