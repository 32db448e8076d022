//! Means with their confidence intervals.

use super::student_t;

/// Default confidence level of an interval.
pub(super) const CONFIDENCE: f64 = 0.95;

/// A figure, and the range in which the true one lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate itself.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The mean of independent figures, such as those of several runs, by Student's t. `None` with fewer than two.
    pub fn of_mean(values: &[f64]) -> Option<Self> {
        Self::of_mean_with(values, 1.0)
    }

    /// As [`Self::of_mean`], with the half-width stretched by a factor.
    pub(super) fn of_mean_with(values: &[f64], stretch: f64) -> Option<Self> {
        let error = standard_deviation(values)? / (values.len() as f64).sqrt();
        let half = student_t(CONFIDENCE, values.len() - 1) * error * stretch;
        let value = mean(values);
        Some(Self {
            value,
            low: value - half,
            high: value + half,
        })
    }

    /// Whether two intervals have a value in common; if so, their figures may well be the same.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a sample (divided by n - 1). `None` with fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The standard deviation as a share of the mean. `None` with fewer than two values, or when the mean is not above 0.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    standard_deviation(values)
        .filter(|_| mean > 0.0)
        .map(|deviation| deviation / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_the_one_of_the_textbook() {
        // Mean 6, deviation 2, n = 4: 6 ± 3.1824 × 2 / 2.
        let interval = Interval::of_mean(&[4.0, 5.0, 7.0, 8.0]).unwrap();
        let half = 3.182_446 * (10.0_f64 / 3.0).sqrt() / 2.0;
        assert!((interval.value - 6.0).abs() < 1e-12);
        assert!((interval.high - 6.0 - half).abs() < 1e-5, "{interval:?}");
        assert!((6.0 - interval.low - half).abs() < 1e-5, "{interval:?}");
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(Interval::of_mean(&[]), None);
        assert_eq!(Interval::of_mean(&[1.0]), None);
        assert_eq!(coefficient_of_variation(&[0.0, 0.0]), None);
        assert!(mean(&[]).abs() < 1e-12);
    }

    #[test]
    fn intervals_that_touch_overlap() {
        let at = |low, high| Interval {
            value: low,
            low,
            high,
        };
        assert!(at(1.0, 2.0).overlaps(&at(2.0, 3.0)));
        assert!(!at(1.0, 2.0).overlaps(&at(2.1, 3.0)));
    }
}
