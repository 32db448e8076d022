//! Pair blocks: names and values of parameters and headers, PROTOCOL.md section 4.

use crate::{WireError, frame::u32_at};

const LENGTHS_BYTES: usize = 8;

/// Appends one pair to a block.
pub fn put_pair(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.extend_from_slice(&(name.len() as u32).to_le_bytes());
    block.extend_from_slice(&(value.len() as u32).to_le_bytes());
    block.extend_from_slice(name);
    block.extend_from_slice(value);
}

/// Iterates over a block's pairs; ends after the first error.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Pairs<'a> {
    /// Starts at the beginning of `block`.
    pub const fn new(block: &'a [u8]) -> Self {
        Self { block, at: 0 }
    }

    fn cut_off(&mut self) -> WireError {
        let at = self.at;
        self.at = self.block.len();
        WireError::PairsTruncated {
            at,
            length: self.block.len(),
        }
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.block[self.at..];
        if rest.is_empty() {
            return None;
        }
        if rest.len() < LENGTHS_BYTES {
            return Some(Err(self.cut_off()));
        }
        let name_length = u32_at(rest, 0) as usize;
        let value_length = u32_at(rest, 4) as usize;
        let parts = rest[LENGTHS_BYTES..]
            .split_at_checked(name_length)
            .and_then(|(name, rest)| Some((name, rest.get(..value_length)?)));
        match parts {
            Some(pair) => {
                self.at += LENGTHS_BYTES + name_length + value_length;
                Some(Ok(pair))
            }
            None => Some(Err(self.cut_off())),
        }
    }
}
