//! The forms in which a result is written. A run and `forebay load report` have the same ones.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of options are read on a terminal, where backticks and brackets would be in the way"
)]

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use forebay_load::report::style::Style;

use super::values;
use crate::failure::UsageError;

/// The name of standard output where a file is asked for.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// How a result is written, and where to.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Forms {
    /// Which percentiles to show; 50,75,90,95,99,99.9 if not given. Example: --percentiles 50,99,99.99
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::percentile)]
    pub(crate) percentiles: Vec<f64>,
    /// Write the result as one JSON object, to standard output or a file. Example: --json=result.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write one JSON object for each slice of the run, as it ends. Example: --ndjson=slices.ndjson
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) ndjson: Option<PathBuf>,
    /// Write two tables as CSV: percentiles, an empty line, and the slices of the run. Example: --csv=latency.csv
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write one page that needs nothing else. Example: --html report.html
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the distribution of latencies as HdrHistogram's plotter reads it. Example: --hgrm=latency.hgrm
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Print the result as another tool does. Example: --style wrk
    #[arg(long, value_name = "TOOL", value_parser = style_names())]
    pub(crate) style: Option<Style>,
    /// Write metrics as Prometheus' node_exporter reads them from a file (its textfile collector). Example: --prometheus load.prom
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Save all that was measured, for --compare and `forebay load report`. Example: --save before.json
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Say what the run shows, and what each figure means. Example: --explain
    #[arg(long, conflicts_with = "style")]
    pub(crate) explain: bool,
    /// Whether slices were written while the run lasted.
    #[arg(skip)]
    pub(crate) ndjson_is_written: bool,
}

impl Forms {
    /// Whether they can hold together.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let one_at_a_time = [&self.json, &self.ndjson, &self.csv, &self.hgrm];
        let taking = one_at_a_time
            .into_iter()
            .flatten()
            .filter(|file| file.as_os_str() == STANDARD_OUTPUT);
        let taking = taking.count();
        if taking > 0 && self.explain {
            let text = "--explain comes with the text, and another result takes standard output; give that a file, such as --json=result.json";
            return Err(UsageError(text.to_owned()));
        }
        if taking > 1 {
            let text = "two results cannot both go to standard output; give all but one a file, such as --csv=latency.csv";
            return Err(UsageError(text.to_owned()));
        }
        Ok(())
    }

    /// The files that are written.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let files = [
            &self.json,
            &self.ndjson,
            &self.csv,
            &self.hgrm,
            &self.html,
            &self.prometheus,
            &self.save,
        ];
        files
            .into_iter()
            .flatten()
            .filter(|file| file.as_os_str() != STANDARD_OUTPUT)
    }
}

/// Reads the name of a style, and lists all of them.
fn style_names() -> impl TypedValueParser<Value = Style> {
    PossibleValuesParser::new(Style::ALL.map(Style::name)).try_map(|name| name.parse::<Style>())
}
