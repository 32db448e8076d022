//! One line of a list: `[METHOD] URL [weight=N]`, a header, or a whole target as JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{OFFSET_MS_MAX, Target, TargetsError, WEIGHT_MAX, in_request};
use crate::{
    request::{
        one_or_more,
        parts::{Parts, is_token},
        template::split_url,
    },
    target::Url,
};

/// Whether a line is a header: a name, a colon and a space. Without the space it could be a host and a port.
pub(super) fn is_field(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, value)| {
        is_token(name.trim_end()) && (value.is_empty() || value.starts_with([' ', '\t']))
    })
}

/// The time before a request, if there is one.
pub(super) fn offset(line: &str) -> (Option<u64>, &str) {
    let split = || {
        let (number, rest) = line.split_once('\t')?;
        let ms: f64 = number.parse().ok()?;
        let is_time = number.starts_with(|sign: char| sign.is_ascii_digit()) && ms <= OFFSET_MS_MAX;
        is_time.then(|| (Some((ms * 1e6).round() as u64), rest.trim_start()))
    };
    split().unwrap_or((None, line))
}

/// `[METHOD] URL [weight=N]`.
pub(super) fn request_line(
    line: &str,
    base: Option<&Url>,
    defaults: &Parts,
    place: String,
) -> Result<Target, TargetsError> {
    let is_method =
        |word: &str| is_token(word) && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let (method, rest) = match line.split_once(char::is_whitespace) {
        Some((word, rest)) if is_method(word) => (Some(word), rest.trim_start()),
        _ => (None, line),
    };
    let (text, weight) = match rest.rsplit_once(char::is_whitespace) {
        Some((url, last)) if last.starts_with("weight=") => (url.trim_end(), last.strip_prefix("weight=")),
        _ => (rest, None),
    };
    let mut target = Target::new(url_on(text, base, &place)?, base, defaults, place.clone());
    if let Some(method) = method {
        method.clone_into(&mut target.parts.method);
    }
    if let Some(text) = weight {
        let weight = text
            .parse()
            .ok()
            .filter(|weight| (1..=WEIGHT_MAX).contains(weight));
        target.weight = weight.ok_or_else(|| TargetsError::Weight {
            place,
            text: text.to_owned(),
        })?;
    }
    Ok(target)
}

fn url_on(text: &str, base: Option<&Url>, place: &str) -> Result<Url, TargetsError> {
    if !text.starts_with('/') {
        return split_url(text).map_err(|source| TargetsError::At {
            place: place.to_owned(),
            source: source.into(),
        });
    }
    match base {
        Some(base) => Ok(Url {
            path_and_query: text.to_owned(),
            ..base.clone()
        }),
        None => Err(TargetsError::Host {
            place: place.to_owned(),
            path: text.to_owned(),
        }),
    }
}

pub(super) fn json_target(
    line: &str,
    base: Option<&Url>,
    defaults: &Parts,
    place: &str,
) -> Result<Target, TargetsError> {
    let wrong = |what: String| TargetsError::Json {
        place: place.to_owned(),
        what,
    };
    let object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| wrong(format!("it is not a JSON object ({error})")))?;
    let known = ["method", "url", "header", "body", "weight"];
    if let Some(key) = object.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(wrong(format!("`{key}` is not known")));
    }
    let text = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(wrong(format!("`{key}` is {other}, not text"))),
    };
    let url = text("url")?.ok_or_else(|| wrong("`url` is missing".into()))?;
    let mut target = Target::new(url_on(url, base, place)?, base, defaults, place.to_owned());
    if let Some(method) = text("method")? {
        method.clone_into(&mut target.parts.method);
    }
    if let Some(body) = text("body")? {
        target.parts.body = STANDARD
            .decode(body)
            .map_err(|error| wrong(format!("`body` is not base64 ({error})")))?;
    }
    match object.get("header") {
        None | Some(Value::Null) => {}
        Some(Value::Object(fields)) => {
            for (name, values) in fields {
                for value in one_or_more(values) {
                    let value = value
                        .as_str()
                        .ok_or_else(|| wrong(format!("header `{name}` is {value}, not text")))?;
                    target
                        .parts
                        .add_field(&format!("{name}: {value}"))
                        .map_err(|error| in_request(place.to_owned(), error))?;
                }
            }
        }
        Some(other) => return Err(wrong(format!("`header` is {other}, not an object"))),
    }
    if let Some(weight) = object.get("weight") {
        let number = weight.as_u64().and_then(|weight| u32::try_from(weight).ok());
        let number = number.filter(|weight| (1..=WEIGHT_MAX).contains(weight));
        target.weight = number.ok_or_else(|| TargetsError::Weight {
            place: place.to_owned(),
            text: weight.to_string(),
        })?;
    }
    Ok(target)
}
