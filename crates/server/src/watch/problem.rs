//! Why the newest code is not in force, as a developer wants to read it: the error, its position and the lines around that, in the log and as
//! a page for browsers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_pool::Readiness;
use forebay_workflow::escape_markup;
use parking_lot::Mutex;

use super::Places;
use crate::{
    config::Config,
    failure::Refusal,
    front::Head,
    reply::{Body, Reply},
    target::Target,
};

/// Lines shown before and after the one with the error.
const LINES_AROUND: usize = 3;
/// Characters shown of a line.
const LINE_MAX: usize = 160;
/// Larger files are not shown.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Lines of an error in which a position is looked for.
const ERROR_LINES_MAX: usize = 200;

/// With `--watch`, the problems of the code and the configuration that are newer than those in force.
#[derive(Debug, Default)]
pub(crate) struct Problems(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Pools whose code in force is not the newest.
    stale: BTreeSet<String>,
    of_pools: BTreeMap<String, Arc<Problem>>,
    /// The problem of everything that is not a pool's alone.
    of_all: Option<Arc<Problem>>,
}

impl Problems {
    /// Adds pools whose code has changed, and returns all that are to be started again.
    pub(super) fn add_stale(&self, pools: BTreeSet<String>) -> BTreeSet<String> {
        let mut state = self.0.lock();
        state.stale.extend(pools);
        state.stale.clone()
    }

    /// Nothing newer can be read, or only as a whole.
    pub(super) fn set_all(&self, problem: Arc<Problem>) {
        self.0.lock().of_all = Some(problem);
    }

    /// Everything is in force except these pools.
    pub(super) fn set_pools(&self, of_pools: BTreeMap<String, Arc<Problem>>) {
        *self.0.lock() = State {
            stale: of_pools.keys().cloned().collect(),
            of_pools,
            of_all: None,
        };
    }

    /// The newest code is in force.
    pub(crate) fn clear(&self) {
        *self.0.lock() = State::default();
    }

    /// Refuses a browser's request for a page from code that is not the newest.
    pub(crate) fn check(&self, head: &Head, target: &Target, config: &Config) -> Result<(), Refusal> {
        if !head.accepts_html() {
            return Ok(());
        }
        let problem = match target {
            Target::Pool(target) => {
                let pool = target.pool();
                let known = self.0.lock().of_pools.get(pool.name()).cloned();
                known.or_else(|| match pool.readiness() {
                    Readiness::Failing(reason) => Some(Problem::of_start(pool.name(), &reason, config)),
                    Readiness::Starting | Readiness::Ready | Readiness::Stopped => None,
                })
            }
            Target::Script(_) | Target::Workflow(_) => None,
            _ => return Ok(()),
        };
        match problem.or_else(|| self.0.lock().of_all.clone()) {
            Some(problem) => Err(Refusal::NewestCode(problem)),
            None => Ok(()),
        }
    }
}

/// Why newer code is not in force.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    /// The part of the configuration that is not in force.
    subject: String,
    /// The first line of the error, without its position.
    message: String,
    location: Option<Location>,
    /// The lines around that position.
    frame: Vec<FrameLine>,
    /// The whole error.
    text: String,
}

/// A position in a file.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Location {
    file: PathBuf,
    /// 1-based.
    line: usize,
    /// In characters, 1-based; `None` if it is not known.
    column: Option<usize>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FrameLine {
    number: usize,
    text: String,
}

impl Problem {
    /// The problem of a pool that serves its previous version.
    pub(super) fn of_pool(name: &str, text: &str, config: &Config) -> Arc<Self> {
        let subject = format!("pool `{name}` is not restarted, its previous version keeps serving:");
        Self::new(subject, text, config)
    }

    /// The problem of a pool that has no previous version.
    pub(super) fn of_start(name: &str, text: &str, config: &Config) -> Arc<Self> {
        Self::new(format!("pool `{name}` does not start:"), text, config)
    }

    /// The problem of a reload that has changed nothing.
    pub(super) fn of_all(text: &str, config: &Config) -> Arc<Self> {
        Self::new(
            "not reloaded, the previous version keeps serving:".to_owned(),
            text,
            config,
        )
    }

    fn new(subject: String, text: &str, config: &Config) -> Arc<Self> {
        let roots = Places::of(config).roots();
        let location = locate(text, |file| {
            let file = fs::canonicalize(file).ok().filter(|file| file.is_file())?;
            let is_package = file
                .iter()
                .any(|part| part == "node_modules" || part == "site-packages");
            (!is_package && roots.iter().any(|root| file.starts_with(root))).then_some(file)
        });
        let (location, frame) = location.map_or_else(Default::default, Found::with_frame);
        let first = text.lines().next().unwrap_or_default();
        // A message that has its position in front does not say it twice.
        let message = location.as_ref().and_then(|location| {
            let (_, rest) = first.split_once(&*location.file.to_string_lossy())?;
            let (_, rest) = leading_number(rest.strip_prefix(':')?)?;
            let message = rest.trim_start_matches(|c: char| c == ':' || c.is_ascii_digit());
            Some(message.trim_start())
        });
        Arc::new(Self {
            subject,
            message: message.unwrap_or(first).to_owned(),
            location,
            frame,
            text: text.to_owned(),
        })
    }

    /// The page for browsers. It reloads itself once the problem is another one, or gone.
    pub(crate) fn page(&self) -> Reply<'static> {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        let id = format!("{:016x}", hasher.finish());
        let place = self
            .location
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let parts = [
            ("id", id.clone()),
            ("subject", escape_markup(&self.subject)),
            ("message", escape_markup(&self.message)),
            ("place", escape_markup(&place)),
            (
                "frame",
                match &self.location {
                    Some(_) => self.lines(|line, is_it| {
                        let (begin, end) = if is_it { ("<mark>", "</mark>") } else { ("", "") };
                        format!("{begin}{}{end}", escape_markup(line))
                    }),
                    None => escape_markup(&self.text),
                },
            ),
            ("text", escape_markup(&self.text)),
        ];
        let mut page = String::new();
        // The parts are put in where they stand, so that what looks like a placeholder within one stays.
        for (at, piece) in include_str!("error_page.html").split("{{").enumerate() {
            let (name, rest) = if at == 0 {
                ("", piece)
            } else {
                piece.split_once("}}").unwrap_or(("", piece))
            };
            page.extend(
                parts
                    .iter()
                    .find(|(part, _)| *part == name)
                    .map(|(_, text)| text.as_str()),
            );
            page.push_str(rest);
        }
        let mut reply = Reply::new(500);
        let headers = reply.headers.to_mut();
        headers.push_known("content-type", "text/html; charset=utf-8");
        headers.push_known("cache-control", "no-store");
        headers.push_known("x-forebay-problem", &id);
        reply.body = Body::Bytes(page.into());
        reply
    }

    /// The code frame: lines with their numbers, and a mark below the position. `show` gets each line and whether it is the one with the
    /// error.
    fn lines(&self, show: impl Fn(&str, bool) -> String) -> String {
        let Some(location) = &self.location else {
            return String::new();
        };
        let width = self.frame.last().map_or(1, |line| line.number.to_string().len());
        let mut out = String::new();
        for FrameLine { number, text } in &self.frame {
            let is_it = *number == location.line;
            let line = format!("{} {number:width$} | {text}", if is_it { '>' } else { ' ' });
            let _ = writeln!(out, "{}", show(line.trim_end(), is_it));
            if is_it && let Some(column) = location.column.filter(|column| *column <= LINE_MAX) {
                let before = text.chars().chain(std::iter::repeat(' ')).take(column - 1);
                let blank: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                let _ = writeln!(out, "  {:width$} | {blank}^", "");
            }
        }
        out
    }
}

impl fmt::Display for Problem {
    /// As a block of lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(location) = &self.location else {
            return write!(f, "{}\n{}", self.subject, self.text);
        };
        let frame = self.lines(|line, _| line.to_owned());
        write!(
            f,
            "{}\n{location}: {}\n\n{}",
            self.subject,
            self.message,
            frame.trim_end()
        )
    }
}

impl fmt::Display for Location {
    /// As `file:line:column`, which editors and terminals turn into a link; relative to the folder that the server was started in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", shortened(&self.file).display(), self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

/// The path relative to the current folder, if it is below that.
pub(super) fn shortened(file: &Path) -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    file.strip_prefix(current).unwrap_or(file).to_owned()
}

/// A position as an error states it.
#[derive(Debug, PartialEq, Eq)]
struct Found<'a> {
    location: Location,
    /// The line that the error quotes, and the one with marks below it.
    quoted: Option<(&'a str, &'a str)>,
}

/// Finds the innermost position in the stack of an error of JavaScript or Python, or the first in any other error. `source` turns a path
/// into that of a file of the application, if it is one.
fn locate<'a>(text: &'a str, source: impl Fn(&Path) -> Option<PathBuf>) -> Option<Found<'a>> {
    let lines: Vec<&str> = text.lines().take(ERROR_LINES_MAX).collect();
    let mut innermost = None;
    for (at, line) in lines.iter().enumerate() {
        let quoted = || {
            let (code, marks) = (*lines.get(at + 1)?, *lines.get(at + 2)?);
            let is_marks = marks.contains('^') && marks.chars().all(|c| matches!(c, ' ' | '\t' | '~' | '^'));
            is_marks.then_some((code, marks))
        };
        if let Some((file, line)) = python_position(line) {
            if let Some(file) = source(Path::new(file)) {
                let location = Location {
                    file,
                    line,
                    column: None,
                };
                // The outermost comes first.
                innermost = Some(Found {
                    location,
                    quoted: quoted(),
                });
            }
        } else if innermost.is_none()
            && let Some(location) = position(line, &source)
        {
            return Some(Found {
                location,
                quoted: quoted(),
            });
        }
    }
    innermost
}

/// A line of a traceback of Python: `File "PATH", line N`.
fn python_position(line: &str) -> Option<(&str, usize)> {
    let (file, rest) = line
        .trim_start()
        .strip_prefix("File \"")?
        .split_once("\", line ")?;
    Some((file, leading_number(rest)?.0))
}

/// A position anywhere in a line: `PATH:LINE`, `PATH:LINE:COLUMN`, or the same with a URL.
fn position(line: &str, source: impl Fn(&Path) -> Option<PathBuf>) -> Option<Location> {
    let begins = line.match_indices([' ', '(', '`']).map(|(at, _)| at + 1);
    std::iter::once(0).chain(begins).find_map(|begin| {
        let text = &line[begin..];
        let (text, is_url) = text
            .strip_prefix("file://")
            .map_or((text, false), |path| (path, true));
        text.match_indices(':').find_map(|(at, _)| {
            let (number, rest) = leading_number(&text[at + 1..])?;
            let path = if is_url {
                forebay_router::decode(&text[..at])?
            } else {
                text[..at].into()
            };
            let column = rest
                .strip_prefix(':')
                .and_then(leading_number)
                .map(|(column, _)| column);
            Some(Location {
                file: source(Path::new(&*path))?,
                line: number,
                column,
            })
        })
    })
}

/// The number that a text begins with, if it is not 0, and the rest.
fn leading_number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|number| *number > 0)?;
    Some((number, &text[end..]))
}

impl Found<'_> {
    /// The position with the lines around it, and with the column if the error only marks it.
    fn with_frame(self) -> (Option<Location>, Vec<FrameLine>) {
        let Self { mut location, quoted } = self;
        let is_shown = fs::metadata(&location.file).is_ok_and(|file| file.len() <= FILE_BYTES_MAX);
        let source = if is_shown {
            fs::read(&location.file).unwrap_or_default()
        } else {
            Vec::new()
        };
        let source = String::from_utf8_lossy(&source);
        let first = location.line.saturating_sub(LINES_AROUND + 1);
        let lines: Vec<_> = (source.lines().enumerate().skip(first))
            .take_while(|(at, _)| *at < location.line + LINES_AROUND)
            .collect();
        let line = lines.iter().find(|(at, _)| at + 1 == location.line);
        if let (None, Some((code, marks)), Some((_, line))) = (location.column, quoted, line) {
            let indent = |text: &str| text.chars().take_while(|c| c.is_whitespace()).count();
            let mark = marks.chars().take_while(|c| *c != '^').count();
            // Python quotes lines without their indentation.
            location.column = (mark + indent(line)).checked_sub(indent(code)).map(|at| at + 1);
        }
        let frame = lines.into_iter().map(|(at, text)| FrameLine {
            number: at + 1,
            text: text.chars().take(LINE_MAX).collect(),
        });
        let frame = frame.collect();
        (Some(location), frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position found in a text, if files of the application lie below `/app`.
    fn found(text: &str) -> Option<String> {
        let found = locate(text, |file| file.starts_with("/app").then(|| file.to_owned()))?;
        Some(found.location.to_string())
    }

    #[test]
    fn the_innermost_position_of_a_stack_is_found_whatever_the_language() {
        for (text, place) in [
            (
                "Error: no\n    at f (node:internal/x:3:1)\n    at file:///app/a%20b.mjs:3:9\n    at /app/c.mjs:1:1",
                "/app/a b.mjs:3:9",
            ),
            (
                "TypeError: no\n    at f (/lib/x.mjs:1:2)\n    at g (/app/a b.mjs:3:9)",
                "/app/a b.mjs:3:9",
            ),
            (
                "no\nfile:///app/lib/x.mjs:2\nexport const a = ;\n                 ^\n",
                "/app/lib/x.mjs:2",
            ),
            (
                "no\n  File \"/app/a.py\", line 2, in <module>\n  File \"/app/b.py\", line 30, in f\n  File \"/lib/x.py\", line 4",
                "/app/b.py:30",
            ),
            (
                "/app/api.ts:2:11: pool.api: SyntaxError: /app/b.ts:1:1",
                "/app/api.ts:2:11",
            ),
            (
                "SyntaxError: error: /app/b.ts:4:2: more than types",
                "/app/b.ts:4:2",
            ),
            (
                "/app/forebay.toml:6: pool.api.workers: found 1",
                "/app/forebay.toml:6",
            ),
        ] {
            assert_eq!(found(text).as_deref(), Some(place), "{text}");
        }
        for text in [
            "",
            "no: 3:4",
            "/app/a.mjs",
            "/lib/a.mjs:1:1",
            "file:///app/%zz:1:1",
            "File \"/app/a.py\", line x",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn a_page_shows_every_text_as_it_is() {
        let hostile = "<script>alert('{{id}}')</script> & \"more\"";
        let problem = Problem {
            subject: hostile.to_owned(),
            message: hostile.to_owned(),
            location: Some(Location {
                file: hostile.into(),
                line: 1,
                column: Some(1),
            }),
            frame: vec![FrameLine {
                number: 1,
                text: hostile.to_owned(),
            }],
            text: hostile.to_owned(),
        };
        let Body::Bytes(page) = problem.page().body else {
            panic!("it is in memory")
        };
        let page = String::from_utf8_lossy(&page);
        let shown = "&lt;script&gt;alert(&#39;{{id}}&#39;)&lt;/script&gt; &amp; &quot;more&quot;";
        assert_eq!(page.matches(shown).count(), 6, "{page}");
        assert_eq!(page.matches("<script>").count(), 1, "{page}");
    }
}
