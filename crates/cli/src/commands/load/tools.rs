//! Command lines of other tools, as the founding benchmarks print them. Each tool is a table of flags onto the options of `forebay load`; a
//! default of the tool that differs from ours is set by its table too, so that a line means here what it means there. The report is ours,
//! with the rows that the tool has.

mod tables;

use std::{ffi::OsString, fmt::Write as _};

use super::arguments::Options;

/// A tool whose command lines are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Autocannon,
    Ab,
    Hose,
    GoWrk,
    Jmeter,
}

/// A tool's command line.
pub(super) struct Table {
    /// As it is typed.
    pub(super) name: &'static str,
    /// How flags are written.
    grammar: Grammar,
    /// What follows the flags.
    pub(super) operands: &'static str,
    /// What the tool does when no flag says otherwise.
    defaults: fn(&mut Options),
    flags: &'static [Flag],
    /// Takes the operands, and checks what flags say together.
    finish: fn(&mut Options, &[String]) -> Result<(), String>,
}

/// How flags are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    /// `-c 10`, `-c10`, `-kc 10`, `--connections 10`, `--connections=10`.
    Getopt,
    /// `-c 10`, `-c=10`, `-cert file`; a switch takes a value only after `=`.
    Go,
}

/// Names with their dashes, what it does, and its help.
struct Flag(&'static [&'static str], Effect, &'static str);

/// What a flag does. A value's name stands before the function that takes it.
enum Effect {
    Value(&'static str, fn(&mut Options, &str) -> Result<(), String>),
    Switch(fn(&mut Options)),
    Help,
}

/// What a tool's command line asks for.
#[derive(Debug)]
pub(crate) enum Line {
    /// A run.
    Run(Box<Options>),
    /// Its help.
    Help(String),
}

impl Tool {
    #[cfg(test)]
    pub(super) const ALL: [Self; 5] = [Self::Autocannon, Self::Ab, Self::Hose, Self::GoWrk, Self::Jmeter];

    pub(super) fn table(self) -> &'static Table {
        match self {
            Self::Autocannon => &tables::AUTOCANNON,
            Self::Ab => &tables::AB,
            Self::Hose => &tables::HOSE,
            Self::GoWrk => &tables::GO_WRK,
            Self::Jmeter => &tables::JMETER,
        }
    }

    /// Reads its command line, without the tool's name.
    pub(crate) fn read(self, words: &[OsString]) -> Result<Line, String> {
        let table = self.table();
        let mut options = Options::default();
        (table.defaults)(&mut options);
        let Some(operands) = table.read(words, &mut options)? else {
            return Ok(Line::Help(table.help()));
        };
        (table.finish)(&mut options, &operands)?;
        // The tools take more threads than connections; the surplus would do nothing.
        if let (Some(threads), Some(connections)) = (options.threads, options.connections) {
            options.threads = Some(threads.min(connections));
        }
        Ok(Line::Run(Box::new(options)))
    }
}

impl Table {
    /// Puts into the options what the flags say, and returns the operands; `None` when help is asked for.
    fn read(&self, words: &[OsString], options: &mut Options) -> Result<Option<Vec<String>>, String> {
        let mut operands = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str() else {
                return Err(format!("found {}, which is not UTF-8", word.display()));
            };
            if text == "--" {
                options.command = words.cloned().collect();
                break;
            }
            if !text.starts_with('-') || text == "-" {
                operands.push(text.to_owned());
                continue;
            }
            let mut following = || words.next().and_then(|word| word.to_str()).map(str::to_owned);
            let goes_on = match self.grammar {
                // Go takes one dash and two for the same.
                Grammar::Go => self.one(
                    &format!("-{}", text.trim_start_matches('-')),
                    &mut following,
                    options,
                )?,
                Grammar::Getopt if text.starts_with("--") => self.one(text, &mut following, options)?,
                Grammar::Getopt => self.bundle(text, &mut following, options)?,
            };
            if !goes_on {
                return Ok(None);
            }
        }
        Ok(Some(operands))
    }

    /// A word that is one flag, with its value behind `=` or in the next word. False: help was asked for.
    fn one(
        &self,
        text: &str,
        following: &mut dyn FnMut() -> Option<String>,
        options: &mut Options,
    ) -> Result<bool, String> {
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        match (&self.find(name)?.1, inline) {
            (Effect::Help, _) => return Ok(false),
            (Effect::Switch(switch), None) => switch(options),
            (Effect::Switch(switch), Some(value)) if self.grammar == Grammar::Go => match value {
                "true" | "1" | "t" => switch(options),
                "false" | "0" | "f" => {}
                _ => return Err(format!("{name}: found {value:?}, expected true or false")),
            },
            (Effect::Switch(_), Some(value)) => {
                return Err(format!("{name}: found {value:?}, it takes no value"));
            }
            (Effect::Value(what, set), inline) => {
                let value = match inline {
                    Some(value) => value.to_owned(),
                    None => following_value(name, what, following)?,
                };
                set(options, &value).map_err(|wrong| format!("{name}: {wrong}"))?;
            }
        }
        Ok(true)
    }

    /// A word of one-letter flags; the value of the last may follow at once. False: help was asked for.
    fn bundle(
        &self,
        text: &str,
        following: &mut dyn FnMut() -> Option<String>,
        options: &mut Options,
    ) -> Result<bool, String> {
        for (at, letter) in text[1..].char_indices() {
            let name = format!("-{letter}");
            let rest = &text[1 + at + letter.len_utf8()..];
            match &self.find(&name)?.1 {
                Effect::Help => return Ok(false),
                Effect::Switch(switch) => switch(options),
                Effect::Value(what, set) => {
                    let value = match rest.strip_prefix('=').unwrap_or(rest) {
                        "" => following_value(&name, what, following)?,
                        value => value.to_owned(),
                    };
                    set(options, &value).map_err(|wrong| format!("{name}: {wrong}"))?;
                    break;
                }
            }
        }
        Ok(true)
    }

    fn find(&self, name: &str) -> Result<&Flag, String> {
        let flag = self.flags.iter().find(|flag| flag.0.contains(&name));
        flag.ok_or_else(|| format!("{name}: no such flag; --help lists what is understood"))
    }

    /// The tool's help.
    fn help(&self) -> String {
        let mut text = format!("Usage: forebay load {} [flags] {}\n\n", self.name, self.operands);
        for (flag, meaning) in self.meanings() {
            // A String takes everything.
            let _ = writeln!(text, "  {flag:<34} {meaning}");
        }
        text
    }

    /// Each flag as it is written, and its help.
    pub(super) fn meanings(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.flags.iter().map(|Flag(names, effect, help)| {
            let value = match effect {
                Effect::Value(value, _) => format!(" {value}"),
                Effect::Switch(_) | Effect::Help => String::new(),
            };
            (names.join(", ") + &value, *help)
        })
    }
}

/// The value in the next word; a word that opens a bracket goes on to the one that closes it.
fn following_value(
    name: &str,
    what: &str,
    following: &mut dyn FnMut() -> Option<String>,
) -> Result<String, String> {
    let mut value = following().ok_or_else(|| format!("{name}: its {what} is missing"))?;
    if value == "[" {
        while !value.ends_with(" ]") {
            let word = following().ok_or_else(|| format!("{name}: the bracket is not closed"))?;
            value = format!("{value} {word}");
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
