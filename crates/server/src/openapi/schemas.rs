//! JSON Schemas as components of the document.
//!
//! The references of a schema are relative to its own root, which in the document is somewhere else. They are rewritten to lead from the
//! document's root, because most tools resolve them from there. A schema whose references depend on more than that, on ids or anchors, stays as
//! it is under an id of its own: its references then resolve in it, as JSON Schema (draft 2020-12, 8.2.1) says.

use serde_json::{Map, Value};

/// Keywords whose members are schemas under names that the author chose.
const NAMED: [&str; 6] = [
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// Keywords whose values are no schemas, whatever they look like.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// Keywords that make references depend on more than the place of the schema.
const SCOPES: [&str; 6] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
];

/// The schema as it is at a place of the document, such as `#/components/schemas/order`.
pub(super) fn embedded(schema: &Value, place: &str) -> Value {
    let mut rewritten = schema.clone();
    if let Some(root) = rewritten.as_object_mut() {
        root.remove("$id");
    }
    let mut is_plain = true;
    each(&mut rewritten, &mut |schema| {
        is_plain &= !SCOPES.iter().any(|keyword| schema.contains_key(*keyword));
        if let Some(Value::String(reference)) = schema.get_mut("$ref") {
            match reference.strip_prefix('#') {
                Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                    *reference = format!("{place}{pointer}");
                }
                _ => is_plain = false,
            }
        }
    });
    if is_plain {
        return rewritten;
    }
    let mut whole = schema.clone();
    if let Some(root) = whole.as_object_mut() {
        let name = place.rsplit('/').next().unwrap_or_default();
        root.entry("$id")
            .or_insert_with(|| format!("urn:forebay:schema:{name}").into());
    }
    whole
}

/// Visits a schema and all within it.
fn each(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| each(schema, visit)),
        Value::Object(keywords) => {
            visit(keywords);
            for (keyword, value) in keywords.iter_mut() {
                match value {
                    Value::Object(named) if NAMED.contains(&&**keyword) => {
                        named.values_mut().for_each(|schema| each(schema, visit));
                    }
                    _ if DATA.contains(&&**keyword) => {}
                    other => each(other, visit),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLACE: &str = "#/components/schemas/order";

    #[test]
    fn references_lead_from_the_root_of_the_document_and_data_stays_as_it_is() {
        let schema = json!({
            "$id": "https://example.org/order",
            "$defs": { "item": { "properties": { "parts": { "items": { "$ref": "#/$defs/item" } }, "const": { "$ref": "#" } } } },
            "properties": { "$ref": { "$ref": "#/$defs/item" }, "kind": { "const": { "$ref": "#/a" } } },
            "anyOf": [{ "$ref": "#" }, true],
        });
        let expected = json!({
            "$defs": { "item": { "properties": {
                "parts": { "items": { "$ref": "#/components/schemas/order/$defs/item" } }, "const": { "$ref": PLACE },
            } } },
            "properties": { "$ref": { "$ref": "#/components/schemas/order/$defs/item" }, "kind": { "const": { "$ref": "#/a" } } },
            "anyOf": [{ "$ref": PLACE }, true],
        });
        assert_eq!(embedded(&schema, PLACE), expected);
        assert_eq!(embedded(&json!(true), PLACE), json!(true));
    }

    #[test]
    fn a_schema_with_ids_or_anchors_of_its_own_stays_whole_under_an_id() {
        for inner in [
            json!({ "$id": "item" }),
            json!({ "$anchor": "item" }),
            json!({ "$ref": "other" }),
            json!({ "$dynamicRef": "#item" }),
        ] {
            let schema = json!({ "items": inner, "not": { "$ref": "#/items" } });
            let mut expected = schema.clone();
            expected["$id"] = "urn:forebay:schema:order".into();
            assert_eq!(embedded(&schema, PLACE), expected);
        }
    }
}
