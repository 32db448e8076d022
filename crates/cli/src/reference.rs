//! The command reference in `docs/reference/cli.md`, generated from the command line's definition.

use std::{fmt::Write as _, fs, path::Path};

use clap::{Arg, Command, CommandFactory as _};

use crate::arguments::CliArgs;

const HEAD: &str = "\
# Commands

<!-- Made from crates/cli/src. To refresh: FOREBAY_REFRESH=1 cargo test -p forebay -->

`forebay COMMAND --help` says the same. Standard output has what was asked for and nothing else; errors, with what caused them and the next
step, go to standard error. Colour is used on a terminal only, and not when `NO_COLOR` is set.
";

fn page() -> String {
    let mut root = CliArgs::command();
    root.build();
    let mut page = String::from(HEAD);
    let codes = root
        .get_after_help()
        .expect("the exit codes are told")
        .to_string();
    let codes = codes
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .replace("Exit codes:\n", "");
    write!(page, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n").unwrap();
    for line in codes.lines() {
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        writeln!(page, "| {code} | {meaning} |").unwrap();
    }
    for command in commands(&root) {
        put(&mut page, command);
    }
    page
}

/// Commands that can be run, in their order.
fn commands(command: &Command) -> Vec<&Command> {
    let below: Vec<_> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .flat_map(commands)
        .collect();
    // `load` has sub-commands, and can be run without one too.
    let own = below.is_empty() || arguments(command).next().is_some();
    own.then_some(command).into_iter().chain(below).collect()
}

/// Arguments that a user writes, without clap's own `help` and `version`.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
}

fn put(page: &mut String, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let about = command.get_long_about().or(command.get_about()).unwrap();
    let name = command.get_bin_name().unwrap();
    write!(
        page,
        "\n## `{name}`\n\n{about}\n\n```\n{}\n```\n",
        usage.trim_start_matches("Usage: ")
    )
    .unwrap();
    if arguments(command).next().is_some() {
        page.push_str("\n| | meaning | example |\n|---|---|---|\n");
    }
    for argument in arguments(command) {
        let (meaning, example) = help(argument);
        writeln!(
            page,
            "| `{}` | {meaning} | `{example}` |",
            escaped(&argument.to_string())
        )
        .unwrap();
    }
}

/// An argument's help, and the example at its end.
fn help(argument: &Arg) -> (String, String) {
    let help = argument.get_long_help().or(argument.get_help()).unwrap();
    let help = help.to_string().replace("\n\n", "\n").replace('\n', " ");
    let (meaning, example) = help
        .split_once(" Example: ")
        .unwrap_or_else(|| panic!("the help of {argument} has no example: {help}"));
    (escaped(meaning), escaped(example))
}

fn escaped(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[test]
fn the_reference_of_commands_is_fresh_and_every_option_has_an_example() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let made = page();
    if std::env::var_os("FOREBAY_REFRESH").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == made,
        "docs/reference/cli.md is stale; refresh it: FOREBAY_REFRESH=1 cargo test -p forebay"
    );
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    CliArgs::command().debug_assert();
}
