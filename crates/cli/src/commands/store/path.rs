//! Nodes on a command line: `Person/data/1` with percent-escapes, or `^Person("data",1)` as in M.
//!
//! The first is the notation of URLs and of `[store.index]`, but typed by a person: only characters that would be misread are escaped on
//! output, and an empty subscript, which is easily typed by mistake, is written in M's notation.

use std::fmt::Write as _;

use forebay_store::{Key, transfer};

/// Parses either notation.
pub(crate) fn parse(text: &str) -> Result<Key, String> {
    if text.starts_with('^') {
        return transfer::reference(text).map_err(|error| error.to_string());
    }
    let mut steps = text.split('/').map(unescape);
    let global = steps.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut key = Key::global(&global).map_err(|error| error.to_string())?;
    for step in steps {
        let step = step?;
        if step.is_empty() {
            return Err("an empty subscript between `/` is written as M does: ^Person(\"\")".into());
        }
        key.push(&step).map_err(|error| error.to_string())?;
    }
    Ok(key)
}

/// A node's name with `/`, or in M's notation where that is the only way.
pub(super) fn show(key: &Key) -> String {
    let mut text = escape(key.global_name());
    for subscript in key.texts() {
        if subscript.is_empty() {
            return key.to_string();
        }
        text.push('/');
        text.push_str(&escape(&subscript));
    }
    text
}

/// A subscript in the notation with `/`.
pub(crate) fn escape(subscript: &str) -> String {
    if subscript.is_empty() {
        return "\"\"".into();
    }
    let mut text = String::with_capacity(subscript.len());
    for character in subscript.chars() {
        if character.is_control() || character.is_whitespace() || "/%\"^".contains(character) {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(character);
        }
    }
    text
}

fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("`%` is followed by two hex digits; the character itself is %25")?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "the escapes are not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_name_the_same_node() {
        for (plain, as_m) in [
            ("Person", "^Person"),
            ("Person/data/1", "^Person(\"data\",1)"),
            ("Person/a%2Fb/%25/ö", "^Person(\"a/b\",\"%\",\"ö\")"),
            ("Person/007/-.5/1e3", "^Person(\"007\",-.5,\"1e3\")"),
            ("%25Z/a%0Ab", "^%Z(\"a\"_$C(10)_\"b\")"),
        ] {
            assert_eq!(parse(plain), parse(as_m), "{plain}");
            assert!(parse(plain).is_ok());
        }
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        for subscript in ["a", "a/b", "50%", "a b", "é\n\"^", "007"] {
            let typed = format!("G/{}", escape(subscript));
            let key = Key::global("G").unwrap().child(subscript).unwrap();
            assert_eq!(show(&key), typed);
            assert_eq!(parse(&typed), Ok(key));
        }
    }

    #[test]
    fn a_path_with_an_empty_subscript_is_shown_as_m_writes_it() {
        let key = Key::global("G").unwrap().child("").unwrap();
        assert_eq!(show(&key), "^G(\"\")");
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (text, complaint) in [
            ("", "is empty"),
            ("/a", "is empty"),
            ("G//a", "an empty subscript"),
            ("G/", "an empty subscript"),
            ("G/%", "two hex digits"),
            ("G/%+1", "two hex digits"),
            ("G/%é", "two hex digits"),
            ("G/%FF", "not UTF-8"),
            ("a b", "cannot contain ' '"),
            ("^G(1", "`,` or `)` is missing"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
