//! Reads a scenario from JSON, key by key, so that an error says in which step what was found and what is accepted.

use serde_json::{Map, Value};

use super::{
    STEPS_MAX, Scenario, ScenarioError, Step, THINK_MS_MAX, Think, VARIABLES_MAX,
    extract::{Extract, Place},
};
use crate::{
    expect::{Check, Expect, ExpectError, JsonPath, JsonPathError, pattern, statuses},
    request::{
        one_or_more,
        parts::Parts,
        template::{Grammar, Template, split_url},
    },
    target::Url,
};

impl Scenario {
    /// Reads a scenario: an object with `steps`, or an array of them. Each step begins as `defaults`, so that fields for all of them
    /// come from there; `url` is the server that all steps stay on.
    pub fn parse(
        text: &str,
        url: &Url,
        defaults: &Parts,
        grammar: &Grammar<'_>,
    ) -> Result<Self, ScenarioError> {
        let value = serde_json::from_str(text).map_err(|error| ScenarioError::Json {
            what: error.to_string(),
        })?;
        let object = match value {
            Value::Array(steps) => Map::from_iter([("steps".to_owned(), Value::Array(steps))]),
            Value::Object(object) => object,
            _ => {
                return Err(ScenarioError::Json {
                    what: "it is neither an object with `steps` nor an array of steps".into(),
                });
            }
        };
        let whole = Reader {
            place: "the scenario".into(),
            object: &object,
        };
        whole.check_keys(&["steps", "variables", "on_failure", "keep_cookies"])?;
        let mut variables = Vec::new();
        if let Some(given) = whole.object("variables")? {
            for (name, value) in given {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(_) | Value::Bool(_) => value.to_string(),
                    _ => return Err(whole.wrong(name, value, "text, a number, or true or false")),
                };
                check_name(&whole.place, name)?;
                variables.push((name.clone(), text.into_bytes()));
            }
        }
        let restarts = match whole.text("on_failure")? {
            None | Some("restart") => true,
            Some("continue") => false,
            Some(other) => {
                return Err(whole.wrong("on_failure", &other.into(), "\"restart\" or \"continue\""));
            }
        };
        let keeps_cookies = match object.get("keep_cookies") {
            None => false,
            Some(Value::Bool(keeps)) => *keeps,
            Some(other) => return Err(whole.wrong("keep_cookies", other, "true or false")),
        };
        let given = match object.get("steps") {
            Some(Value::Array(steps)) if !steps.is_empty() => steps,
            other => {
                return Err(whole.wrong(
                    "steps",
                    other.unwrap_or(&Value::Null),
                    "an array with at least one step",
                ));
            }
        };
        if given.len() > STEPS_MAX {
            return Err(ScenarioError::TooMany {
                what: "steps",
                max: STEPS_MAX,
            });
        }
        let mut steps = Vec::with_capacity(given.len());
        for (at, step) in given.iter().enumerate() {
            steps.push(read_step(at + 1, step, url, defaults, grammar, &mut variables)?);
            if variables.len() > VARIABLES_MAX {
                return Err(ScenarioError::TooMany {
                    what: "variables",
                    max: VARIABLES_MAX,
                });
            }
        }
        Ok(Self {
            steps: steps.into(),
            variables,
            restarts,
            keeps_cookies,
        })
    }
}

fn read_step(
    number: usize,
    value: &Value,
    url: &Url,
    defaults: &Parts,
    grammar: &Grammar<'_>,
    variables: &mut Vec<(String, Vec<u8>)>,
) -> Result<Step, ScenarioError> {
    let Value::Object(object) = value else {
        let whole = Reader {
            place: "the scenario".into(),
            object: &Map::new(),
        };
        return Err(whole.wrong(
            &format!("step {number}"),
            value,
            "an object such as {\"path\": \"/\"}",
        ));
    };
    let given_name = object.get("name").and_then(Value::as_str);
    let shown = given_name.map_or_else(|| number.to_string(), |name| format!("{number} ({name})"));
    let step = Reader {
        place: format!("step {shown}"),
        object,
    };
    step.check_keys(&[
        "name", "method", "path", "headers", "body", "extract", "expect", "think_ms",
    ])?;
    step.text("name")?;
    let mut parts = defaults.clone();
    if let Some(path) = step.text("path")? {
        parts.path_and_query = path_on(&step, path, url)?;
    }
    if let Some(body) = object.get("body").filter(|body| !body.is_null()) {
        parts.body = match body {
            Value::String(text) => text.clone().into_bytes(),
            json => {
                parts.set_field("content-type", "application/json");
                json.to_string().into_bytes()
            }
        };
        if parts.method == "GET" {
            parts.method = "POST".into();
        }
    }
    if let Some(method) = step.text("method")? {
        method.clone_into(&mut parts.method);
    }
    for (name, value) in step.object("headers")?.into_iter().flatten() {
        parts
            .fields
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        for value in one_or_more(value) {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                other => return Err(step.wrong(name, other, "text or a number, or an array of them")),
            };
            parts.fields.push((name.clone(), text));
        }
    }
    let names: Vec<_> = variables.iter().map(|(name, _)| name.clone()).collect();
    // Whoever writes steps wants placeholders.
    let grammar = Grammar {
        braces: true,
        variables: &names,
        ..grammar.clone()
    };
    let template = Template::of_step(&parts, &grammar).map_err(|source| ScenarioError::At {
        place: step.place.clone(),
        source: source.into(),
    })?;
    let mut extracts = Vec::new();
    for (name, value) in step.object("extract")?.into_iter().flatten() {
        check_name(&step.place, name)?;
        let variable = variables
            .iter()
            .position(|(known, _)| known == name)
            .unwrap_or_else(|| {
                variables.push((name.clone(), Vec::new()));
                variables.len() - 1
            });
        extracts.push(read_extract(&step, variable, name, value)?);
    }
    Ok(Step {
        template,
        extracts,
        expect: step
            .object("expect")?
            .map(|object| read_expect(&step, object))
            .transpose()?,
        think: read_think(&step)?,
        name: shown,
    })
}

/// A path, or a URL on the same server.
fn path_on(step: &Reader<'_>, path: &str, url: &Url) -> Result<String, ScenarioError> {
    if !path.contains("://") || path.starts_with('/') || path.starts_with("{{") {
        let rooted = path.starts_with('/') || path.starts_with("{{");
        return Ok(if rooted {
            path.to_owned()
        } else {
            format!("/{path}")
        });
    }
    let target = split_url(path).map_err(|source| ScenarioError::At {
        place: step.place.clone(),
        source: source.into(),
    })?;
    if !target.shares_server(url) {
        return Err(ScenarioError::Origin {
            place: step.place.clone(),
            url: path.to_owned(),
            origin: url.authority(),
        });
    }
    Ok(target.path_and_query)
}

/// A name that a placeholder can use and that means nothing else.
fn check_name(place: &str, name: &str) -> Result<(), ScenarioError> {
    let may_be = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    let taken = ["counter", "uuid", "random", "float", "regex", "timestamp", "env"];
    if !name.is_empty() && name.chars().all(may_be) && !taken.contains(&name) {
        return Ok(());
    }
    Err(ScenarioError::Value {
        place: place.to_owned(),
        key: "the name of a variable".into(),
        found: format!("`{name}`"),
        accepted: "letters, digits, `_` and `-`, but not counter, uuid, random, float, regex, timestamp or env",
    })
}

fn read_extract(
    step: &Reader<'_>,
    variable: usize,
    name: &str,
    value: &Value,
) -> Result<Extract, ScenarioError> {
    const ACCEPTED: &str = "an object with one of `json` and `header`, or `regex`, or both, and perhaps `default`; or a JSON path as text";
    let place = format!("{}, extract `{name}`", step.place);
    let path = |text: &str| JsonPath::parse(text).map_err(|error| in_expect(&place, error));
    let object = match value {
        Value::Object(object) => object,
        Value::String(text) => {
            let from = Place::Json(path(text)?);
            return Ok(Extract {
                variable,
                name: name.to_owned(),
                from,
                pattern: None,
                default: None,
            });
        }
        other => return Err(step.wrong(&format!("extract `{name}`"), other, ACCEPTED)),
    };
    let reader = Reader {
        place: place.clone(),
        object,
    };
    reader.check_keys(&["json", "header", "regex", "default"])?;
    let expression = reader.text("regex")?;
    let from = match (reader.text("json")?, reader.text("header")?) {
        (Some(text), None) => Place::Json(path(text)?),
        (None, Some(field)) => Place::Field(field.to_owned()),
        (None, None) if expression.is_some() => Place::Body,
        _ => return Err(step.wrong(&format!("extract `{name}`"), value, ACCEPTED)),
    };
    let pattern = expression.map(pattern).transpose();
    Ok(Extract {
        variable,
        name: name.to_owned(),
        from,
        pattern: pattern.map_err(|source| ScenarioError::At {
            place,
            source: source.into(),
        })?,
        default: reader.text("default")?.map(|text| text.as_bytes().to_vec()),
    })
}

fn in_expect(place: &str, error: JsonPathError) -> ScenarioError {
    ScenarioError::At {
        place: place.to_owned(),
        source: ExpectError::from(error).into(),
    }
}

fn read_expect(step: &Reader<'_>, object: &Map<String, Value>) -> Result<Expect, ScenarioError> {
    let place = format!("{}, expect", step.place);
    let reader = Reader {
        place: place.clone(),
        object,
    };
    reader.check_keys(&["status", "body", "json", "header"])?;
    let wrong = |source: ExpectError| ScenarioError::At {
        place: place.clone(),
        source: source.into(),
    };
    let mut expect = Expect::default();
    match object.get("status") {
        None => {}
        Some(Value::String(text)) => expect.statuses = statuses(text).map_err(wrong)?,
        Some(Value::Number(number)) => expect.statuses = statuses(&number.to_string()).map_err(wrong)?,
        Some(other) => return Err(reader.wrong("status", other, "a status, or text such as \"200,3xx\"")),
    }
    if let Some(text) = reader.text("body")? {
        expect.checks.push(Check::body(text).map_err(wrong)?);
    }
    match object.get("json") {
        None => {}
        Some(Value::String(text)) => expect.checks.push(Check::json(text).map_err(wrong)?),
        Some(value) => expect.checks.push(Check::Json(value.clone())),
    }
    if let Some(text) = reader.text("header")? {
        expect.checks.push(Check::field(text).map_err(wrong)?);
    }
    Ok(expect)
}

fn read_think(step: &Reader<'_>) -> Result<Think, ScenarioError> {
    let Some(value) = step.object.get("think_ms") else {
        return Ok(Think::default());
    };
    let limits = match value {
        Value::Array(limits) => limits.iter().map(Value::as_u64).collect(),
        one => vec![one.as_u64(); 2],
    };
    match limits[..] {
        [Some(low_ms), Some(high_ms)] if low_ms <= high_ms && high_ms <= THINK_MS_MAX => {
            Ok(Think { low_ms, high_ms })
        }
        _ => Err(step.wrong(
            "think_ms",
            value,
            "a number of milliseconds up to 3600000, or two of them such as [100, 500]",
        )),
    }
}

/// An object whose keys are read one by one.
struct Reader<'a> {
    place: String,
    object: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn check_keys(&self, accepted: &[&str]) -> Result<(), ScenarioError> {
        match self.object.keys().find(|key| !accepted.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(ScenarioError::Key {
                place: self.place.clone(),
                key: key.clone(),
                accepted: accepted.join(", "),
            }),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, ScenarioError> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, other, "text")),
        }
    }

    fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, ScenarioError> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.wrong(key, other, "an object")),
        }
    }

    fn wrong(&self, key: &str, found: &Value, accepted: &'static str) -> ScenarioError {
        let mut found = if found.is_null() {
            "missing".to_owned()
        } else {
            found.to_string()
        };
        if let Some((at, _)) = found.char_indices().nth(80) {
            found.truncate(at);
            found.push('…');
        }
        ScenarioError::Value {
            place: self.place.clone(),
            key: key.to_owned(),
            found,
            accepted,
        }
    }
}
