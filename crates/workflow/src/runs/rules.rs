//! Runs the rules of graphs.

use std::{cell::OnceCell, fmt::Write as _, rc::Rc, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    decisions::DecisionTasks,
    tasks::{LATE, Reason, RunTasks, Task},
};
use crate::{Before, Bundle, Evaluator, Outcome, RuleCall, RuleOutcome, Rules, Subflow, bundle::Plan};

/// A rule's result: a JSON object.
type Values = Rc<str>;

/// Runs a graph's rules in the engine.
pub(super) struct RuleTasks<'d, E: Evaluator> {
    tasks: &'d RunTasks<E>,
    bundle: &'d Bundle<E>,
    /// A JSON object.
    args: &'d str,
    /// The parsed arguments; filled when a loop first needs them.
    read: OnceCell<Value>,
}

impl<'d, E: Evaluator> RuleTasks<'d, E> {
    pub(super) fn new(tasks: &'d RunTasks<E>, bundle: &'d Bundle<E>, args: &'d str) -> Self {
        Self {
            tasks,
            bundle,
            args,
            read: OnceCell::new(),
        }
    }

    fn list(&self, over: &str, before: &Before<'_, Values, Values>) -> Result<Vec<Values>, String> {
        if self.tasks.is_late() {
            return Err(LATE.to_owned());
        }
        let mut path = over.split('.');
        let parsed;
        let text = match path.next().unwrap_or_default() {
            "args" => None,
            "last" => Some(before.last.map(|last| &*last.values)),
            "item" => Some(before.item.map(|item| &**item)),
            _ => {
                return Err(format!(
                    "`over` is `{over}`: it begins with `args`, `last` or `item`"
                ));
            }
        };
        let mut found: &Value = match text {
            None => self
                .read
                .get_or_init(|| serde_json::from_str(self.args).unwrap_or_default()),
            Some(text) => {
                parsed = text
                    .and_then(|text| serde_json::from_str(text).ok())
                    .unwrap_or_default();
                &parsed
            }
        };
        let nothing = || format!("there is no list at `{over}`");
        for name in path {
            found = found.get(name).ok_or_else(nothing)?;
        }
        match found {
            Value::Array(items) => Ok(items.iter().map(|item| item.to_string().into()).collect()),
            _ => Err(nothing()),
        }
    }
}

impl<E: Evaluator> Rules for RuleTasks<'_, E> {
    type Values = Values;
    type Item = Values;
    type Failure = Reason;

    async fn run(&self, call: RuleCall<'_, Values, Values>) -> Result<Outcome<Values>, Reason> {
        let Some(rule) = self.bundle.rule(call.rule) else {
            return Err(format!("there is no rule `{}`", call.rule).into());
        };
        let last = call.before.last.map(|last| RuleOutcome {
            is_true: last.is_true,
            values: last.values.to_string(),
        });
        let outcome = self.tasks.run(Task {
            rule,
            node: call.node,
            kind: call.kind,
            last,
            item: call.before.item.map(ToString::to_string),
            time_max: call.time_max,
        });
        let outcome = outcome.await?;
        Ok(Outcome {
            is_true: outcome.is_true,
            values: outcome.values.into(),
        })
    }

    async fn sleep(&self, time: Duration) {
        self.tasks.sleep(time).await;
    }

    /// The member `case` of the values: a text, or a number or boolean as text.
    fn case(&self, values: &Values) -> Option<String> {
        let values: Map<String, Value> = serde_json::from_str(values).ok()?;
        match values.get("case")? {
            Value::String(case) => Some(case.clone()),
            case @ (Value::Number(_) | Value::Bool(_)) => Some(case.to_string()),
            _ => None,
        }
    }

    fn items(&self, over: &str, before: Before<'_, Values, Values>) -> Result<Vec<Values>, Reason> {
        self.list(over, &before).map_err(Reason::from)
    }

    /// An object with the values of each part under its name.
    fn join(&self, parts: Vec<(&str, Values)>) -> Values {
        // Over the limit, the next rule fails.
        let _ = self
            .tasks
            .keep(parts.iter().map(|(_, values)| values.len()).sum());
        let mut joined = String::from("{");
        for (at, (name, values)) in parts.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            // Writing to a string does not fail.
            let _ = write!(joined, "{comma}{}:{values}", Value::from(*name));
        }
        joined.push('}');
        joined.into()
    }

    fn values(&self, written: &Map<String, Value>) -> Values {
        Value::Object(written.clone()).to_string().into()
    }

    fn subflow(&self, workflow: &str) -> Option<Subflow> {
        Some(match self.bundle.workflow(workflow)?.plan.as_ref().ok()? {
            Plan::Graph(graph) => Subflow::Graph(Arc::clone(graph)),
            Plan::Decision(_) => Subflow::Decision,
        })
    }

    /// Evaluates a decision. Its input is the previous rule's result, or the arguments if there was none. Its outcome is false if the
    /// result has a `state` that is false.
    async fn decide(&self, call: RuleCall<'_, Values, Values>) -> Result<Outcome<Values>, Reason> {
        let workflow = self.bundle.workflow(call.rule);
        let Some(Ok(Plan::Decision(decision))) = workflow.map(|workflow| &workflow.plan) else {
            return Err(format!("there is no decision `{}`", call.rule).into());
        };
        // A loop of decisions alone is interrupted by nothing else, and other runs need their turn.
        self.tasks.give_way().await?;
        let input = call.before.last.map_or(self.args, |last| &*last.values);
        let input = serde_json::from_str(input).unwrap_or_default();
        let functions = DecisionTasks::new(self.tasks, self.bundle);
        let result = decision.evaluate(input, &functions, None).await.result;
        let result =
            result.map_err(|error| Reason::from(format!("its node `{}`: {}", error.node, error.cause)))?;
        let is_true = result.get("state") != Some(&Value::Bool(false));
        let values = match result {
            Value::Object(_) => result,
            other => json!({ "result": other }),
        };
        let values = values.to_string();
        self.tasks.keep(values.len())?;
        Ok(Outcome {
            is_true,
            values: values.into(),
        })
    }
}
