//! Judges whether the ratios of a comparison of two servers can be trusted.

use super::{Kind, Verdict};
use crate::{
    engine::Stretch,
    report::words::{count, percent},
    search::Versus,
};

/// Part of a server's requests that may fail before a ratio compares failures with answers.
pub const SIDE_FAILED_MAX: f64 = 0.01;

impl Verdict {
    /// Judges a comparison of A with B, given a comparison of A with itself.
    pub fn of_comparison(itself: &Versus, found: &Versus) -> Self {
        let sides = [("A", &found.first), ("B", &found.second)];
        let mut reasons: Vec<String> = sides
            .into_iter()
            .filter_map(|(name, stretch)| failed_much(name, stretch))
            .collect();
        let mut kind = Kind::Errors;
        if reasons.is_empty() {
            kind = Kind::Noisy;
            reasons.extend(unsure(itself, found));
        }
        if reasons.is_empty() {
            kind = Kind::Clean;
            let limit = SIDE_FAILED_MAX * 100.0;
            reasons.push(format!(
                "Neither server failed more than {limit:.0} % of its requests, and A beside itself showed no difference."
            ));
        }
        Self {
            kind,
            reasons,
            notes: Vec::new(),
        }
    }
}

/// The objection to a server's figures if too many of its requests failed.
fn failed_much(name: &str, stretch: &Stretch) -> Option<String> {
    let total = &stretch.total;
    let failed = total.failures.total();
    let asked = total.answers + total.failures.without_answer();
    let classes = total
        .failures
        .iter()
        .map(|(class, number)| format!("{} {}", class.name(), count(number)));
    let classes = classes.collect::<Vec<_>>().join(", ");
    if total.answers == 0 {
        let what = if classes.is_empty() {
            "nothing was sent"
        } else {
            &classes
        };
        return Some(format!("Not one answer came from {name} ({what})."));
    }
    let much = failed as f64 > SIDE_FAILED_MAX * asked as f64;
    much.then(|| {
        format!(
            "{name} failed {} of its requests ({classes}), so the ratios compare failures with answers.",
            percent(failed, asked)
        )
    })
}

/// Why another comparison might give a different result.
fn unsure(itself: &Versus, found: &Versus) -> Option<String> {
    match (&found.per_second, &itself.per_second) {
        (None, _) | (_, None) => Some("There were too few pairs to tell a difference from noise.".to_owned()),
        (_, Some(floor)) if floor.differs() => Some(format!(
            "A beside itself came out {:.3} times as fast ({:.3} to {:.3}), so the machine changes more than the pairs can see.",
            floor.value, floor.low, floor.high
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failure::Class,
        plan::Load,
        stats::{Ratio, ratio},
    };

    /// A comparison in which each side had a thousand answers, and some failures with them.
    fn compared(failures: [&[(Class, u64)]; 2], per_second: Option<Ratio>) -> Versus {
        let side = |failures: &[(Class, u64)]| {
            let mut stretch = Stretch::nothing(Load::PAUSED);
            stretch.total.answers = 1_000;
            for (class, number) in failures {
                stretch.total.failures.add(*class, *number);
            }
            stretch
        };
        Versus {
            pairs: Vec::new(),
            per_second,
            p50: None,
            p99: None,
            first: side(failures[0]),
            second: side(failures[1]),
            interrupted: false,
        }
    }

    /// The same on both sides.
    fn even() -> Option<Ratio> {
        ratio(&[(10.0, 10.1), (10.1, 10.0), (10.0, 10.0)])
    }

    fn judged(failures: [&[(Class, u64)]; 2]) -> Verdict {
        Verdict::of_comparison(&compared([&[], &[]], even()), &compared(failures, even()))
    }

    #[test]
    fn a_server_of_which_more_than_a_hundredth_failed_is_named() {
        let verdict = judged([&[(Class::Status, 10)], &[(Class::Status, 20), (Class::Reset, 11)]]);
        assert_eq!(
            (verdict.kind, verdict.reasons.len()),
            (Kind::Errors, 1),
            "{verdict}"
        );
        for words in ["B failed 3.07 %", "reset 11, status 20"] {
            assert!(verdict.reasons[0].contains(words), "{verdict}");
        }
        let both = judged([&[(Class::Status, 11)], &[(Class::Status, 11)]]);
        assert_eq!((both.kind, both.reasons.len()), (Kind::Errors, 2), "{both}");
        assert_eq!(judged([&[(Class::Status, 10)], &[]]).kind, Kind::Clean);
    }

    #[test]
    fn a_server_that_answers_nothing_is_named_with_what_failed() {
        let mut found = compared([&[(Class::ConnectRefused, 4)], &[]], None);
        found.first.total.answers = 0;
        let verdict = Verdict::of_comparison(&compared([&[], &[]], even()), &found);
        assert_eq!(
            verdict.to_string(),
            "errors: Not one answer came from A (connect_refused 4)."
        );
    }

    #[test]
    fn a_server_that_differs_from_itself_makes_it_noisy() {
        let shifted = ratio(&[(20.0, 10.0), (20.1, 10.0), (20.0, 10.1), (20.0, 10.0)]);
        let verdict = Verdict::of_comparison(&compared([&[], &[]], shifted), &compared([&[], &[]], even()));
        assert_eq!(verdict.kind, Kind::Noisy, "{verdict}");
        assert!(verdict.reasons[0].contains("A beside itself"), "{verdict}");
        let few = Verdict::of_comparison(&compared([&[], &[]], even()), &compared([&[], &[]], None));
        assert_eq!(few.kind, Kind::Noisy, "{few}");
    }
}
