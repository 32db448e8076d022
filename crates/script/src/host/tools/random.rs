//! Random numbers and texts, from the thread's cryptographically secure generator.

use rand::{RngExt as _, seq::IndexedRandom as _};

use super::error::{ToolError, check_length};

/// Maximum length of a text in characters.
const COUNT_MAX: usize = 65_536;
/// Maximum size of the alphabet to choose from.
const CHARACTERS_MAX: usize = 1 << 20;
/// Numbers are below 2^53, up to which JavaScript can represent every integer.
const END_MAX: u64 = 1 << 53;

/// A uniformly distributed integer below `end`, which is from 1 to 2^53.
pub(super) fn below(end: f64) -> Result<f64, ToolError> {
    if !(1.0..=END_MAX as f64).contains(&end) {
        return Err(ToolError::RandomEnd { end });
    }
    Ok(rand::rng().random_range(0..end as u64) as f64)
}

/// A text of this many characters, each chosen from `characters`.
pub(super) fn text(characters: &str, count: usize) -> Result<String, ToolError> {
    check_length("what is drawn from", characters.len(), CHARACTERS_MAX)?;
    check_length("what is random", count, COUNT_MAX)?;
    let characters: Vec<char> = characters.chars().collect();
    let mut rng = rand::rng();
    let chosen = (0..count).map(|_| characters.choose(&mut rng).copied());
    chosen
        .map(|character| character.ok_or(ToolError::NoCharacters))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of times that each number below `end` is drawn.
    fn drawn(end: usize, times: usize) -> Vec<usize> {
        let mut counts = vec![0; end];
        for _ in 0..times {
            counts[below(end as f64).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn each_number_is_as_likely_as_the_others() {
        for end in [1, 2, 3, 95, 256] {
            let counts = drawn(end, 2000 * end);
            // More than nine standard deviations from 2,000.
            assert!(
                counts.iter().all(|count| (1600..2400).contains(count)),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn all_of_a_long_range_is_drawn_and_nothing_beyond() {
        for end in [(1_u64 << 16) + 1, 1 << 32, (1 << 33) + 5, END_MAX] {
            let numbers: Vec<f64> = (0..2000).map(|_| below(end as f64).unwrap()).collect();
            assert!(
                numbers
                    .iter()
                    .all(|number| number.fract() == 0.0 && *number < end as f64)
            );
            for quarter in 0..4 {
                let from = end as f64 / 4.0 * f64::from(quarter);
                let within = numbers
                    .iter()
                    .filter(|number| (from..from + end as f64 / 4.0).contains(number));
                assert!((300..700).contains(&within.count()), "{end} {quarter}");
            }
        }
    }

    #[test]
    fn texts_have_the_characters_they_are_drawn_from() {
        let drawn = text("äß€😀", 400).unwrap();
        assert_eq!(drawn.chars().count(), 400);
        for character in "äß€😀".chars() {
            let count = drawn.chars().filter(|other| *other == character).count();
            assert!((40..160).contains(&count), "{count} of {character}");
        }
        assert_eq!(text("", 0).unwrap(), "");
        assert_eq!(
            text("", 1).unwrap_err().to_string(),
            "there is no character to choose from"
        );
        assert!(text("a", COUNT_MAX + 1).is_err());
    }

    #[test]
    fn what_has_no_whole_number_below_it_is_refused() {
        for end in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY, END_MAX as f64 * 2.0] {
            let refused = below(end).unwrap_err().to_string();
            assert!(
                refused.ends_with("a number at random is below one from 1 to 9007199254740992"),
                "{refused}"
            );
        }
    }
}
