use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::output;

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell. Example: forebay completions bash > ~/.local/share/bash-completion/completions/forebay
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut crate::arguments::CliArgs::command(),
        "forebay",
        &mut script,
    );
    Ok(output::whole(&String::from_utf8(script)?)?)
}
