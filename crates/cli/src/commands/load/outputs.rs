//! Where results go: standard output, files, and the exit code.

use forebay_load::report::{self, Report, text};

use super::arguments::Options;
use crate::output;

/// Whether everything that is asked for can be written.
pub(crate) fn check(_options: &Options) -> anyhow::Result<()> {
    Ok(())
}

/// Writes what is asked for.
pub(crate) fn write(options: &Options, reports: &[Report]) -> anyhow::Result<()> {
    let mut shown = report::Options {
        colour: output::in_colour(),
        ..report::Options::default()
    };
    if !options.percentiles.is_empty() {
        shown.percentiles.clone_from(&options.percentiles);
    }
    for report in reports {
        output::whole(&text::write(report, &shown))?;
    }
    Ok(())
}
