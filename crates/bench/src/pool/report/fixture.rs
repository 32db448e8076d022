//! A report for the tests.

use std::{path::PathBuf, time::Duration};

use forebay_load::machine::Environment;
use forebay_runtimes::Runtime;

use super::{Report, Subject};
use crate::pool::{Contender, ErrorText, Handled, Language, Load, Outcome, Peer, Plan, Suite, Times};

pub(super) const OWN: Contender = Contender::Server(Language::JavaScript(Runtime::Node));
pub(super) const OTHER: Contender = Contender::Peer(Runtime::Node, Peer::Piscina);

pub(super) fn outcome(rate: f64) -> Outcome {
    Outcome {
        messages: 1000,
        elapsed_s: 1000.0 / rate,
        rate,
        latency: Times {
            p50_us: 10.0,
            p90_us: 20.0,
            p99_us: 30.0,
            p999_us: 40.0,
            max_us: 50.0,
        },
        wait: None,
        run: None,
        main_us: Some(2.0),
        all_us: Some(4.0),
        others_share: Some(0.01),
        rss_before_bytes: Some(50_000_000),
        rss_bytes: Some(60_000_000),
        workers: vec![Handled {
            worker: "0".to_owned(),
            messages: 1000,
        }],
        errors: 0,
        error_texts: Vec::new(),
        delay_ms: 0.0,
        outstanding_max: 100,
        start_ms: 1.0,
        version: "1.0.0".to_owned(),
        settings: [("tasks".to_owned(), 8.into())].into(),
    }
}

/// A report with runs of the first contender and of another one, by size.
pub(super) fn report(sizes: &[(usize, &[f64], &[f64])]) -> Report {
    let mut subjects = Vec::new();
    for (workers, own, other) in sizes {
        for (contender, rates) in [(OWN, own), (OTHER, other)] {
            let mut subject = Subject::new(contender, *workers);
            subject.runs = rates.iter().map(|rate| outcome(*rate)).collect();
            subjects.push(subject);
        }
    }
    Report {
        environment: Environment {
            cores: 2,
            ..Environment::default()
        },
        suite: Suite {
            contenders: vec![OWN, OTHER],
            workers: sizes.iter().map(|(workers, ..)| *workers).collect(),
            repeats: 2,
            plan: Plan {
                messages: 1000,
                warmup: 100,
                block: 50,
                load: Load::Saturating { outstanding: 100 },
                payload: 0,
                handler: None,
                in_flight: None,
                deadline: Duration::from_secs(1),
                folder: PathBuf::new(),
                packages: PathBuf::new(),
            },
        },
        subjects,
        seconds: 1.0,
    }
}

pub(super) fn with_error(text: &str) -> Report {
    let mut report = report(&[(2, &[200.0, 200.0], &[100.0])]);
    let run = &mut report.subjects[0].runs[0];
    run.errors = 3;
    run.error_texts = vec![ErrorText {
        text: text.to_owned(),
        count: 3,
    }];
    report.subjects[1].failure = Some("it fell over".to_owned());
    report
}
