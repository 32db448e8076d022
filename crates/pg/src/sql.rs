//! Statements with named parameters: `select name from users where id = :id` becomes `... where id = $1`.
//!
//! Names are found as PostgreSQL's lexer would (manual, 4.1): not in strings, quoted names, comments and dollar quotes,
//! not in `::type`.

use std::ops::Range;

use crate::statement::{only_reads, session_keyword};

/// A statement as sent to the server, and the names of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sql {
    text: String,
    names: Vec<String>,
    /// Position of each parameter, in `text` and in the original statement.
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Range in `text`: `$1`.
    here: Range<usize>,
    /// Range in the original: `:id`.
    there: Range<usize>,
}

/// Why a text is not a valid statement with named parameters. Positions are byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// An unterminated string, comment or the like.
    #[error("{what} that begins at byte {at} does not end")]
    Open {
        /// Kind of the unterminated token.
        what: &'static str,
        /// Offset of its beginning.
        at: usize,
    },
    /// A parameter without a name.
    #[error("`${number}` at byte {at}: parameters have names here, as `:id`")]
    Numbered {
        /// Number of the parameter.
        number: u32,
        /// Offset of the parameter.
        at: usize,
    },
    /// More parameters than the protocol allows.
    #[error("there are more than {max} parameters")]
    TooMany {
        /// Most parameters of a statement.
        max: usize,
    },
}

/// The protocol counts parameters with 16 bits (manual, 53.7, Bind).
const PARAMETERS_MAX: usize = 65_535;

impl Sql {
    /// Parses the statement. A name that occurs several times is one parameter.
    pub fn parse(written: &str) -> Result<Self, SqlError> {
        let mut sql = Self {
            text: String::with_capacity(written.len()),
            names: Vec::new(),
            places: Vec::new(),
        };
        let mut copied = 0;
        let mut at = 0;
        while at < written.len() {
            let end = match token(written, at)? {
                Token::Other(end) => end,
                Token::Parameter(end) => {
                    sql.text.push_str(&written[copied..at]);
                    sql.parameter(&written[at + 1..end], at..end)?;
                    copied = end;
                    end
                }
            };
            at = end;
        }
        sql.text.push_str(&written[copied..]);
        Ok(sql)
    }

    /// The text with `$1`, `$2` and so on in place of the names.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first word of the statement if it affects its whole connection: a [`crate::Source`] rejects it then.
    pub fn session_keyword(&self) -> Option<&'static str> {
        session_keyword(&self.text)
    }

    /// Whether the statement only reads, judging by its words, so that it may be run twice.
    pub fn only_reads(&self) -> bool {
        only_reads(&self.text)
    }

    /// Names in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Offset in the original statement of a byte in [`Self::text`].
    pub fn written_at(&self, byte: usize) -> usize {
        let before = self.places.partition_point(|place| place.here.start <= byte);
        let Some(Place { here, there }) = before.checked_sub(1).map(|last| &self.places[last]) else {
            return byte;
        };
        if byte < here.end {
            there.start
        } else {
            there.end + (byte - here.end)
        }
    }

    fn parameter(&mut self, name: &str, there: Range<usize>) -> Result<(), SqlError> {
        let number = match self.names.iter().position(|known| known == name) {
            Some(index) => index + 1,
            None if self.names.len() == PARAMETERS_MAX => {
                return Err(SqlError::TooMany { max: PARAMETERS_MAX });
            }
            None => {
                self.names.push(name.to_owned());
                self.names.len()
            }
        };
        let start = self.text.len();
        self.text.push('$');
        self.text.push_str(&number.to_string());
        self.places.push(Place {
            here: start..self.text.len(),
            there,
        });
        Ok(())
    }
}

/// A token, with the offset of its end.
enum Token {
    Parameter(usize),
    Other(usize),
}

fn token(text: &str, at: usize) -> Result<Token, SqlError> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let end = match rest {
        [b'\'', ..] => {
            quoted(bytes, at, b'\'', has_escapes(bytes, at)).ok_or(SqlError::Open { what: "a string", at })?
        }
        [b'"', ..] => quoted(bytes, at, b'"', false).ok_or(SqlError::Open {
            what: "a quoted name",
            at,
        })?,
        [b'-', b'-', ..] => rest
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(bytes.len(), |length| at + length + 1),
        [b'/', b'*', ..] => comment(bytes, at).ok_or(SqlError::Open {
            what: "a comment",
            at,
        })?,
        [b'$', ..] => dollar(text, at)?,
        [b':', b':', ..] => at + 2,
        [b':', first, ..] if begins_name(*first) && !follows_operand(bytes, at) => {
            return Ok(Token::Parameter(name_end(bytes, at + 1)));
        }
        [first, ..] if begins_name(*first) => name_end(bytes, at),
        _ => at + 1,
    };
    // Tokens end after ASCII characters or at the end of the text; other characters are stepped over byte by byte.
    Ok(Token::Other(next_boundary(text, end)))
}

fn next_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn name_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..]
        .iter()
        .take_while(|&&byte| continues_name(byte))
        .count()
}

/// Whether the colon at this offset directly follows a value, as in the slice `list[1:n]`.
fn follows_operand(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| {
        continues_name(bytes[before]) || matches!(bytes[before], b']' | b')' | b'"' | b'\'')
    })
}

/// Whether a string is of the form `E'...'`, in which a backslash escapes the next character.
fn has_escapes(bytes: &[u8], at: usize) -> bool {
    let Some(prefix) = at.checked_sub(1) else {
        return false;
    };
    matches!(bytes[prefix], b'e' | b'E')
        && prefix
            .checked_sub(1)
            .is_none_or(|before| !continues_name(bytes[before]))
}

fn quoted(bytes: &[u8], at: usize, quote: u8, escapes: bool) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if escapes => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// End of a nested comment.
fn comment(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0;
    let mut at = at;
    loop {
        match bytes.get(at..at + 2)? {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

/// End of `$tag$ ... $tag$`; a number instead of a tag is a parameter without a name.
fn dollar(text: &str, at: usize) -> Result<usize, SqlError> {
    let bytes = text.as_bytes();
    let tag = at + 1;
    let digits = bytes[tag..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits > 0 {
        let number = text[tag..tag + digits].parse().unwrap_or(u32::MAX);
        return Err(SqlError::Numbered { number, at });
    }
    let length = bytes[tag..]
        .iter()
        .take_while(|&&byte| continues_name(byte) && byte != b'$')
        .count();
    if bytes.get(tag + length) != Some(&b'$') {
        return Ok(tag);
    }
    let delimiter = &text[at..=tag + length];
    let body = tag + length + 1;
    text[body..]
        .find(delimiter)
        .map(|found| body + found + delimiter.len())
        .ok_or(SqlError::Open {
            what: "a dollar-quoted string",
            at,
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(written: &str) -> (String, Vec<String>) {
        let sql = Sql::parse(written).unwrap();
        (sql.text, sql.names)
    }

    #[test]
    fn names_become_numbers_in_the_order_of_their_first_places() {
        let (text, names) = parsed("select * from t where a = :a and b = :b or a > :a");
        assert_eq!(text, "select * from t where a = $1 and b = $2 or a > $1");
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            parsed("select :größe::int"),
            ("select $1::int".into(), vec!["größe".into()])
        );
        assert_eq!(parsed("limit :n"), ("limit $1".into(), vec!["n".into()]));
    }

    #[test]
    fn what_is_quoted_commented_or_cast_has_no_parameters() {
        for text in [
            "select ':a'",
            "select 'it''s :a'",
            r"select E'\' :a'",
            r#"select ":a" from "x"":b""#,
            "select 1 -- :a\n+ 1",
            "select 1 -- :a",
            "select /* :a /* :b */ :c */ 1",
            "select $$ :a $$, $x$ $$ :b $x$",
            "select a::int, '1'::text",
            "select list[1:n], list[a:b]",
            "select 1 : 2",
            "select a$b from c$1",
            "select x := 1",
            "select :",
        ] {
            assert_eq!(parsed(text), (text.to_owned(), vec![]), "{text}");
        }
        // A backslash is literal in a plain string, and a name ending in e is not an `E` prefix.
        assert_eq!(parsed(r"select '\', :a").1, ["a"]);
        assert_eq!(parsed(r"select type'\', :a").1, ["a"]);
    }

    #[test]
    fn what_does_not_end_is_named_with_its_place() {
        for (text, what, at) in [
            ("select 'a", "a string", 7),
            ("select \"a", "a quoted name", 7),
            ("/* /* */", "a comment", 0),
            ("select $x$ $$", "a dollar-quoted string", 7),
        ] {
            assert_eq!(Sql::parse(text), Err(SqlError::Open { what, at }), "{text}");
        }
        assert_eq!(
            Sql::parse("select $1"),
            Err(SqlError::Numbered { number: 1, at: 7 })
        );
    }

    #[test]
    fn a_place_in_the_text_is_found_where_it_was_written() {
        let written = "select :first, nope, :second where x";
        let sql = Sql::parse(written).unwrap();
        for name in ["select", "nope", "where", "x"] {
            let here = sql.text().find(name).unwrap();
            assert_eq!(sql.written_at(here), written.find(name).unwrap(), "{name}");
        }
        assert_eq!(
            sql.written_at(sql.text().find("$2").unwrap() + 1),
            written.find(":second").unwrap()
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,80}") {
            if let Ok(sql) = Sql::parse(&text) {
                prop_assert!(sql.written_at(sql.text().len()) == text.len());
            }
        }

        #[test]
        fn any_sequence_of_marks_is_parsed_or_refused(text in "[:'\"$aE1é/*\\\\\n -]{0,40}") {
            let _ = Sql::parse(&text);
        }
    }
}
