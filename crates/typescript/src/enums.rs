//! Replaces enums by code with the same meaning, on the same lines. Within such lines, columns move.

/// The type of a member's value: a number leads back to the member's name, a text does not.
#[derive(Clone, Copy, Debug)]
enum Value {
    Text,
    Number,
}

/// Finds the end of the enum that begins `text`, and converts it: `enum Color { Red, Green = 'g' }`, with or without `const`. `None` if it
/// cannot be read.
pub(super) fn converted(text: &str) -> Option<(usize, String)> {
    let mut reader = Reader { text, at: 0 };
    let mut word = reader.next_word()?;
    if word == "const" {
        word = reader.next_word()?;
    }
    if word != "enum" {
        return None;
    }
    let name = reader.next_word()?;
    let mut out = format!("const {name} = (({name}) => {{");
    reader.copy_newlines(&mut out);
    reader.take('{')?;
    let mut members: Vec<&str> = Vec::new();
    loop {
        reader.copy_space(&mut out);
        if reader.take('}').is_some() {
            break;
        }
        let member = match reader.peek()? {
            '"' | '\'' => {
                let quoted = reader.quoted()?;
                &quoted[1..quoted.len() - 1]
            }
            _ => reader.next_word()?,
        };
        if member.contains('"') {
            return None;
        }
        let key = format!("{name}[\"{member}\"]");
        reader.copy_newlines(&mut out);
        let is_initialized = reader.take('=').is_some();
        reader.copy_newlines(&mut out);
        let (value, kind) = if is_initialized {
            reader.initializer(name, &members)?
        } else {
            let before = members.last();
            let value = before.map_or_else(|| "0".to_owned(), |before| format!("{name}[\"{before}\"] + 1"));
            (value, Value::Number)
        };
        match kind {
            Value::Text => out.extend([&key, " = ", &value, ";"]),
            Value::Number => out.extend([name, "[", &key, " = ", &value, "] = \"", member, "\";"]),
        }
        members.push(member);
        reader.copy_space(&mut out);
        if reader.take(',').is_none() && reader.peek() != Some('}') {
            return None;
        }
    }
    let space = if out.ends_with(['\n', ' ']) { "" } else { " " };
    out.extend([space, "return ", name, "; })({});"]);
    Some((reader.at, out))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        self.rest().strip_prefix(wanted)?;
        self.at += wanted.len_utf8();
        Some(())
    }

    /// Copies white space and comments.
    fn copy_space(&mut self, out: &mut String) {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.find(|letter: char| !letter.is_whitespace())
                    .unwrap_or(rest.len())
            };
            if length == 0 {
                return;
            }
            out.push_str(&rest[..length]);
            self.at += length;
        }
    }

    /// Skips white space and comments, and copies the newlines in them.
    fn copy_newlines(&mut self, out: &mut String) {
        let mut skipped = String::new();
        self.copy_space(&mut skipped);
        out.extend(skipped.matches('\n'));
    }

    fn next_word(&mut self) -> Option<&'t str> {
        self.copy_space(&mut String::new());
        let rest = self.rest();
        let is_part = |letter: char| letter.is_alphanumeric() || "_$".contains(letter);
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// A text in quotes, with them.
    fn quoted(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let mut letters = rest.char_indices();
        let (_, quote) = letters.next()?;
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' {
                letters.next();
            } else if letter == quote {
                self.at += at + 1;
                return Some(&rest[..=at]);
            }
        }
        None
    }

    /// The expression up to the next comma or brace outside of brackets. Names of earlier members become members of the enum.
    fn initializer(&mut self, name: &str, members: &[&str]) -> Option<(String, Value)> {
        let mut out = String::new();
        let mut depth = 0_usize;
        let mut kind = Value::Number;
        loop {
            self.copy_space(&mut out);
            match self.peek()? {
                ',' | '}' if depth == 0 => return Some((out.trim_end_matches(' ').to_owned(), kind)),
                '"' | '\'' | '`' => {
                    out.push_str(self.quoted()?);
                    kind = Value::Text;
                }
                letter if letter.is_alphanumeric() || "_$".contains(letter) => {
                    let is_member = out.ends_with('.');
                    let word = self.next_word()?;
                    if members.contains(&word) && !is_member {
                        out.extend([name, "[\"", word, "\"]"]);
                    } else {
                        out.push_str(word);
                    }
                }
                letter => {
                    match letter {
                        '(' | '[' | '{' => depth += 1,
                        ')' | ']' | '}' => depth = depth.checked_sub(1)?,
                        _ => {}
                    }
                    out.push(letter);
                    self.at += letter.len_utf8();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_becomes_an_object_on_the_same_lines() {
        for (text, right) in [
            (
                "enum Color { Red, Green = 'g', Blue = 4, Dark = Red | (1 << 3), Last } rest",
                "const Color = ((Color) => { Color[Color[\"Red\"] = 0] = \"Red\"; Color[\"Green\"] = 'g'; Color[Color[\"Blue\"] = 4] = \"Blue\"; Color[Color[\"Dark\"] = Color[\"Red\"] | (1 << 3)] = \"Dark\"; Color[Color[\"Last\"] = Color[\"Dark\"] + 1] = \"Last\"; return Color; })({});",
            ),
            (
                "const enum A {\n  // one\n  'b c' = 1,\n}",
                "const A = ((A) => {\n  // one\n  A[A[\"b c\"] = 1] = \"b c\";\nreturn A; })({});",
            ),
        ] {
            let (end, made) = converted(text).unwrap();
            assert_eq!(made, right);
            assert!(text[..end].ends_with('}'));
        }
        for text in [
            "enum",
            "enum A",
            "enum A { b",
            "enum A { b c }",
            "class A {}",
            "enum A { b = ( }",
            "enum A { '\"' }",
        ] {
            assert_eq!(converted(text), None, "{text}");
        }
    }
}
