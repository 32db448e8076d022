//! Forms with files (RFC 7578): fields written as curl does, or as a JSON object.

use std::path::Path;

use serde_json::Value;

use super::{
    body::{BODY_BYTES_MAX, BodyError, from_file},
    source::Random,
};

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    /// Its name.
    pub name: String,
    /// The name of the file that it is, if it is one.
    pub file_name: Option<String>,
    /// What it holds, if that is said.
    pub content_type: Option<String>,
    /// What it holds.
    pub content: Vec<u8>,
}

/// A form as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The value of the Content-Type field.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// What is accepted, for errors.
const ACCEPTED: &str = "accepted are name=value, name=@file, name=<file, each with ;type=TYPE and ;filename=NAME behind it, \
    and a JSON object such as {\"name\": {\"type\": \"text\", \"value\": \"...\"}, \"other\": {\"type\": \"file\", \"path\": \"...\"}}";

/// Reads one `-F`: `name=value`, `name=@file;type=image/png;filename=x.png`, `name=<file`, a JSON object, or the path of a file with one.
/// Files are read with paths relative to the working directory.
pub fn read(text: &str) -> Result<Vec<FormField>, BodyError> {
    if text.trim_start().starts_with('{') {
        return from_json(text, text);
    }
    if let Some((name, value)) = text.split_once('=')
        && !name.is_empty()
    {
        return Ok(vec![from_pair(text, name, value)?]);
    }
    if Path::new(text).is_file() {
        let json = super::body::text_from_file(Path::new(text))?;
        return from_json(text, &json);
    }
    Err(malformed(text, ACCEPTED))
}

fn malformed(text: &str, what: impl Into<String>) -> BodyError {
    BodyError::Form {
        text: text.to_owned(),
        what: what.into(),
    }
}

fn from_pair(text: &str, name: &str, value: &str) -> Result<FormField, BodyError> {
    // As with curl a semicolon in plain text belongs to it unless `type=` or `filename=` follows.
    let mut rest = value;
    let (mut content_type, mut file_name) = (None, None);
    while let Some((before, attribute)) = rest.rsplit_once(';') {
        match attribute.trim().split_once('=') {
            Some(("type", kind)) => content_type = Some(kind.to_owned()),
            Some(("filename", name)) => file_name = Some(name.trim_matches('"').to_owned()),
            _ if value.starts_with(['@', '<']) => {
                return Err(malformed(
                    text,
                    format!("`{}` is not known behind a file; {ACCEPTED}", attribute.trim()),
                ));
            }
            _ => break,
        }
        rest = before;
    }
    let content = if let Some(path) = rest.strip_prefix('@') {
        let base = Path::new(path)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        file_name = file_name.or(base);
        content_type = content_type.or_else(|| Some("application/octet-stream".into()));
        from_file(Path::new(path))?
    } else if let Some(path) = rest.strip_prefix('<') {
        from_file(Path::new(path))?
    } else {
        rest.as_bytes().to_vec()
    };
    check(
        text,
        FormField {
            name: name.to_owned(),
            file_name,
            content_type,
            content,
        },
    )
}

fn from_json(text: &str, json: &str) -> Result<Vec<FormField>, BodyError> {
    let object = match serde_json::from_str(json) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err(malformed(text, format!("it is not a JSON object; {ACCEPTED}"))),
        Err(error) => return Err(malformed(text, format!("it is not JSON ({error}); {ACCEPTED}"))),
    };
    let field = |(name, field): (&String, &Value)| {
        let part = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
        let missing = |key: &str| malformed(name, format!("`{key}` is missing, or is not text"));
        let option = |key: &str| field.get("options")?.get(key)?.as_str().map(str::to_owned);
        match part("type").as_deref() {
            Some("text") => check(
                name,
                FormField {
                    name: name.clone(),
                    file_name: None,
                    content_type: option("contentType"),
                    content: part("value").ok_or_else(|| missing("value"))?.into_bytes(),
                },
            ),
            Some("file") => {
                let path = part("path").ok_or_else(|| missing("path"))?;
                let base = Path::new(&path)
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned());
                check(
                    name,
                    FormField {
                        name: name.clone(),
                        file_name: option("filename").or(base),
                        content_type: option("contentType")
                            .or_else(|| Some("application/octet-stream".into())),
                        content: from_file(Path::new(&path))?,
                    },
                )
            }
            _ => Err(malformed(name, "`type` must be \"text\" or \"file\"")),
        }
    };
    object.iter().map(field).collect()
}

fn check(text: &str, field: FormField) -> Result<FormField, BodyError> {
    let parts = [
        Some(&field.name),
        field.file_name.as_ref(),
        field.content_type.as_ref(),
    ];
    if parts
        .into_iter()
        .flatten()
        .any(|part| part.chars().any(char::is_control))
    {
        return Err(malformed(text, "a name or type has a control character"));
    }
    Ok(field)
}

/// Puts fields together. The boundary depends on the seed, and occurs in none of them.
pub fn encode(fields: &[FormField], seed: u64) -> Result<Form, BodyError> {
    let length: u64 = fields.iter().map(|field| field.content.len() as u64).sum();
    if length > BODY_BYTES_MAX {
        return Err(BodyError::TooLong {
            path: "the form".into(),
        });
    }
    let mut random = Random::new(seed);
    let boundary = loop {
        let boundary = format!("forebay-{:016x}{:016x}", random.next(), random.next());
        if !fields
            .iter()
            .any(|field| memchr::memmem::find(&field.content, boundary.as_bytes()).is_some())
        {
            break boundary;
        }
    };
    let mut body = Vec::with_capacity(length as usize + 256 * fields.len());
    for field in fields {
        let name = quoted(&field.name);
        let file = field.file_name.as_ref();
        let file = file.map_or(String::new(), |name| format!("; filename=\"{}\"", quoted(name)));
        let kind = field.content_type.as_ref();
        let kind = kind.map_or(String::new(), |kind| format!("\r\nContent-Type: {kind}"));
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{file}{kind}");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&field.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Form {
        content_type: format!("multipart/form-data; boundary={boundary}"),
        body,
    })
}

/// As browsers write a quote within quotes.
fn quoted(text: &str) -> String {
    text.replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> (std::path::PathBuf, String) {
        let path = std::env::temp_dir().join(format!("forebay-load-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let text = path.display().to_string();
        (path, text)
    }

    #[test]
    fn fields_are_written_as_for_curl() {
        let (path, at) = file("form.txt", "content");
        let one = |text: &str| read(text).unwrap().remove(0);
        assert_eq!(one("a=b=c; d").content, b"b=c; d");
        assert_eq!(one("a=b;type=text/x").content_type.as_deref(), Some("text/x"));
        let sent = one(&format!("a=@{at};type=image/png;filename=x.png"));
        assert_eq!(
            (sent.file_name.as_deref(), sent.content_type.as_deref()),
            (Some("x.png"), Some("image/png"))
        );
        assert_eq!(sent.content, b"content");
        let plain = one(&format!("a=@{at}"));
        assert_eq!(plain.content_type.as_deref(), Some("application/octet-stream"));
        assert!(plain.file_name.unwrap().ends_with("form.txt"));
        assert_eq!(one(&format!("a=<{at}")).file_name, None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn fields_are_read_from_a_json_object_or_a_file_with_one() {
        let (content, content_at) = file("upload.bin", "bytes");
        let json = format!(
            r#"{{"a": {{"type": "text", "value": "v"}}, "b": {{"type": "file", "path": {content_at:?}, "options": {{"filename": "f"}}}}}}"#
        );
        let (list, list_at) = file("form.json", &json);
        for given in [json.as_str(), list_at.as_str()] {
            let fields = read(given).unwrap();
            assert_eq!(fields.len(), 2);
            assert_eq!(
                (fields[0].name.as_str(), fields[0].content.as_slice()),
                ("a", b"v".as_slice())
            );
            assert_eq!(
                (fields[1].file_name.as_deref(), fields[1].content.as_slice()),
                (Some("f"), b"bytes".as_slice())
            );
        }
        std::fs::remove_file(content).unwrap();
        std::fs::remove_file(list).unwrap();
    }

    #[test]
    fn what_is_no_field_is_refused_with_what_is_accepted() {
        for (text, says) in [
            ("novalue", "accepted are name=value, name=@file"),
            ("=x", "accepted are name=value, name=@file"),
            ("a=@x;colour=red", "`colour=red` is not known behind a file"),
            ("a=@/nowhere/file", "cannot read /nowhere/file"),
            ("{\"a\": 1}", "`type` must be \"text\" or \"file\""),
            ("{\"a\": {\"type\": \"text\"}}", "`value` is missing"),
            ("{\"a\"", "it is not JSON"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_form_is_parts_between_boundaries() {
        let fields = [read("a=1").unwrap(), read("say=\"hi\"").unwrap()].concat();
        let form = encode(&fields, 7).unwrap();
        let boundary = form
            .content_type
            .strip_prefix("multipart/form-data; boundary=")
            .unwrap();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"say\"\r\n\r\n\"hi\"\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(form.body.clone()).unwrap(), expected);
        assert_eq!(encode(&fields, 7).unwrap(), form);
        let clash = FormField {
            content: boundary.as_bytes().to_vec(),
            ..fields[0].clone()
        };
        assert_ne!(encode(&[clash], 7).unwrap().content_type, form.content_type);
    }
}
