//! Reads the words of a command line by a table of flags.

use std::{ffi::OsString, fmt::Write as _};

use super::Options;

/// Sets an option from a flag's value.
type Set = fn(&mut Options, &str) -> Result<(), String>;
/// Sets an option by a flag that has none.
type Switch = fn(&mut Options);

/// A tool's command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// How flags are written.
    pub(super) grammar: Grammar,
    /// What follows the flags.
    pub(crate) operands: &'static str,
    /// What the tool does when no flag says otherwise.
    pub(super) defaults: fn(&mut Options),
    /// Its flags.
    pub(super) flags: &'static [Flag],
    /// Takes the operands, and checks what flags say together.
    pub(super) finish: fn(&mut Options, &[String]) -> Result<(), String>,
}

/// How flags are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// `-c 10`, `-c10`, `-kc 10`, `--connections 10`, `--connections=10`.
    Getopt,
    /// `-c 10`, `-c=10`, `-cert file`; a switch takes a value only after `=`.
    Go,
}

/// A flag of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// With their dashes.
    pub(super) names: &'static [&'static str],
    /// The name of its value, if it has one.
    pub(super) value: Option<&'static str>,
    pub(super) effect: Effect,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// What it does, as its help says.
    Sets(&'static str, Set),
    /// The same.
    Switches(&'static str, Switch),
    /// Why it is not understood.
    Refused(&'static str),
    Help,
}

impl Flag {
    /// With a value.
    pub(super) const fn value(
        names: &'static [&'static str],
        value: &'static str,
        help: &'static str,
        set: Set,
    ) -> Self {
        Self {
            names,
            value: Some(value),
            effect: Effect::Sets(help, set),
        }
    }

    /// Without one.
    pub(super) const fn switch(names: &'static [&'static str], help: &'static str, switch: Switch) -> Self {
        Self {
            names,
            value: None,
            effect: Effect::Switches(help, switch),
        }
    }

    /// One that cannot be meant here.
    pub(super) const fn refused(names: &'static [&'static str], why: &'static str) -> Self {
        Self {
            names,
            value: None,
            effect: Effect::Refused(why),
        }
    }

    /// The one that asks for help.
    pub(super) const fn help(names: &'static [&'static str]) -> Self {
        Self {
            names,
            value: None,
            effect: Effect::Help,
        }
    }

    fn is(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// Does what it does. False: help was asked for.
    fn apply(&self, name: &str, value: &str, options: &mut Options) -> Result<bool, String> {
        match self.effect {
            Effect::Help => Ok(false),
            Effect::Refused(why) => Err(format!("{name}: {why}")),
            Effect::Switches(_, switch) => {
                switch(options);
                Ok(true)
            }
            Effect::Sets(_, set) => {
                set(options, value).map_err(|wrong| format!("{name}: {wrong}"))?;
                Ok(true)
            }
        }
    }
}

/// Puts into the options what the flags say, and returns the operands; `None` when help is asked for.
pub(super) fn read(
    table: &Table,
    words: &[OsString],
    options: &mut Options,
) -> Result<Option<Vec<String>>, String> {
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
        let goes_on = match table.grammar {
            Grammar::Go => one(table, &normal(text), &mut following, options)?,
            Grammar::Getopt if text.starts_with("--") => one(table, text, &mut following, options)?,
            Grammar::Getopt => bundle(table, text, &mut following, options)?,
        };
        if !goes_on {
            return Ok(None);
        }
    }
    Ok(Some(operands))
}

/// Go takes one dash and two for the same.
fn normal(text: &str) -> String {
    format!("-{}", text.trim_start_matches('-'))
}

/// A word that is one flag, with its value behind `=` or in the next word.
fn one(
    table: &Table,
    text: &str,
    following: &mut dyn FnMut() -> Option<String>,
    options: &mut Options,
) -> Result<bool, String> {
    let (name, inline) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let flag = find(table, name)?;
    let value = match (flag.value, inline) {
        (Some(_), Some(value)) => value,
        (Some(what), None) => following_value(name, what, following)?,
        (None, Some(value)) if table.grammar == Grammar::Go => match value.as_str() {
            "true" | "1" | "t" => String::new(),
            "false" | "0" | "f" => return Ok(true),
            _ => return Err(format!("{name}: found {value:?}, expected true or false")),
        },
        (None, Some(value)) if matches!(flag.effect, Effect::Switches(..)) => {
            return Err(format!("{name}: found {value:?}, it takes no value"));
        }
        (None, _) => String::new(),
    };
    flag.apply(name, &value, options)
}

/// A word of one-letter flags; the value of the last may follow at once.
fn bundle(
    table: &Table,
    text: &str,
    following: &mut dyn FnMut() -> Option<String>,
    options: &mut Options,
) -> Result<bool, String> {
    for (at, letter) in text[1..].char_indices() {
        let name = format!("-{letter}");
        let flag = find(table, &name)?;
        let rest = &text[1 + at + letter.len_utf8()..];
        if let Some(what) = flag.value {
            let value = match rest.strip_prefix('=').unwrap_or(rest) {
                "" => following_value(&name, what, following)?,
                value => value.to_owned(),
            };
            return flag.apply(&name, &value, options);
        }
        if !flag.apply(&name, "", options)? {
            return Ok(false);
        }
        if rest.is_empty() {
            break;
        }
    }
    Ok(true)
}

/// The value in the next word; a word that opens a bracket goes on to the one that closes it.
fn following_value(
    name: &str,
    what: &str,
    following: &mut dyn FnMut() -> Option<String>,
) -> Result<String, String> {
    let missing = || format!("{name}: its {what} is missing");
    let mut value = following().ok_or_else(missing)?;
    if value == "[" {
        loop {
            let word = following().ok_or_else(|| format!("{name}: the bracket is not closed"))?;
            value.push(' ');
            value.push_str(&word);
            if word == "]" {
                break;
            }
        }
    }
    Ok(value)
}

fn find<'a>(table: &'a Table, name: &str) -> Result<&'a Flag, String> {
    let unknown = || format!("{name}: no such flag; --help lists what is understood");
    table.flags.iter().find(|flag| flag.is(name)).ok_or_else(unknown)
}

/// The tool's help.
pub(super) fn help(name: &str, table: &Table) -> String {
    let mut text = format!("Usage: forebay load {name} [flags] {}\n\n", table.operands);
    for (flag, meaning) in meanings(table) {
        let _ = writeln!(text, "  {flag:<34} {meaning}");
    }
    text
}

/// Each flag, and what it does.
pub(crate) fn meanings(table: &Table) -> impl Iterator<Item = (String, String)> {
    table.flags.iter().map(|flag| {
        let meaning = match flag.effect {
            Effect::Sets(help, _) | Effect::Switches(help, _) => help.to_owned(),
            Effect::Refused(why) => format!("Refused: {why}."),
            Effect::Help => "Print this list.".to_owned(),
        };
        (spelt(flag), meaning)
    })
}

/// Its names, and its value's.
fn spelt(flag: &Flag) -> String {
    let names = flag.names.join(", ");
    match flag.value {
        Some(value) => format!("{names} {value}"),
        None => names,
    }
}
