//! Paths in the syntax of the document.

use forebay_router::{Pattern, Segment};
use serde_json::{Value, json};

/// A pattern: `:name` becomes `{name}`, and `*` becomes `{rest}`.
pub(super) fn template(pattern: &str) -> String {
    let pattern = Pattern::parse(pattern).expect("the configuration was checked");
    let mut rest = "rest".to_owned();
    while pattern.names().any(|name| name == rest) {
        rest.push('_');
    }
    let segments = pattern.segments().iter().map(|segment| match segment {
        Segment::Static(text) => text.replace('{', "%7B").replace('}', "%7D"),
        Segment::Rest(name) if name == "*" => format!("{{{rest}}}"),
        Segment::Param(name) | Segment::Rest(name) => format!("{{{name}}}"),
    });
    segments.fold(String::new(), |path, segment| path + "/" + &segment)
}

/// A path in which everything is percent-encoded that no URL has.
pub(super) fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for character in path.chars() {
        if character.is_ascii_alphanumeric() || "/{}%-._~!$&'()*+,;=:@".contains(character) {
            escaped.push(character);
        } else {
            forebay_router::put_encoded(character.encode_utf8(&mut [0; 4]), &mut escaped);
        }
    }
    escaped
}

pub(super) fn parameter_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A path in which all parameters have the same name.
pub(super) fn shape(path: &str) -> String {
    let segments = path
        .split('/')
        .map(|part| if part.starts_with('{') { "{}" } else { part });
    segments.collect::<Vec<_>>().join("/")
}

pub(super) fn parameters(path: &str, ends_with_rest: bool) -> Vec<Value> {
    let last = path.rsplit('/').next().unwrap_or_default();
    let parameters = parameter_names(path).map(|name| {
        let mut parameter =
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
        if ends_with_rest && last.strip_prefix('{').and_then(|last| last.strip_suffix('}')) == Some(name) {
            parameter["description"] = "The rest of the path, which may be empty and have slashes.".into();
        }
        parameter
    });
    parameters.collect()
}
