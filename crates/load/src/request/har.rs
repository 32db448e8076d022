//! Requests recorded by a browser (HAR 1.2, `log.entries[].request`). What belongs to the recorded connection and not to the request is
//! left out; so are requests to other servers unless they are asked for, and whatever is not HTTP.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    parts::{Parts, push_path},
    template::split_url,
    urls::{TARGETS_MAX, Target, Targets},
};
use crate::target::Url;

/// Fields that the connection of the run decides.
const OF_CONNECTION: [&str; 11] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "http2-settings",
];

/// What a recording holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Har {
    /// Requests that will be sent.
    pub targets: Targets,
    /// Requests left out as they went to other servers.
    pub elsewhere: usize,
    /// Requests left out as they were not HTTP, such as `data:` and `ws:`.
    pub not_http: usize,
}

/// Why a text is no recording.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HarError {
    /// Not JSON, or without entries.
    #[error("it is not a HAR file: {what}; accepted is JSON with log.entries[].request, as browsers save it")]
    Format {
        /// What is wrong.
        what: String,
    },
    /// An entry that cannot be sent.
    #[error("entry {entry}: {what}")]
    Entry {
        /// Which, from 1.
        entry: usize,
        /// What is wrong.
        what: String,
    },
    /// Nothing is left.
    #[error("none of the {entries} requests goes to {origin}; allow other hosts to send them all")]
    Elsewhere {
        /// Requests in the file.
        entries: usize,
        /// The server asked for.
        origin: String,
    },
    /// More than are kept.
    #[error("there are more than {TARGETS_MAX} requests, the most that are kept")]
    TooMany,
}

/// Reads a recording. With `origin` only requests to that server are taken. Fields of `defaults` come on top of those recorded.
pub fn read_har(text: &str, origin: Option<&Url>, defaults: &Parts) -> Result<Har, HarError> {
    let format = |what: &str| HarError::Format {
        what: what.to_owned(),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let har: Value = serde_json::from_str(text).map_err(|error| format(&error.to_string()))?;
    let entries = har
        .pointer("/log/entries")
        .and_then(Value::as_array)
        .ok_or_else(|| format("it has no log.entries"))?;
    let (mut targets, mut elsewhere, mut not_http) = (Vec::new(), 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        let wrong = |what: String| HarError::Entry { entry: at + 1, what };
        let request = entry
            .get("request")
            .ok_or_else(|| wrong("it has no request".into()))?;
        let text = |key: &str| {
            request
                .get(key)
                .and_then(Value::as_str)
                .ok_or_else(|| wrong(format!("its request has no {key}")))
        };
        let Ok(url) = split_url(text("url")?) else {
            not_http += 1;
            continue;
        };
        if !origin.is_none_or(|origin| origin.shares_server(&url)) {
            elsewhere += 1;
            continue;
        }
        if targets.len() == TARGETS_MAX {
            return Err(HarError::TooMany);
        }
        let target = read_request(
            request,
            text("method")?,
            url,
            origin,
            defaults,
            format!("entry {}", at + 1),
        );
        targets.push(target.map_err(wrong)?);
    }
    if targets.is_empty() {
        return Err(match origin {
            Some(origin) if elsewhere > 0 => HarError::Elsewhere {
                entries: entries.len(),
                origin: origin.authority(),
            },
            _ => format("it has no HTTP request"),
        });
    }
    let targets = Targets::new(targets).map_err(|error| format(&error.to_string()))?;
    Ok(Har {
        targets,
        elsewhere,
        not_http,
    })
}

fn read_request(
    request: &Value,
    method: &str,
    mut url: Url,
    origin: Option<&Url>,
    defaults: &Parts,
    place: String,
) -> Result<Target, String> {
    let mut path = Vec::new();
    push_path(url.path_and_query.as_bytes(), &mut path);
    url.path_and_query = String::from_utf8(path).map_err(|error| error.to_string())?;
    let mut target = Target::new(url, origin, defaults, place);
    let parts = &mut target.parts;
    method.clone_into(&mut parts.method);
    parts.body.clear();
    for (name, value) in pairs(request.get("headers")) {
        let skip =
            name.starts_with(':') || OF_CONNECTION.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !skip && !defaults.has_field(name) {
            parts
                .add_field(&format!("{name}: {value}"))
                .map_err(|error| error.to_string())?;
        }
    }
    if !parts.has_field("cookie") {
        for (name, value) in pairs(request.get("cookies")) {
            parts
                .add_cookie(&format!("{name}={value}"))
                .map_err(|error| error.to_string())?;
        }
    }
    if let Some(data) = request.get("postData") {
        parts.body = read_body(data)?;
        let kind = data
            .get("mimeType")
            .and_then(Value::as_str)
            .filter(|kind| !kind.is_empty());
        if let Some(kind) = kind.filter(|_| !parts.has_field("content-type")) {
            parts.content_type(kind).map_err(|error| error.to_string())?;
        }
    }
    Ok(target)
}

/// An array of objects with `name` and `value`.
fn pairs(array: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    array
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(pair)
}

fn pair(pair: &Value) -> Option<(&str, &str)> {
    Some((pair.get("name")?.as_str()?, pair.get("value")?.as_str()?))
}

fn read_body(data: &Value) -> Result<Vec<u8>, String> {
    let text = data.get("text").and_then(Value::as_str).unwrap_or_default();
    if data.get("encoding").and_then(Value::as_str) == Some("base64") {
        return STANDARD
            .decode(text)
            .map_err(|error| format!("its body is not base64 ({error})"));
    }
    if !text.is_empty() {
        return Ok(text.as_bytes().to_vec());
    }
    let mut body = Vec::new();
    for (name, value) in pairs(data.get("params")) {
        if !body.is_empty() {
            body.push(b'&');
        }
        push_form(name, &mut body);
        body.push(b'=');
        push_form(value, &mut body);
    }
    Ok(body)
}

/// As forms are sent (WHATWG URL, 5.2).
fn push_form(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b' ' => out.push(b'+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => out.push(byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn har(requests: &Value) -> String {
        let entries: Vec<_> = requests
            .as_array()
            .unwrap()
            .iter()
            .map(|request| json!({"request": request}))
            .collect();
        json!({"log": {"version": "1.2", "entries": entries}}).to_string()
    }

    fn origin() -> Url {
        Url::parse("http://localhost:8080/").unwrap()
    }

    fn read(requests: &Value, all: bool) -> Result<Har, HarError> {
        let origin = origin();
        read_har(&har(requests), (!all).then_some(&origin), &Parts::get(&origin))
    }

    #[test]
    fn only_requests_to_the_given_server_are_taken() {
        let requests = json!([
            {"method": "GET", "url": "http://localhost:8080/a?b=c|d#e", "headers": []},
            {"method": "GET", "url": "https://elsewhere/x", "headers": []},
            {"method": "GET", "url": "data:text/plain,x", "headers": []},
            {"method": "GET", "url": "ws://localhost:8080/x", "headers": []},
        ]);
        let one = read(&requests, false).unwrap();
        assert_eq!((one.targets.all().len(), one.elsewhere, one.not_http), (1, 1, 2));
        assert_eq!(one.targets.all()[0].parts.path_and_query, "/a?b=c%7Cd");
        let all = read(&requests, true).unwrap();
        assert_eq!((all.targets.all().len(), all.elsewhere), (2, 0));
    }

    #[test]
    fn fields_of_the_connection_stay_out_and_bodies_come_along() {
        let har = read(&json!([
            {"method": "POST", "url": "http://localhost:8080/", "headers": [
                {"name": ":authority", "value": "x"}, {"name": "Content-Length", "value": "99"}, {"name": "Host", "value": "x"},
                {"name": "Accept", "value": "*/*"}], "cookies": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
             "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [
                {"name": "q", "value": "a b&c"}, {"name": "r", "value": ""}]}},
            {"method": "PUT", "url": "http://localhost:8080/", "headers": [],
             "postData": {"mimeType": "", "text": "aGk=", "encoding": "base64"}},
        ]), false).unwrap();
        let [form, raw] = har.targets.all() else {
            panic!("two requests")
        };
        let fields: Vec<_> = form
            .parts
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(
            fields,
            [
                "host: localhost:8080",
                "Accept: */*",
                "cookie: a=1; b=2",
                "content-type: application/x-www-form-urlencoded"
            ]
        );
        assert_eq!(form.parts.body, b"q=a+b%26c&r=");
        assert_eq!(
            (raw.parts.method.as_str(), raw.parts.body.as_slice()),
            ("PUT", b"hi".as_slice())
        );
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_entry() {
        for (text, says) in [
            ("", "it is not a HAR file"),
            (
                "{}",
                "it has no log.entries; accepted is JSON with log.entries[].request",
            ),
            ("{\"log\":{\"entries\":[]}}", "it has no HTTP request"),
            ("{\"log\":{\"entries\":[{}]}}", "entry 1: it has no request"),
            (
                "{\"log\":{\"entries\":[{\"request\":{\"url\":\"http://localhost:8080/\"}}]}}",
                "entry 1: its request has no method",
            ),
        ] {
            let error = read_har(text, None, &Parts::get(&origin()))
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let elsewhere = read(
            &json!([{"method": "GET", "url": "http://other/", "headers": []}]),
            false,
        )
        .unwrap_err()
        .to_string();
        assert!(
            elsewhere.contains("none of the 1 requests goes to localhost:8080; allow other hosts"),
            "{elsewhere}"
        );
        let split = json!([{"method": "GET", "url": "http://localhost:8080/", "headers": [{"name": "a", "value": "b\r\nc: d"}]}]);
        assert!(
            read(&split, false)
                .unwrap_err()
                .to_string()
                .contains("entry 1: the a has a control character")
        );
    }
}
