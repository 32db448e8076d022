//! Each style on a fixed run equals its file in `golden/`, byte for byte. To refresh them:
//! `FOREBAY_REFRESH=1 cargo test -p forebay-load style`.

use std::{fs, path::Path};

use super::{Extra, Style, StyleOptions, ab, write};
use crate::{
    engine::{Timeline, latencies},
    report::{Report, Run},
};

fn assert_golden(name: &str, made: &[u8]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/report/style/golden")
        .join(name);
    if std::env::var_os("FOREBAY_REFRESH").is_some() {
        fs::write(&file, made).unwrap();
    }
    let found = fs::read(&file).unwrap_or_default();
    assert!(
        found == made,
        "golden/{name} is stale; refresh it: FOREBAY_REFRESH=1 cargo test -p forebay-load style\n{}",
        String::from_utf8_lossy(made)
    );
}

/// Compares what a style writes to standard output and, if it writes there, to standard error.
fn assert_style(name: &str, style: Style, report: &Report, extras: &[Extra]) {
    let options = StyleOptions {
        extras: extras.to_vec(),
        ..StyleOptions::default()
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    write(style, report, &options, &mut stdout, &mut stderr).unwrap();
    for (stream, text) in [("out", stdout), ("err", stderr)] {
        if !text.is_empty() {
            assert_golden(&format!("{name}.{stream}"), &text);
        }
    }
}

fn closed() -> Report {
    with_plain_url(Report::example())
}

fn open() -> Report {
    with_plain_url(Report::example_open())
}

/// With a URL that can be run.
fn with_plain_url(mut report: Report) -> Report {
    report.run.urls = vec!["http://localhost:8080/local?a=1".into()];
    report
}

#[test]
fn autocannon_is_as_its_golden_file() {
    assert_style("autocannon", Style::Autocannon, &closed(), &[]);
    assert_style(
        "autocannon-all",
        Style::Autocannon,
        &closed(),
        &[Extra::Latency, Extra::Statuses],
    );
    assert_style(
        "autocannon-exact",
        Style::Autocannon,
        &open(),
        &[Extra::Latency, Extra::Hundredths],
    );
    assert_style("autocannon-json", Style::Autocannon, &closed(), &[Extra::Machine]);
}

#[test]
fn ab_is_as_its_golden_file() {
    let mut report = closed();
    report.run.requests = Some(report.answers);
    report.run.duration_seconds = None;
    assert_style("ab", Style::Ab, &report, &[]);
    assert_style("ab-html", Style::Ab, &report, &[Extra::Machine]);
    let mut csv = Vec::new();
    ab::percentages_csv(&report, &mut csv).unwrap();
    assert_golden("ab.csv", &csv);
}

#[test]
fn wrk_is_as_its_golden_file() {
    assert_style("wrk", Style::Wrk, &closed(), &[]);
    assert_style("wrk-latency", Style::Wrk, &closed(), &[Extra::Latency]);
}

#[test]
fn wrk2_is_as_its_golden_file() {
    assert_style("wrk2", Style::Wrk2, &open(), &[]);
    let both = [Extra::Latency, Extra::Uncorrected];
    assert_style("wrk2-latency", Style::Wrk2, &open(), &both);
}

#[test]
fn hose_is_as_its_golden_file() {
    assert_style("hose", Style::Hose, &closed(), &[]);
}

#[test]
fn go_wrk_is_as_its_golden_file() {
    assert_style("go-wrk", Style::GoWrk, &closed(), &[Extra::Matches]);
}

#[test]
fn jmeter_is_as_its_golden_file() {
    assert_style("jmeter", Style::Jmeter, &closed(), &[]);
    assert_style("jmeter-csv", Style::Jmeter, &closed(), &[Extra::Machine]);
}

#[test]
fn oha_is_as_its_golden_file() {
    assert_style("oha", Style::Oha, &open(), &[]);
}

#[test]
fn hey_is_as_its_golden_file() {
    assert_style("hey", Style::Hey, &closed(), &[]);
}

#[test]
fn bombardier_is_as_its_golden_file() {
    assert_style("bombardier", Style::Bombardier, &closed(), &[Extra::Latency]);
}

#[test]
fn vegeta_is_as_its_golden_file() {
    assert_style("vegeta", Style::Vegeta, &open(), &[]);
}

/// Reports that a run without any answer, or one that was stopped at once, leaves.
#[test]
fn a_run_without_answers_is_written_in_every_style() {
    let mut stopped = closed();
    stopped.run = Run::default();
    (stopped.seconds, stopped.per_second) = (0.0, 0.0);
    (stopped.sent, stopped.answers, stopped.connects) = (0, 0, 0);
    (stopped.bytes_in, stopped.body_bytes_in, stopped.bytes_out) = (0, 0, 0);
    stopped.latency_ns = latencies();
    stopped.connecting_ns = latencies();
    stopped.timeline = Timeline::default();
    stopped.statuses.clear();
    let mut refused = stopped.clone();
    refused.seconds = 1.0;
    stopped.failures.clear();
    let extras = [
        Extra::Latency,
        Extra::Uncorrected,
        Extra::Statuses,
        Extra::Machine,
        Extra::Matches,
    ];
    for report in [&stopped, &refused] {
        for style in Style::ALL {
            let options = StyleOptions {
                extras: extras.to_vec(),
                announced: false,
                ..StyleOptions::default()
            };
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            write(style, report, &options, &mut stdout, &mut stderr).unwrap();
            let text = String::from_utf8([stdout, stderr].concat()).unwrap();
            assert!(text.contains('0'), "{style}: {text}");
            assert!(!text.contains("inf") || style == Style::Wrk2, "{style}: {text}");
        }
        let mut files = Vec::new();
        ab::percentages_csv(report, &mut files).unwrap();
        ab::gnuplot_tsv(report, &mut files).unwrap();
        assert_eq!(String::from_utf8(files).unwrap().lines().count(), 103);
    }
}
