//! Hexadecimal encoding of positions in an index, which clients send back as they received them.

use std::fmt::Write as _;

/// Two digits for each byte.
pub fn write(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    text
}

/// Decodes the output of [`write`], in lower or upper case; signs are not accepted.
pub fn read(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_nothing_else_is_read() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read(&write(&all)), Some(all));
        assert_eq!(write(b"\x0f\xa0"), "0fa0");
        assert_eq!(read("0FA0"), Some(vec![0x0f, 0xa0]));
        assert_eq!(read(""), Some(Vec::new()));
        for wrong in ["0", "0fa", "+f", "f+", "0x", " 0", "é", "zz"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
