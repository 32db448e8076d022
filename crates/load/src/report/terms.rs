//! What each figure of a report means, in plain words.

use super::Report;
use crate::plan::Pace;

/// A word, and what it means.
pub(super) type Term = (&'static str, &'static str);

/// The terms that this report uses.
pub(super) fn of(report: &Report) -> Vec<Term> {
    let pace = report.run.load.map_or(Pace::Closed, |load| load.pace);
    let load = match pace {
        Pace::Closed => (
            "Closed load",
            "Each connection stands for a user who waits for an answer before asking again. When the server slows down, fewer requests are \
             sent. Latency then does not show what users would see who come whether or not the server keeps up; measure with --rate \
             for that.",
        ),
        Pace::Open { .. } => (
            "Open load",
            "Requests come at the rate that was asked for, whatever the answers do, as from users who do not know each other. A request that \
             finds every connection taken waits, and its wait is part of its latency.",
        ),
        Pace::PerConnection { .. } => (
            "Paced load",
            "Each connection sends so many requests a second. One that is due while the answer before it is still missing waits, and its \
             wait is part of its latency.",
        ),
    };
    let mut terms = vec![
        (
            "Verdict",
            "Clean: nothing speaks against the figures. Noisy: another run might well give others. Client-bound: the generator was a limit, so \
             the server may be faster than it looks. Errors: too much failed, or figures contradict each other. The sentences below it \
             say why.",
        ),
        load,
        (
            "Requests a second",
            "Whole answers that came within the measured time, divided by its length. An answer counts whatever its status is; failures are \
             counted on their own.",
        ),
        (
            "95 % interval",
            "Were the run repeated on the same quiet machine, nineteen of twenty such intervals would hold the true rate. It comes from \
             how much the rate varied between slices of the run, not from single requests, which depend on each other.",
        ),
        (
            "Latency",
            "The time until the last byte of the answer was read. Under a closed load it starts when the request is written; under an open \
             or paced one when the request was due. A request that timed out counts with the time it was waited for.",
        ),
        (
            "Percentile",
            "99 % 1.2 ms means: of a hundred requests, ninety-nine took 1.2 ms or less. Percentiles are of the whole run, never means of \
             parts. They are kept to three digits.",
        ),
        (
            "Mean and standard deviation",
            "The sum of all latencies divided by their number, and how far they typically lie from it. A few slow answers move both a \
             lot, so percentiles say more.",
        ),
        (
            "Failed",
            "Requests without a whole, clear and expected answer, each in one class. An answer with an unexpected status or body is counted \
             both as an answer and as a failure.",
        ),
        (
            "Generator CPU a request",
            "CPU time that this load generator itself used, divided by the answers. Where it is as large as the server's, the two share \
             the machine about equally, and the rate says as much about the generator as about the server.",
        ),
    ];
    if report.service_ns.is_some() {
        terms.push((
            "From due and from sent",
            "From due is what a user waits. From sent leaves out the wait for a free connection: it is how long the server took once it was \
             asked. The difference is queueing.",
        ));
    }
    if report.telling_first_bytes().is_some() {
        terms.push((
            "First byte",
            "The time until the first byte of an answer was read, counted from where latency counts from. What remains to the latency is how long the \
             rest took to come.",
        ));
    }
    if report.held > 0 || report.under_way > 0 {
        terms.push((
            "Held from before, under way before",
            "Connections that the warm-up had opened, and requests that it had sent and that were not answered when the measured time began. Their \
             answers came within it and count as answers; the requests do not count as sent.",
        ));
    }
    if report.usage.as_ref().is_some_and(|usage| usage.server.is_some()) {
        terms.push((
            "Capacity",
            "How many answers a second the CPU time that one costs leaves room for on all cores: for server and generator together, and for the \
             server alone. Locks, disks and other servers may set a lower limit.",
        ));
        terms.push((
            "Context switches",
            "How often threads of the server gave up their core to wait, and how often one was taken from them. Many of the second kind mean that \
             more threads want to run than there are cores.",
        ));
        terms.push((
            "Server CPU a request",
            "CPU time of the server's process and all its children within the measured time, divided by the answers. It hardly depends on \
             how fast the generator is, so it is the figure to compare on a small machine.",
        ));
    }
    if report.warm_up.requests > 0 {
        terms.push((
            "Warm-up",
            "Requests before the measured time. They count in no figure but this one.",
        ));
    }
    if !report.run.stages.is_empty() {
        terms.push((
            "Stages",
            "The load changes while it is measured. Figures of the whole run mix its stages; what happens over time says more.",
        ));
    }
    if report.run.exclude_errors {
        terms.push((
            "Latency of what failed",
            "It is left out, as was asked for: latencies are those of right answers alone, and a server that fails fast does not look fast.",
        ));
    }
    terms
}
