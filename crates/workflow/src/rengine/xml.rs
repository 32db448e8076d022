//! Parses XML into the arguments of a workflow: elements and attributes become members.

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};
use serde_json::{Map, Value};

/// Deepest nesting of elements.
const DEPTH_MAX: usize = 64;

/// An element that is being read.
#[derive(Default)]
struct Open {
    name: String,
    members: Map<String, Value>,
    text: String,
}

/// Parses XML into the members of its root element. Each element becomes a member of its parent: its text, or an object if it has attributes or
/// child elements, with its text as the member `#text`. Repeated names become a list. Namespace prefixes are dropped.
///
/// # Errors
/// The error in the document.
pub fn read_xml(text: &str) -> Result<Map<String, Value>, String> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Open> = Vec::new();
    let mut whole = None;
    loop {
        let event = reader
            .read_event()
            .map_err(|error| format!("{error}, at byte {}", reader.error_position()))?;
        match event {
            Event::Start(tag) => {
                if open.len() >= DEPTH_MAX {
                    return Err(format!("more than {DEPTH_MAX} elements are within one another"));
                }
                if whole.is_some() {
                    return Err("there is more than one outermost element".to_owned());
                }
                open.push(begin(&tag)?);
            }
            Event::Empty(tag) => close(begin(&tag)?, &mut open, &mut whole)?,
            Event::End(_) => {
                if let Some(element) = open.pop() {
                    close(element, &mut open, &mut whole)?;
                }
            }
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            Event::CData(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            Event::GeneralRef(reference) => {
                let written = format!("&{};", &*reference);
                let meant = quick_xml::escape::unescape(&written).map_err(|error| error.to_string())?;
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&meant);
                }
            }
            // Requests must not declare entities.
            Event::DocType(_) => return Err("a document type is not accepted".to_owned()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    if let Some(element) = open.last() {
        return Err(format!("`{}` has no end", element.name));
    }
    match whole {
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Ok(Map::new()),
        None => Err("there is no element".to_owned()),
    }
}

fn begin(tag: &BytesStart<'_>) -> Result<Open, String> {
    let name = tag.local_name();
    let mut element = Open {
        name: name.as_ref().to_owned(),
        ..Open::default()
    };
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let name = attribute.key.local_name();
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| error.to_string())?;
        put(&mut element.members, name.as_ref(), Value::from(&*value));
    }
    Ok(element)
}

/// Ends an element and adds it to its parent.
fn close(element: Open, open: &mut [Open], whole: &mut Option<Value>) -> Result<(), String> {
    let Open {
        name,
        mut members,
        text,
    } = element;
    let text = text.trim();
    let value = if members.is_empty() {
        Value::from(text)
    } else {
        if !text.is_empty() {
            put(&mut members, "#text", Value::from(text));
        }
        Value::Object(members)
    };
    match open.last_mut() {
        Some(around) => put(&mut around.members, &name, value),
        None if whole.is_some() => return Err("there is more than one outermost element".to_owned()),
        None => *whole = Some(value),
    }
    Ok(())
}

/// Adds a member; a repeated name makes a list.
fn put(members: &mut Map<String, Value>, name: &str, value: Value) {
    match members.get_mut(name) {
        None => drop(members.insert(name.to_owned(), value)),
        Some(Value::Array(items)) => items.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read_xml;

    #[test]
    fn elements_and_attributes_are_members() {
        let text = "<?xml version=\"1.0\"?><!-- x --><xml xmlns:w=\"u\"><ToUserName><![CDATA[a<b]]></ToUserName>\
            <n at='1&amp;2'>5</n><w:item>a</w:item><w:item>&lt;b&#33;</w:item><empty/></xml>";
        let members = json!({"w": "u", "ToUserName": "a<b", "n": {"at": "1&2", "#text": "5"}, "item": ["a", "<b!"], "empty": ""});
        assert_eq!(read_xml(text).map(Value::Object), Ok(members));
        assert_eq!(read_xml("<a>text</a>").map(Value::Object), Ok(json!({})));
    }

    #[test]
    fn what_is_no_whole_document_is_an_error() {
        for (text, error) in [
            ("", "there is no element"),
            ("<a>", "`a` has no end"),
            ("<a/><b/>", "there is more than one outermost element"),
            (
                "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
                "a document type is not accepted",
            ),
        ] {
            assert_eq!(read_xml(text), Err(error.to_owned()), "{text}");
        }
        for text in ["<a></b>", "<a>&unknown;</a>", "<a b=c/>", "<a"] {
            assert!(read_xml(text).is_err(), "{text}");
        }
        let deep = "<a>".repeat(65);
        assert_eq!(
            read_xml(&deep),
            Err("more than 64 elements are within one another".to_owned())
        );
    }
}
