//! Random numbers and texts from the system's source, which is read in blocks.

use std::cell::RefCell;

use super::error::{ToolError, check_length};

/// Size of the buffer of random bytes.
const READY: usize = 512;
/// Maximum length of a text in characters.
const COUNT_MAX: usize = 65_536;
/// Maximum size of the alphabet to choose from.
const CHARACTERS_MAX: usize = 1 << 20;
/// Numbers are below 2^53, up to which JavaScript can represent every integer.
const END_MAX: u64 = 1 << 53;

/// Unused random bytes. Used ones are wiped.
pub(super) struct Random(RefCell<Ready>);

struct Ready {
    bytes: [u8; READY],
    /// Offset of the first unused byte.
    at: usize,
}

impl Random {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Ready {
            bytes: [0; READY],
            at: READY,
        }))
    }

    /// A uniformly distributed integer below `end`, which is from 1 to 2^53.
    pub(super) fn below(&self, end: f64) -> Result<f64, ToolError> {
        if !(1.0..=END_MAX as f64).contains(&end) {
            return Err(ToolError::RandomEnd { end });
        }
        Ok(self.0.borrow_mut().below(end as u64)? as f64)
    }

    /// A text of this many characters, each chosen from `characters`.
    pub(super) fn text(&self, characters: &str, count: usize) -> Result<String, ToolError> {
        check_length("what is drawn from", characters.len(), CHARACTERS_MAX)?;
        check_length("what is random", count, COUNT_MAX)?;
        if count == 0 {
            return Ok(String::new());
        }
        let mut ready = self.0.borrow_mut();
        if characters.is_ascii() {
            let of = characters.as_bytes();
            return ready.drawn(of.len(), count, |at| char::from(of[at]));
        }
        let of: Vec<char> = characters.chars().collect();
        ready.drawn(of.len(), count, |at| of[at])
    }
}

impl Ready {
    fn drawn(
        &mut self,
        length: usize,
        count: usize,
        of: impl Fn(usize) -> char,
    ) -> Result<String, ToolError> {
        if length == 0 {
            return Err(ToolError::NoCharacters);
        }
        (0..count)
            .map(|_| Ok(of(self.below(length as u64)? as usize)))
            .collect()
    }

    /// A uniformly distributed integer below `end`, which is not 0. Values beyond the last multiple of `end` are drawn again.
    fn below(&mut self, end: u64) -> Result<u64, ToolError> {
        // Short words are enough for short ranges; few values are drawn again.
        if end <= 1 << 16 {
            let last = (1 << 32) - (1 << 32) % end;
            loop {
                let number = u64::from(u32::from_le_bytes(self.take()?));
                if number < last {
                    return Ok(number % end);
                }
            }
        }
        let last = u64::MAX - u64::MAX % end;
        loop {
            let number = u64::from_le_bytes(self.take()?);
            if number < last {
                return Ok(number % end);
            }
        }
    }

    fn take<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], ToolError> {
        if READY - self.at < LENGTH {
            getrandom::fill(&mut self.bytes)?;
            self.at = 0;
        }
        let mut taken = [0; LENGTH];
        let from = &mut self.bytes[self.at..self.at + LENGTH];
        taken.copy_from_slice(from);
        from.fill(0);
        self.at += LENGTH;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of times that each number below `end` is drawn.
    fn drawn(end: usize, times: usize) -> Vec<usize> {
        let random = Random::new();
        let mut counts = vec![0; end];
        for _ in 0..times {
            counts[random.below(end as f64).unwrap() as usize] += 1;
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
        let random = Random::new();
        for end in [(1_u64 << 16) + 1, 1 << 32, (1 << 33) + 5, END_MAX] {
            let numbers: Vec<f64> = (0..2000).map(|_| random.below(end as f64).unwrap()).collect();
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
    fn bytes_are_given_once() {
        let mut ready = Ready {
            bytes: [0; READY],
            at: READY,
        };
        let taken: [u8; 8] = ready.take().unwrap();
        assert_ne!(taken, [0; 8]);
        assert_eq!(ready.bytes[..8], [0; 8]);
        assert_eq!(ready.at, 8);
        // Too few bytes are left for another value; they are discarded.
        ready.at = READY - 2;
        let _: [u8; 4] = ready.take().unwrap();
        assert_eq!(ready.at, 4);
    }

    #[test]
    fn texts_have_the_characters_they_are_drawn_from() {
        let random = Random::new();
        let text = random.text("äß€😀", 400).unwrap();
        assert_eq!(text.chars().count(), 400);
        for character in "äß€😀".chars() {
            let count = text.chars().filter(|other| *other == character).count();
            assert!((40..160).contains(&count), "{count} of {character}");
        }
        assert_eq!(random.text("", 0).unwrap(), "");
        assert_eq!(
            random.text("", 1).unwrap_err().to_string(),
            "there is no character to choose from"
        );
        assert!(random.text("a", COUNT_MAX + 1).is_err());
    }

    #[test]
    fn what_has_no_whole_number_below_it_is_refused() {
        let random = Random::new();
        for end in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY, END_MAX as f64 * 2.0] {
            let refused = random.below(end).unwrap_err().to_string();
            assert!(
                refused.ends_with("a number at random is below one from 1 to 9007199254740992"),
                "{refused}"
            );
        }
    }
}
