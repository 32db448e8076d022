//! Where results go: standard output, files, and the exit code.

use forebay_load::report::Report;

use super::arguments::Options;
use crate::output;

/// Whether everything that is asked for can be written.
pub(crate) fn check(_options: &Options) -> anyhow::Result<()> {
    Ok(())
}

/// Writes what is asked for.
pub(crate) fn write(_options: &Options, reports: &[Report]) -> anyhow::Result<()> {
    for report in reports {
        let ms = |percent: f64| report.latency_ns.value_at_percentile(percent) as f64 / 1e6;
        output::line(&format!(
            "{} answers in {:.3} s, {:.1} answers/s\nlatency ms p50 {:.3} p99 {:.3} max {:.3}",
            report.answers,
            report.seconds,
            report.per_second,
            ms(50.0),
            ms(99.0),
            report.latency_ns.max() as f64 / 1e6
        ))?;
        for failure in &report.failures {
            let example = failure.example.as_deref().unwrap_or_default();
            output::line(&format!("{} {} {example}", failure.class.name(), failure.count))?;
        }
    }
    Ok(())
}
