//! Finds names that rules request in their text: calls of `require` with a constant, and imports. Imports are converted to such calls,
//! because rules are not modules to the engine.
//!
//! Comments, strings, templates and regular expressions are recognized as well as possible without a full parser. What is missed is
//! detected when the rule runs.

use std::borrow::Cow;

/// Maximum length of the text between `import` and `from`, in bytes.
const CLAUSE_BYTES_MAX: usize = 16 << 10;

/// Offsets at which words of code begin: names and keywords without a dot before them.
fn words(text: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    // The preceding token decides whether a slash is a division.
    let mut before = b'\n';
    let mut word = "";
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let from = at;
            match bytes[at] {
                b'/' if bytes.get(at + 1) == Some(&b'/') => at = end_of_line(bytes, at),
                b'/' if bytes.get(at + 1) == Some(&b'*') => {
                    at = text[at + 2..]
                        .find("*/")
                        .map_or(bytes.len(), |length| at + length + 4);
                }
                b'/' if !is_value(before, word) => (at, before) = (end_of_pattern(bytes, at), b'/'),
                quote @ (b'"' | b'\'' | b'`') => {
                    (at, before, word) = (end_of_text(bytes, at, quote), quote, "");
                }
                letter if is_part_of_name(letter) => {
                    while bytes.get(at).copied().is_some_and(is_part_of_name) {
                        at += 1;
                    }
                    word = &text[from..at];
                    let is_member = std::mem::replace(&mut before, letter) == b'.';
                    if !is_member && !letter.is_ascii_digit() {
                        return Some(from);
                    }
                }
                letter => {
                    at += 1;
                    if !letter.is_ascii_whitespace() {
                        (before, word) = (letter, "");
                    }
                }
            }
        }
        None
    })
}

fn is_part_of_name(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'$' || letter >= 0x80
}

/// Whether the preceding token is a value, so that a slash is a division.
fn is_value(before: u8, word: &str) -> bool {
    let asks_for_value = [
        "return", "typeof", "case", "in", "of", "else", "await", "yield", "void",
    ];
    (is_part_of_name(before) && !asks_for_value.contains(&word)) || b")]}\"'`/".contains(&before)
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let length = bytes[from..].iter().position(|&byte| byte == b'\n');
    length.map_or(bytes.len(), |length| from + length)
}

/// Returns the offset behind a quoted text. Only templates span lines.
fn end_of_text(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' if quote != b'`' => return at,
            _ if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Returns the offset behind a regular expression.
fn end_of_pattern(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    let mut in_class = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Splits a quoted name off the front of a text.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| "\"'`".contains(*quote))?;
    let (name, rest) = text[1..].split_once(quote)?;
    let is_plain = !name.is_empty() && !name.contains(['"', '\'', '`', '\\', '\n', '$']);
    is_plain.then_some((name, rest))
}

/// The required names, each with its line, counted from 1.
pub(crate) fn required(text: &str) -> Vec<(u32, &str)> {
    let mut all = Vec::new();
    for at in words(text) {
        let name = text[at..].strip_prefix("require").and_then(|rest| {
            let (name, rest) = quoted(rest.trim_start().strip_prefix('(')?.trim_start())?;
            rest.trim_start().starts_with(')').then_some(name)
        });
        if let Some(name) = name {
            all.push((text[..at].matches('\n').count() as u32 + 1, name));
        }
    }
    all
}

/// Replaces imports by calls of `require`. Every line keeps its number.
pub(crate) fn imports_as_requires(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    for at in words(text) {
        // A call of `import()` is not an import statement, nor is a member of that name.
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if at < done || !text[line..at].trim_start().is_empty() {
            continue;
        }
        let Some(statement) = text[at..].strip_prefix("import") else {
            continue;
        };
        if let Some((made, rest)) = import_as_require(statement) {
            let end = text.len() - rest.len();
            out.push_str(&text[done..at]);
            out.push_str(&made);
            out.extend(text[at..end].matches('\n'));
            done = end;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Converts an import, given without its first word. Returns the replacement and the rest of the text.
fn import_as_require(statement: &str) -> Option<(String, &str)> {
    let begun = statement.trim_start();
    if let Some((name, rest)) = quoted(begun) {
        return Some((format!("require(\"{name}\")"), rest));
    }
    let is_clause = |letter: char| letter.is_alphanumeric() || "_$,{}* \t\r\n".contains(letter);
    let length = begun.find(|letter| !is_clause(letter))?;
    let clause = begun[..length].trim_end().strip_suffix("from")?;
    if length > CLAUSE_BYTES_MAX || statement.len() == begun.len() && !clause.starts_with(['{', '*']) {
        return None;
    }
    let (name, rest) = quoted(&begun[length..])?;
    let clause = clause.trim();
    let (default, others) = if clause.starts_with(['{', '*']) {
        ("", clause)
    } else {
        clause.split_once(',').unwrap_or((clause, ""))
    };
    let mut made = Vec::new();
    if !default.is_empty() {
        let default = default.trim();
        made.push(format!(
            "{default} = ((module) => module?.default ?? module)(require(\"{name}\"))"
        ));
    }
    let others = others.trim();
    if let Some(all) = others.strip_prefix('*') {
        made.push(format!(
            "{} = require(\"{name}\")",
            all.trim().strip_prefix("as ")?
        ));
    } else if !others.is_empty() {
        let members = others.strip_prefix('{')?.strip_suffix('}')?.split(',');
        let members = members.map(|member| match *member.split_whitespace().collect::<Vec<_>>() {
            [] => Some(String::new()),
            [name] => Some(name.to_owned()),
            [name, "as", own] => Some(format!("{name}: {own}")),
            _ => None,
        });
        let members: Vec<_> = members.collect::<Option<_>>()?;
        made.push(format!("{{ {} }} = require(\"{name}\")", members.join(", ")));
    }
    Some((format!("const {}", made.join(", ")), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are_code() {
        let text = "const a = require('a'), b = require( \"./b.js\" );\n// require('c')\n/* require('d')\n */ x.require('e'); 'require(\"f\")';\nlet r = /[/'\"]require('g')/; require(`h`); require(name); a / b / require('i');\n`require('j')`; myrequire('k'); require('l' + 1); return /'/.test(require('m'))";
        let names: Vec<_> = required(text);
        let right = [(1, "a"), (1, "./b.js"), (5, "h"), (5, "i"), (6, "m")];
        assert_eq!(names, right);
    }

    #[test]
    fn imports_become_calls_and_every_line_stays() {
        for (text, right) in [
            (
                "import a from 'a';\nb",
                "const a = ((module) => module?.default ?? module)(require(\"a\"));\nb",
            ),
            (
                "import {\n  a,\n  b as c,\n} from \"d\"\ne",
                "const { a, b: c,  } = require(\"d\")\n\n\n\ne",
            ),
            ("import * as a from 'b'", "const a = require(\"b\")"),
            (
                "  import a, { b } from 'c';",
                "  const a = ((module) => module?.default ?? module)(require(\"c\")), { b } = require(\"c\");",
            ),
            ("import './a.js';", "require(\"./a.js\");"),
            ("import{a}from'b';", "const { a } = require(\"b\");"),
        ] {
            assert_eq!(imports_as_requires(text), right, "{text}");
        }
        for text in [
            "import('a')",
            "import.meta",
            "// import a from 'a'",
            "`\nimport a from 'a'\n`",
            "imported from 'a'",
            "importa from 'a'",
            "import a 'b'",
            "import { a b } from 'c'",
            "import a from 'a\\'b'",
            "x = 'é'; /* ",
            "'",
            "import",
            "/",
        ] {
            assert_eq!(imports_as_requires(text), text);
        }
    }
}
