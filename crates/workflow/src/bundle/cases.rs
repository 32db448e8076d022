//! Tests stored beside workflows: arguments, and the expected result of a run with them.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// Most tests in one file.
const CASES_MAX: usize = 10_000;

/// A stored test of a workflow.
#[derive(Clone, Debug)]
pub struct StoredTest {
    /// Path of the file that has the test.
    pub file: String,
    /// Name of the test, as reports show it.
    pub name: String,
    /// Name of the workflow to run.
    pub workflow: String,
    /// The arguments: a JSON object.
    pub args: Box<RawValue>,
    expect: Expect,
    /// Result members to ignore: paths with dots between names, where `*` matches any name.
    ignore: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    workflow: String,
    args: Option<Box<RawValue>>,
    expect: Expect,
    #[serde(default)]
    ignore: Vec<String>,
}

/// The expected result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Expect {
    /// For a graph: the state that it ends with.
    state: Option<bool>,
    /// For a graph: the result of its last rule.
    value_map: Option<Value>,
    /// For a decision: its result.
    result: Option<Value>,
    /// A part of the error that it fails with.
    error: Option<String>,
}

/// Parses a file of tests, which is a list, and appends errors to `faults`.
pub(super) fn read(file: &str, text: &str, faults: &mut Vec<String>) -> Vec<StoredTest> {
    let written: Vec<Written> = match serde_json::from_str(text) {
        Ok(written) => written,
        Err(error) => {
            faults.push(error.to_string());
            return Vec::new();
        }
    };
    if written.len() > CASES_MAX {
        faults.push(format!("it has {} tests, at most {CASES_MAX}", written.len()));
    }
    let mut cases = Vec::with_capacity(written.len());
    for Written {
        name,
        workflow,
        args,
        expect,
        ignore,
    } in written
    {
        let Expect {
            state,
            value_map,
            result,
            error,
        } = &expect;
        let args = args.unwrap_or_else(|| RawValue::from_string("{}".into()).expect("an object is JSON"));
        if !args.get().starts_with('{') {
            faults.push(format!("test `{name}`: `args` is another value than an object"));
        }
        let kinds = [
            state.is_some() || value_map.is_some(),
            result.is_some(),
            error.is_some(),
        ];
        if kinds.into_iter().filter(|is_there| *is_there).count() != 1 {
            faults.push(format!(
                "test `{name}`: `expect` has `state` and `valueMap`, or `result`, or `error`"
            ));
        }
        cases.push(StoredTest {
            file: file.to_owned(),
            name,
            workflow,
            args,
            expect,
            ignore,
        });
    }
    cases
}

impl StoredTest {
    /// Compares a run's result, in the form of a response body, with the expected one. Returns the differences; empty means that the test
    /// passed.
    pub fn differences(&self, outcome: &Value) -> Vec<String> {
        let mut differences = Vec::new();
        let failed = outcome.get("error").and_then(Value::as_str);
        if let Some(part) = &self.expect.error {
            match failed {
                Some(error) if error.contains(part) => {}
                Some(error) => differences.push(format!("error: expected {part:?} in {error:?}")),
                None => differences.push(format!("error: expected {part:?}, and it has not failed")),
            }
            return differences;
        }
        if let Some(error) = failed {
            let node = outcome.get("node").and_then(Value::as_str).unwrap_or_default();
            return vec![format!("node `{node}` failed: {}", error.trim_end())];
        }
        let state = self.expect.state.map(Value::from);
        let parts = [
            ("state", &state),
            ("valueMap", &self.expect.value_map),
            ("result", &self.expect.result),
        ];
        for (name, expected) in parts {
            if let Some(expected) = expected {
                let found = outcome.get(name).unwrap_or(&Value::Null);
                self.compare(name, expected, found, &mut differences);
            }
        }
        differences
    }

    fn compare(&self, at: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
        if self.ignore.iter().any(|ignored| is_at(ignored, at)) {
            return;
        }
        match (expected, found) {
            (Value::Object(expected), Value::Object(found)) => {
                for (name, expected) in expected {
                    let found = found.get(name);
                    self.compare_member(&format!("{at}.{name}"), Some(expected), found, differences);
                }
                for (name, found) in found {
                    if !expected.contains_key(name) {
                        self.compare_member(&format!("{at}.{name}"), None, Some(found), differences);
                    }
                }
            }
            (Value::Array(expected), Value::Array(found)) => {
                for index in 0..expected.len().max(found.len()) {
                    let (expected, found) = (expected.get(index), found.get(index));
                    self.compare_member(&format!("{at}.{index}"), expected, found, differences);
                }
            }
            _ if is_same(expected, found) => {}
            _ => differences.push(format!("{at}: expected {expected}, found {found}")),
        }
    }

    fn compare_member(
        &self,
        at: &str,
        expected: Option<&Value>,
        found: Option<&Value>,
        differences: &mut Vec<String>,
    ) {
        match (expected, found) {
            (Some(expected), Some(found)) => self.compare(at, expected, found, differences),
            _ if self.ignore.iter().any(|ignored| is_at(ignored, at)) => {}
            (Some(expected), None) => differences.push(format!("{at}: expected {expected}, found nothing")),
            (None, Some(found)) => differences.push(format!("{at}: expected nothing, found {found}")),
            (None, None) => {}
        }
    }
}

/// Whether two values are equal; 1 and 1.0 are, as they are to rules.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// Whether a path matches a pattern, in which `*` matches any one name.
fn is_at(written: &str, path: &str) -> bool {
    let (mut written, mut path) = (written.split('.'), path.split('.'));
    loop {
        match (written.next(), path.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one == "*" || one == other => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(test: &Value) -> StoredTest {
        let mut faults = Vec::new();
        let mut read = read("t.json", &json!([test]).to_string(), &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        read.remove(0)
    }

    #[test]
    fn a_result_is_held_against_what_is_expected() {
        let expect = json!({"state": true, "valueMap": {"points": 5, "at": "x", "list": [{"id": 1}]}});
        let test = one(&json!({
            "name": "n", "workflow": "w", "expect": expect, "ignore": ["valueMap.at", "valueMap.list.*.id"]
        }));
        let result = |points: Value, list: Value| json!({"state": true, "valueMap": {"points": points, "at": "y", "list": list}});
        assert_eq!(
            test.differences(&result(json!(5.0), json!([{"id": 7}]))),
            Vec::<String>::new()
        );
        assert_eq!(
            test.differences(&result(json!(6), json!([]))),
            [
                "valueMap.list.0: expected {\"id\":1}, found nothing",
                "valueMap.points: expected 5, found 6"
            ]
        );
        assert_eq!(
            test.differences(&json!({"state": true, "valueMap": {"points": 5, "list": [{}], "more": 1}})),
            ["valueMap.more: expected nothing, found 1"]
        );
        assert_eq!(
            test.differences(&json!({"error": "Error: no\n", "node": "7"})),
            ["node `7` failed: Error: no"]
        );
    }

    #[test]
    fn an_error_is_expected_by_a_part_of_it() {
        let test = one(&json!({"name": "n", "workflow": "w", "expect": {"error": "no amount"}}));
        assert!(
            test.differences(&json!({"error": "Error: no amount", "node": "1"}))
                .is_empty()
        );
        assert_eq!(
            test.differences(&json!({"error": "Error: other", "node": "1"}))
                .len(),
            1
        );
        assert_eq!(test.differences(&json!({"state": true})).len(), 1);
    }

    #[test]
    fn what_is_wrong_with_tests_is_named() {
        for (text, what) in [
            ("{}", "invalid type: map, expected a sequence at line 1 column 0"),
            (
                r#"[{"name":"n","workflow":"w","expects":{}}]"#,
                "unknown field `expects`",
            ),
            (
                r#"[{"name":"n","workflow":"w","expect":{"status":1}}]"#,
                "unknown field `status`",
            ),
            (
                r#"[{"name":"n","expect":{"state":true}}]"#,
                "missing field `workflow`",
            ),
            (
                r#"[{"name":"n","workflow":"w","expect":{}}]"#,
                "test `n`: `expect` has `state`",
            ),
            (
                r#"[{"name":"n","workflow":"w","expect":{"result":1,"error":""}}]"#,
                "test `n`: `expect` has `state`",
            ),
            (
                r#"[{"name":"n","workflow":"w","args":[1],"expect":{"error":""}}]"#,
                "test `n`: `args` is another value",
            ),
        ] {
            let mut faults = Vec::new();
            read("t.json", text, &mut faults);
            assert_eq!(faults.len(), 1, "{text}");
            assert!(faults[0].starts_with(what), "{text}: {}", faults[0]);
        }
    }
}
