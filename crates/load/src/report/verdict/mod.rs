//! Whether the figures of a run can be trusted, and if not, why: what failed, whether the generator was the limit instead of the server,
//! and whether anything disturbed the run. Each limit has a name here, and each reason says the figure that was found and what to do.

mod checks;
mod comparison;

use self::checks::Checks;
pub use self::comparison::SIDE_FAILED_MAX;
use super::Report;

/// Part of the requests that may fail before the figures are those of something else.
pub const FAILED_MAX: f64 = 0.001;
/// Part of an open load's rate that must be answered.
pub const ACHIEVED_MIN: f64 = 0.99;
/// By how much a closed load may miss Little's law.
pub const LITTLE_MAX: f64 = 0.05;
/// Part of its core that an event loop may use.
pub const LOOP_BUSY_MAX: f64 = 0.90;
/// Part of a machine's cores above which it counts as full.
pub const FULL: f64 = 0.90;
/// Part of all CPU time that the generator may use on a full machine.
pub const OWN_SHARE_MAX: f64 = 0.50;
/// Coefficient of variation between parts of a run.
pub const VARIATION_MAX: f64 = 0.05;
/// Part of the cores' time that a hypervisor may give to others.
pub const STEAL_MAX: f64 = 0.01;
/// Part of the cores' time that processes other than server and generator may use.
pub const OTHERS_MAX: f64 = 0.05;
/// Change of the rate from start to end.
pub const DRIFT_MAX: f64 = 0.05;
/// By how much a warm-up within the measured time may shift the mean rate.
pub const WARM_UP_MAX: f64 = 0.02;

/// What kind of run it was; the worst that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nothing speaks against its figures.
    #[default]
    Clean,
    /// Another run might well give other figures.
    Noisy,
    /// It measured the generator as much as the server.
    ClientBound,
    /// Too much failed, or figures contradict each other.
    Errors,
}

impl Kind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Noisy => "noisy",
            Self::ClientBound => "client-bound",
            Self::Errors => "errors",
        }
    }
}

/// Whether the figures of a run can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The kind of run.
    pub kind: Kind,
    /// Why, a sentence each, the gravest first. A clean run has one that says what was looked at.
    pub reasons: Vec<String>,
    /// What else is worth knowing, a sentence each. It does not change the verdict.
    pub notes: Vec<String>,
}

impl std::fmt::Display for Verdict {
    /// The kind and its reasons in one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.reasons.join(" "))
    }
}

impl Verdict {
    /// Judges a run, by what it used too if that is known.
    pub fn of(report: &Report) -> Self {
        let Checks {
            mut reasons, notes, ..
        } = Checks::run(report);
        reasons.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let kind = reasons.first().map_or(Kind::Clean, |(kind, _)| *kind);
        let mut reasons: Vec<_> = reasons.into_iter().map(|(_, reason)| reason).collect();
        if kind == Kind::Clean {
            reasons.push(checks::nothing_found(report));
        }
        Self { kind, reasons, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::Slice,
        failure::Class,
        machine::{LoopUsage, ServerUsage, Usage},
        plan::{Arrivals, Load, Pace},
        report::Failure,
    };

    /// A closed load that went well: 64 connections, 270 us, 237,000 a second for ten seconds, by threads that were idle a third of
    /// the time.
    fn calm() -> Report {
        let mut report = Report::example();
        report.failures.clear();
        report.usage = None;
        report.cpu_seconds = 13.0;
        for (at, slice) in report.timeline.slices.iter_mut().enumerate() {
            set(slice, 23_700 + (at as u64 * 37) % 101);
        }
        report
    }

    /// The calm run with such a usage.
    fn with(usage: &Usage) -> Report {
        let mut report = calm();
        report.usage = Some(usage.clone());
        report
    }

    /// Slices so and so.
    fn course(of: impl Fn(usize) -> u64) -> Report {
        let mut report = calm();
        report
            .timeline
            .slices
            .iter_mut()
            .enumerate()
            .for_each(|(at, slice)| set(slice, of(at)));
        report
    }

    fn set(slice: &mut Slice, answers: u64) {
        (slice.answers, slice.failures) = (answers, 0);
    }

    fn quiet() -> Usage {
        let one = LoopUsage {
            busy_share: 0.65,
            waiting_share: Some(0.01),
        };
        Usage {
            seconds: 10.0,
            cores: Some(4),
            busy_share: Some(0.5),
            steal_share: Some(0.0),
            own_cpu_seconds: Some(13.0),
            loops: vec![one, one],
            involuntary_switches: 5,
            others_cpu_seconds: Some(0.1),
            server: Some(ServerUsage {
                pid: 9,
                processes: 1,
                cpu_seconds: 6.9,
                rss_bytes: 1,
                rss_bytes_before: 1,
                voluntary_switches: 0,
                involuntary_switches: 0,
            }),
        }
    }

    /// That it is of this kind for one reason, with these words in it.
    #[track_caller]
    fn assert_one(verdict: &Verdict, kind: Kind, words: &[&str]) {
        assert_eq!((verdict.kind, verdict.reasons.len()), (kind, 1), "{verdict:?}");
        for words in words {
            assert!(verdict.reasons[0].contains(words), "no `{words}` in {verdict:?}");
        }
    }

    #[test]
    fn a_run_without_fault_is_clean_and_says_what_was_looked_at() {
        for report in [calm(), with(&quiet())] {
            let verdict = Verdict::of(&report);
            assert_one(
                &verdict,
                Kind::Clean,
                &["busy 65 %", "varied by 0.", "nothing failed"],
            );
            assert!(verdict.notes.is_empty(), "{verdict:?}");
            assert!(verdict.to_string().starts_with("clean: The generator"));
        }
    }

    #[test]
    fn many_failures_are_errors_and_few_are_a_note() {
        let mut report = calm();
        let failed = |count| Failure {
            class: Class::Timeout,
            count,
            example: None,
        };
        report.failures = vec![failed(23_000)];
        assert_one(
            &Verdict::of(&report),
            Kind::Errors,
            &["23,000 of 2,393,000", "0.96 %", "timeout 23,000", "--timeout"],
        );
        report.failures = vec![failed(17)];
        let verdict = Verdict::of(&report);
        assert_one(&verdict, Kind::Clean, &["hardly anything failed"]);
        assert!(
            verdict.notes[0].starts_with("17 requests of 2,370,017 failed (timeout 17)"),
            "{verdict:?}"
        );
    }

    #[test]
    fn no_answers_at_all_are_errors() {
        let mut report = course(|_| 0);
        report.latency_ns.reset();
        (report.answers, report.per_second) = (0, 0.0);
        report.failures = vec![Failure {
            class: Class::ConnectRefused,
            count: 64,
            example: None,
        }];
        assert_one(
            &Verdict::of(&report),
            Kind::Errors,
            &["Not one answer came (connect_refused 64)", "Start the server"],
        );
    }

    #[test]
    fn a_busy_event_loop_makes_it_client_bound() {
        let mut report = calm();
        report.cpu_seconds = 19.5;
        assert_one(&Verdict::of(&report), Kind::ClientBound, &["busy 97.5 %", "-t 3"]);
        let mut usage = quiet();
        usage.cores = Some(2);
        usage.loops[1].busy_share = 0.97;
        assert_one(
            &Verdict::of(&with(&usage)),
            Kind::ClientBound,
            &["busy 97.0 %", "another machine"],
        );
    }

    #[test]
    fn a_generator_that_fills_the_machine_makes_it_client_bound() {
        let mut usage = quiet();
        (usage.cores, usage.busy_share) = (Some(2), Some(0.99));
        assert_one(
            &Verdict::of(&with(&usage)),
            Kind::ClientBound,
            &["99.0 % busy", "used 66 %"],
        );
        // The same share of a machine that has time left is nobody's limit.
        usage.busy_share = Some(0.85);
        assert_eq!(Verdict::of(&with(&usage)).kind, Kind::Clean);
    }

    #[test]
    fn what_disturbs_a_run_makes_it_noisy() {
        let jumps = course(|at| if at / 5 % 2 == 0 { 20_000 } else { 28_000 });
        assert_one(&Verdict::of(&jumps), Kind::Noisy, &["varied by 10 %"]);
        let slower = course(|at| 26_000 - 40 * at as u64 + (at as u64 * 37) % 101);
        assert_eq!(Verdict::of(&slower).kind, Kind::Noisy);
        let warming = course(|at| if at < 15 { 8_000 } else { 25_000 } + (at as u64 * 37) % 101);
        assert_one(&Verdict::of(&warming), Kind::Noisy, &["The first 1.", "--warmup"]);
        let climbing = course(|at| 5_000 + 300 * at as u64);
        assert_one(&Verdict::of(&climbing), Kind::Noisy, &["rose by"]);
        let mut usage = quiet();
        usage.steal_share = Some(0.031);
        assert_one(
            &Verdict::of(&with(&usage)),
            Kind::Noisy,
            &["hypervisor gave 3.1 %"],
        );
        let mut usage = quiet();
        usage.others_cpu_seconds = Some(7.0);
        assert_one(&Verdict::of(&with(&usage)), Kind::Noisy, &["0.70 of 4 cores"]);
    }

    #[test]
    fn a_warm_up_that_never_became_steady_makes_it_noisy() {
        let mut report = calm();
        report.warm_up.seconds = 5.0;
        for steady in [None, Some(true)] {
            report.warm_up.steady = steady;
            assert_eq!(Verdict::of(&report).kind, Kind::Clean, "{steady:?}");
        }
        report.warm_up.steady = Some(false);
        assert_one(
            &Verdict::of(&report),
            Kind::Noisy,
            &["After 5.000 s of warm-up", "still changing", "--warmup 30s"],
        );
    }

    #[test]
    fn a_run_that_is_too_short_is_not_called_clean() {
        let mut report = calm();
        report.timeline.slices.truncate(3);
        report.seconds = 0.3;
        report.cpu_seconds = 0.4;
        assert_one(
            &Verdict::of(&report),
            Kind::Noisy,
            &["lasted 300.0 ms, too short"],
        );
    }

    #[test]
    fn figures_that_contradict_each_other_are_errors() {
        let mut report = with(&quiet());
        report
            .usage
            .as_mut()
            .unwrap()
            .loops
            .iter_mut()
            .for_each(|one| one.busy_share = 0.1);
        report.run.connections = 80;
        let words = ["make 64.31", "room for 80", "Little's law"];
        assert_one(&Verdict::of(&report), Kind::Errors, &words);
        report.run.connections = 40;
        assert_one(
            &Verdict::of(&report),
            Kind::Errors,
            &["make 64.31", "room for 40"],
        );
        // Without keep-alive a connection is busy with more than its request.
        report.run.keep_alive = false;
        assert_eq!(Verdict::of(&report).kind, Kind::Clean);
    }

    #[test]
    fn connections_that_wait_for_the_generator_are_told_apart_from_lost_ones() {
        let mut report = with(&quiet());
        report.run.connections = 80;
        let verdict = Verdict::of(&report);
        assert_eq!(verdict.kind, Kind::Clean);
        assert!(
            verdict.notes[0].starts_with("Of 80 requests that could be under way 64.31 were"),
            "{verdict:?}"
        );
        report.run.connections = 150;
        assert_one(
            &Verdict::of(&report),
            Kind::ClientBound,
            &["Of 150 requests", "only 64.31 were"],
        );
        // What the generator did not tell of cannot be held against the connections.
        report.usage = None;
        assert_eq!(Verdict::of(&report).kind, Kind::ClientBound);
    }

    #[test]
    fn the_ends_of_a_short_run_are_no_contradiction() {
        let mut report = calm();
        // Five rounds of 100 requests: in the last one connections wait for each other.
        report.run.requests = Some(500);
        report.run.connections = 100;
        report.answers = 500;
        report.latency_ns.reset();
        (0..500).for_each(|_| report.latency_ns.saturating_record(1_900_000_000));
        report.per_second = 45.0;
        let verdict = Verdict::of(&report);
        assert!(!verdict.reasons[0].contains("Little"), "{verdict:?}");
    }

    #[test]
    fn an_open_load_must_be_carried() {
        let mut report = calm();
        report.lag_max_ns = 1_200_000_000;
        report.run.load = Some(Load {
            connections: 64,
            pace: Pace::Open {
                per_second: 300_000.0,
                arrivals: Arrivals::Uniform,
            },
        });
        assert_one(
            &Verdict::of(&report),
            Kind::Errors,
            &["237,000 of 300,000", "79 %", "1.200 s late", "-c"],
        );
        // Of a hundred requests at random moments twenty fewer may have been due.
        let short = |arrivals| {
            let mut report = report.clone();
            (report.seconds, report.per_second) = (1.0, 80.0);
            report.run.load = Some(Load {
                connections: 64,
                pace: Pace::Open {
                    per_second: 100.0,
                    arrivals,
                },
            });
            let verdict = Verdict::of(&report);
            verdict
                .reasons
                .iter()
                .any(|reason| reason.contains("Only 80 of 100"))
        };
        assert!(short(Arrivals::Uniform) && !short(Arrivals::Poisson));
        // With a generator that was busy all the time it is not the server that failed.
        report.cpu_seconds = 19.5;
        let verdict = Verdict::of(&report);
        assert_eq!(
            (verdict.kind, verdict.reasons.len()),
            (Kind::ClientBound, 2),
            "{verdict:?}"
        );
        report.cpu_seconds = 13.0;
    }

    #[test]
    fn waiting_for_a_connection_is_told_but_changes_nothing() {
        let mut report = Report::example_open();
        report.per_second = 239_500.0;
        report.failures.clear();
        report.usage = Some(quiet());
        let verdict = Verdict::of(&report);
        assert!(
            verdict.notes[0].starts_with("Of the mean latency of 671.3 us, requests waited 400.0 us"),
            "{verdict:?}"
        );
        let mut usage = quiet();
        usage.loops[0].waiting_share = Some(0.2);
        report.usage = Some(usage.clone());
        assert_one(
            &Verdict::of(&report),
            Kind::Noisy,
            &["400.0 us passed before a request was sent", "20 %"],
        );
        let verdict = Verdict::of(&with(&usage));
        assert_eq!((verdict.kind, verdict.notes.len()), (Kind::Clean, 1));
    }

    #[test]
    fn the_gravest_reason_comes_first() {
        let mut report = course(|at| if at / 5 % 2 == 0 { 22_000 } else { 26_000 });
        report.cpu_seconds = 19.5;
        report.failures = vec![Failure {
            class: Class::Status,
            count: 2_000_000,
            example: None,
        }];
        let verdict = Verdict::of(&report);
        assert_eq!((verdict.kind, verdict.reasons.len()), (Kind::Errors, 3));
        assert!(
            verdict.reasons[0].contains("failed") && verdict.reasons[2].contains("varied"),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_run_of_no_time_divides_by_nothing() {
        let mut report = calm();
        (report.seconds, report.run.threads, report.run.connections) = (0.0, 0, 0);
        report.usage = Some(Usage::default());
        let verdict = Verdict::of(&report);
        assert!(
            !verdict
                .reasons
                .iter()
                .any(|reason| reason.contains("NaN") || reason.contains("inf")),
            "{verdict:?}"
        );
    }
}
