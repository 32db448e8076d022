//! Rules: scripts with a function `process(context)`.

mod builtin_tasks;
pub(crate) mod engine;
mod evaluator;
pub(crate) mod libraries;
mod text;

use std::{
    fmt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use forebay_workflow::{Required, RuleFile};
use rquickjs::{CatchResultExt as _, CaughtError, Context, Ctx, Function, Runtime, context::EvalOptions};

use self::text::{imports_as_requires, required};
use crate::{Fault, check::thrown, instance::describe};

/// A rule: files that the engine sees as one text, so that each sees the declarations of the earlier ones. The last one should declare
/// `process`.
pub struct Rule {
    /// Unique number of the rule.
    pub(crate) id: u64,
    name: String,
    /// The file name for the engine.
    file: String,
    /// The beginning of `source`.
    opening: &'static str,
    /// Modules that its files require.
    required: Vec<Required>,
    /// Source of a function that evaluates the files anew on each call, and returns their `process`.
    source: String,
    /// Length of the part of `source` behind the files, in bytes.
    tail: usize,
    /// The files, each with the number of lines before it in `source`.
    files: Vec<(u32, String)>,
}

/// Text before the files of a rule.
const OPENING: &str = "(() => {\n";
/// Text before the file of a module.
const MODULE_OPENING: &str = "((exports, require, module) => {\n";
/// Keywords of declarations that a module may export.
const DECLARED: [&str; 6] = ["const", "let", "var", "function", "async", "class"];

impl fmt::Debug for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Rule")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// Creates a rule from its files, in order.
    pub fn new(name: &str, files: &[RuleFile]) -> Self {
        Self::of(name, files, "process")
    }

    /// Creates a module with this path, for rules and other modules to require. Each run loads it anew, so that no run sees the state of
    /// another.
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

    /// Creates a function of a decision: a module that exports `handler`, or a text that declares `main`.
    pub fn function(name: &str, file: &RuleFile) -> Self {
        // Without modules there is nothing to export to. Columns behind the word are kept.
        let export = "export ";
        let mut text = String::with_capacity(file.text.len());
        for line in file.text.split_inclusive('\n') {
            let (indent, code) = line.split_at(line.len() - line.trim_start().len());
            let is_export = DECLARED.iter().any(|word| {
                let rest = code.strip_prefix(export).and_then(|rest| rest.strip_prefix(word));
                rest.is_some_and(|rest| rest.starts_with([' ', '*']))
            });
            if is_export {
                text.extend([indent, "       ", &code[export.len()..]]);
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
        // An arrow function has neither `arguments` nor `prototype`, so nothing of it survives a run.
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
            // A line comment at the end of a file must not hide what follows.
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

    /// The name of the rule.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The modules that its files require by constant names.
    pub fn required(&self) -> &[Required] {
        &self.required
    }

    /// Compiles the rule without running it. The error has its location.
    pub fn check(&self) -> Result<(), Fault> {
        let first = Path::new(self.files.first().map_or("", |(_, name)| name));
        let context = Runtime::new().and_then(|runtime| Context::full(&runtime));
        let compiled = match context {
            Ok(context) => context.with(|ctx| {
                // The `throw` comes first, so nothing behind it runs, even if the text closes the enclosing braces early. No text can close
                // both kinds.
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

    /// Checks that the rule declares `process`, without running it.
    pub fn check_process(&self) -> Result<(), Fault> {
        // To declare it once more is an error only if it is declared.
        let again = format!("throw 0; (() => {{\n{};\nlet process; }})", self.text());
        let context = Runtime::new().and_then(|runtime| Context::full(&runtime));
        if context.is_ok_and(|context| context.with(|ctx| self.parse(&ctx, &again)).is_ok()) {
            return Err(Fault {
                file: self.files.last().map_or("", |(_, name)| name).into(),
                line: None,
                column: None,
                what: "it declares no function `process`, which rules are called by".to_owned(),
            });
        }
        Ok(())
    }

    /// The text of the files in `source`.
    fn text(&self) -> &str {
        let end = self.source.len() - self.tail;
        &self.source[self.opening.len()..end]
    }

    /// Parses a script that throws 0 before anything else.
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

    /// Compiles [`Self::source`] into its function.
    pub(crate) fn compile<'js>(&self, ctx: &Ctx<'js>) -> Result<Function<'js>, String> {
        let compiled: rquickjs::Result<Function<'js>> =
            ctx.eval_with_options(self.source.as_str(), self.options());
        compiled
            .catch(ctx)
            .map_err(|error| self.with_places(&describe(&error)))
    }

    /// Replaces locations in an engine's error by locations in the files.
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
    fn a_rule_declares_process() {
        for (text, is_rule) in [
            ("function process(context) {}", true),
            ("async function process() { return 1; }", true),
            ("const process = () => 1", true),
            ("var process = function () {};", true),
            ("function proces(context) {}\n// process", false),
            ("{ function other() { const process = 1; } }", false),
            ("", false),
        ] {
            let file = RuleFile {
                name: "r.js".into(),
                text: text.into(),
            };
            assert_eq!(Rule::new("r", &[file]).check_process().is_ok(), is_rule, "{text}");
        }
    }

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
