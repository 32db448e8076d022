//! A path in a JSON value, written as in `JSONPath` (RFC 9535) but naming one place only: `$.users[0].name`, `$["a b"][-1]`.

use serde_json::Value;

/// Most steps of a path.
const STEPS_MAX: usize = 64;

/// A place in a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    /// Counts from the end when negative.
    Index(i64),
}

/// Why a text is not such a path.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{text}` is not a JSON path ({what} at character {at}); accepted are `$` for the whole value, \
     then `.name`, `[\"name\"]` and `[0]`, where `[-1]` is the last"
)]
pub struct JsonPathError {
    /// The text as given.
    pub text: String,
    /// Description of the error.
    pub what: &'static str,
    /// Character at which it occurs, from 1.
    pub at: usize,
}

impl JsonPath {
    /// Parses a path. The leading `$` may be missing: `users[0].name`.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let wrong = |what, rest: &str| JsonPathError {
            text: text.to_owned(),
            what,
            at: text[..text.len() - rest.len()].chars().count() + 1,
        };
        let mut steps = Vec::new();
        let mut rest = match text.strip_prefix('$') {
            Some(rest) => rest,
            None if text.is_empty() => return Err(wrong("nothing", text)),
            None if text.starts_with(['.', '[']) => text,
            None => {
                let (name, rest) = name(text);
                steps.push(Step::Key(name.to_owned()));
                rest
            }
        };
        while !rest.is_empty() {
            if steps.len() == STEPS_MAX {
                return Err(wrong("more than 64 steps", rest));
            }
            if let Some(after) = rest.strip_prefix('.') {
                let (name, after) = name(after);
                if name.is_empty() {
                    return Err(wrong("no name behind the dot", rest));
                }
                steps.push(Step::Key(name.to_owned()));
                rest = after;
            } else if let Some(inside) = rest.strip_prefix('[') {
                let (step, after) =
                    bracket(inside).ok_or_else(|| wrong("no name or number in brackets", rest))?;
                steps.push(step);
                rest = after;
            } else {
                return Err(wrong("neither a dot nor a bracket", rest));
            }
        }
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    /// The value at the path, if there is one.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.steps
            .iter()
            .try_fold(value, |value, step| match (step, value) {
                (Step::Key(key), Value::Object(object)) => object.get(key),
                (Step::Index(index), Value::Array(array)) => {
                    let from_start = usize::try_from(*index).ok();
                    let from_end = || {
                        array
                            .len()
                            .checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
                    };
                    array.get(from_start.or_else(from_end)?)
                }
                _ => None,
            })
    }
}

impl std::fmt::Display for JsonPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits off an unquoted name.
fn name(text: &str) -> (&str, &str) {
    text.split_at(text.find(['.', '[']).unwrap_or(text.len()))
}

/// Splits off the step between brackets.
fn bracket(inside: &str) -> Option<(Step, &str)> {
    if let Some(quote) = inside.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        let (key, rest) = inside[1..].split_once(quote)?;
        return Some((Step::Key(key.to_owned()), rest.strip_prefix(']')?));
    }
    let (number, rest) = inside.split_once(']')?;
    Some((Step::Index(number.trim().parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_finds_its_value() {
        let value = json!({"a": {"b c": [10, 20, {"d": null}]}, "e.f": 1});
        for (path, found) in [
            ("$", Some(value.clone())),
            ("$.a['b c'][0]", Some(json!(10))),
            ("a[\"b c\"][-2]", Some(json!(20))),
            ("$.a['b c'][2].d", Some(Value::Null)),
            ("$['e.f']", Some(json!(1))),
            ("$.a['b c'][3]", None),
            ("$.a['b c'][-4]", None),
            ("$.a[0]", None),
            ("$.x.y", None),
        ] {
            assert_eq!(
                JsonPath::parse(path).unwrap().find(&value),
                found.as_ref(),
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_where_and_what_is_accepted() {
        for (path, says) in [
            ("", "nothing at character 1"),
            ("$.", "no name behind the dot at character 2"),
            ("$..a", "no name behind the dot at character 2"),
            ("$.a[*]", "no name or number in brackets at character 4"),
            ("$.a['b]", "no name or number in brackets at character 4"),
            ("$[0]x", "neither a dot nor a bracket at character 5"),
            ("$a", "neither a dot nor a bracket at character 2"),
        ] {
            let error = JsonPath::parse(path).unwrap_err().to_string();
            assert!(
                error.contains(says) && error.contains("accepted are `$`"),
                "{path}: {error}"
            );
        }
    }
}
