//! `${NAME}` and `${NAME:-default}` in texts; `$$` is a dollar sign.

use std::borrow::Cow;

/// Why a text cannot be substituted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SubstituteError {
    #[error("the environment has no `{name}`; set it, or write `${{{name}:-default}}`")]
    Missing { name: String },
    #[error("`${{` has no `}}`; write `$$` for a dollar sign")]
    Open,
    #[error("`${{{inside}}}` is not `${{NAME}}` or `${{NAME:-default}}`; write `$$` for a dollar sign")]
    Name { inside: String },
}

/// Replaces what the text asks for. As in a shell, `:-default` stands in for a variable that is unset or empty.
pub(super) fn substitute<'t>(
    text: &'t str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'t, str>, SubstituteError> {
    if !text.contains('$') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        if let Some(reference) = after.strip_prefix('{') {
            let (inside, tail) = reference.split_once('}').ok_or(SubstituteError::Open)?;
            out.push_str(&value(inside, env)?);
            rest = tail;
        } else {
            out.push('$');
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// The text whose substitution is `text`.
pub(super) fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

fn value(inside: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, SubstituteError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) {
        return Err(SubstituteError::Name {
            inside: inside.to_owned(),
        });
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(SubstituteError::Missing {
            name: name.to_owned(),
        }),
    }
}

/// Whether this can be the name of an environment variable.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("db".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced_and_other_dollars_stay() {
        for (text, replaced) in [
            ("plain", "plain"),
            ("pg://${HOST}/x", "pg://db/x"),
            ("${HOST}${HOST}", "dbdb"),
            ("${MISSING:-a:-b}", "a:-b"),
            ("${EMPTY:-full}", "full"),
            ("[${EMPTY}]", "[]"),
            ("${MISSING:-}", ""),
            ("$$", "$"),
            ("$${HOST}", "${HOST}"),
            ("5$ or $5", "5$ or $5"),
            ("é${HOST}é", "édbé"),
        ] {
            assert_eq!(substitute(text, &env).unwrap(), replaced, "{text}");
        }
    }

    #[test]
    fn broken_references_say_how_to_write_them() {
        for (text, message) in [
            (
                "${MISSING}",
                "the environment has no `MISSING`; set it, or write `${MISSING:-default}`",
            ),
            ("a ${HOST", "`${` has no `}`; write `$$` for a dollar sign"),
            (
                "${}",
                "`${}` is not `${NAME}` or `${NAME:-default}`; write `$$` for a dollar sign",
            ),
            (
                "${a b}",
                "`${a b}` is not `${NAME}` or `${NAME:-default}`; write `$$` for a dollar sign",
            ),
        ] {
            assert_eq!(substitute(text, &env).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn an_escaped_text_comes_back_as_it_was() {
        for text in ["$", "$$", "${HOST}", "a$b$${", ""] {
            assert_eq!(substitute(&escape(text), &env).unwrap(), text);
        }
    }
}
