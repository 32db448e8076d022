//! TypeScript to JavaScript by erasing what is only types: each erased character becomes a space, so every line and column
//! stays where it was and no source map is needed. (A `;` stays where a statement without one might swallow the next line.) What would need code of its own (enums, namespaces, parameter properties) is refused.
//!
//! The rules are those of TypeScript's `erasableSyntaxOnly`, and of Node where it strips types itself. Erasing looks at one file only:
//! a name that is imported just as a type must be imported by `import type` or `import { type Name }`.

#![forbid(unsafe_code)]

mod advice;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use swc_common::{
    GLOBALS, Globals, SourceMap, Span,
    errors::{DiagnosticBuilder, DiagnosticId, Emitter, Handler},
    sync::Lrc,
};
use swc_ts_fast_strip::{Mode, Options};

/// Something that stands in the way of erasing a file's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is found, and what to write instead where that is known.
    pub message: String,
}

/// Why a text has no JavaScript: it is not TypeScript, or not only types would have to go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.file, .problems))]
pub struct StripError {
    /// The file's name as it was given.
    pub file: String,
    /// At least one, in the order of the file.
    pub problems: Vec<Problem>,
}

/// A problem a line, in the form `file:line:column: message` that editors and terminals make a link of.
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

/// Erases the types of an ES module. `file` is its name in errors.
pub fn strip(source: &str, file: &str) -> Result<String, StripError> {
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

/// What the stripper complains about.
struct Complaint {
    span: Span,
    message: String,
    /// It is TypeScript, and more than types.
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

/// Collects complaints.
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
