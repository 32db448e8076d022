//! Imports lines into a store.

use std::{
    collections::HashSet,
    io::{BufRead, Read as _},
};

use crate::{durability::Durability, key::Key, read::Read as _, store::Store, transaction::Transaction};

use super::{Format, LineError, Progress, TransferError, item::Content, ndjson, zwr};

/// Most globals that one import can replace.
const REPLACED_MAX: usize = 100_000;
/// Longest line as a multiple of the longest value: a line also has a path, and ZWR writes a control character as four
/// to six.
const LINE_PER_VALUE: usize = 6;

/// Options of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Format of the lines; `None` detects it from the first line.
    pub format: Option<Format>,
    /// Empty each global before its first line. Otherwise lines are merged into existing data.
    pub replace: bool,
    /// First line to apply, from 1: to resume an import that failed.
    pub from_line: u64,
    /// Most lines in one transaction.
    pub transaction_lines_max: usize,
    /// Bytes of lines after which a transaction is committed.
    pub transaction_bytes_max: usize,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            format: None,
            replace: false,
            from_line: 1,
            transaction_lines_max: 10_000,
            transaction_bytes_max: 16 << 20,
        }
    }
}

/// Writes lines into a store, in transactions of bounded size. `progress` is called after each of them. Lines reported
/// as committed are on the disk when this returns, also when it fails.
///
/// Importing the same lines twice has no further effect.
pub fn import(
    store: &Store,
    input: &mut dyn BufRead,
    options: &ImportOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Progress, TransferError> {
    let mut import = Import {
        store,
        options,
        so_far: Progress::default(),
        form: match options.format {
            None => Form::Unknown,
            Some(Format::Ndjson) => Form::Ndjson,
            Some(Format::Zwr) => Form::ZwrHead,
        },
        waiting: Vec::new(),
        begun: HashSet::new(),
    };
    let outcome = loop {
        match import.round(input) {
            Ok(true) => progress(&import.so_far),
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let flushed = store.flush();
    outcome?;
    flushed?;
    progress(&import.so_far);
    Ok(import.so_far)
}

/// Expected form of the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unknown,
    Ndjson,
    /// The first line of the heading.
    ZwrHead,
    /// The second line of the heading.
    ZwrFormat {
        utf8: bool,
    },
    Zwr {
        utf8: bool,
    },
}

struct Import<'a> {
    store: &'a Store,
    options: &'a ImportOptions,
    so_far: Progress,
    form: Form,
    /// Own values of arrays that have no elements yet. Written now, they would turn the arrays into objects.
    waiting: Vec<Waiting>,
    /// Globals that have had a line.
    begun: HashSet<String>,
}

struct Waiting {
    line: u64,
    key: Key,
    value: Vec<u8>,
}

struct Parsed {
    line: u64,
    key: Key,
    content: Content<'static>,
    /// Whether this is the first line of a global to be emptied.
    empties: bool,
}

impl Import<'_> {
    /// Reads lines for one transaction, then writes them; `false` at the end of the input.
    fn round(&mut self, input: &mut dyn BufRead) -> Result<bool, TransferError> {
        let mut parsed = Vec::new();
        let (mut line, mut bytes) = (Vec::new(), 0);
        let mut ended = false;
        let first = self.so_far.lines;
        while bytes < self.options.transaction_bytes_max
            && self.so_far.lines - first < self.options.transaction_lines_max as u64
        {
            if !self.read_line(input, &mut line)? {
                ended = true;
                break;
            }
            bytes += line.len();
            let number = self.so_far.lines;
            let read = self.parse(&line).map_err(|reason| self.wrong(number, reason))?;
            parsed.extend(read);
        }
        if ended && parsed.is_empty() && self.waiting.is_empty() {
            self.so_far.committed_lines = self.so_far.lines;
            return Ok(false);
        }
        self.write(parsed, ended)?;
        Ok(!ended)
    }

    fn wrong(&self, line: u64, reason: LineError) -> TransferError {
        TransferError::Line {
            line,
            committed: self.so_far.committed_lines,
            reason,
        }
    }

    fn read_line(&mut self, input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<bool, TransferError> {
        line.clear();
        let number = self.so_far.lines + 1;
        let max = self
            .store
            .options()
            .value_bytes_max
            .saturating_mul(LINE_PER_VALUE);
        let count = input
            .take(max as u64)
            .read_until(b'\n', line)
            .map_err(|source| TransferError::Read {
                line: number,
                committed: self.so_far.committed_lines,
                source,
            })?;
        if count == max && line.last() != Some(&b'\n') {
            return Err(self.wrong(number, LineError::TooLong { max }));
        }
        self.so_far.lines += u64::from(count > 0);
        self.so_far.bytes += count as u64;
        Ok(count > 0)
    }

    /// Parses a line; `None` if it has no content.
    fn parse(&mut self, line: &[u8]) -> Result<Option<Parsed>, LineError> {
        let text = line.trim_ascii_end();
        if self.form == Form::Unknown {
            self.form = match text.first() {
                None => return Ok(None),
                Some(b'{') => Form::Ndjson,
                Some(b'^') => Form::Zwr { utf8: true },
                Some(_) => Form::ZwrHead,
            };
        }
        match self.form {
            Form::ZwrHead if text.first() != Some(&b'^') => {
                self.form = Form::ZwrFormat {
                    utf8: text.ends_with(b"UTF-8"),
                };
                return Ok(None);
            }
            Form::ZwrFormat { utf8 } => {
                if !text.ends_with(b"ZWR") {
                    return Err(LineError::UnknownFormat);
                }
                self.form = Form::Zwr { utf8 };
                return Ok(None);
            }
            Form::ZwrHead => self.form = Form::Zwr { utf8: true },
            Form::Unknown | Form::Ndjson | Form::Zwr { .. } => {}
        }
        let wanted = self.so_far.lines >= self.options.from_line;
        if text.is_empty() || !wanted && !self.options.replace {
            return Ok(None);
        }
        let read = match self.form {
            Form::Zwr { utf8 } => zwr::read(text, utf8),
            _ => ndjson::read(text),
        };
        // A skipped line may be the one that could not be parsed.
        let (key, content) = match read {
            Err(_) if !wanted => return Ok(None),
            read => read?,
        };
        let about_node = !matches!(content, Content::Index(_));
        let empties = self.options.replace && about_node && self.begin(&key)?;
        Ok(wanted.then_some(Parsed {
            line: self.so_far.lines,
            key,
            content,
            empties,
        }))
    }

    /// Remembers the line's global; true for its first line.
    fn begin(&mut self, key: &Key) -> Result<bool, LineError> {
        if self.begun.contains(key.global_name()) {
            return Ok(false);
        }
        if self.begun.len() == REPLACED_MAX {
            return Err(LineError::TooManyGlobals { max: REPLACED_MAX });
        }
        Ok(self.begun.insert(key.global_name().to_owned()))
    }

    fn write(&mut self, parsed: Vec<Parsed>, ended: bool) -> Result<(), TransferError> {
        let mut transaction = self.store.begin()?;
        transaction.prefetch(parsed.iter().map(|item| &item.key))?;
        for item in parsed {
            let line = item.line;
            self.apply(&mut transaction, item)
                .map_err(|reason| self.wrong(line, reason))?;
        }
        let last = self.so_far.lines;
        if ended {
            self.settle(&mut transaction, None)
                .map_err(|reason| self.wrong(last, reason))?;
        }
        transaction
            .commit(Durability::Relaxed)
            .map_err(|error| self.wrong(last, error.into()))?;
        self.so_far.committed_lines = self.waiting.first().map_or(last, |waiting| waiting.line - 1);
        Ok(())
    }

    fn apply(&mut self, transaction: &mut Transaction, item: Parsed) -> Result<(), LineError> {
        let Parsed {
            line,
            key,
            content,
            empties,
        } = item;
        if empties {
            transaction.kill(&Key::global(key.global_name())?)?;
        }
        self.settle(transaction, Some(&key))?;
        match content {
            Content::Value(text) | Content::Document(text) => {
                transaction.lay_over(&key, &text)?;
                self.settle(transaction, None)?;
            }
            Content::Expires(at_ms) => {
                self.settle(transaction, None)?;
                if !transaction.expire(&key, Some(at_ms))? {
                    return Err(LineError::NoNode);
                }
            }
            Content::Index(definition) => {
                self.settle(transaction, None)?;
                transaction.define_index(&definition)?;
            }
            Content::Array(own) => {
                if !transaction.defined(&key)?.exists() {
                    transaction.put(&key, b"[]")?;
                }
                self.settle(transaction, None)?;
                self.waiting.extend(own.map(|value| Waiting {
                    line,
                    key,
                    value: value.into_owned(),
                }));
            }
        }
        Ok(())
    }

    /// Writes the values of waiting arrays, except of those whose first element comes next.
    fn settle(&mut self, transaction: &mut Transaction, next: Option<&Key>) -> Result<(), LineError> {
        while let Some(waiting) = self.waiting.last() {
            let holds = |next: &Key| crate::key::within(next.as_bytes(), waiting.key.as_bytes());
            if next.is_some_and(holds) {
                break;
            }
            transaction.set(&waiting.key, &waiting.value)?;
            self.waiting.pop();
        }
        Ok(())
    }
}
