//! Prometheus export: text exposition format 0.0.4.

use std::fmt::Write;

use forebay_pg::BOUNDS_US;

use super::{
    facts::{Facts, Histogram, Sink, write},
    families::{Family, Kind},
};

/// The snapshot in exposition format.
pub(crate) fn exposition(facts: &Facts) -> String {
    let mut text = Text::default();
    write(facts, &mut text);
    text.out
}

/// Exposition text under construction.
#[derive(Debug, Default)]
struct Text {
    out: String,
}

impl Sink for Text {
    fn family(&mut self, family: &Family) {
        let Family { name, help, .. } = family;
        writeln!(
            self.out,
            "# HELP {name} {help}\n# TYPE {name} {}",
            family.kind.name()
        )
        .expect("a String takes everything");
    }

    fn sample(&mut self, family: &Family, values: &[&str], value: f64) {
        self.line(
            family.name,
            "",
            family.labels.iter().copied().zip(values.iter().copied()),
            value,
        );
    }

    fn histogram(&mut self, family: &Family, of: &str, histogram: &Histogram) {
        debug_assert_eq!(family.kind, Kind::Histogram);
        let label = (family.labels[0], of);
        for (bound, below) in BOUNDS_US.iter().zip(histogram.below) {
            let bound = (*bound as f64 / 1e6).to_string();
            self.line(
                family.name,
                "_bucket",
                [label, ("le", bound.as_str())].into_iter(),
                below as f64,
            );
        }
        let count = histogram.count as f64;
        self.line(family.name, "_bucket", [label, ("le", "+Inf")].into_iter(), count);
        self.line(family.name, "_sum", std::iter::once(label), histogram.sum);
        self.line(family.name, "_count", std::iter::once(label), count);
    }
}

impl Text {
    fn line<'l>(
        &mut self,
        name: &str,
        suffix: &str,
        labels: impl Iterator<Item = (&'l str, &'l str)>,
        value: f64,
    ) {
        self.out.push_str(name);
        self.out.push_str(suffix);
        let mut open = '{';
        for (label, of) in labels {
            self.out.push(open);
            open = ',';
            self.out.push_str(label);
            self.out.push_str("=\"");
            put_escaped(&mut self.out, of);
            self.out.push('"');
        }
        if open == ',' {
            self.out.push('}');
        }
        writeln!(self.out, " {value}").expect("a String takes everything");
    }
}

fn put_escaped(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            plain => out.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;
    use crate::{
        compression::Totals,
        front::ConnectionCounts,
        metrics::{ProcessUse, RouteMetrics, families, pools::PoolStates},
        sources::DatabaseFacts,
        store::{StoreFacts, WriterCounts},
    };
    use forebay_store::Stats;

    fn facts() -> Facts {
        Facts {
            version: "0.1.0",
            started_at: Duration::from_millis(1_500),
            process: ProcessUse {
                rss_bytes: Some(1),
                cpu: Duration::from_micros(2),
                open_fds: Some(3),
            },
            generation: 4,
            reloads_refused: 5,
            log_lines_lost: 6,
            trace_spans: None,
            log_records: None,
            metric_posts: None,
            certificates: Vec::new(),
            connections: ConnectionCounts {
                open: 7,
                accepted: 8,
                turned_away: 9,
                too_slow: 10,
            },
            kept_bytes: (11, 12),
            compression: Totals::default(),
            routes: RouteMetrics::new(1).totals(),
            caches: Vec::new(),
            store: Some(StoreFacts {
                stats: Some(Stats {
                    file_bytes: 1 << 20,
                    map_max: 64 << 30,
                    page_bytes: 4096,
                    last_commit: 3,
                    readers: 1,
                    flushed_commit: 0,
                    not_checkpointed_bytes: 0,
                }),
                writer: WriterCounts {
                    queued: 0,
                    queued_bytes: 0,
                    queue_max: 1024,
                    done: 1,
                    failed: 2,
                    expired: 3,
                    refused: 4,
                    commits: 5,
                    flushes: 6,
                },
            }),
            pools: PoolStates {
                current: Vec::new(),
                retiring: Vec::new(),
            },
            proxies: BTreeMap::new(),
            scripts: Vec::new(),
            workflows: Vec::new(),
            workflow_releases: Vec::new(),
            kept_runs_open: None,
            jobs: Vec::new(),
            databases: DatabaseFacts {
                databases: Vec::new(),
                routes: Vec::new(),
            },
        }
    }

    #[test]
    fn every_family_is_exported_once() {
        let text = exposition(&facts());
        let mut typed: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        let mut listed: Vec<_> = families::ALL
            .iter()
            .map(|family| format!("{} {}", family.name, family.kind.name()))
            .collect();
        typed.sort_unstable();
        listed.sort_unstable();
        assert_eq!(typed, listed);
    }

    #[test]
    fn values_and_labels_are_written_as_the_format_has_them() {
        let mut text = Text::default();
        text.sample(&families::POOL_FAILED, &["a\"\\\n", "x"], 12_345_678_901.0);
        text.sample(&families::CPU, &[], 0.000_002);
        assert_eq!(
            text.out,
            "forebay_pool_jobs_failed_total{pool=\"a\\\"\\\\\\n\",reason=\"x\"} 12345678901\nprocess_cpu_seconds_total 0.000002\n"
        );
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_its_count() {
        let mut micros = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 2).unwrap();
        for value in [15, 16, 1_023, 1_024, 200_000_000] {
            micros.record(value).unwrap();
        }
        let mut text = Text::default();
        let sink: &mut dyn Sink = &mut text;
        sink.timings(&families::POOL_RUN, "p", &micros);
        let below = |bound: &str| {
            let series = format!("forebay_pool_run_seconds_bucket{{pool=\"p\",le=\"{bound}\"}} ");
            text.out
                .lines()
                .find_map(|line| line.strip_prefix(series.as_str()))
                .unwrap()
                .to_owned()
        };
        let counts = [
            "0.000016",
            "0.000032",
            "0.001024",
            "0.002048",
            "67.108864",
            "+Inf",
        ]
        .map(below);
        assert_eq!(counts, ["1", "2", "3", "4", "4", "5"]);
    }
}
