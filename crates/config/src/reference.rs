//! Generates documentation from the table of keys: a JSON Schema for editors and Markdown for readers. Both are checked in under
//! `docs/reference/`; a test keeps them up to date.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::build::{INCLUDE, SECTIONS};
use crate::key::{Default, Key, Kind, Section, Shape, flattened};
use crate::units::{print_duration, print_size};

/// The JSON Schema (draft 7) of `forebay.toml`, for editors.
pub fn schema() -> String {
    let sections = SECTIONS
        .iter()
        .map(|section| (section.name.to_owned(), section_schema(section)));
    let properties: Map<String, Value> = std::iter::once((INCLUDE.name.to_owned(), key_schema(&INCLUDE)))
        .chain(sections)
        .collect();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "forebay.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    format!("{schema:#}\n")
}

/// The reference of all keys in Markdown.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    write_include(&mut out).expect("writing to a string does not fail");
    for section in SECTIONS {
        write_section(&mut out, section).expect("writing to a string does not fail");
    }
    out
}

const INTRODUCTION: &str = r#"# Configuration

<!-- Made from crates/config/src. To refresh: FOREBAY_REFRESH=1 cargo test -p forebay-config --test it reference -->

Forebay reads `forebay.toml`, or the file after `-c`. `forebay check` says what is wrong with it, each problem with its line, and
prints the effective configuration: every key with its value. What it prints is a configuration too.

```toml
#:schema ./forebay.schema.json

[server]
listen = ["127.0.0.1:8080"]

[pool.api]
handler = "handlers/api.mjs"
workers = { min = 2, max = 8 }

[[route]]
path = "/static/*"
files = "public"

[[route]]
path = "/api/*"
pool = "api"
deadline = "5s"
```

The first line tells an editor with a TOML language server (in VS Code, Even Better TOML) where a copy of [forebay.schema.json](forebay.schema.json) is: it then
explains and completes keys. `forebay new` writes both; `forebay check --schema` prints the schema of the version that is installed.

**Values.** A size is a number of bytes, or a text with a unit: `B`, `KB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024).
A duration is a text with a unit: `ms`, `s`, `m`, `h`. Neither has fractions: `1500ms`, not `1.5s`. Relative paths start at the folder
of the file.

**The environment.** In any text, `${NAME}` is the value of a variable, which must be set, `${NAME:-default}` is `default` when the variable is
unset or empty, and `${NAME:+text}` is `text` when it is neither, else nothing. `$$` is a dollar sign. Numbers, sizes and `true` or `false` may be written as texts for this: `max = "${WORKERS:-2}"`.

`FOREBAY_CACHE_DIR` is the folder where the server lays down the package `forebay` for its workers: its own user's, and not to be written by everybody. Without it, it is `forebay`
in `$XDG_CACHE_HOME` or `~/.cache`.

**When a limit is reached** names the status that the client gets. A key without one is no limit on a request.
"#;

const ABOUT_INCLUDE: &str = r#"A configuration may have several files. `include` stands above all sections of the file that is served and names the others:

    include = ["shop/forebay.toml", "${DATABASE_URL:+reports/forebay.toml}"]

Their pools, scripts, databases and routes are served as if they stood in this file, together with its own. What there is once, `[server]`, `[admin]`, `[log]`, `[trace]`, `[store]`, `[records]` and `[openapi]`, stands in the file that is served and holds for all.
A name that two files have is an error, as are two routes that would tie; a file that is included includes no others. The second text above names a file where the variable has a value, and none otherwise.
"#;

fn section_schema(section: &Section) -> Value {
    let object = object_schema(section.keys);
    match section.shape {
        Shape::Once => described(object, section.meaning()),
        Shape::Named(_) => described(
            json!({ "type": "object", "additionalProperties": object }),
            section.meaning(),
        ),
        Shape::Repeated => described(json!({ "type": "array", "items": object }), section.meaning()),
    }
}

fn object_schema(keys: &'static [Key]) -> Value {
    let keys = flattened(keys);
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), key_schema(key)))
        .collect();
    let required: Vec<&str> = keys
        .iter()
        .filter(|key| key.default == Default::Required)
        .map(|key| key.name)
        .collect();
    let mut object = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn key_schema(key: &Key) -> Value {
    let mut description = key.meaning().to_owned();
    if !key.exceeded.is_empty() {
        write!(description, " When reached: {}.", key.exceeded).expect("writing to a string does not fail");
    }
    let mut schema = described(kind_schema(&key.kind), &description);
    if let Some(default) = default_value(key) {
        schema["default"] = default;
    }
    schema
}

fn kind_schema(kind: &Kind) -> Value {
    match kind {
        Kind::Flag => {
            json!({ "anyOf": [{ "type": "boolean" }, { "enum": ["true", "false"] }, substituted()] })
        }
        Kind::Integer { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": "^[0-9]+$" },
            substituted(),
        ] }),
        Kind::Share => json!({ "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 1 },
            { "type": "string", "pattern": "^[0-9]*[.]?[0-9]+$" },
            substituted(),
        ] }),
        Kind::Size { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": "^[0-9]+([KMGT]i?)?B?$" },
            substituted(),
        ] }),
        Kind::Duration { .. } => {
            json!({ "anyOf": [{ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" }, substituted()] })
        }
        Kind::Choice(choices) => json!({ "anyOf": [{ "enum": choices }, substituted()] }),
        Kind::Text(_) => json!({ "type": "string" }),
        Kind::Texts { min, .. } => json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" }, "minItems": min },
        ] }),
        Kind::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Json => json!({}),
        Kind::Table(keys) | Kind::Group(keys) => object_schema(keys),
        Kind::TableMap(keys) => {
            json!({ "type": "object", "additionalProperties": object_schema(keys) })
        }
    }
}

/// A text whose value comes from the environment.
fn substituted() -> Value {
    json!({ "type": "string", "pattern": "\\$\\{" })
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = json!(description);
    schema
}

fn default_value(key: &Key) -> Option<Value> {
    let Default::Is(text) = key.default else {
        return None;
    };
    match &key.kind {
        Kind::Flag | Kind::Integer { .. } | Kind::Share => serde_json::from_str(text).ok(),
        Kind::Texts { .. } if text.is_empty() => Some(json!([])),
        Kind::Texts { .. } => Some(json!([text])),
        Kind::TextMap | Kind::Table(_) | Kind::TableMap(_) => Some(json!({})),
        _ => Some(json!(text)),
    }
}

fn write_include(out: &mut String) -> std::fmt::Result {
    write!(out, "\n## `{}`\n\n{ABOUT_INCLUDE}\n", INCLUDE.name)?;
    write_keys_head(out)?;
    write_keys(out, std::slice::from_ref(&INCLUDE), "")
}

fn write_keys_head(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "| key | value | default | meaning | when reached |\n|---|---|---|---|---|"
    )
}

fn write_section(out: &mut String, section: &Section) -> std::fmt::Result {
    write!(out, "\n## `{}`\n\n{}\n\n", section.heading(), section.meaning())?;
    write_keys_head(out)?;
    write_keys(out, section.keys, "")
}

/// Writes one line per key; a table is followed by its own keys.
fn write_keys(out: &mut String, keys: &'static [Key], prefix: &str) -> std::fmt::Result {
    for key in flattened(keys) {
        let name = format!("{prefix}{}", key.name);
        let default = default_cell(key);
        let (kind, meaning, exceeded) = (kind_cell(&key.kind), key.meaning(), key.exceeded);
        writeln!(out, "| `{name}` | {kind} | {default} | {meaning} | {exceeded} |")?;
        if let Kind::Table(inner) = &key.kind {
            write_keys(out, inner, &format!("{name}."))?;
        }
        if let Kind::TableMap(inner) = &key.kind {
            write_keys(out, inner, &format!("{name}.NAME."))?;
        }
    }
    Ok(())
}

fn kind_cell(kind: &Kind) -> String {
    match kind {
        Kind::Flag => "`true` or `false`".to_owned(),
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Share => "0 to 1".to_owned(),
        Kind::Size { min, max } => format!("{} to {}", print_size(*min), print_size(*max)),
        Kind::Duration { min, max } => {
            let print = |millis| print_duration(Duration::from_millis(millis));
            format!("{} to {}", print(*min), print(*max))
        }
        Kind::Choice(choices) => choices
            .iter()
            .map(|choice| format!("`{choice}`"))
            .collect::<Vec<_>>()
            .join(", "),
        Kind::Text(_) => "text".to_owned(),
        Kind::Texts { .. } => "text or list of texts".to_owned(),
        Kind::TextMap => "table of texts".to_owned(),
        Kind::Json => "any".to_owned(),
        Kind::Table(_) | Kind::Group(_) => "table".to_owned(),
        Kind::TableMap(_) => "table of tables".to_owned(),
    }
}

fn default_cell(key: &Key) -> String {
    match (key.default, &key.kind) {
        (Default::Required, _) => "required".to_owned(),
        (Default::Nothing, _) => "none".to_owned(),
        (Default::From(other), _) => format!("`{other}`"),
        (Default::Is(""), Kind::Texts { .. }) => "`[]`".to_owned(),
        (Default::Is(_), Kind::TextMap | Kind::Table(_) | Kind::TableMap(_)) => "`{}`".to_owned(),
        (Default::Is(text), Kind::Texts { .. }) => format!("`[\"{text}\"]`"),
        (Default::Is(text), Kind::Flag | Kind::Integer { .. } | Kind::Share) => format!("`{text}`"),
        (Default::Is(text), _) => format!("`\"{text}\"`"),
    }
}
