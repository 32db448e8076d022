//! hose, the tool that came with `OpO` and became perfer (its results in wabur:benchmarks/README.md; the sentences in src/perfer.c of
//! ohler55/perfer up to commit 0cd65bf, 2018). The later perfer writes blocks instead.
//!
//! hose counts every answer as processed, whatever its status, and writes the rate as `GETS/sec` for every method.

use std::io::{self, Write};

use super::figures::{Failed, url, url_text};
use crate::report::Report;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let host = url(&report.run.urls).map_or_else(
        || url_text(&report.run.urls),
        |url| {
            let host = if url.host.contains(':') {
                format!("[{}]", url.host)
            } else {
                url.host.clone()
            };
            format!("{host}:{}", url.port)
        },
    );
    let failed = Failed::of(report);
    let errors = failed.connect + failed.malformed;
    // What was sent and neither answered nor answered with something else than HTTP.
    let silent = report.sent.saturating_sub(report.answers + failed.malformed);
    if errors > 0 {
        writeln!(out, "{host} encountered {errors} errors.")?;
    }
    if silent > 0 {
        writeln!(out, "{host} did not respond to {silent} requests.")?;
    }
    let (answers, seconds, rate) = (report.answers, report.seconds, report.per_second as u64);
    writeln!(
        out,
        "{host} processed {answers} requests in {seconds:.3} seconds for a rate of {rate} GETS/sec."
    )?;
    writeln!(
        out,
        "with an average latency of {:.3} msecs",
        report.latency_ns.mean() / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the benchmark that Forebay grew from.
    #[test]
    fn the_published_result_is_written_as_published() {
        let mut report = Report::example();
        report.run.urls = vec!["http://127.0.0.1:6363/v1/Article/11".into()];
        (report.seconds, report.per_second) = (1.0, 14_433.4);
        (report.sent, report.answers) = (14_436, 14_433);
        report.failures.clear();
        report.latency_ns = crate::engine::latencies();
        report.latency_ns.record(2_997_000).unwrap();
        let mut out = Vec::new();
        write(&report, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "127.0.0.1:6363 did not respond to 3 requests.\n\
             127.0.0.1:6363 processed 14433 requests in 1.000 seconds for a rate of 14433 GETS/sec.\n\
             with an average latency of 2.997 msecs\n"
        );
    }
}
