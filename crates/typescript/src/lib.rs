//! Turns TypeScript into JavaScript by erasing whatever is only types. Each erased character becomes a space, so every line and column
//! stays the same and no source map is needed. (A `;` remains where a statement without one could merge with the next line.) An enum becomes
//! an object on the same lines. Other constructs that need generated code (namespaces, parameter properties) are refused.
//!
//! Apart from enums, the rules are those of TypeScript's `erasableSyntaxOnly` and of Node's own type stripping. Only one file is looked at, so a name
//! imported just as a type needs `import type` or `import { type Name }`.
//!
//! With the same parser, [`unawaited_calls`] finds mistakes in the rules of workflows, and [`handler_problems`] those that keep a handler from
//! being loaded.

#![forbid(unsafe_code)]

mod advice;
mod enums;
mod handler;
mod unawaited;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use swc_common::{
    GLOBALS, Globals, SourceMap, Span,
    errors::{DiagnosticBuilder, DiagnosticId, Emitter, Handler},
    sync::Lrc,
};
use swc_ts_fast_strip::{Mode, Options};

pub use self::{handler::handler_problems, unawaited::unawaited_calls};

/// Stack of an analysis, whose recursion follows the syntax tree. The length of what it analyses bounds its depth.
const STACK_BYTES: usize = 256 << 20;

/// An error that prevents erasing a file's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 1-based.
    pub line: usize,
    /// In characters, 1-based.
    pub column: usize,
    /// The error, with a suggestion where there is one.
    pub message: String,
}

/// The file cannot be erased: it is not valid TypeScript, or it contains constructs that are more than types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.file, .problems))]
pub struct StripError {
    /// The file's name as it was given.
    pub file: String,
    /// At least one, in file order.
    pub problems: Vec<Problem>,
}

/// One problem a line as `file:line:column: message`, which editors and terminals turn into links.
fn lines(file: &str, problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| format!("{file}:{problem}"))
        .collect();
    lines.join("\n")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Erases the types of an ES module, and converts its enums. `file` is its name in errors.
pub fn strip(source: &str, file: &str) -> Result<String, StripError> {
    let stripped = erased(source, file);
    let has_enum = |refused: &StripError| {
        refused
            .problems
            .iter()
            .any(|problem| problem.message == advice::ENUM)
    };
    match stripped.as_ref().err().filter(|refused| has_enum(refused)) {
        Some(_) => enums::converted(source).map_or(stripped, |converted| erased(&converted, file)),
        None => stripped,
    }
}

fn erased(source: &str, file: &str) -> Result<String, StripError> {
    let map = Lrc::new(SourceMap::default());
    let found = Found::default();
    let handler = Handler::with_emitter(false, false, Box::new(found.clone()));
    let options = Options {
        module: Some(true),
        filename: Some(file.to_owned()),
        mode: Mode::StripOnly,
        ..Options::default()
    };
    let stripped = GLOBALS.set(&Globals::new(), || {
        swc_ts_fast_strip::operate(&map, &handler, source.to_owned(), options)
    });
    stripped.map(|output| output.code).map_err(|error| {
        let mut problems: Vec<Problem> = found
            .take()
            .into_iter()
            .map(|complaint| complaint.locate(&map))
            .collect();
        if problems.is_empty() {
            problems.push(Problem {
                line: 1,
                column: 1,
                message: error.message,
            });
        }
        problems.sort_by_key(|problem| (problem.line, problem.column));
        StripError {
            file: file.to_owned(),
            problems,
        }
    })
}

/// Runs an analysis on a thread with a deep stack. `None` if the thread cannot be started or the analysis panics.
fn on_deep_stack<T: Send>(analysis: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, analysis).ok()?.join().ok()
    })
}

/// One diagnostic from the stripper.
struct Complaint {
    span: Span,
    message: String,
    /// Valid TypeScript, but more than types.
    refused: bool,
}

impl Complaint {
    fn locate(self, map: &SourceMap) -> Problem {
        let place = map.lookup_char_pos(self.span.lo());
        let at =
            usize::try_from((self.span.lo() - place.file.start_pos).0).expect("a position fits into memory");
        let (before, at) = place.file.src.split_at_checked(at).unwrap_or_default();
        let advice = if self.refused {
            advice::about_refused(before, at)
        } else {
            advice::about_not_understood(at)
        };
        let message = advice.map_or(self.message, str::to_owned);
        Problem {
            line: place.line,
            column: place.col.0 + 1,
            message,
        }
    }
}

/// Collects diagnostics.
#[derive(Clone, Default)]
struct Found(Arc<Mutex<Vec<Complaint>>>);

impl Found {
    fn take(&self) -> Vec<Complaint> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Emitter for Found {
    fn emit(&mut self, diagnostic: &mut DiagnosticBuilder<'_>) {
        let complaint = Complaint {
            span: diagnostic.span.primary_span().unwrap_or_default(),
            message: diagnostic.message(),
            refused: diagnostic.code == Some(DiagnosticId::Error("UnsupportedSyntax".to_owned())),
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(complaint);
    }
}
