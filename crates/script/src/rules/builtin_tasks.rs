//! Rules generated for built-in nodes: those that query a database, access the store, or send a request to a server or a pool.
//!
//! The graph's settings are embedded in the rule's text only as one JSON string, which the rule parses, so nothing in them can become code.

use forebay_pg::Sql;
use forebay_store::Key;
use forebay_workflow::{BuiltinTask, Operand, Operation, Request, ResultMode, RuleFile};
use serde_json::{Value, json};

use crate::Rule;

/// JavaScript that resolves operands.
const GIVEN: &str = include_str!("builtin_tasks/given.js");
/// JavaScript that sends a request to a server or a pool.
const REQUEST: &str = include_str!("builtin_tasks/request.js");

/// Generates the rule of a built-in node. The error says what is wrong with its settings.
pub(super) fn rule_of(task: &BuiltinTask) -> Result<Rule, String> {
    let (kind, plan, text) = match task {
        BuiltinTask::Sql {
            source,
            query,
            parameters,
            result,
        } => {
            let (query, parameters) = statement(query, parameters)?;
            let result = match result {
                ResultMode::Rows => "rows",
                ResultMode::Row => "row",
                ResultMode::Value => "value",
                ResultMode::Count => "count",
            };
            let plan = json!({"source": source, "query": query, "parameters": parameters, "result": result});
            ("SQL", plan, include_str!("builtin_tasks/sql.js"))
        }
        BuiltinTask::Store {
            operation,
            global,
            subscripts,
            value,
        } => {
            Key::global(global).map_err(|error| format!("global: {error}"))?;
            let operation = match operation {
                Operation::Get => "get",
                Operation::Set => "set",
                Operation::Increment => "increment",
                Operation::Remove => "remove",
            };
            let subscripts: Vec<_> = subscripts.iter().map(given).collect();
            let value = value.as_ref().map_or_else(|| json!({"value": 1}), given);
            let plan =
                json!({"operation": operation, "global": global, "subscripts": subscripts, "value": value});
            ("STORE", plan, include_str!("builtin_tasks/store.js"))
        }
        BuiltinTask::Http { url, request } => ("HTTP", asked(url, None, request), REQUEST),
        BuiltinTask::Pool { pool, path, request } => ("POOL", asked(path, Some(pool), request), REQUEST),
    };
    // A JSON string is also a JavaScript string literal.
    let plan = Value::from(plan.to_string());
    let file = |name: &str, text: String| RuleFile {
        name: format!("node {kind}, {name}"),
        text,
    };
    let files = [
        file("plan", format!("const plan = JSON.parse({plan});")),
        file("given.js", GIVEN.to_owned()),
        file("process.js", text.to_owned()),
    ];
    Ok(Rule::new(kind, &files))
}

/// The settings of a request to a server or a pool.
fn asked(address: &str, pool: Option<&String>, request: &Request) -> Value {
    let Request {
        method,
        query,
        headers,
        body,
        ok,
    } = request;
    let all = |parts: &[(String, Operand)]| -> Vec<Value> {
        let pair = |(name, value): &(String, Operand)| json!([name, given(value)]);
        parts.iter().map(pair).collect()
    };
    let (query, headers, body) = (all(query), all(headers), body.as_ref().map(given));
    json!({"pool": pool, "address": address, "method": method, "query": query, "headers": headers, "body": body, "ok": ok})
}

fn given(given: &Operand) -> Value {
    match given {
        Operand::Constant(value) => json!({ "value": value }),
        Operand::Place(place) => json!({ "place": place }),
    }
}

/// Converts a statement to `$1`, `$2` and so on; returns it with the operand for each.
fn statement(query: &str, parameters: &[(String, Operand)]) -> Result<(String, Vec<Value>), String> {
    let sql = Sql::parse(query).map_err(|error| format!("query: {error}"))?;
    if let Some(keyword) = sql.session_keyword() {
        return Err(format!(
            "query: `{keyword}` affects the whole connection, which others share"
        ));
    }
    if let Some((name, _)) = parameters.iter().find(|(name, _)| !sql.names().contains(name)) {
        return Err(format!("parameters.{name}: there is no `:{name}` in the query"));
    }
    let given_for = |name: &String| match parameters.iter().find(|(given, _)| given == name) {
        Some((_, value)) => Ok(given(value)),
        None => Err(format!("query: `:{name}` is not among `parameters`")),
    };
    let values: Result<_, _> = sql.names().iter().map(given_for).collect();
    Ok((sql.text().to_owned(), values?))
}

#[cfg(test)]
mod tests {
    use forebay_workflow::{Definition, Kind};

    use super::*;

    fn rule(node: &Value) -> Result<Rule, String> {
        let definition = json!({"nodes": [node], "edges": [{"from": "0", "to": "1"}]});
        match Definition::of(&definition).unwrap().nodes.remove(0).kind {
            Kind::BuiltinTask { task, .. } => rule_of(&task),
            kind => panic!("{kind:?} is no task"),
        }
    }

    #[test]
    fn whatever_a_graph_says_the_rule_is_a_text_of_javascript() {
        let text = "`${1}` \" ' \\ \n \u{2028} */ </script>";
        for node in [
            json!({"@type": "SQL", "id": 1, "source": text, "query": format!("select '{}'", text.replace('\'', ""))}),
            json!({"@type": "STORE", "id": 1, "operation": "set", "global": "a", "subscripts": [{"value": text}], "value": {"value": {text: text, "__proto__": 1}}}),
            json!({"@type": "POOL", "id": 1, "pool": text, "path": "/a`${1}`", "method": "PUT", "body": {"value": text}}),
            json!({"@type": "HTTP", "id": 1, "url": "http://a", "headers": {text: {"value": text}}, "query": {text: format!("args.{text}")}}),
        ] {
            let checked = rule(&node).unwrap().check();
            assert!(checked.is_ok(), "{node}: {checked:?}");
        }
    }

    #[test]
    fn what_a_statement_or_a_global_cannot_be_is_told() {
        let sql = |query: &str| json!({"@type": "SQL", "id": 1, "source": "main", "query": query, "parameters": {"id": "args.id"}});
        let global = json!({"@type": "STORE", "id": 1, "operation": "get", "global": "a b"});
        for (node, right) in [
            (
                sql("select :id, :name"),
                "query: `:name` is not among `parameters`",
            ),
            (sql("select 1"), "parameters.id: there is no `:id` in the query"),
            (
                sql("select 'x"),
                "query: a string that begins at byte 7 does not end",
            ),
            (
                sql("select $1"),
                "query: `$1` at byte 7: parameters have names here",
            ),
            (sql("listen x"), "query: `listen` affects the whole connection"),
            (global, "global: "),
        ] {
            let told = rule(&node).unwrap_err();
            assert!(told.starts_with(right), "{told}");
        }
    }
}
