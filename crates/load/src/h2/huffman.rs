//! The Huffman code of header strings (RFC 7541, 5.2 and appendix B). The code is a canonical one: how many bits each symbol has says
//! which they are.

/// Bits of each octet's code, and of the end-of-string symbol.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const SHORTEST: usize = 5;
const LONGEST: usize = 30;
const END_OF_STRING: u16 = 256;

struct Code {
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// One past the last code of each length.
    end: [u32; LONGEST + 1],
    /// Where the symbols of each length begin among `symbols`.
    start: [u16; LONGEST + 1],
    /// Symbols by the length of their codes, then by value: the order of their codes.
    symbols: [u16; 257],
}

static CODE: Code = code();

const fn code() -> Code {
    let mut made = Code {
        first: [0; LONGEST + 1],
        end: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        symbols: [0; 257],
    };
    let (mut length, mut next, mut placed) = (SHORTEST, 0_u32, 0);
    while length <= LONGEST {
        made.first[length] = next;
        made.start[length] = placed as u16;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                made.symbols[placed] = symbol as u16;
                placed += 1;
                next += 1;
            }
            symbol += 1;
        }
        made.end[length] = next;
        next <<= 1;
        length += 1;
    }
    made
}

/// Appends what a coded string says. `None`: it is no such string.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut bits, mut count) = (0_u64, 0_usize);
    for &byte in coded {
        bits = bits << 8 | u64::from(byte);
        count += 8;
        let mut length = SHORTEST;
        while length <= count.min(LONGEST) {
            let candidate = (bits >> (count - length)) as u32;
            if candidate >= CODE.end[length] {
                length += 1;
                continue;
            }
            let symbol =
                CODE.symbols[CODE.start[length] as usize + (candidate - CODE.first[length]) as usize];
            if symbol == END_OF_STRING {
                return None;
            }
            out.push(symbol as u8);
            count -= length;
            bits &= (1 << count) - 1;
            length = SHORTEST;
        }
    }
    // The last octet is filled up with ones.
    (count < 8 && bits == (1 << count) - 1).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(text: &[u8]) -> Vec<u8> {
        let (mut out, mut bits, mut count) = (Vec::new(), 0_u64, 0);
        for &byte in text {
            let length = LENGTHS[byte as usize] as usize;
            let at = CODE
                .symbols
                .iter()
                .position(|&symbol| symbol == u16::from(byte))
                .unwrap();
            let code = CODE.first[length] + (at - CODE.start[length] as usize) as u32;
            bits = bits << length | u64::from(code);
            count += length;
            while count >= 8 {
                count -= 8;
                out.push((bits >> count) as u8);
                bits &= (1 << count) - 1;
            }
        }
        if count > 0 {
            out.push((bits << (8 - count)) as u8 | (0xff >> count));
        }
        out
    }

    #[test]
    fn every_octet_comes_back() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        let mut out = Vec::new();
        decode(&encode(&all), &mut out).unwrap();
        assert_eq!(out, all);
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7541, C.4.1 and C.6.1.
        for (coded, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0x64, 0x02], "302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
        ] {
            let mut out = Vec::new();
            assert_eq!(decode(coded, &mut out), Some(()));
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn wrong_padding_and_the_end_symbol_are_refused() {
        for coded in [&[0x00, 0x00][..], &[0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decode(coded, &mut Vec::new()), None, "{coded:x?}");
        }
    }
}
