//! Stages: a load that changes while it is measured, as a function of time.

use std::time::Duration;

use forebay_load::plan::{Load, Pace};

use super::values::{STAGES_MAX, Stage, StageTarget};

/// The lowest rate within a rise from zero, as a share of the rate that it rises to.
const RISE_FROM: f64 = 0.001;

/// A sequence of stages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    stages: Vec<Stage>,
    /// Number of connections while a stage sets a rate.
    connections: usize,
}

impl Schedule {
    /// A schedule of at least one stage, each with some load at some time.
    pub(crate) fn new(stages: &[Stage], connections: usize) -> Result<Self, String> {
        if stages.len() > STAGES_MAX {
            return Err(format!(
                "found {} stages, expected at most {STAGES_MAX}",
                stages.len()
            ));
        }
        let schedule = Self {
            stages: stages.to_vec(),
            connections,
        };
        if schedule.connections_max() == 0 {
            return Err(
                "the stages have no connections at any time; give one of them some, such as --stage 10s:64"
                    .to_owned(),
            );
        }
        Ok(schedule)
    }

    /// Total duration of all stages.
    pub(crate) fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }

    /// The load of each stage in words.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = |stage: &Stage| match stage.target {
            StageTarget::Connections(1, 1) => "1 connection".to_owned(),
            StageTarget::Connections(from, to) if from == to => format!("{to} connections"),
            StageTarget::Connections(from, to) => format!("{from} to {to} connections"),
            StageTarget::Rate(from, to) if from.total_cmp(&to).is_eq() => format!("{to} requests/s"),
            StageTarget::Rate(from, to) => format!("{from} to {to} requests/s"),
        };
        self.stages.iter().map(words).collect()
    }

    /// Most simultaneous connections.
    pub(crate) fn connections_max(&self) -> usize {
        let most = self.stages.iter().map(|stage| match stage.target {
            StageTarget::Connections(from, to) => from.max(to),
            StageTarget::Rate(..) => self.connections,
        });
        most.max().unwrap_or(0)
    }

    /// The load at this time after the start; after the end, that of the end.
    pub(crate) fn at(&self, elapsed: Duration) -> Load {
        let mut begun = Duration::ZERO;
        let last = self.stages.len() - 1;
        for (number, stage) in self.stages.iter().enumerate() {
            if elapsed < begun + stage.duration || number == last {
                let within = elapsed.saturating_sub(begun).as_secs_f64() / stage.duration.as_secs_f64();
                return self.load(stage.target, within.min(1.0));
            }
            begun += stage.duration;
        }
        Load::PAUSED
    }

    fn load(&self, target: StageTarget, within: f64) -> Load {
        let between = |from: f64, to: f64| from + (to - from) * within;
        match target {
            StageTarget::Connections(from, to) => Load {
                connections: between(from as f64, to as f64).round() as usize,
                pace: Pace::Closed,
            },
            StageTarget::Rate(from, to) => Load {
                connections: self.connections,
                pace: Pace::Open {
                    per_second: between(from, to).max(to * RISE_FROM),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::values::stage, *};

    fn schedule(stages: &[&str]) -> Schedule {
        let stages: Vec<Stage> = stages.iter().map(|text| stage(text).unwrap()).collect();
        Schedule::new(&stages, 8).unwrap()
    }

    #[test]
    fn connections_rise_and_hold() {
        let schedule = schedule(&["10s:0..100", "5s:100", "5s:10"]);
        let connections = |seconds| schedule.at(Duration::from_secs(seconds)).connections;
        let seen: Vec<usize> = [0, 5, 10, 14, 15, 19, 20, 99].map(connections).into();
        assert_eq!(seen, [0, 50, 100, 100, 10, 10, 10, 10]);
        assert_eq!(
            (schedule.duration(), schedule.connections_max()),
            (Duration::from_secs(20), 100)
        );
    }

    #[test]
    fn a_rate_rises_from_almost_nothing_on_all_connections() {
        let schedule = schedule(&["10s:0..1000/s"]);
        let rate = |seconds| match schedule.at(Duration::from_secs(seconds)) {
            Load {
                connections: 8,
                pace: Pace::Open { per_second },
            } => per_second,
            other => panic!("{other:?}"),
        };
        assert!(
            (rate(0) - 1.0).abs() < 1e-9
                && (rate(5) - 500.0).abs() < 1e-9
                && (rate(10) - 1000.0).abs() < 1e-9
        );
    }

    #[test]
    fn stages_without_any_connection_are_refused() {
        assert!(Schedule::new(&[stage("10s:0").unwrap()], 8).is_err());
    }
}
