//! Whether the figures of a run can be trusted, and if not, why: what failed, whether the generator was the limit instead of the server,
//! and whether anything disturbed the run. Each limit has a name here, and each reason says the figure that was found and what to do.

use super::{
    Report,
    words::{count, duration, percent, rate, several},
};
use crate::{failure::Class, machine::Usage, plan::Pace, stats};

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
/// Part of the time that an event loop may stand in line for a core before latencies are worth a remark.
const WAITING_NOTE: f64 = 0.10;
/// Most classes of failures that a reason names.
const CLASSES_MAX: usize = 3;

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
        let usage = report.usage.as_ref();
        let mut court = Court {
            report,
            usage,
            reasons: Vec::new(),
            notes: Vec::new(),
        };
        court.failures();
        let client_bound = court.client();
        court.rate_of_open_load(client_bound);
        court.littles_law();
        court.waiting();
        if report.answers > 0 {
            court.steadiness();
        }
        court.neighbours();
        let Court {
            mut reasons, notes, ..
        } = court;
        reasons.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let kind = reasons.first().map_or(Kind::Clean, |(kind, _)| *kind);
        let mut reasons: Vec<_> = reasons.into_iter().map(|(_, reason)| reason).collect();
        if kind == Kind::Clean {
            reasons.push(nothing_found(report, usage));
        }
        Self { kind, reasons, notes }
    }
}

/// What is judged, and what was found so far.
struct Court<'a> {
    report: &'a Report,
    usage: Option<&'a Usage>,
    reasons: Vec<(Kind, String)>,
    notes: Vec<String>,
}

impl Court<'_> {
    fn because(&mut self, kind: Kind, reason: String) {
        self.reasons.push((kind, reason));
    }

    fn failures(&mut self) {
        let report = self.report;
        let (failed, asked) = (report.failed(), report.asked());
        let mut classes: Vec<_> = report
            .failures
            .iter()
            .filter(|failure| failure.count > 0)
            .collect();
        classes.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        let advice = classes.first().map_or("", |failure| advice(failure.class));
        let named = classes
            .iter()
            .take(CLASSES_MAX)
            .map(|failure| format!("{} {}", failure.class.name(), count(failure.count)));
        let named = named.collect::<Vec<_>>().join(", ");
        if report.answers == 0 {
            let what = if named.is_empty() {
                "nothing was sent".to_owned()
            } else {
                named
            };
            self.because(Kind::Errors, format!("Not one answer came ({what}).{advice}"));
        } else if failed as f64 > FAILED_MAX * asked as f64 {
            let (failed_text, asked_text, part) = (count(failed), count(asked), percent(failed, asked));
            self.because(
                Kind::Errors,
                format!("{failed_text} of {asked_text} requests failed, {part} ({named}).{advice}"),
            );
        } else if failed > 0 {
            let asked = count(asked);
            self.notes.push(format!(
                "{} of {asked} failed ({named}), too few to change the figures.",
                several(failed, "request")
            ));
        }
        if report.interrupted {
            self.notes.push(format!(
                "The run was ended after {} and is not complete.",
                duration(report.seconds * 1e9)
            ));
        }
    }

    /// Whether the generator was the limit.
    fn client(&mut self) -> bool {
        let Report {
            run,
            seconds,
            cpu_seconds,
            ..
        } = self.report;
        let on_average = cpu_seconds / (seconds * run.threads.max(1) as f64);
        let busiest = self.usage.and_then(Usage::busiest_loop).unwrap_or(on_average);
        let cores = self.usage.and_then(|usage| usage.cores);
        if busiest > LOOP_BUSY_MAX {
            let remedy = if cores.is_none_or(|cores| run.threads < cores) && run.connections > run.threads {
                format!("give it more threads (-t {})", run.threads + 1)
            } else {
                "let it run on another machine, or compare CPU time for each request (--server-pid)"
                    .to_owned()
            };
            let busy = share(busiest.min(1.0));
            self.because(
                Kind::ClientBound,
                format!("An event loop of the generator was busy {busy} of the time, so it may be the limit and not the server; {remedy}."),
            );
            return true;
        }
        let full = self
            .usage
            .and_then(|usage| usage.busy_share)
            .filter(|busy| *busy > FULL);
        let own = self
            .usage
            .and_then(Usage::own_share_of_busy)
            .filter(|own| *own > OWN_SHARE_MAX);
        if let (Some(full), Some(own)) = (full, own) {
            let (full, own) = (share(full), share(own));
            self.because(
                Kind::ClientBound,
                format!(
                    "The machine was full ({full} busy) and the generator used {own} of that itself; let it run on another machine, \
                     or compare CPU time for each request (--server-pid)."
                ),
            );
            return true;
        }
        false
    }

    fn rate_of_open_load(&mut self, client_bound: bool) {
        let report = self.report;
        let target = match report.run.load.map(|load| load.pace) {
            Some(Pace::Open { per_second, .. }) => per_second,
            Some(Pace::PerConnection { per_second }) => per_second * report.run.connections as f64,
            Some(Pace::Closed) | None => return,
        };
        let asked = target * report.seconds;
        if asked < 1.0 || report.answers == 0 {
            return;
        }
        // What was under way at the end was answered later; and the last request of a short run may not have been due.
        let service_seconds = report
            .service_ns
            .as_ref()
            .map_or(0.0, |service| service.mean() / 1e9);
        let late = (service_seconds / report.seconds).min(0.5) + 1.0 / asked;
        let achieved = report.per_second / target;
        if achieved < ACHIEVED_MIN - late {
            let (got, wanted, part) = (rate(report.per_second), rate(target), share(achieved));
            let (kind, whose) = if client_bound {
                (Kind::ClientBound, "the generator could not send more".to_owned())
            } else {
                let connections = several(report.run.connections as u64, "connection");
                (
                    Kind::Errors,
                    format!(
                        "the server, or what {connections} can carry, was the limit; ask for less, or give more connections (-c)"
                    ),
                )
            };
            let lag = duration(report.lag_max_ns as f64);
            self.because(
                kind,
                format!("Only {got} of {wanted} requests a second were answered ({part}), some sent {lag} late; {whose}."),
            );
        }
    }

    fn littles_law(&mut self) {
        let report = self.report;
        let closed = report.run.load.is_some_and(|load| load.pace == Pace::Closed);
        if !closed || !report.run.keep_alive || report.answers == 0 || report.latency_ns.is_empty() {
            return;
        }
        let asked = report.run.requests.unwrap_or(u64::MAX);
        let room = ((report.run.connections * report.run.pipeline) as f64).min(asked as f64);
        let latency_seconds = report.latency_ns.mean() / 1e9;
        // Requests that ended without an answer but with a latency, as those that timed out did, had their room too.
        let per_second = report.per_second * report.latency_ns.len() as f64 / report.answers as f64;
        // At both ends not all room is in use: while connections open, while the last answers of a fixed number come, and for what was
        // under way when the time was over.
        let opening = if report.connecting_ns.is_empty() {
            0.0
        } else {
            report.connecting_ns.max() as f64 / 1e9
        };
        let draining = if report.run.requests.is_some() {
            room / report.answers as f64
        } else {
            0.0
        };
        let ends = (latency_seconds + opening) / report.seconds + draining;
        if stats::littles_law(room, per_second, latency_seconds) > LITTLE_MAX + ends {
            let (under_way, room) = (rate(per_second * latency_seconds), rate(room));
            let (per_second, latency) = (rate(per_second), duration(latency_seconds * 1e9));
            self.because(
                Kind::Errors,
                format!(
                    "{per_second} requests a second that take {latency} each make {under_way} under way, but there is room for {room} \
                     (Little's law); connections were lost or stood idle."
                ),
            );
        }
    }

    fn waiting(&mut self) {
        let waited = self
            .usage
            .and_then(Usage::longest_wait)
            .filter(|share| *share > WAITING_NOTE);
        if let Some(waited) = waited {
            let waited = share(waited);
            self.notes.push(format!(
                "The generator stood in line for a core {waited} of the time, and latencies contain that; keep a core free for it."
            ));
        }
        if let Some(service) = &self.report.service_ns
            && !service.is_empty()
        {
            let (whole, served) = (self.report.latency_ns.mean(), service.mean());
            if whole - served > 0.1 * whole {
                let (whole, waited) = (duration(whole), duration(whole - served));
                self.notes.push(format!(
                    "Of the mean latency of {whole}, requests waited {waited} until a connection was free; users would wait as long."
                ));
            }
        }
    }

    fn steadiness(&mut self) {
        let timeline = &self.report.timeline;
        let Some(variation) = stats::variation(timeline) else {
            let lasted = duration(self.report.seconds * 1e9);
            self.because(
                Kind::Noisy,
                format!("The run lasted {lasted}, too short to tell how steady it was; measure for a second or longer."),
            );
            return;
        };
        let rates = stats::rates(timeline);
        let warm_up = stats::warm_up(&rates).filter(stats::WarmUp::matters);
        let drift = stats::drift(&rates).filter(|drift| drift.is_certain() && drift.change.abs() > DRIFT_MAX);
        if let Some(warm_up) = warm_up.filter(|warm_up| !warm_up.is_steady()) {
            let (before, after) = (rate(warm_up.before), rate(warm_up.after));
            self.because(
                Kind::Noisy,
                format!("The rate was not steady before the end (from {before} to {after} a second); warm up and measure for longer."),
            );
        } else if let Some(warm_up) =
            warm_up.filter(|found| (stats::mean(&rates) / found.after - 1.0).abs() > WARM_UP_MAX)
        {
            let took = duration((warm_up.cut + 1) as f64 * timeline.slice_ns as f64);
            let (before, after) = (rate(warm_up.before), rate(warm_up.after));
            self.because(
                Kind::Noisy,
                format!("The first {took} had {before} answers a second, the rest {after}; leave out the start (--warmup)."),
            );
        } else if let Some(drift) = drift {
            let way = if drift.change < 0.0 { "fell" } else { "rose" };
            let change = share(drift.change.abs());
            self.because(
                Kind::Noisy,
                format!("The rate {way} by {change} from start to end; measure for longer, and look for what grows or throttles."),
            );
        } else if variation > VARIATION_MAX {
            let variation = share(variation);
            self.because(
                Kind::Noisy,
                format!("The rate varied by {variation} between parts of the run; measure for longer, or quieten the machine."),
            );
        }
    }

    fn neighbours(&mut self) {
        let Some(usage) = self.usage else {
            return;
        };
        if let Some(steal) = usage.steal_share.filter(|steal| *steal > STEAL_MAX) {
            let steal = share(steal);
            self.because(
                Kind::Noisy,
                format!("The hypervisor gave {steal} of the CPU time to other machines; measure at another hour or place."),
            );
        }
        if let (Some(others), Some(cores)) = (usage.others_cpu_seconds, usage.cores)
            && others > OTHERS_MAX * cores as f64 * usage.seconds
        {
            let busy = others / usage.seconds;
            self.because(
                Kind::Noisy,
                format!(
                    "Processes other than server and generator used {busy:.2} of {cores} cores; stop them."
                ),
            );
        }
    }
}

/// What was looked at in a clean run.
fn nothing_found(report: &Report, usage: Option<&Usage>) -> String {
    let variation = stats::variation(&report.timeline).map_or(String::new(), |variation| {
        format!(
            "the rate varied by {} between parts of the run, ",
            share(variation)
        )
    });
    let own = usage
        .and_then(Usage::busiest_loop)
        .unwrap_or(report.cpu_seconds / (report.seconds * report.run.threads.max(1) as f64));
    let own = share(own.clamp(0.0, 1.0));
    let failed = if report.failed() == 0 {
        "nothing"
    } else {
        "hardly anything"
    };
    format!("The generator was busy {own} of the time, {variation}and {failed} failed.")
}

/// What to do about a class of failures; with a space before it, or empty.
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
        machine::{LoopUsage, ServerUsage},
        plan::{Arrivals, Load},
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
        assert_one(&Verdict::of(&climbing), Kind::Noisy, &["not steady"]);
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
        let mut report = calm();
        report.run.connections = 80;
        assert_one(
            &Verdict::of(&report),
            Kind::Errors,
            &["make 64.31", "room for 80", "Little's law"],
        );
        // Without keep-alive a connection is busy with more than its request.
        report.run.keep_alive = false;
        assert_eq!(Verdict::of(&report).kind, Kind::Clean);
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
        // With a generator that was busy all the time it is not the server that failed.
        report.cpu_seconds = 19.5;
        let verdict = Verdict::of(&report);
        assert_eq!(
            (verdict.kind, verdict.reasons.len()),
            (Kind::ClientBound, 2),
            "{verdict:?}"
        );
        report.cpu_seconds = 13.0;
        report.run.load = Some(Load {
            connections: 64,
            pace: Pace::PerConnection {
                per_second: 237_000.0 / 64.0,
            },
        });
        assert_eq!(Verdict::of(&report).kind, Kind::Clean);
    }

    #[test]
    fn waiting_for_a_connection_is_told_but_changes_nothing() {
        let mut report = Report::example_open();
        report.failures.clear();
        report.usage = Some(quiet());
        let verdict = Verdict::of(&report);
        assert!(
            verdict.notes[0].starts_with("Of the mean latency of 671.3 us, requests waited 400.0 us"),
            "{verdict:?}"
        );
        let mut usage = quiet();
        usage.loops[0].waiting_share = Some(0.2);
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
