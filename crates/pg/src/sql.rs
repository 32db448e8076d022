//! Statements whose parameters have names: `select name from users where id = :id` becomes `... where id = $1`.
//!
//! Names are found as PostgreSQL's lexer would (manual, 4.1): not in strings, quoted names, comments and dollar quotes, not in `::type`.

use std::ops::Range;

use crate::statement::{only_reads, session_keyword};

/// A statement as the server is given it, and what its parameters are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sql {
    text: String,
    names: Vec<String>,
    /// Where each parameter stands, in `text` and in the statement as it was written.
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Bytes of `text`: `$1`.
    here: Range<usize>,
    /// Bytes as it was written: `:id`.
    there: Range<usize>,
}

/// Why a text is no statement with named parameters. Positions are bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// Something that begins has no end.
    #[error("{what} that begins at byte {at} does not end")]
    Open {
        /// What it is.
        what: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// A parameter without a name.
    #[error("`${number}` at byte {at}: parameters have names here, as `:id`")]
    Numbered {
        /// Its number.
        number: u32,
        /// Where it stands.
        at: usize,
    },
    /// More parameters than the protocol can count.
    #[error("there are more than {max} parameters")]
    TooMany {
        /// How many there may be.
        max: usize,
    },
}

/// The protocol counts parameters in 16 bits (manual, 53.7, Bind).
const PARAMETERS_MAX: usize = 65_535;

impl Sql {
    /// Finds the parameters. One that stands in several places is one parameter.
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

    /// With `$1`, `$2` and so on in the place of names.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The word with which it is about its whole connection, if it is: a [`crate::Source`] refuses it then.
    pub fn session_keyword(&self) -> Option<&'static str> {
        session_keyword(&self.text)
    }

    /// Whether it only reads, as far as its words tell: it may be run twice for the same answer.
    pub fn only_reads(&self) -> bool {
        only_reads(&self.text)
    }

    /// Names in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Where in the statement as it was written a byte of [`Self::text`] stands.
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

/// What stands somewhere, with its end.
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
    // Ends lie behind ASCII characters or at the end; a byte within a character is stepped over as any other.
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

/// Whether a colon stands right behind a value, as in the slice `list[1:n]`.
fn follows_operand(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| {
        continues_name(bytes[before]) || matches!(bytes[before], b']' | b')' | b'"' | b'\'')
    })
}

/// Whether a string is one of `E'...'`, in which a backslash takes away the next character's meaning.
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

/// Comments of this kind lie in one another.
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

/// `$tag$ ... $tag$`; a number is a parameter without a name.
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
        // A backslash means itself in a plain string, and a name that ends in e is none of those prefixes.
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
