//! What several tools show and a [`Report`] does not have as such: failures in other tools' groups, samples over time, shares and
//! bins of a distribution. All of it is computed from the report alone.

use hdrhistogram::Histogram;

use super::TEXT_MAX;
use crate::{
    failure::Class,
    report::{Report, words},
    target::Url,
};

/// What failed, in the groups that tools count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failed {
    /// Attempts to connect.
    pub(super) connect: u64,
    /// Requests that could not be written.
    pub(super) write: u64,
    /// Connections that ended with answers due.
    pub(super) lost: u64,
    /// What came was no answer, or none that ends clearly.
    pub(super) malformed: u64,
    /// Requests without a whole answer in time.
    pub(super) timeout: u64,
    /// Answers with a status that was not expected.
    pub(super) status: u64,
    /// Answers with a body that was not expected.
    pub(super) mismatch: u64,
    /// Requests of an open load that were never sent.
    pub(super) dropped: u64,
}

impl Failed {
    pub(super) fn of(report: &Report) -> Self {
        let mut failed = Self::default();
        for failure in &report.failures {
            *failed.group(failure.class) += failure.count;
        }
        failed
    }

    fn group(&mut self, class: Class) -> &mut u64 {
        match class {
            Class::ConnectRefused
            | Class::ConnectTimeout
            | Class::Connect
            | Class::Resources
            | Class::Tls => &mut self.connect,
            Class::Write => &mut self.write,
            Class::Reset | Class::ClosedEarly | Class::Truncated => &mut self.lost,
            Class::Malformed | Class::Framing | Class::OverLong | Class::Unsolicited => &mut self.malformed,
            Class::Timeout | Class::FirstByteTimeout | Class::IdleTimeout | Class::Unanswered => {
                &mut self.timeout
            }
            Class::Status => &mut self.status,
            Class::Mismatch => &mut self.mismatch,
            Class::Dropped => &mut self.dropped,
        }
    }

    /// What ended without a whole answer. Attempts to connect count as requests here, as they do in the tools that have one count.
    pub(super) fn without_answer(&self) -> u64 {
        self.connect + self.write + self.lost + self.malformed + self.timeout
    }
}

/// The failures of requests that an answer's status does not tell, most frequent first, each with the text of its first example.
pub(super) fn error_texts(report: &Report) -> Vec<(String, u64)> {
    let mut texts: Vec<_> = report
        .failures
        .iter()
        .filter(|failure| failure.class != Class::Status)
        .map(|failure| {
            let text = failure.example.as_deref().unwrap_or(failure.class.name());
            (words::plain(text, TEXT_MAX), failure.count)
        })
        .collect();
    texts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    texts
}

/// Answers whose status begins with 1 to 5, and all others.
pub(super) fn status_classes(report: &Report) -> ([u64; 5], u64) {
    let (mut classes, mut others) = ([0; 5], 0);
    for &(status, count) in &report.statuses {
        match classes.get_mut((usize::from(status) / 100).wrapping_sub(1)) {
            Some(class) => *class += count,
            None => others += count,
        }
    }
    (classes, others)
}

/// The first URL in its parts, if it has them.
pub(super) fn url(urls: &[String]) -> Option<Url> {
    urls.first().and_then(|url| Url::parse(url).ok())
}

/// All URLs as one text.
pub(super) fn url_text(urls: &[String]) -> String {
    words::plain(&urls.join(","), usize::MAX - 1)
}

/// Numbers in their order of size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series(Vec<f64>);

impl Series {
    pub(super) fn new(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        Self(numbers)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(0.0)
    }

    pub(super) fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    fn squares(&self) -> f64 {
        let mean = self.mean();
        self.0.iter().map(|number| (number - mean).powi(2)).sum()
    }

    /// Deviation of these numbers.
    pub(super) fn deviation(&self) -> f64 {
        (self.squares() / self.0.len().max(1) as f64).sqrt()
    }

    /// Deviation of what these numbers are a sample of.
    pub(super) fn sample_deviation(&self) -> f64 {
        (self.squares() / self.0.len().saturating_sub(1).max(1) as f64).sqrt()
    }

    /// The smallest number that `percent` of all do not exceed.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// Percent of all that lie within `deviation` of the mean.
    pub(super) fn percent_within(&self, deviation: f64) -> f64 {
        let mean = self.mean();
        let within = self
            .0
            .iter()
            .filter(|number| (**number - mean).abs() <= deviation)
            .count();
        100.0 * within as f64 / self.0.len().max(1) as f64
    }
}

/// How much came in over time, a second each.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    /// Seconds that a sample lasts.
    pub(super) seconds: f64,
    /// Answers a second.
    pub(super) answers: Series,
    /// Bytes of answers a second.
    pub(super) bytes: Series,
}

impl Samples {
    /// Samples that last `seconds`, or as much longer as whole slices of the timeline need. What is left at the end and is no
    /// whole sample does not count, unless there is nothing else.
    pub(super) fn of(report: &Report, seconds: f64) -> Self {
        let slice_seconds = report.timeline.slice_ns as f64 / 1e9;
        let group = ((seconds / slice_seconds - 0.01).ceil() as usize).max(1);
        // Threads do not begin and end at quite the same time, so a slice is whole when nearly all of its time was measured.
        let whole_slices = (report.seconds / slice_seconds + 0.02) as usize;
        let slices = &report.timeline.slices;
        let groups: Vec<_> = slices[..whole_slices.min(slices.len())]
            .chunks_exact(group)
            .collect();
        let (groups, seconds) = if groups.is_empty() && !slices.is_empty() && report.seconds > 0.0 {
            (vec![&slices[..]], report.seconds)
        } else {
            (groups, group as f64 * slice_seconds)
        };
        let rates = |number: fn(&crate::engine::Slice) -> u64| {
            let rate =
                |slices: &&[crate::engine::Slice]| slices.iter().map(number).sum::<u64>() as f64 / seconds;
            Series::new(groups.iter().map(rate).collect())
        };
        Self {
            seconds,
            answers: rates(|slice| slice.answers),
            bytes: rates(|slice| slice.bytes_in),
        }
    }
}

/// The value that `percent` of all do not exceed.
pub(super) fn percentile(histogram: &Histogram<u64>, percent: f64) -> u64 {
    histogram.value_at_quantile(percent / 100.0)
}

/// Percent of all values that lie within one deviation of the mean.
pub(super) fn percent_within_deviation(histogram: &Histogram<u64>) -> f64 {
    let (mean, deviation) = (histogram.mean(), histogram.stdev());
    let within: u64 = histogram
        .iter_recorded()
        .filter(|recorded| {
            (histogram.median_equivalent(recorded.value_iterated_to()) as f64 - mean).abs() <= deviation
        })
        .map(|recorded| recorded.count_at_value())
        .sum();
    100.0 * within as f64 / histogram.len().max(1) as f64
}

/// Number of bins in the histograms of oha and hey.
pub(super) const BINS: usize = 11;

/// The distribution in bins of equal width from the smallest value to the largest: each bin's upper bound and how many values it
/// has. The first has only those equal to the smallest, as with oha and hey.
pub(super) fn bins(histogram: &Histogram<u64>) -> [(f64, u64); BINS] {
    let (min, max) = (histogram.min() as f64, histogram.max() as f64);
    let step = (max - min) / (BINS - 1) as f64;
    let mut bins = std::array::from_fn(|at| (min + step * at as f64, 0));
    for recorded in histogram.iter_recorded() {
        let above = histogram.lowest_equivalent(recorded.value_iterated_to()) as f64 - min;
        // Without a width the quotient is not a number, and that is bin 0.
        let at = (above / step).ceil() as usize;
        bins[at.min(BINS - 1)].1 += recorded.count_at_value();
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::latencies;

    #[test]
    fn every_failure_is_in_one_group() {
        let mut report = Report::example();
        report.failures = Class::ALL
            .into_iter()
            .map(|class| crate::report::Failure {
                class,
                count: 1,
                example: None,
            })
            .collect();
        let failed = Failed::of(&report);
        let answered = failed.status + failed.mismatch + failed.dropped;
        assert_eq!(failed.without_answer() + answered, Class::ALL.len() as u64);
        assert_eq!((failed.connect, failed.lost, failed.timeout), (5, 3, 4));
        assert_eq!(error_texts(&report).len(), Class::ALL.len() - 1);
    }

    #[test]
    fn samples_are_rates_and_leave_out_what_is_not_whole() {
        let mut report = Report::example();
        let samples = Samples::of(&report, 1.0);
        assert_eq!((samples.answers.len(), samples.seconds), (10, 1.0));
        assert!((samples.answers.mean() - 237_000.0).abs() < 1.0);
        report.seconds = 9.95;
        assert_eq!(Samples::of(&report, 1.0).answers.len(), 9);
        assert_eq!(Samples::of(&report, 0.1).answers.len(), 99);
        report.timeline.slice_ns = 400_000_000;
        let samples = Samples::of(&report, 1.0);
        assert!((samples.seconds - 1.2).abs() < 1e-9);
        report.seconds = 0.3;
        let samples = Samples::of(&report, 1.0);
        assert_eq!((samples.answers.len(), samples.seconds), (1, 0.3));
        assert!((samples.answers.max() * 0.3 - report.answers as f64).abs() < 1.0);
        report.timeline.slices.clear();
        assert_eq!(Samples::of(&report, 1.0).answers.len(), 0);
    }

    #[test]
    fn a_series_knows_its_ranks_and_spread() {
        let series = Series::new(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((series.min(), series.max(), series.mean()), (1.0, 4.0, 2.5));
        assert_eq!(
            (
                series.percentile(1.0),
                series.percentile(50.0),
                series.percentile(97.5)
            ),
            (1.0, 2.0, 4.0)
        );
        assert!((series.deviation() - 1.25_f64.sqrt()).abs() < 1e-12);
        assert!((series.sample_deviation() - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((series.percent_within(1.0) - 50.0).abs() < 1e-12);
        let none = Series::new(Vec::new());
        assert_eq!(
            (
                none.mean(),
                none.deviation(),
                none.percentile(50.0),
                none.percent_within(1.0)
            ),
            (0.0, 0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn bins_hold_every_value_once() {
        let mut histogram = latencies();
        for value in 0..=1_000 {
            histogram.record(value * 1_000).unwrap();
        }
        let bins = bins(&histogram);
        assert_eq!(bins[0].1, 1);
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), 1_001);
        assert_eq!(super::bins(&latencies()), [(0.0, 0); BINS]);
        let mut same = latencies();
        same.record_n(7, 5).unwrap();
        assert_eq!(super::bins(&same)[0], (7.0, 5));
    }
}
