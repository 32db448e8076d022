//! Large random primes for keys. A sieve removes candidates with a small prime factor; the Baillie-PSW test decides about the rest.

use std::num::NonZeroU32;

use crypto_bigint::Uint;
use crypto_primes::{Flavor, hazmat::SmallFactorsSieve, is_prime};
use rsa::BoxedUint;

use super::error::ToolError;

/// Number of bits in a word.
const WORD: usize = u64::BITS as usize;

/// A prime of `WORDS` words with its two highest bits set, so that the product of two has twice as many bits. `is_over` is checked between
/// candidates, and stops the search.
pub(super) fn random_prime<const WORDS: usize>(is_over: impl Fn() -> bool) -> Result<BoxedUint, ToolError> {
    let bits = const { NonZeroU32::new(WORDS as u32 * u64::BITS).expect("a prime has words") };
    loop {
        let mut bytes = [[0; WORD / 8]; WORDS];
        getrandom::fill(bytes.as_flattened_mut())?;
        let mut words = bytes.map(u64::from_le_bytes);
        words[WORDS - 1] |= 0b11 << (WORD - 2);
        // The sieve begins at the next odd number. Numbers of a fixed length are tested much faster than boxed ones.
        let sieve = SmallFactorsSieve::new(Uint::<WORDS>::from_words(words), bits, false);
        let mut sieve = sieve.map_err(|_| rsa::Error::Internal)?;
        let found = sieve.find(|number| is_over() || is_prime(Flavor::Any, number));
        if is_over() {
            return Err(ToolError::OutOfTime);
        }
        // The search finds none if it reaches the end of the numbers of this length.
        if let Some(prime) = found {
            return Ok(BoxedUint::from(&prime));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn primes_are_prime_and_have_their_highest_bits() {
        let primes = [random_prime::<8>(|| false), random_prime::<16>(|| false)];
        for (prime, bytes) in primes.into_iter().zip([64, 128]) {
            let prime = prime.unwrap();
            assert!(is_prime(Flavor::Any, &prime));
            assert_eq!(prime.to_be_bytes()[0] >> 6, 3);
            assert_eq!(prime.to_be_bytes().len(), bytes);
        }
    }

    #[test]
    fn the_search_stops_when_it_is_told_to() {
        let asked = Cell::new(0);
        let stopped = random_prime::<32>(|| {
            asked.set(asked.get() + 1);
            true
        });
        assert!(matches!(stopped, Err(ToolError::OutOfTime)));
        assert_eq!(asked.get(), 2, "before the first number, and behind it");
    }
}
