//! The checks behind a verdict: each examines one aspect of a run and records what makes its figures doubtful.

use super::{
    ACHIEVED_MIN, DRIFT_MAX, FAILED_MAX, FULL, Kind, LITTLE_MAX, LOOP_BUSY_MAX, OTHERS_MAX, OWN_SHARE_MAX,
    STEAL_MAX, VARIATION_MAX, WARM_UP_MAX,
};
use crate::{
    failure::Class,
    machine::Usage,
    plan::Pace,
    report::{
        Report,
        words::{count, duration, percent, rate, several},
    },
    stats,
};

/// Part of the time that an event loop may stand in line for a core before latencies are worth a remark.
const WAITING_NOTE: f64 = 0.10;
/// Part of a closed load's room that may wait for the generator.
const IDLE_MAX: f64 = 0.5;
/// The same, from where it is worth a remark.
const IDLE_NOTE: f64 = 0.1;
/// Part of the latency that may pass before a request is sent without a remark.
const UNSENT_NOTE: f64 = 0.1;
/// Most classes of failures that a reason names.
const CLASSES_MAX: usize = 3;

/// Checks of one run, and their findings so far.
pub(super) struct Checks<'a> {
    report: &'a Report,
    usage: Option<&'a Usage>,
    pub(super) reasons: Vec<(Kind, String)>,
    pub(super) notes: Vec<String>,
}

impl<'a> Checks<'a> {
    /// Runs all checks.
    pub(super) fn run(report: &'a Report) -> Self {
        let mut checks = Self {
            report,
            usage: report.usage.as_ref(),
            reasons: Vec::new(),
            notes: Vec::new(),
        };
        checks.failures();
        let client_bound = checks.client();
        checks.rate_of_open_load(client_bound);
        checks.littles_law();
        checks.waiting();
        if report.answers > 0 {
            checks.warm_up();
        }
        // What changes its load by intention changes its rate, too.
        if report.answers > 0 && report.run.stages.is_empty() {
            checks.steadiness();
        }
        checks.neighbours();
        checks
    }

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
        let (target, arrivals) = match report.run.load.map(|load| load.pace) {
            Some(Pace::Open { per_second, arrivals }) => (per_second, arrivals),
            Some(Pace::Closed) | None => return,
        };
        let asked = target * report.seconds;
        if asked < 1.0 || report.answers == 0 || !report.run.stages.is_empty() {
            return;
        }
        // What was under way at the end was answered later.
        let service_seconds = report
            .service_ns
            .as_ref()
            .map_or(0.0, |service| service.mean() / 1e9);
        let late = (service_seconds / report.seconds).min(0.5) + arrivals.shortfall(asked);
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
        let steady = report.run.stages.is_empty();
        let fills = closed && report.run.keep_alive && steady;
        if !fills || report.answers == 0 || report.latency_ns.is_empty() {
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
        let expected = LITTLE_MAX + ends;
        if stats::littles_law(room, per_second, latency_seconds) <= expected {
            return;
        }
        let under_way = per_second * latency_seconds;
        let missing = 1.0 - under_way / room;
        let (under_way, room) = (rate(under_way), rate(room));
        // An answer that has come waits until the generator sends the next request. That time is no latency of the server, and it lies
        // within the time that event loops are awake, or would be if they had a core.
        let awake = self
            .usage
            .and_then(|usage| Some(usage.busiest_loop()? + usage.longest_wait()?));
        if missing < 0.0 || awake.is_some_and(|awake| missing > expected + awake) {
            let (per_second, latency) = (rate(per_second), duration(latency_seconds * 1e9));
            self.because(
                Kind::Errors,
                format!(
                    "{per_second} requests a second that take {latency} each make {under_way} under way, but there is room for {room} \
                     (Little's law); connections were lost or stood idle."
                ),
            );
        } else if missing > IDLE_MAX {
            self.because(
                Kind::ClientBound,
                format!(
                    "Of {room} requests that could be under way only {under_way} were; the others waited for the generator, which needs \
                     more threads (-t) or a machine of its own."
                ),
            );
        } else if missing > IDLE_NOTE {
            self.notes.push(format!(
                "Of {room} requests that could be under way {under_way} were; the others waited for the generator, and latencies do not \
                 contain that."
            ));
        }
    }

    fn waiting(&mut self) {
        let report = self.report;
        let waited = self
            .usage
            .and_then(Usage::longest_wait)
            .filter(|share| *share > WAITING_NOTE)
            .map(share);
        let whole = report.latency_ns.mean();
        let served = report.service_ns.as_ref().filter(|service| !service.is_empty());
        let unsent = served.map_or(0.0, |service| whole - service.mean());
        let much = unsent > UNSENT_NOTE * whole;
        let (whole, unsent) = (duration(whole), duration(unsent));
        match waited {
            Some(waited) if much => self.because(
                Kind::Noisy,
                format!(
                    "Of the mean latency of {whole}, {unsent} passed before a request was sent, and the generator stood in line for a core \
                     {waited} of the time; keep a core free for it."
                ),
            ),
            Some(waited) => self.notes.push(format!(
                "The generator stood in line for a core {waited} of the time, and latencies contain that; keep a core free for it."
            )),
            None if much => self.notes.push(format!(
                "Of the mean latency of {whole}, requests waited {unsent} until a connection was free; users would wait as long."
            )),
            None => {}
        }
    }

    fn warm_up(&mut self) {
        let warm_up = &self.report.warm_up;
        if warm_up.steady == Some(false) {
            let took = duration(warm_up.seconds * 1e9);
            self.because(
                Kind::Noisy,
                format!(
                    "After {took} of warm-up throughput and latency were still changing; warm up for longer (--warmup 30s), or quieten the \
                     machine."
                ),
            );
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
        // A start is to blame only if the rest is calm.
        let start = warm_up.filter(|found| {
            let shift = (stats::mean(&rates) / found.after - 1.0).abs();
            let rest = stats::variation_from(timeline, found.cut);
            found.is_steady() && shift > WARM_UP_MAX && rest.is_some_and(|rest| rest <= VARIATION_MAX)
        });
        let reason = if let Some(start) = start {
            let took = duration((start.cut + 1) as f64 * timeline.slice_ns as f64);
            let (before, after) = (rate(start.before), rate(start.after));
            format!(
                "The first {took} had {before} answers a second, the rest {after}; leave out the start (--warmup)."
            )
        } else if let Some(drift) = drift {
            let way = if drift.change < 0.0 { "fell" } else { "rose" };
            let change = share(drift.change.abs());
            format!(
                "The rate {way} by {change} from start to end; measure for longer, and look for what grows or throttles."
            )
        } else if variation > VARIATION_MAX {
            let variation = share(variation);
            format!(
                "The rate varied by {variation} between parts of the run; measure for longer, or quieten the machine."
            )
        } else if let Some(late) = warm_up.filter(|found| !found.is_steady()) {
            let (before, after) = (rate(late.before), rate(late.after));
            format!(
                "The rate was not steady before the end (from {before} to {after} a second); measure for longer."
            )
        } else {
            return;
        };
        self.because(Kind::Noisy, reason);
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
pub(super) fn nothing_found(report: &Report) -> String {
    let usage = report.usage.as_ref();
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
