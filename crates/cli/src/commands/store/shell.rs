//! `shell`: the other commands as words, on a store that stays open.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Parser as _;
use rustyline::{DefaultEditor, error::ReadlineError};

use crate::{failure, output};

use super::{Open, StoreFailure, data::Data};

/// Type commands on one store: `get`, `set` and the others as words, `help`, `exit`
#[derive(Debug, clap::Args)]
pub(super) struct StoreShellArgs {
    #[command(flatten)]
    data: Data,
}

/// A line that was typed.
#[derive(Debug, clap::Parser)]
#[command(
    no_binary_name = true,
    name = "",
    disable_help_flag = true,
    help_template = "{subcommands}\n\nA command's options: `help COMMAND`. A text with spaces stands between single quotes; JSON needs none."
)]
struct Line {
    #[command(subcommand)]
    command: Word,
}

#[derive(Debug, clap::Subcommand)]
enum Word {
    #[command(flatten)]
    Open(Open),
    /// Leave; so does the end of the input
    Exit,
}

/// Whether to read another line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    End,
}

pub(super) fn run(arguments: &StoreShellArgs) -> anyhow::Result<()> {
    // Stays open, so that each command finds the store open.
    let _store = arguments.data.write_or_make()?;
    let folder = arguments.data.folder.to_string_lossy();
    if io::stdin().is_terminal() && output::is_terminal() {
        return typed(&folder);
    }
    for (index, line) in io::stdin().lock().lines().enumerate() {
        let next = line
            .map_err(anyhow::Error::from)
            .and_then(|line| carry_out(&line, &folder));
        match next {
            Ok(Next::Line) => {}
            Ok(Next::End) => break,
            Err(source) => {
                let line = index as u64 + 1;
                return Err(StoreFailure::Script { line, source }.into());
            }
        }
    }
    Ok(())
}

/// Reads lines typed by a person, who sees errors and continues.
fn typed(folder: &str) -> anyhow::Result<()> {
    let mut editor = DefaultEditor::new()?;
    loop {
        match editor.readline("store> ") {
            Ok(line) => {
                // A line that cannot be added to the history was executed all the same.
                let _ = editor.add_history_entry(&line);
                match carry_out(&line, folder) {
                    Ok(Next::Line) => {}
                    Ok(Next::End) => return Ok(()),
                    Err(error) => {
                        failure::report(&error);
                    }
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn carry_out(line: &str, folder: &str) -> anyhow::Result<Next> {
    let mut words = words(line);
    match words.first().map(String::as_str) {
        None => return Ok(Next::Line),
        Some(comment) if comment.starts_with('#') => return Ok(Next::Line),
        Some("quit") => return Ok(Next::End),
        Some("exit" | "help") => {}
        Some(_) => words.extend(["--data".to_owned(), folder.to_owned()]),
    }
    match Line::try_parse_from(&words) {
        Ok(Line { command: Word::Exit }) => Ok(Next::End),
        Ok(Line {
            command: Word::Open(command),
        }) => command.run().map(|()| Next::Line),
        Err(told) if !told.use_stderr() => {
            output::whole(&told.to_string())?;
            Ok(Next::Line)
        }
        Err(error) => Err(failure::UsageError(plain(&error.to_string())).into()),
    }
}

/// The message of clap, without its own `error:`.
fn plain(complaint: &str) -> String {
    complaint
        .trim_start_matches("error: ")
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Splits a line into words. Between double quotes and within brackets, as in JSON and M, spaces do not separate and all characters stay;
/// single quotes around a word are removed.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut begun, mut depth) = (false, 0_usize);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' if !begun => {
                word.extend(characters.by_ref().take_while(|next| *next != '\''));
                begun = true;
                continue;
            }
            '"' => {
                word.push('"');
                while let Some(next) = characters.next() {
                    word.push(next);
                    if next == '\\' {
                        word.extend(characters.next());
                    } else if next == '"' {
                        break;
                    }
                }
                begun = true;
                continue;
            }
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && character.is_whitespace() {
            if begun {
                words.push(std::mem::take(&mut word));
            }
            begun = false;
        } else {
            word.push(character);
            begun = true;
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_names_of_m_are_one_word() {
        for (line, expected) in [
            ("  get  Person/data/1 ", &["get", "Person/data/1"][..]),
            (
                r#"set ^P("a b",1) {"x": [1, "} y"], "z": 2}"#,
                &["set", r#"^P("a b",1)"#, r#"{"x": [1, "} y"], "z": 2}"#],
            ),
            (r#"set P "a \" b""#, &["set", "P", r#""a \" b""#]),
            ("export --to 'my file'", &["export", "--to", "my file"]),
            ("set P '' --string", &["set", "P", "", "--string"]),
            ("set P it's --string", &["set", "P", "it's", "--string"]),
            ("", &[]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }
}
