//! Scripts as the evaluator of workflows.

use std::time::Instant;

use bytes::Bytes;
use forebay_workflow::{
    Begin, BuiltinTask, CompiledRule, Evaluator, Priority, RuleSource, RunInput, RunOutput, WorkflowFailure,
};

use super::{builtin_tasks::rule_of, engine::RuleEngine, libraries};
use crate::{Body, Failure, Rule, Script};

/// Places of the SDK whose errors are about the rule that called it.
const ABOUT_RULES: [&str; 4] = [
    "(sdk:dist/rules/context.js:",
    "(sdk:dist/rules/gorules/zen.js:",
    "exactly (sdk:dist/rules/main.js:",
    "observe (sdk:dist/rules/data/client-calls.js:",
];

impl Evaluator for Script {
    type Rule = Rule;
    type Engine = RuleEngine;
    const MODULES: &'static [&'static str] = &libraries::NAMES;

    fn compile(source: RuleSource<'_>) -> CompiledRule<Rule> {
        let (rule, is_process) = match source {
            RuleSource::Process { name, files } => (Rule::new(name, files), true),
            RuleSource::Module { path, file } => (Rule::module(path, file), false),
            RuleSource::Function { name, file } => (Rule::function(name, file), false),
        };
        let checked = rule
            .check()
            .and_then(|()| if is_process { rule.check_process() } else { Ok(()) });
        CompiledRule {
            error: checked.err().map(|fault| fault.to_string()),
            required: rule.required().to_vec(),
            rule,
        }
    }

    fn builtin(task: &BuiltinTask) -> Result<Rule, String> {
        rule_of(task)
    }

    /// The frame that threw an error is the first with a place in a file.
    fn is_thrown_by_rule(error: &str) -> bool {
        let mut frames = error
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with("at "));
        let thrown = frames.find(|frame| frame.contains(':') && !frame.starts_with("at <input>"));
        thrown.is_none_or(|frame| {
            !frame.contains("(sdk:") || ABOUT_RULES.iter().any(|place| frame.contains(place))
        })
    }

    fn run(
        &self,
        input: RunInput,
        deadline: Instant,
        priority: Priority,
        begin: Begin<RuleEngine>,
    ) -> Result<impl Future<Output = Result<RunOutput, WorkflowFailure>> + Send, WorkflowFailure> {
        let awaited = Self::run(self, input, Some(deadline), priority, begin)?;
        Ok(async move {
            let answer = awaited.await?;
            let result = match answer.body {
                Body::Whole(result) => result,
                // Runs are answered at once.
                Body::Stream(_) => Bytes::new(),
            };
            Ok(RunOutput {
                result,
                commit: answer.commit,
            })
        })
    }
}

/// The failure of a run, with limits under their keys of `[workflow]`.
impl From<Failure> for WorkflowFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Time { limit, limit_ms } => Self::Time { limit, limit_ms },
            Failure::DeadlinePassed => Self::DeadlinePassed,
            Failure::Memory { memory_max } => Self::Memory { memory_max },
            Failure::Output { output_max } => Self::ResultLength { output_max },
            Failure::Busy { in_flight_max } => Self::Busy {
                accept_queue_max: in_flight_max,
            },
            Failure::BytesFull { bytes, .. } => Self::BytesFull { bytes },
            Failure::GivenUp => Self::GivenUp,
            Failure::Broken { reason } => Self::Broken { reason },
            Failure::Stopping => Self::Stopping,
        }
    }
}
