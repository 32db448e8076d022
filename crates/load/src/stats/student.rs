//! Quantiles of Student's t distribution.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Degrees of freedom above which the quantile for this number is used; it is too large by less than 0.02 % there.
const DEGREES_MAX: usize = 10_000;
/// Bisections of the angle in which the quantile lies: more than the precision of a double.
const HALVINGS: u32 = 60;

/// The `t` with `P(|T| < t) = confidence`, for intervals with two sides. Infinite for 0 degrees of freedom. `confidence` is taken into
/// the range 0 to just below 1.
///
/// The probability is the finite series for whole degrees of freedom (Abramowitz and Stegun, "Handbook of Mathematical Functions",
/// 26.7.3 and 26.7.4); the quantile is found by halving.
pub fn student_t(confidence: f64, degrees: usize) -> f64 {
    if degrees == 0 {
        return f64::INFINITY;
    }
    let degrees = degrees.min(DEGREES_MAX);
    let confidence = confidence.clamp(0.0, 1.0 - 1e-12);
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if within(middle, degrees) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    (degrees as f64).sqrt() * f64::midpoint(low, high).tan()
}

/// `P(|T| < t)` for `t = sqrt(degrees) × tan(angle)`.
fn within(angle: f64, degrees: usize) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let square = cosine * cosine;
    let odd = degrees % 2 == 1;
    // Odd: cos + 2/3 cos³ + (2·4)/(3·5) cos⁵ …; even: 1 + 1/2 cos² + (1·3)/(2·4) cos⁴ …
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    for power in (if odd {
        1..degrees.saturating_sub(1)
    } else {
        0..degrees - 1
    })
    .step_by(2)
    {
        sum += term;
        let next = power as f64;
        term *= square * (next + 1.0) / (next + 2.0);
    }
    if odd {
        FRAC_2_PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, degrees, expected) in [
            (0.95, 1, 12.706_205),
            (0.95, 2, 4.302_653),
            (0.95, 3, 3.182_446),
            (0.95, 10, 2.228_139),
            (0.95, 30, 2.042_272),
            (0.95, 100, 1.983_972),
            (0.95, 1000, 1.962_339),
            (0.99, 1, 63.656_741),
            (0.99, 10, 3.169_273),
            (0.99, 30, 2.749_996),
            (0.90, 4, 2.131_847),
            (0.50, 7, 0.711_142),
        ] {
            let found = student_t(confidence, degrees);
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "{confidence} {degrees}: {found}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_range_are_no_trap() {
        assert!((student_t(0.95, 1_000_000) - 1.959_964).abs() < 0.0004);
        assert!(student_t(0.95, 0).is_infinite());
        assert!(student_t(0.0, 5).abs() < 1e-9);
        assert!(student_t(1.0, 5).is_finite());
    }
}
