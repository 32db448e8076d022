use crate::{
    control::{Control, Which},
    output,
};

/// Have the running server read its configuration and handlers again
///
/// Returns when the new workers are in force. When the new configuration is not valid, or its workers cannot start, the old one stays.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &ReloadArgs) -> anyhow::Result<()> {
    Control::of(&arguments.which)?.ask("POST", "/reload", "")?;
    Ok(output::line("reloaded")?)
}
