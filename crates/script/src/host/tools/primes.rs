//! Large random primes for keys.
//!
//! Most of the time is spent on composite candidates. A sieve removes those with a small prime factor; of the rest, Fermat's test to base
//! two removes almost all, in fixed-width arithmetic. The Baillie-PSW test (`crypto_primes::is_prime`) decides about those that pass, so no
//! result rests on the quick test alone.

use std::num::NonZeroU32;

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
        let sieve = SmallFactorsSieve::new(random_start::<WORDS>()?, bits, false);
        let mut sieve = sieve.map_err(|_| rsa::Error::Internal)?;
        let found = sieve.find(|number| is_over() || passes_both::<WORDS>(number));
        if is_over() {
            return Err(ToolError::OutOfTime);
        }
        // The search finds none if it reaches the end of the numbers of this length.
        if let Some(prime) = found {
            return Ok(prime);
        }
    }
}

/// A random number of `WORDS` words with its two highest bits set. The sieve begins at the next odd number.
fn random_start<const WORDS: usize>() -> Result<BoxedUint, ToolError> {
    let mut bytes = [[0; WORD / 8]; WORDS];
    getrandom::fill(bytes.as_flattened_mut())?;
    let mut words = bytes.map(u64::from_le_bytes);
    words[WORDS - 1] |= 0b11 << (WORD - 2);
    Ok(BoxedUint::from_words(words))
}

/// Whether a number is prime.
fn passes_both<const WORDS: usize>(number: &BoxedUint) -> bool {
    passes_fermat::<WORDS>(number) && is_prime(Flavor::Any, number)
}

/// Whether 2^(n-1) is 1 modulo an odd `n` of `WORDS` words whose highest bit is set. True for all primes, and for almost no other random
/// number. The running time depends only on the number of ones.
fn passes_fermat<const WORDS: usize>(number: &BoxedUint) -> bool {
    let Ok(modulus) = <[u64; WORDS]>::try_from(&number.to_words()[..]) else {
        // Numbers of another length are left to the other test.
        return true;
    };
    let modulus = Modulus::new(modulus);
    let one = modulus.one();
    let mut power = one;
    for at in (0..WORDS * WORD).rev() {
        power = modulus.square(&power);
        // The lowest bit is the only one in which n and n-1 differ.
        if at > 0 && modulus.number[at / WORD] >> (at % WORD) & 1 == 1 {
            power = modulus.double(&power);
        }
    }
    power == one
}

/// Arithmetic modulo an odd number whose highest bit is set. Numbers are in Montgomery form, multiplied by 2^(64 * WORDS), least
/// significant word first.
struct Modulus<const WORDS: usize> {
    number: [u64; WORDS],
    /// The factor for which adding that multiple of the modulus makes the lowest word zero.
    inverse: u64,
}

impl<const WORDS: usize> Modulus<WORDS> {
    fn new(number: [u64; WORDS]) -> Self {
        // An odd number is its own inverse modulo 8, and each step doubles the number of correct bits: 3, 6, 12, 24, 48, 96.
        let mut inverse = number[0];
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(number[0].wrapping_mul(inverse)));
        }
        Self {
            number,
            inverse: inverse.wrapping_neg(),
        }
    }

    /// The number one in Montgomery form.
    fn one(&self) -> [u64; WORDS] {
        // The power of two is less than twice the modulus.
        let mut borrow = 0;
        self.number.map(|word| subtract(0, word, &mut borrow))
    }

    fn double(&self, number: &[u64; WORDS]) -> [u64; WORDS] {
        let mut carry = 0;
        let doubled = number.map(|word| {
            let low = word << 1 | carry;
            carry = word >> 63;
            low
        });
        self.reduced(&doubled, carry)
    }

    /// Computes the square word by word: after each, the lowest word is made zero and dropped (Montgomery).
    fn square(&self, number: &[u64; WORDS]) -> [u64; WORDS] {
        let mut sum = [0; WORDS];
        let mut top = 0;
        for factor in number {
            let (mut carry, mut reducing_carry) = (0, 0);
            let lowest = multiply_add(sum[0], number[0], *factor, &mut carry);
            let reducer = lowest.wrapping_mul(self.inverse);
            multiply_add(lowest, self.number[0], reducer, &mut reducing_carry);
            for at in 1..WORDS {
                let word = multiply_add(sum[at], number[at], *factor, &mut carry);
                sum[at - 1] = multiply_add(word, self.number[at], reducer, &mut reducing_carry);
            }
            let highest = u128::from(carry) + u128::from(reducing_carry) + u128::from(top);
            sum[WORDS - 1] = highest as u64;
            top = (highest >> 64) as u64;
        }
        self.reduced(&sum, top)
    }

    /// Reduces a number with an additional high word; together they are less than twice the modulus.
    fn reduced(&self, number: &[u64; WORDS], top: u64) -> [u64; WORDS] {
        let mut borrow = 0;
        let mut less = [0; WORDS];
        for at in 0..WORDS {
            less[at] = subtract(number[at], self.number[at], &mut borrow);
        }
        // All ones if the number is less than the modulus.
        let keep = 0_u64.wrapping_sub(u64::from(top < borrow));
        for at in 0..WORDS {
            less[at] = less[at] & !keep | number[at] & keep;
        }
        less
    }
}

/// The low word of `sum + left * right + carry`; the high word becomes the new carry.
#[inline]
fn multiply_add(sum: u64, left: u64, right: u64, carry: &mut u64) -> u64 {
    let wide = u128::from(left) * u128::from(right) + u128::from(sum) + u128::from(*carry);
    *carry = (wide >> 64) as u64;
    wide as u64
}

/// The low word of `left - right - borrow`; the new borrow is 1 if the result is negative.
#[inline]
fn subtract(left: u64, right: u64, borrow: &mut u64) -> u64 {
    let (less, first) = left.overflowing_sub(right);
    let (less, second) = less.overflowing_sub(*borrow);
    *borrow = u64::from(first | second);
    less
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

    /// The quick test and the full test agree on random numbers.
    #[test]
    fn both_tests_agree_about_numbers_at_random() {
        fn agree<const WORDS: usize>(primes: usize) {
            let bits = WORDS as u32 * 64;
            let (mut found, mut numbers) = (0, 0);
            while found < primes {
                let length = NonZeroU32::new(bits).unwrap();
                let sieve = SmallFactorsSieve::new(random_start::<WORDS>().unwrap(), length, false).unwrap();
                for number in sieve.take(40) {
                    let right = is_prime(Flavor::Any, &number);
                    assert_eq!(passes_fermat::<WORDS>(&number), right, "{number:?}");
                    found += usize::from(right);
                    numbers += 1;
                }
            }
            assert!(numbers > found);
        }
        agree::<8>(8);
        agree::<16>(2);
    }

    #[test]
    fn what_passes_the_quick_test_alone_is_no_prime() {
        // 2^(n-1) is 1 modulo this number, although it is composite.
        let number = BoxedUint::from(18_446_744_066_047_760_377_u64);
        assert!(passes_fermat::<1>(&number) && !passes_both::<1>(&number));
        assert!(passes_both::<1>(&BoxedUint::from(u64::MAX - 58)));
    }

    #[test]
    fn arithmetic_is_right_at_its_edges() {
        // 2^128 - 159 is the largest prime of two words, 2^127 + 29 the smallest.
        for (words, right) in [
            ([u64::MAX - 158, u64::MAX], true),
            ([29, 1 << 63], true),
            ([u64::MAX, u64::MAX], false),
            ([1, 1 << 63], false),
            ([27, 1 << 63], false),
            ([u64::MAX - 156, u64::MAX], false),
        ] {
            let number = BoxedUint::from(u128::from(words[1]) << 64 | u128::from(words[0]));
            assert_eq!(passes_fermat::<2>(&number), right, "{words:?}");
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
