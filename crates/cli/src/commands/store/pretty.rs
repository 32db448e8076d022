//! Indented JSON for people.

/// Canonical JSON with one member or element per line.
pub(super) fn pretty(canonical: &str) -> String {
    let mut text = String::with_capacity(canonical.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut last = ' ';
    for character in canonical.chars() {
        if quoted {
            text.push(character);
            quoted = escaped || character != '"';
            escaped = !escaped && character == '\\';
            last = character;
            continue;
        }
        if matches!(last, '{' | '[') && !matches!(character, '}' | ']') {
            line(&mut text, depth);
        }
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth -= 1;
                if !matches!(last, '{' | '[') {
                    line(&mut text, depth);
                }
            }
            _ => {}
        }
        text.push(character);
        match character {
            '"' => quoted = true,
            ':' => text.push(' '),
            ',' => line(&mut text, depth),
            _ => {}
        }
        last = character;
    }
    text
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_on_lines_of_their_own_and_strings_stay_as_they_are() {
        assert_eq!(
            pretty(r#"{"a":[1,{}],"b":{"c":"x\\\",{[:"},"d":[]}"#),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": \"x\\\\\\\",{[:\"\n  },\n  \"d\": []\n}"
        );
        assert_eq!(pretty("\"{\""), "\"{\"");
        assert_eq!(pretty("[[]]"), "[\n  []\n]");
    }
}
