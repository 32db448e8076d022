//! The percentile distribution of `HdrHistogram` (`outputPercentileDistribution` of its Java library), which its plotters read. Values
//! are milliseconds; a last line says so, as lines that begin with `#` are comments to those who read it.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::Report;

/// Lines for each halving of the distance to 100 %.
const TICKS: u32 = 5;
/// Buckets of equal width in which a histogram of three digits holds the values of one power of two.
const SUB_BUCKETS: u32 = 2048;

/// The distribution of latency.
pub fn write(report: &Report) -> String {
    let mut text = table(&report.latency_ns, 1e6, 6);
    text.push_str("#[Unit    = milliseconds]\n");
    text
}

/// The distribution of a histogram of three digits whose values are divided by `scale` and shown with so many decimals.
pub(super) fn table(histogram: &Histogram<u64>, scale: f64, decimals: usize) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for tick in histogram.iter_quantiles(TICKS) {
        total += tick.count_since_last_iteration();
        let (value, quantile) = (
            tick.value_iterated_to() as f64 / scale,
            tick.quantile_iterated_to(),
        );
        let _ = write!(text, "{value:12.decimals$} {quantile:2.12} {total:10}");
        if quantile < 1.0 {
            let _ = write!(text, " {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let (mean, deviation) = (histogram.mean() / scale, histogram.stdev() / scale);
    let max = if histogram.is_empty() {
        0.0
    } else {
        histogram.max() as f64 / scale
    };
    let (count, buckets) = (histogram.len(), histogram.buckets());
    let _ = writeln!(
        text,
        "#[Mean    = {mean:12.decimals$}, StdDeviation   = {deviation:12.decimals$}]"
    );
    let _ = writeln!(
        text,
        "#[Max     = {max:12.decimals$}, Total count    = {count:12}]"
    );
    let _ = writeln!(
        text,
        "#[Buckets = {buckets:12}, SubBuckets     = {SUB_BUCKETS:12}]"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::assert_golden;

    #[test]
    fn the_distribution_is_as_in_its_golden_file() {
        assert_golden("closed.hgrm", &write(&Report::example()));
    }

    #[test]
    fn values_and_counts_only_rise_and_end_with_everything() {
        let report = Report::example();
        let text = write(&report);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| {
                line.trim_start()
                    .starts_with(|first: char| first.is_ascii_digit())
            })
            .map(|line| {
                line.split_whitespace()
                    .map(|field| field.parse().unwrap())
                    .collect()
            })
            .collect();
        assert!(
            rows.windows(2)
                .all(|pair| (0..3).all(|column| pair[0][column] <= pair[1][column]))
        );
        let last = rows.last().unwrap();
        assert_eq!(
            (last.len(), last[1], last[2] as u64),
            (3, 1.0, report.latency_ns.len())
        );
    }

    #[test]
    fn an_empty_histogram_has_a_head_and_a_foot() {
        let text = table(&crate::engine::latencies(), 1e6, 3);
        assert!(text.contains("Total count    =            0"), "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }
}
