//! Rules: scripts with a function `process(context)`. A call runs some of them, in the order that its course gives, and has an engine of its own until it is over.

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rquickjs::{CatchResultExt as _, CaughtError, Context, Ctx, Function, Runtime, context::EvalOptions};

use crate::{
    Fault,
    check::thrown,
    instance::describe,
    rule_text::{imports_as_requires, required},
};

/// Names a rule that runs, or a time that passes, within its call; the course chooses it.
pub type TaskId = u32;

/// Says which rules a call runs, and what its answer is. It lives on the thread of its call.
pub trait RunDriver {
    /// Goes on with what has come about; gives what is to be done now.
    fn go_on(&mut self, event: Event) -> Vec<Command>;

    /// A rule of the call has written a line to its log.
    fn log(&mut self, line: LogLine);

    /// The module of this name that a rule of the call requires, or that the module at the path `from` does, which is empty for rules; an error says why there is none.
    fn module(&self, from: &str, name: &str) -> Result<RuleModule, String> {
        let _ = from;
        Err(format!("there is no module `{name}`"))
    }
}

/// A module that rules require.
#[derive(Clone, Debug)]
pub struct RuleModule {
    /// Where it is among those of its call: a run has one of each.
    pub path: String,
    /// Made by [`Rule::module`].
    pub rule: Arc<Rule>,
}

/// A module that a text requires by a constant name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Required {
    /// The file, as errors name it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// Of the module.
    pub name: String,
}

/// Makes the course of a call, on its thread.
pub type Begin = Box<dyn FnOnce() -> Box<dyn RunDriver> + Send>;

/// What has come about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The call begins.
    Begun,
    /// A rule is over.
    Ended {
        /// Which.
        ticket: TaskId,
        /// What it has come to, or why it failed: the error and where it was thrown.
        outcome: Result<RuleOutcome, String>,
    },
    /// A time has passed.
    Passed {
        /// Which.
        ticket: TaskId,
    },
}

/// What a rule has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOutcome {
    /// Whether it is so.
    pub is_true: bool,
    /// What it has found out: JSON, an object.
    pub values: String,
}

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    /// A rule is to run.
    Run(RunOrder),
    /// This time is to pass.
    Pass {
        /// Its name.
        ticket: TaskId,
        /// How long.
        time: Duration,
    },
    /// This is not waited for any more.
    Forget {
        /// What.
        ticket: TaskId,
    },
    /// The call is answered with this JSON, and is over.
    Answer(Vec<u8>),
}

/// A rule that is to run.
#[derive(Debug)]
pub struct RunOrder {
    /// Its name from here on.
    pub ticket: TaskId,
    /// The rule.
    pub rule: Arc<Rule>,
    /// The node that runs it.
    pub node: String,
    /// The kind of that node.
    pub kind: &'static str,
    /// What the rule before it has come to.
    pub last: Option<RuleOutcome>,
    /// The item that it is run for, as JSON.
    pub item: Option<String>,
    /// How long it may run, waiting included, from when it is ordered; then it is stopped where it stands, and its ticket never ends. Its course notices that by a time that it has pass. Without it, it may run as
    /// long as its call.
    pub time_max: Option<Duration>,
}

/// A line that a rule has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// 0 debug, 1 info, 2 warning, 3 error.
    pub level: u8,
    /// What.
    pub text: String,
}

/// A file of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFile {
    /// Its name in errors.
    pub name: String,
    /// JavaScript, not a module.
    pub text: String,
}

/// A rule: files that are one text to the engine, so that each sees what those before it declare. The last is expected to declare `process`.
pub struct Rule {
    /// Tells it from every other.
    pub(crate) id: u64,
    name: String,
    /// What the engine takes it for.
    file: String,
    /// How `source` begins.
    opening: &'static str,
    /// What its files require.
    required: Vec<Required>,
    /// A function that runs the files anew whenever it is called, and gives their `process`.
    source: String,
    /// Bytes of `source` behind the files.
    tail: usize,
    /// The files, each with the number of lines before it in `source`.
    files: Vec<(u32, String)>,
}

/// What stands before the files of a rule.
const OPENING: &str = "(() => {\n";
/// The same of a module.
const MODULE_OPENING: &str = "((exports, require, module) => {\n";
/// What a module may declare as it exports it.
const DECLARED: [&str; 6] = ["const", "let", "var", "function", "async", "class"];

impl fmt::Debug for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Rule")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// Of its files, in order.
    pub fn new(name: &str, files: &[RuleFile]) -> Self {
        Self::of(name, files, "process")
    }

    /// A module at this path, which rules and other modules require. A run has it anew, so that none meets what another has left in it.
    pub fn module(path: &str, file: &RuleFile) -> Self {
        let file_of_engine = format!("module:{path}");
        Self::made(
            path,
            file_of_engine,
            MODULE_OPENING,
            std::slice::from_ref(file),
            "})",
        )
    }

    /// A function of a decision: a module that exports `handler`, or a text that declares `main`.
    pub fn function(name: &str, file: &RuleFile) -> Self {
        // Without modules there is nothing to export to; every column after the word stays.
        let export = "export ";
        let mut text = String::with_capacity(file.text.len());
        for line in file.text.split_inclusive('\n') {
            let is_export = DECLARED.iter().any(|word| {
                let rest = line.strip_prefix(export).and_then(|rest| rest.strip_prefix(word));
                rest.is_some_and(|rest| rest.starts_with([' ', '*']))
            });
            if is_export {
                text.push_str(&" ".repeat(export.len()));
                text.push_str(&line[export.len()..]);
            } else {
                text.push_str(line);
            }
        }
        let name_of_file = file.name.clone();
        let own = [RuleFile {
            name: name_of_file,
            text,
        }];
        let name: String = name.chars().filter(|letter| letter.is_alphanumeric()).collect();
        Self::of(&name, &own, "typeof handler === 'function' ? handler : main")
    }

    fn of(name: &str, files: &[RuleFile], entry: &str) -> Self {
        let tail = format!("try {{ return {entry}; }} catch {{}}\n}})");
        Self::made(name, format!("rule:{name}"), OPENING, files, &tail)
    }

    fn made(
        name: &str,
        file_of_engine: String,
        opening: &'static str,
        files: &[RuleFile],
        tail: &str,
    ) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // An arrow has neither `arguments` nor a `prototype`: nothing of it lasts from one run to the next.
        let mut source = String::from(opening);
        let mut before = 1;
        let mut starts = Vec::with_capacity(files.len());
        let mut all = Vec::new();
        for file in files {
            starts.push((before, file.name.clone()));
            let text = imports_as_requires(&file.text);
            let found = required(&text).into_iter();
            all.extend(found.map(|(line, name)| Required {
                file: file.name.clone(),
                line,
                name: name.to_owned(),
            }));
            source.push_str(&text);
            // A comment without an end of line would hide what follows.
            source.push('\n');
            before += text.matches('\n').count() as u32 + 1;
        }
        source.push_str(tail);
        Self {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            name: name.to_owned(),
            file: file_of_engine,
            opening,
            required: all,
            source,
            tail: tail.len(),
            files: starts,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The modules that its files require by constant names.
    pub fn required(&self) -> &[Required] {
        &self.required
    }

    /// Compiles it, and runs nothing; an error says what is wrong, and where.
    pub fn check(&self) -> Result<(), Fault> {
        let first = Path::new(self.files.first().map_or("", |(_, name)| name));
        let context = Runtime::new().and_then(|runtime| Context::full(&runtime));
        let compiled = match context {
            Ok(context) => context.with(|ctx| {
                // Nothing behind what is thrown first is ever done, wherever the text leaves the braces that it stands in; and no text leaves both kinds.
                for opening in ["throw 0; (() => {", "throw 0; if (0) {"] {
                    let closing = if opening.ends_with("=> {") { "})" } else { "}" };
                    self.parse(&ctx, &format!("{opening}\n{}{closing}", self.text()))?;
                }
                Ok(())
            }),
            Err(error) => Err(error.to_string()),
        };
        compiled.map_err(|reason| thrown(&reason, first))
    }

    /// The files, as they stand in `source`.
    fn text(&self) -> &str {
        let end = self.source.len() - self.tail;
        &self.source[self.opening.len()..end]
    }

    /// Has the engine read a script that throws 0 before anything else.
    fn parse(&self, ctx: &Ctx<'_>, script: &str) -> Result<(), String> {
        let run: rquickjs::Result<()> = ctx.eval_with_options(script, self.options());
        match run.catch(ctx) {
            Err(CaughtError::Value(value)) if value.as_int() == Some(0) => Ok(()),
            Err(error) => Err(self.with_places(&describe(&error))),
            Ok(()) => Ok(()),
        }
    }

    fn options(&self) -> EvalOptions {
        let mut options = EvalOptions::default();
        options.strict = false;
        options.filename = Some(self.file.clone());
        options
    }

    /// The function of [`Self::source`].
    pub(crate) fn compile<'js>(&self, ctx: &Ctx<'js>) -> Result<Function<'js>, String> {
        let compiled: rquickjs::Result<Function<'js>> =
            ctx.eval_with_options(self.source.as_str(), self.options());
        compiled
            .catch(ctx)
            .map_err(|error| self.with_places(&describe(&error)))
    }

    /// An error as the engine tells it, with places in the files.
    pub(crate) fn with_places(&self, text: &str) -> String {
        let file = &*self.file;
        let mut placed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(file) {
            placed.push_str(&rest[..at]);
            rest = &rest[at + file.len()..];
            let digits = rest.strip_prefix(':').map_or("", |line| {
                &line[..line.bytes().take_while(u8::is_ascii_digit).count()]
            });
            if let Some((name, line)) = digits.parse().ok().and_then(|line| self.place(line)) {
                placed.extend([name, ":", &line.to_string()]);
                rest = &rest[1 + digits.len()..];
            } else {
                placed.push_str(file);
            }
        }
        placed.push_str(rest);
        placed
    }

    fn place(&self, line: u32) -> Option<(&str, u32)> {
        let (before, name) = self.files.iter().rev().find(|(before, _)| *before < line)?;
        Some((name, line - before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_lines_of_files() {
        let file = |name: &str, text: &str| RuleFile {
            name: name.into(),
            text: text.into(),
        };
        let rule = Rule::new("score", &[file("lib.js", "a\nb"), file("score.js", "c\nd\n")]);
        let line = |text: &str| rule.source.lines().position(|line| line == text).unwrap() + 1;
        for (text, place) in [
            ("a", "lib.js:1"),
            ("b", "lib.js:2"),
            ("c", "score.js:1"),
            ("d", "score.js:2"),
        ] {
            let told = format!("Error: no\n    at f (rule:score:{}:7)", line(text));
            assert_eq!(
                rule.with_places(&told),
                format!("Error: no\n    at f ({place}:7)")
            );
        }
        assert_eq!(
            rule.with_places("rule:score, and rule:score:x"),
            "rule:score, and rule:score:x"
        );
        assert_eq!(rule.with_places("rule:score:1:1"), "rule:score:1:1");
    }
}
