//! Several runs as one: what several machines, or several processes, did to a server at the same time. Counts and histograms are added, so
//! that nothing is lost; no percentile or mean is made from others.

use std::collections::BTreeMap;

use super::{Failure, Report, Run};
use crate::{
    machine::Usage,
    plan::{Load, Pace},
};

/// Why runs cannot be added.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MergeError {
    /// There is none.
    #[error("there is no run to add")]
    Nothing,
    /// Their figures mean different things.
    #[error("runs with different {what} cannot be added: run 1 has {first}, run {number} has {found}")]
    Different {
        /// In what they differ.
        what: &'static str,
        /// That of the first run.
        first: String,
        /// Which run differs, from 1.
        number: usize,
        /// What it has.
        found: String,
    },
}

/// The runs as one that had all their connections.
pub fn merge(reports: &[Report]) -> Result<Report, MergeError> {
    let (first, others) = reports.split_first().ok_or(MergeError::Nothing)?;
    let mut all = first.clone();
    for (at, other) in others.iter().enumerate() {
        fits(&first.run, &other.run, at + 2)?;
        add(&mut all, other);
    }
    all.failures.sort_by_key(|failure| failure.class);
    all.statuses.sort_unstable();
    all.usage = usage(reports);
    let machine = |report: &Report| report.environment.as_ref().and_then(|of| of.boot.clone());
    if reports.iter().any(|report| machine(report) != machine(first)) {
        all.environment = None;
    }
    Ok(all)
}

/// What a run has, in words.
type Of<'a> = &'a dyn Fn(&Run) -> String;

fn fits(first: &Run, other: &Run, number: usize) -> Result<(), MergeError> {
    let model = |run: &Run| match run.load.map_or(Pace::Closed, |load| load.pace) {
        Pace::Closed => "a closed one".to_owned(),
        Pace::Open { .. } => "an open one".to_owned(),
        Pace::PerConnection { .. } => "one paced on each connection".to_owned(),
    };
    let keep_alive = |run: &Run| if run.keep_alive { "it" } else { "none" }.to_owned();
    let depth = |run: &Run| run.pipeline.to_string();
    let left_out = |run: &Run| {
        if run.exclude_errors {
            "without failures"
        } else {
            "all"
        }
        .to_owned()
    };
    let compared: [(&'static str, Of<'_>); 5] = [
        ("kinds of load", &model),
        ("methods", &|run| run.method.clone()),
        ("pipelining depths", &depth),
        ("keep-alive", &keep_alive),
        ("latencies", &left_out),
    ];
    for (what, of) in compared {
        let (first, found) = (of(first), of(other));
        if first != found {
            return Err(MergeError::Different {
                what,
                first,
                number,
                found,
            });
        }
    }
    Ok(())
}

fn add(all: &mut Report, other: &Report) {
    // Rates of runs of about the same length; what came in the measured time stays exact.
    let answers_within = all.per_second * all.seconds + other.per_second * other.seconds;
    all.seconds = all.seconds.max(other.seconds);
    all.per_second = if all.seconds > 0.0 {
        answers_within / all.seconds
    } else {
        0.0
    };
    for (mine, theirs) in [
        (&mut all.sent, other.sent),
        (&mut all.answers, other.answers),
        (&mut all.bytes_in, other.bytes_in),
        (&mut all.body_bytes_in, other.body_bytes_in),
        (&mut all.bytes_out, other.bytes_out),
        (&mut all.connects, other.connects),
        (&mut all.connects_failed, other.connects_failed),
        (&mut all.held, other.held),
        (&mut all.under_way, other.under_way),
        (&mut all.in_pieces, other.in_pieces),
        (&mut all.redirects, other.redirects),
        (&mut all.passes.0, other.passes.0),
        (&mut all.passes.1, other.passes.1),
    ] {
        *mine = mine.saturating_add(theirs);
    }
    let same_bounds = "all histograms have the same bounds";
    for (mine, theirs) in [
        (&mut all.latency_ns, &other.latency_ns),
        (&mut all.first_byte_ns, &other.first_byte_ns),
        (&mut all.connecting_ns, &other.connecting_ns),
        (&mut all.handshakes_ns, &other.handshakes_ns),
    ] {
        mine.add(theirs).expect(same_bounds);
    }
    match (&mut all.service_ns, &other.service_ns) {
        (Some(mine), Some(theirs)) => mine.add(theirs).expect(same_bounds),
        (none @ None, Some(theirs)) => *none = Some(theirs.clone()),
        (_, None) => {}
    }
    for &(status, count) in &other.statuses {
        match all.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, mine)) => *mine = mine.saturating_add(count),
            None => all.statuses.push((status, count)),
        }
    }
    for failure in &other.failures {
        let known = all.failures.iter_mut().find(|known| known.class == failure.class);
        match known {
            Some(Failure { count, example, .. }) => {
                *count = count.saturating_add(failure.count);
                *example = example.take().or_else(|| failure.example.clone());
            }
            None => all.failures.push(failure.clone()),
        }
    }
    all.timeline.overlay(&other.timeline);
    all.warm_up.add(&other.warm_up);
    all.lag_max_ns = all.lag_max_ns.max(other.lag_max_ns);
    all.cpu_seconds += other.cpu_seconds;
    all.interrupted |= other.interrupted;
    all.first_answer = all.first_answer.take().or_else(|| other.first_answer.clone());
    for url in &other.urls {
        match all.urls.iter_mut().find(|known| known.name == url.name) {
            Some(known) => {
                known.answers = known.answers.saturating_add(url.answers);
                known.failures = known.failures.saturating_add(url.failures);
                known.latency_ns.add(&url.latency_ns).expect(same_bounds);
            }
            None => all.urls.push(url.clone()),
        }
    }
    add_run(&mut all.run, &other.run);
}

fn add_run(all: &mut Run, other: &Run) {
    for url in &other.urls {
        if !all.urls.contains(url) {
            all.urls.push(url.clone());
        }
    }
    if all.title != other.title {
        all.title = None;
    }
    all.threads = all.threads.saturating_add(other.threads);
    all.connections = all.connections.saturating_add(other.connections);
    all.load = all.load.zip(other.load).map(|(mine, theirs)| Load {
        connections: mine.connections.saturating_add(theirs.connections),
        pace: match (mine.pace, theirs.pace) {
            (Pace::Open { per_second, arrivals }, Pace::Open { per_second: more, .. }) => Pace::Open {
                per_second: per_second + more,
                arrivals,
            },
            (mine, _) => mine,
        },
    });
    all.pauses |= other.pauses;
    all.body_bytes = all.body_bytes.max(other.body_bytes);
    all.duration_seconds = all
        .duration_seconds
        .zip(other.duration_seconds)
        .map(|(a, b)| a.max(b));
    all.requests = all.requests.zip(other.requests).map(|(a, b)| a.saturating_add(b));
    all.started_unix_ms = all.started_unix_ms.min(other.started_unix_ms);
}

/// What all of it used. Generators on one machine shared its cores: they count once.
fn usage(reports: &[Report]) -> Option<Usage> {
    let mut machines: BTreeMap<&str, Usage> = BTreeMap::new();
    for report in reports {
        let boot = report
            .environment
            .as_ref()
            .and_then(|machine| machine.boot.as_deref());
        // Without knowing which machine it was nothing can be said of all.
        let (boot, usage) = (boot?, report.usage.as_ref()?);
        match machines.get_mut(boot) {
            Some(machine) => machine.share(usage),
            None => {
                machines.insert(boot, usage.clone());
            }
        }
    }
    machines.into_values().reduce(|mut all, machine| {
        all.join(&machine);
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs().max(1.0)
    }

    #[test]
    fn two_runs_are_one_with_all_their_counts() {
        let one = Report::example();
        let two = merge(&[one.clone(), one.clone()]).unwrap();
        assert_eq!(
            (two.answers, two.sent, two.failed()),
            (2 * one.answers, 2 * one.sent, 2 * one.failed())
        );
        assert_eq!(two.latency_ns.len(), 2 * one.latency_ns.len());
        assert_eq!(
            two.latency_ns.value_at_quantile(0.99),
            one.latency_ns.value_at_quantile(0.99)
        );
        assert_eq!(two.statuses, [(200, 2 * one.statuses[0].1), (503, 24)]);
        let answers = |report: &Report| {
            report
                .timeline
                .slices
                .iter()
                .map(|slice| slice.answers)
                .sum::<u64>()
        };
        assert_eq!(answers(&two), 2 * answers(&one));
        assert_eq!(two.run.connections, 128);
        assert!(close(two.per_second, 2.0 * one.per_second) && close(two.seconds, one.seconds));
    }

    #[test]
    fn a_shorter_run_adds_its_answers_and_not_its_rate() {
        let one = Report::example();
        let mut half = one.clone();
        half.seconds = 5.0;
        half.timeline.slices.truncate(50);
        let both = merge(&[half, one.clone()]).unwrap();
        assert!(
            close(both.per_second, 1.5 * one.per_second),
            "{}",
            both.per_second
        );
        assert_eq!(both.timeline.slices.len(), 100);
    }

    #[test]
    fn slices_of_different_length_are_laid_over_each_other() {
        let one = Report::example();
        let mut long = one.clone();
        long.timeline.append(10_000_000_000, &one.timeline);
        long.timeline.append(20_000_000_000, &one.timeline);
        long.timeline.append(30_000_000_000, &one.timeline);
        assert_ne!(long.timeline.slice_ns, one.timeline.slice_ns);
        let answers = |report: &Report| {
            report
                .timeline
                .slices
                .iter()
                .map(|slice| slice.answers)
                .sum::<u64>()
        };
        let both = merge(&[one.clone(), long.clone()]).unwrap();
        assert_eq!(answers(&both), answers(&one) + answers(&long));
        assert_eq!(both.timeline.slice_ns, long.timeline.slice_ns);
    }

    #[test]
    fn generators_on_one_machine_share_its_cores_and_those_on_two_do_not() {
        let one = Report::example();
        let used = one.usage.clone().unwrap();
        let shared = merge(&[one.clone(), one.clone()]).unwrap().usage.unwrap();
        assert_eq!((shared.cores, shared.loops.len()), (used.cores, 4));
        assert!(close(
            shared.own_cpu_seconds.unwrap(),
            2.0 * used.own_cpu_seconds.unwrap()
        ));
        // What others used includes the other generator as each of them sees it.
        assert!(close(shared.others_cpu_seconds.unwrap(), 0.0));
        let mut elsewhere = one.clone();
        elsewhere.environment.as_mut().unwrap().boot = Some("another".into());
        elsewhere.usage.as_mut().unwrap().server = None;
        let apart = merge(&[one, elsewhere]).unwrap();
        let usage = apart.usage.unwrap();
        assert_eq!(usage.cores, Some(8));
        assert!(close(usage.busy_share.unwrap(), used.busy_share.unwrap()));
        assert_eq!(usage.server, used.server);
        assert!(apart.environment.is_none());
    }

    #[test]
    fn runs_whose_figures_mean_different_things_are_refused() {
        let error = merge(&[Report::example(), Report::example_open()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "runs with different kinds of load cannot be added: run 1 has a closed one, run 2 has an open one"
        );
        assert_eq!(merge(&[]), Err(MergeError::Nothing));
    }
}
