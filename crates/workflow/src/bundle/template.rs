//! Templates: texts with placeholders `${name}`.

use serde_json::{Map, Value};

/// The template of a response body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The media type of the response.
    pub media_type: &'static str,
    escape: Escape,
    text: String,
}

/// Whether files with this extension are templates.
pub(super) fn is_extension(extension: &str) -> bool {
    Template::of(extension, "").is_some()
}

/// How values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    /// Not at all.
    No,
    /// As within the quotes of a JSON string.
    Json,
    /// As text of an element or as an attribute's value.
    Markup,
}

impl Template {
    /// Makes a template from a file with this extension. `None`: such files are not templates.
    pub(super) fn of(extension: &str, text: &str) -> Option<Self> {
        let (media_type, escape) = match extension {
            "json" => ("application/json", Escape::Json),
            "xml" => ("application/xml", Escape::Markup),
            "html" => ("text/html; charset=utf-8", Escape::Markup),
            "txt" => ("text/plain; charset=utf-8", Escape::No),
            _ => return None,
        };
        Some(Self {
            media_type,
            escape,
            text: text.to_owned(),
        })
    }

    /// Replaces each placeholder by the value of that name, whatever its letter case.
    ///
    /// # Errors
    /// A placeholder without a value.
    pub fn fill(&self, values: &Map<String, Value>) -> Result<String, String> {
        let mut is_within_quotes = false;
        let mut out = String::with_capacity(self.text.len());
        let mut rest = &*self.text;
        while let Some((before, behind)) = rest.split_once("${") {
            out.push_str(before);
            is_within_quotes ^= ends_within_quotes(before);
            let Some((name, behind)) = behind.split_once('}') else {
                return Err("the template has a `${` without a `}`".to_owned());
            };
            let found = values.get(name).or_else(|| {
                let mut others = values.iter();
                others
                    .find(|(other, _)| other.to_lowercase() == name.to_lowercase())
                    .map(|(_, value)| value)
            });
            let Some(found) = found else {
                return Err(format!(
                    "nothing has given `{name}`, which the template has a place for"
                ));
            };
            self.escape.put(found, is_within_quotes, &mut out);
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Whether a piece of JSON text has an unpaired quote, so that it enters or leaves a string.
fn ends_within_quotes(text: &str) -> bool {
    let (mut is_within, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        is_within ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
    }
    is_within
}

impl Escape {
    fn put(self, value: &Value, is_within_quotes: bool, out: &mut String) {
        let text = match value {
            Value::String(text) => text.clone(),
            // JSON outside of a string is inserted unescaped.
            other if self == Self::Json && !is_within_quotes => return out.push_str(&other.to_string()),
            other => other.to_string(),
        };
        match self {
            Self::No => out.push_str(&text),
            Self::Json => {
                let quoted = Value::from(text).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            Self::Markup => {
                out.push_str(&escape_markup(&text));
            }
        }
    }
}

/// A text for HTML or XML, between tags or in quotes.
pub fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Template;

    fn fill(extension: &str, text: &str) -> Result<String, String> {
        let values = json!({"text": "a\"<b>$", "Number": 5, "list": [1, "x"]});
        let template = Template::of(extension, text).unwrap();
        template.fill(values.as_object().unwrap())
    }

    #[test]
    fn values_stand_in_their_places_as_the_text_needs_them() {
        for (extension, text, filled) in [
            ("txt", "${text}, ${NUMBER} $5 }", "a\"<b>$, 5 $5 }"),
            (
                "json",
                "{\"a\":\"${text}\",\"b\":${number},\"c\":${list}}",
                "{\"a\":\"a\\\"<b>$\",\"b\":5,\"c\":[1,\"x\"]}",
            ),
            (
                "xml",
                "<a b='${text}'>${list}</a>",
                "<a b='a&quot;&lt;b&gt;$'>[1,&quot;x&quot;]</a>",
            ),
            (
                "json",
                "{\"a\\\"\":\"${list}, ${number}\",\"b\":${list}}",
                "{\"a\\\"\":\"[1,\\\"x\\\"], 5\",\"b\":[1,\"x\"]}",
            ),
            ("html", "", ""),
        ] {
            assert_eq!(fill(extension, text).as_deref(), Ok(filled));
        }
        assert_eq!(Template::of("js", ""), None);
    }

    #[test]
    fn places_without_a_value_are_errors() {
        assert_eq!(
            fill("txt", "a ${missing} b"),
            Err("nothing has given `missing`, which the template has a place for".to_owned())
        );
        assert_eq!(
            fill("txt", "${text"),
            Err("the template has a `${` without a `}`".to_owned())
        );
    }
}
