//! Substitutes `${NAME}`, `${NAME:-default}` and `${NAME:+text}` in texts; `$$` is a dollar sign.

use std::borrow::Cow;

/// A substitution failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubstituteError {
    #[error("the environment has no `{name}`; set it, or write `${{{name}:-default}}`")]
    Missing { name: String },
    #[error("`${{` has no `}}`; write `$$` for a dollar sign")]
    Open,
    #[error(
        "`${{{inside}}}` is not `${{NAME}}`, `${{NAME:-default}}` or `${{NAME:+text}}`; write `$$` for a dollar sign"
    )]
    Name { inside: String },
}

/// Substitutes environment variables. As in a shell, `:-default` applies to a variable that is unset or empty, `:+text` to one that is
/// neither.
pub(crate) fn substitute<'t>(
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

/// Escapes a text so that substitution gives it back unchanged.
pub(crate) fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

fn value(inside: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, SubstituteError> {
    let (name, operator) = inside.split_at(inside.find(':').unwrap_or(inside.len()));
    let unreadable = || SubstituteError::Name {
        inside: inside.to_owned(),
    };
    if !is_name(name) {
        return Err(unreadable());
    }
    let value = env(name);
    let is_there = value.as_ref().is_some_and(|value| !value.is_empty());
    if operator.is_empty() {
        value.ok_or_else(|| SubstituteError::Missing {
            name: name.to_owned(),
        })
    } else if let Some(default) = operator.strip_prefix(":-") {
        Ok(value.filter(|_| is_there).unwrap_or_else(|| default.to_owned()))
    } else if let Some(text) = operator.strip_prefix(":+") {
        Ok(if is_there { text } else { "" }.to_owned())
    } else {
        Err(unreadable())
    }
}

/// Whether this is a valid name of an environment variable.
pub(crate) fn is_name(name: &str) -> bool {
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
            ("${HOST:+x:-y}", "x:-y"),
            ("${HOST:-x:+y}", "db"),
            ("[${EMPTY:+x}${MISSING:+x}]", "[]"),
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
                "`${}` is not `${NAME}`, `${NAME:-default}` or `${NAME:+text}`; write `$$` for a dollar sign",
            ),
            (
                "${HOST:x}",
                "`${HOST:x}` is not `${NAME}`, `${NAME:-default}` or `${NAME:+text}`; write `$$` for a dollar sign",
            ),
            (
                "${a b}",
                "`${a b}` is not `${NAME}`, `${NAME:-default}` or `${NAME:+text}`; write `$$` for a dollar sign",
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
