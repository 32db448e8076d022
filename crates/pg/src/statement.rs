//! Classifies statements by their text, before they are run.

use crate::PgError;

/// First words of statements that affect a whole connection: its transaction, settings, names, or protocol.
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

/// First words of statements that only read, unless they contain one of [`CHANGES`].
const READS: [&str; 5] = ["select", "show", "table", "values", "with"];

/// Words of statements that change something, or take locks.
const CHANGES: [&str; 6] = ["insert", "update", "delete", "merge", "into", "call"];

/// The first word of a statement if it affects its whole connection.
pub(crate) fn session_keyword(text: &str) -> Option<&'static str> {
    let first = first_word(text);
    SESSION
        .into_iter()
        .find(|keyword| first.eq_ignore_ascii_case(keyword))
}

/// Rejects a statement that affects its whole connection, which others share.
pub(crate) fn check_session(text: &str) -> Result<(), PgError> {
    match session_keyword(text) {
        Some(keyword) => Err(PgError::Session { keyword }),
        None => Ok(()),
    }
}

/// Whether a statement only reads, judging by its words. Functions it calls may change something, which is undone if
/// the statement fails.
pub(crate) fn only_reads(text: &str) -> bool {
    let first = first_word(text);
    READS.iter().any(|word| first.eq_ignore_ascii_case(word))
        && !text
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|word| CHANGES.iter().any(|change| word.eq_ignore_ascii_case(change)))
}

/// Words allowed before a parenthesis in a harmless statement: keywords, and functions of the server without side
/// effects.
const HARMLESS: [&str; 68] = [
    "all",
    "and",
    "any",
    "array_agg",
    "as",
    "avg",
    "between",
    "bool_and",
    "bool_or",
    "by",
    "case",
    "cast",
    "ceil",
    "coalesce",
    "concat",
    "count",
    "date_trunc",
    "distinct",
    "else",
    "exists",
    "extract",
    "filter",
    "floor",
    "from",
    "greatest",
    "group",
    "in",
    "join",
    "json_agg",
    "json_build_object",
    "jsonb_agg",
    "jsonb_build_object",
    "lateral",
    "least",
    "left",
    "length",
    "like",
    "limit",
    "lower",
    "materialized",
    "max",
    "min",
    "not",
    "now",
    "nullif",
    "offset",
    "on",
    "or",
    "order",
    "over",
    "random",
    "rank",
    "replace",
    "round",
    "row_number",
    "select",
    "string_agg",
    "substring",
    "sum",
    "then",
    "to_char",
    "trim",
    "union",
    "unnest",
    "upper",
    "values",
    "when",
    "where",
];

/// Whether running a statement twice changes nothing, judging by its text: it only reads, and everything it calls by
/// name has the name of a server function without side effects. Views, operators, types, casts, columns that are
/// functions (`t.f`), and user-defined functions of such a name are assumed to be harmless.
pub fn is_harmless(text: &str) -> bool {
    let has_comment = text.contains("--") || text.contains("/*");
    only_reads(text)
        && !has_comment
        && text.match_indices('(').all(|(at, _)| {
            let before = text[..at].trim_end_matches(|letter: char| letter.is_ascii_whitespace());
            // All non-ASCII characters can be part of a name (manual, 4.1.1).
            let is_part = |letter: char| {
                letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$') || !letter.is_ascii()
            };
            let rest = before.trim_end_matches(is_part);
            let word = &before[rest.len()..];
            // `"f"(1)` and `schema.count(1)` could be any function.
            !rest.ends_with('.')
                && if word.is_empty() {
                    !rest.ends_with('"')
                } else {
                    HARMLESS.iter().any(|known| word.eq_ignore_ascii_case(known))
                }
        })
}

/// The first word, after white space, comments and parentheses.
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

/// The text after a comment, which may be nested.
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
    use super::{is_harmless, only_reads, session_keyword};

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
    #[test]
    fn a_statement_is_harmless_where_it_calls_nothing_that_somebody_has_brought() {
        for text in [
            "select id, message from fortune",
            "select count(*), MAX (a) from t where id in ($1, $2) and (a or b)",
            "with a as (select 1) select coalesce(-(1), 2) from a",
        ] {
            assert!(is_harmless(text), "{text}");
        }
        for text in [
            "select visit($1)",
            "select own.count(1)",
            "select \"count\"(1)",
            "select visit/* */(1)",
            "select visit -- now\n(1)",
            "update t set a = 1",
            "select nextval('s')",
            "select my$count(1)",
            "select €count(1)",
            "select count\u{a0}(1)",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }
}
