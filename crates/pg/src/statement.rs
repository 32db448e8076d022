//! What a statement's text tells of it before it is run.

use crate::PgError;

/// First words of statements about a whole connection: its transaction, its settings, its names, or its protocol.
const SESSION: [&str; 22] = [
    "abort",
    "begin",
    "close",
    "commit",
    "copy",
    "deallocate",
    "declare",
    "discard",
    "end",
    "execute",
    "fetch",
    "listen",
    "lock",
    "move",
    "prepare",
    "release",
    "reset",
    "rollback",
    "savepoint",
    "set",
    "start",
    "unlisten",
];

/// First words of statements that only read, unless one of [`CHANGES`] is in them.
const READS: [&str; 5] = ["select", "show", "table", "values", "with"];

/// Words of statements that change something; also where they only lock.
const CHANGES: [&str; 6] = ["insert", "update", "delete", "merge", "into", "call"];

/// The word with which a statement is about its whole connection, if it is.
pub(crate) fn session_keyword(text: &str) -> Option<&'static str> {
    let first = first_word(text);
    SESSION
        .into_iter()
        .find(|keyword| first.eq_ignore_ascii_case(keyword))
}

/// Refuses a statement about its whole connection, which others use too.
pub(crate) fn check_session(text: &str) -> Result<(), PgError> {
    match session_keyword(text) {
        Some(keyword) => Err(PgError::Session { keyword }),
        None => Ok(()),
    }
}

/// Whether a statement only reads, as far as its words tell. Functions that it calls may change something; what they change is undone where the statement fails.
pub(crate) fn only_reads(text: &str) -> bool {
    let first = first_word(text);
    READS.iter().any(|word| first.eq_ignore_ascii_case(word))
        && !text
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|word| CHANGES.iter().any(|change| word.eq_ignore_ascii_case(change)))
}

/// The first word, behind white space, comments and parentheses.
fn first_word(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || matches!(letter, '(' | ';'));
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = behind_comment(comment);
        } else {
            break;
        }
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &rest[..end.unwrap_or(rest.len())]
}

/// What follows a comment, which may have others in it.
fn behind_comment(text: &str) -> &str {
    let mut depth = 1;
    let mut at = 0;
    let bytes = text.as_bytes();
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return &text[at..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::{only_reads, session_keyword};

    #[test]
    fn a_statement_about_its_connection_is_known_by_its_first_word() {
        for (text, keyword) in [
            ("BEGIN", Some("begin")),
            ("  /* a /* b */ c */ -- d\n;(commit)", Some("commit")),
            ("set timezone = 'UTC'", Some("set")),
            ("copy t to stdout", Some("copy")),
            ("select 'begin'", None),
            ("settle", None),
            ("begin_it", None),
            ("update t set x = 1", None),
            ("/* begin", None),
            ("", None),
        ] {
            assert_eq!(session_keyword(text), keyword, "{text}");
        }
    }

    #[test]
    fn what_may_change_something_does_not_only_read() {
        for text in [
            "select 1",
            "(SELECT 1)",
            "with a as (select 1) table a",
            "values (1)",
            "select updated from t",
        ] {
            assert!(only_reads(text), "{text}");
        }
        for text in [
            "insert into t values (1)",
            "with a as (delete from t returning *) select * from a",
            "select * from t for update",
            "select 1 into t",
            "call p()",
            "do $$ begin end $$",
            "",
        ] {
            assert!(!only_reads(text), "{text}");
        }
    }
}
