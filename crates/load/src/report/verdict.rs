//! Judges whether the figures of a run can be trusted, and if not, why: failures, a generator that was the limit instead of the server, or
//! disturbances of the run. Each limit has a name here, and each reason gives the figure that was found and what to do.

use super::{
    Report,
    format::{count, duration, percent, rate, several},
};
use crate::{
    engine::Stretch,
    failure::{Class, Counts},
    plan::Pace,
    search::Versus,
    stats,
};

/// Share of the requests that may fail before the figures describe something else.
pub const FAILED_MAX: f64 = 0.001;
/// Share of an open load's rate that must be answered.
pub const ACHIEVED_MIN: f64 = 0.99;
/// Share of a core that each event loop may use, as the mean of all.
pub const LOOP_BUSY_MAX: f64 = 0.90;
/// Share of a machine's cores above which it counts as full.
pub const FULL: f64 = 0.90;
/// Share of all CPU time that the generator may use on a full machine.
pub const OWN_SHARE_MAX: f64 = 0.50;
/// Coefficient of variation between parts of a run.
pub const VARIATION_MAX: f64 = 0.05;
/// Share of the cores' time that a hypervisor may give to others.
pub const STEAL_MAX: f64 = 0.01;
/// Share of the cores' time that processes other than server and generator may use.
pub const OTHERS_MAX: f64 = 0.05;
/// Change of the rate from start to end.
pub const DRIFT_MAX: f64 = 0.05;
/// Part of a server's requests that may fail before a ratio compares failures with answers.
pub const SIDE_FAILED_MAX: f64 = 0.01;

/// The kind of run; the worst that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// No objections to its figures.
    #[default]
    Clean,
    /// Another run might give different figures.
    Noisy,
    /// It measured the generator as much as the server.
    ClientBound,
    /// Too much failed.
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
    /// The reasons, a sentence each, the gravest first. A clean run has one that says what was checked.
    pub reasons: Vec<String>,
    /// Further remarks, a sentence each. They do not change the verdict.
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
        let mut notes = Vec::new();
        let client = client(report);
        let mut reasons: Vec<(Kind, String)> = failures(report, &mut notes).into_iter().collect();
        reasons.extend(rate_of_open_load(report, client.is_some()));
        reasons.extend(client.map(|reason| (Kind::ClientBound, reason)));
        reasons.extend(disturbances(report).map(|reason| (Kind::Noisy, reason)));
        reasons.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let kind = reasons.first().map_or(Kind::Clean, |(kind, _)| *kind);
        let mut reasons: Vec<_> = reasons.into_iter().map(|(_, reason)| reason).collect();
        if kind == Kind::Clean {
            reasons.push(nothing_found(report));
        }
        Self { kind, reasons, notes }
    }

    /// Judges a comparison of A with B, given a comparison of A with itself.
    pub fn of_comparison(itself: &Versus, found: &Versus) -> Self {
        let sides = [("A", &found.first), ("B", &found.second)];
        let failed: Vec<String> = sides
            .into_iter()
            .filter_map(|(name, stretch)| failed_much(name, stretch))
            .collect();
        let (kind, reasons) = if !failed.is_empty() {
            (Kind::Errors, failed)
        } else if let Some(reason) = unsure(itself, found) {
            (Kind::Noisy, vec![reason])
        } else {
            let limit = SIDE_FAILED_MAX * 100.0;
            let reason = format!(
                "Neither server failed more than {limit:.0} % of its requests, and A beside itself showed no difference."
            );
            (Kind::Clean, vec![reason])
        };
        Self {
            kind,
            reasons,
            notes: Vec::new(),
        }
    }
}

fn failures(report: &Report, notes: &mut Vec<String>) -> Option<(Kind, String)> {
    if report.interrupted {
        let lasted = duration(report.seconds * 1e9);
        notes.push(format!("The run was ended after {lasted} and is not complete."));
    }
    let (failed, asked) = (report.failed(), report.asked());
    let mut counts = Counts::default();
    for failure in &report.failures {
        counts.add(failure.class, failure.count);
    }
    let named = named(&counts);
    let advice = counts
        .iter()
        .max_by_key(|(_, count)| *count)
        .map_or("", |(class, _)| advice(class));
    if report.answers == 0 {
        return Some((Kind::Errors, format!("Not one answer came ({named}).{advice}")));
    }
    if failed as f64 > FAILED_MAX * asked as f64 {
        let (failed_text, asked_text, part) = (count(failed), count(asked), percent(failed, asked));
        let reason = format!("{failed_text} of {asked_text} requests failed, {part} ({named}).{advice}");
        return Some((Kind::Errors, reason));
    }
    if failed > 0 {
        let (failed, asked) = (several(failed, "request"), count(asked));
        notes.push(format!(
            "{failed} of {asked} failed ({named}), too few to change the figures."
        ));
    }
    None
}

/// The classes of failures and their numbers.
fn named(failures: &Counts) -> String {
    let named = failures
        .iter()
        .map(|(class, number)| format!("{} {}", class.name(), count(number)));
    let named = named.collect::<Vec<_>>().join(", ");
    if named.is_empty() {
        "nothing was sent".to_owned()
    } else {
        named
    }
}

/// The part of their time that the event loops used on average.
fn busy(report: &Report) -> f64 {
    report.cpu_seconds / (report.seconds * report.run.threads.max(1) as f64)
}

/// Why the generator may have been the limit.
fn client(report: &Report) -> Option<String> {
    let (run, usage) = (&report.run, report.usage.as_ref());
    let busy = busy(report);
    if busy > LOOP_BUSY_MAX {
        let cores = usage.and_then(|usage| usage.cores);
        let remedy = if cores.is_none_or(|cores| run.threads < cores) && run.connections > run.threads {
            format!("give it more threads (-t {})", run.threads + 1)
        } else {
            "let it run on another machine, or compare CPU time for each request (--server-pid)".to_owned()
        };
        let busy = share(busy.min(1.0));
        return Some(format!(
            "The threads of the generator were busy {busy} of the time, so it may be the limit and not the server; {remedy}."
        ));
    }
    let full = usage?.busy_share.filter(|busy| *busy > FULL)?;
    let own = report.cpu_seconds / usage?.busy_seconds()?.max(report.cpu_seconds);
    if own <= OWN_SHARE_MAX {
        return None;
    }
    let (full, own) = (share(full), share(own));
    Some(format!(
        "The machine was full ({full} busy) and the generator used {own} of that itself; let it run on another machine, or compare CPU \
         time for each request (--server-pid)."
    ))
}

fn rate_of_open_load(report: &Report, client_bound: bool) -> Option<(Kind, String)> {
    let Pace::Open { per_second } = report.run.load?.pace else {
        return None;
    };
    let asked = per_second * report.seconds;
    if asked < 1.0 || report.answers == 0 || !report.run.stages.is_empty() {
        return None;
    }
    // Requests in flight at the end were answered later, and the last one may be due beyond it.
    let service = report.service_ns.as_ref();
    let service_seconds = service.map_or(0.0, |service| service.mean() / 1e9);
    let late = (service_seconds / report.seconds).min(0.5) + 1.0 / asked;
    let achieved = report.per_second / per_second;
    if achieved >= ACHIEVED_MIN - late {
        return None;
    }
    let (kind, whose) = if client_bound {
        (Kind::ClientBound, "the generator could not send more".to_owned())
    } else {
        let connections = several(report.run.connections as u64, "connection");
        let whose = format!(
            "the server, or what {connections} can carry, was the limit; ask for less, or give more connections (-c)"
        );
        (Kind::Errors, whose)
    };
    let (got, wanted, part) = (rate(report.per_second), rate(per_second), share(achieved));
    let lag = duration(report.lag_max_ns as f64);
    let reason = format!(
        "Only {got} of {wanted} requests a second were answered ({part}), some sent {lag} late; {whose}."
    );
    Some((kind, reason))
}

/// Conditions under which another run is likely to give different figures.
fn disturbances(report: &Report) -> impl Iterator<Item = String> {
    let answered = report.answers > 0;
    let warm_up = &report.warm_up;
    let unsteady = (answered && warm_up.steady == Some(false)).then(|| {
        format!(
            "After {} of warm-up throughput and latency were still changing; warm up for longer (--warmup 30s), or quieten the machine.",
            duration(warm_up.seconds * 1e9)
        )
    });
    // A load that changes on purpose changes the rate, too.
    let varied = if answered && report.run.stages.is_empty() {
        variation(report)
    } else {
        None
    };
    let others = neighbours(report);
    unsteady.into_iter().chain(varied).chain(others)
}

fn variation(report: &Report) -> Option<String> {
    let Some(variation) = stats::variation(&report.timeline) else {
        let lasted = duration(report.seconds * 1e9);
        return Some(format!(
            "The run lasted {lasted}, too short to tell how steady it was; measure for a second or longer."
        ));
    };
    let drift = stats::drift(&stats::rates(&report.timeline));
    if let Some(change) = drift.filter(|change| change.abs() > DRIFT_MAX) {
        let way = if change < 0.0 { "fell" } else { "rose" };
        let change = share(change.abs());
        return Some(format!(
            "The rate {way} by {change} from start to end; warm up or measure for longer, and look for what grows or throttles."
        ));
    }
    (variation > VARIATION_MAX).then(|| {
        let variation = share(variation);
        format!(
            "The rate varied by {variation} between parts of the run; measure for longer, or quieten the machine."
        )
    })
}

fn neighbours(report: &Report) -> Vec<String> {
    let Some(usage) = &report.usage else {
        return Vec::new();
    };
    let steal = usage.steal_share.filter(|steal| *steal > STEAL_MAX).map(share);
    let steal = steal.map(|steal| {
        format!(
            "The hypervisor gave {steal} of the CPU time to other machines; measure at another hour or place."
        )
    });
    // Without the server, its own CPU time is not known.
    let others = usage.busy_seconds().zip(usage.server);
    let others = others.map(|(busy, server)| busy - report.cpu_seconds - server.cpu_seconds);
    let others = others.zip(usage.cores).and_then(|(others, cores)| {
        let busy = others / usage.seconds;
        (busy > OTHERS_MAX * cores as f64).then(|| {
            format!("Processes other than server and generator used {busy:.2} of {cores} cores; stop them.")
        })
    });
    steal.into_iter().chain(others).collect()
}

/// The checks that a clean run has passed, in a sentence.
fn nothing_found(report: &Report) -> String {
    let variation = stats::variation(&report.timeline).map_or(String::new(), |variation| {
        format!(
            "the rate varied by {} between parts of the run, ",
            share(variation)
        )
    });
    let own = share(busy(report).clamp(0.0, 1.0));
    let failed = if report.failed() == 0 {
        "nothing"
    } else {
        "hardly anything"
    };
    format!("The generator was busy {own} of the time, {variation}and {failed} failed.")
}

/// The objection to a server's figures if too many of its requests failed.
fn failed_much(name: &str, stretch: &Stretch) -> Option<String> {
    let total = &stretch.total;
    let failed = total.failures.total();
    let asked = total.answers + total.failures.without_answer();
    let named = named(&total.failures);
    if total.answers == 0 {
        return Some(format!("Not one answer came from {name} ({named})."));
    }
    (failed as f64 > SIDE_FAILED_MAX * asked as f64).then(|| {
        format!(
            "{name} failed {} of its requests ({named}), so the ratios compare failures with answers.",
            percent(failed, asked)
        )
    })
}

/// Why another comparison might give a different result.
fn unsure(itself: &Versus, found: &Versus) -> Option<String> {
    match (&found.per_second, &itself.per_second) {
        (None, _) | (_, None) => Some("There were too few pairs to tell a difference from noise.".to_owned()),
        (_, Some(floor)) if floor.differs() => Some(format!(
            "A beside itself came out {:.3} times as fast ({:.3} to {:.3}), so the machine changes more than the pairs can see.",
            floor.value, floor.low, floor.high
        )),
        _ => None,
    }
}

/// Advice on a class of failures; with a space before it, or empty.
const fn advice(class: Class) -> &'static str {
    match class {
        Class::ConnectRefused => " Start the server, and look at host and port.",
        Class::ConnectTimeout | Class::Connect => " Look whether the server accepts that many connections.",
        Class::Resources => " Raise the limits: ulimit -n, net.ipv4.ip_local_port_range.",
        Class::Tls => " Look at the server's certificate (--cacert, --insecure).",
        Class::Write | Class::Reset | Class::ClosedEarly | Class::Truncated => {
            " Look into the server's log for why it closed connections."
        }
        Class::Malformed | Class::Framing | Class::OverLong | Class::Unsolicited => {
            " What the server sends is not clear HTTP; look at the first example."
        }
        Class::Timeout | Class::Unanswered => " Use fewer connections (-c), or wait for longer (--timeout).",
        Class::Status => " Look at the URL, or say which statuses are right (--expect-status).",
        Class::Mismatch => " Look at the first example, and at what was expected.",
        Class::Dropped => " Ask for a lower rate, or give more connections (-c).",
    }
}

/// A share from 0 to 1 in percent.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    // Near both ends the decimal is what counts.
    if (10.0..90.0).contains(&percent) {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::Slice,
        machine::{ServerUsage, Usage},
        plan::Load,
        report::Failure,
        stats::{Ratio, ratio},
    };

    /// A closed load that went well: 64 connections, 237,000 a second for ten seconds, by threads that were idle a third of the time.
    fn calm() -> Report {
        over_time(|at| 23_700 + (at as u64 * 37) % 101)
    }

    /// The calm run with this usage.
    fn with(usage: &Usage) -> Report {
        let mut report = calm();
        report.usage = Some(usage.clone());
        report
    }

    /// A run with `of(slice)` responses in each slice.
    fn over_time(of: impl Fn(usize) -> u64) -> Report {
        let mut report = Report::example();
        report.failures.clear();
        report.usage = None;
        report.cpu_seconds = 13.0;
        let set = |(at, slice): (usize, &mut Slice)| (slice.answers, slice.failures) = (of(at), 0);
        report.timeline.slices.iter_mut().enumerate().for_each(set);
        report
    }

    fn quiet() -> Usage {
        Usage {
            seconds: 10.0,
            cores: Some(4),
            busy_share: Some(0.5),
            steal_share: Some(0.0),
            server: Some(ServerUsage {
                pid: 9,
                processes: 1,
                cpu_seconds: 6.9,
                own_cpu_seconds: 6.9,
                rss_bytes: 1,
            }),
        }
    }

    fn failed(class: Class, count: u64) -> Vec<Failure> {
        let example = None;
        vec![Failure {
            class,
            count,
            example,
        }]
    }

    /// Asserts that the verdict is of this kind for one reason that contains these words.
    #[track_caller]
    fn assert_one(report: &Report, kind: Kind, words: &[&str]) {
        let verdict = Verdict::of(report);
        assert_eq!((verdict.kind, verdict.reasons.len()), (kind, 1), "{verdict:?}");
        for words in words {
            assert!(verdict.reasons[0].contains(words), "no `{words}` in {verdict:?}");
        }
    }

    #[test]
    fn a_run_without_fault_is_clean_and_says_what_was_looked_at() {
        for report in [calm(), with(&quiet())] {
            let words = ["busy 65 %", "varied by 0.", "nothing failed"];
            assert_one(&report, Kind::Clean, &words);
            let verdict = Verdict::of(&report);
            assert!(verdict.notes.is_empty(), "{verdict:?}");
            assert!(verdict.to_string().starts_with("clean: The generator"));
        }
    }

    #[test]
    fn many_failures_are_errors_few_are_a_note_and_no_answer_has_advice() {
        let mut report = calm();
        report.failures = failed(Class::Timeout, 23_000);
        let words = ["23,000 of 2,393,000", "0.96 %", "timeout 23,000", "--timeout"];
        assert_one(&report, Kind::Errors, &words);
        report.failures = failed(Class::Timeout, 17);
        assert_one(&report, Kind::Clean, &["hardly anything failed"]);
        let note = &Verdict::of(&report).notes[0];
        assert!(
            note.starts_with("17 requests of 2,370,017 failed (timeout 17)"),
            "{note}"
        );
        let mut report = over_time(|_| 0);
        (report.answers, report.per_second) = (0, 0.0);
        report.failures = failed(Class::ConnectRefused, 64);
        let words = ["Not one answer came (connect_refused 64)", "Start the server"];
        assert_one(&report, Kind::Errors, &words);
    }

    #[test]
    fn a_busy_generator_makes_it_client_bound() {
        let mut report = calm();
        report.cpu_seconds = 19.5;
        assert_one(&report, Kind::ClientBound, &["busy 97.5 %", "-t 3"]);
        report.usage = Some(quiet());
        report.usage.as_mut().unwrap().cores = Some(2);
        assert_one(&report, Kind::ClientBound, &["busy 97.5 %", "another machine"]);
        let mut usage = quiet();
        (usage.cores, usage.busy_share) = (Some(2), Some(0.99));
        assert_one(&with(&usage), Kind::ClientBound, &["99.0 % busy", "used 66 %"]);
        // The same share is harmless on a machine with idle time.
        usage.busy_share = Some(0.85);
        assert_eq!(Verdict::of(&with(&usage)).kind, Kind::Clean);
    }

    #[test]
    fn what_disturbs_a_run_makes_it_noisy() {
        let jumps = over_time(|at| if at / 5 % 2 == 0 { 20_000 } else { 28_000 });
        assert_one(&jumps, Kind::Noisy, &["varied by 10 %"]);
        let slower = over_time(|at| 26_000 - 40 * at as u64 + (at as u64 * 37) % 101);
        assert_one(&slower, Kind::Noisy, &["fell by"]);
        let climbing = over_time(|at| 5_000 + 300 * at as u64);
        assert_one(&climbing, Kind::Noisy, &["rose by"]);
        let mut usage = quiet();
        usage.steal_share = Some(0.031);
        assert_one(&with(&usage), Kind::Noisy, &["hypervisor gave 3.1 %"]);
        let mut usage = quiet();
        usage.busy_share = Some(0.6725);
        assert_one(&with(&usage), Kind::Noisy, &["0.70 of 4 cores"]);
    }

    #[test]
    fn a_run_that_was_not_warm_or_too_short_is_not_called_clean() {
        let mut report = calm();
        report.warm_up.seconds = 5.0;
        report.warm_up.steady = Some(true);
        assert_eq!(Verdict::of(&report).kind, Kind::Clean);
        report.warm_up.steady = Some(false);
        let words = ["After 5.000 s of warm-up", "still changing", "--warmup 30s"];
        assert_one(&report, Kind::Noisy, &words);
        let mut report = calm();
        report.timeline.slices.truncate(3);
        (report.seconds, report.cpu_seconds) = (0.3, 0.4);
        assert_one(&report, Kind::Noisy, &["lasted 300.0 ms, too short"]);
    }

    #[test]
    fn an_open_load_must_be_carried() {
        let mut report = calm();
        report.lag_max_ns = 1_200_000_000;
        report.run.load = Some(Load {
            connections: 64,
            pace: Pace::Open {
                per_second: 300_000.0,
            },
        });
        let words = ["237,000 of 300,000", "79 %", "1.200 s late", "-c"];
        assert_one(&report, Kind::Errors, &words);
        // With a generator that was busy all the time it is not the server that failed.
        report.cpu_seconds = 19.5;
        let verdict = Verdict::of(&report);
        assert_eq!(
            (verdict.kind, verdict.reasons.len()),
            (Kind::ClientBound, 2),
            "{verdict:?}"
        );
    }

    #[test]
    fn the_gravest_reason_comes_first() {
        let mut report = over_time(|at| if at / 5 % 2 == 0 { 22_000 } else { 26_000 });
        report.cpu_seconds = 19.5;
        report.failures = failed(Class::Status, 2_000_000);
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
        let text = Verdict::of(&report).to_string();
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }

    /// A comparison in which each side had a thousand answers, and some failures with them.
    fn compared(failures: [&[(Class, u64)]; 2], per_second: Option<Ratio>) -> Versus {
        let side = |failures: &[(Class, u64)]| {
            let mut stretch = Stretch::nothing(Load::PAUSED);
            stretch.total.answers = 1_000;
            for (class, number) in failures {
                stretch.total.failures.add(*class, *number);
            }
            stretch
        };
        Versus {
            pairs: Vec::new(),
            per_second,
            p50: None,
            p99: None,
            first: side(failures[0]),
            second: side(failures[1]),
            interrupted: false,
        }
    }

    /// The same on both sides.
    fn even() -> Option<Ratio> {
        ratio(&[(10.0, 10.1), (10.1, 10.0), (10.0, 10.0)])
    }

    #[test]
    fn a_server_of_which_more_than_a_hundredth_failed_is_named() {
        let judged = |failures: [&[(Class, u64)]; 2]| {
            Verdict::of_comparison(&compared([&[], &[]], even()), &compared(failures, even()))
        };
        let verdict = judged([&[(Class::Status, 10)], &[(Class::Status, 20), (Class::Reset, 11)]]);
        assert_eq!(
            (verdict.kind, verdict.reasons.len()),
            (Kind::Errors, 1),
            "{verdict}"
        );
        for words in ["B failed 3.07 %", "reset 11, status 20"] {
            assert!(verdict.reasons[0].contains(words), "{verdict}");
        }
        let both = judged([&[(Class::Status, 11)], &[(Class::Status, 11)]]);
        assert_eq!((both.kind, both.reasons.len()), (Kind::Errors, 2), "{both}");
        assert_eq!(judged([&[(Class::Status, 10)], &[]]).kind, Kind::Clean);
        let mut none = compared([&[(Class::ConnectRefused, 4)], &[]], None);
        none.first.total.answers = 0;
        assert_eq!(
            Verdict::of_comparison(&compared([&[], &[]], even()), &none).to_string(),
            "errors: Not one answer came from A (connect_refused 4)."
        );
    }

    #[test]
    fn a_server_that_differs_from_itself_makes_it_noisy() {
        let shifted = ratio(&[(20.0, 10.0), (20.1, 10.0), (20.0, 10.1), (20.0, 10.0)]);
        let verdict = Verdict::of_comparison(&compared([&[], &[]], shifted), &compared([&[], &[]], even()));
        assert_eq!(verdict.kind, Kind::Noisy, "{verdict}");
        assert!(verdict.reasons[0].contains("A beside itself"), "{verdict}");
        let few = Verdict::of_comparison(&compared([&[], &[]], even()), &compared([&[], &[]], None));
        assert_eq!(few.kind, Kind::Noisy, "{few}");
    }
}
