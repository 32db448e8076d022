//! `forebay load report`: saved runs, printed again, added, or beside each other.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forebay_load::report::{Report, comparison::Comparison, html, merge, saved};

use super::{arguments::Options, forms::Forms, outputs};
use crate::{failure::UsageError, output};

/// Most files.
const FILES_MAX: usize = 100;

/// Print saved runs again, add them, or set two beside each other
///
/// The files are what --save writes. Each is printed in the form that is asked for, as if it had just been measured; --html puts all of them
/// into one page.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Saved runs; `-` is standard input. Example: before.json after.json
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Add the runs, as what several machines did at the same time. Example: --merge one.json two.json
    #[arg(long, conflicts_with = "compare")]
    merge: bool,
    /// Set two runs beside each other. Example: --compare before.json after.json
    #[arg(long, conflicts_with_all = ["ndjson", "csv", "hgrm", "style", "save"])]
    compare: bool,
    /// A name for the run that is added up. Example: --merge --title 'both machines' one.json two.json
    #[arg(long, value_name = "TEXT", requires = "merge")]
    title: Option<String>,
    #[command(flatten)]
    forms: Forms,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    check(&arguments)?;
    let options = Options {
        forms: arguments.forms,
        ..Options::default()
    };
    outputs::check(&options)?;
    let mut reports = Vec::new();
    for file in &arguments.files {
        reports.push(read(file)?);
    }
    if arguments.compare {
        return compare(&arguments.files, &reports, &options);
    }
    if arguments.merge {
        if let Some((one, other)) = apart(&reports) {
            output::complaint(&format!(
                "note: {} and {} did not run at the same time; their rates are added as if they had",
                arguments.files[one].display(),
                arguments.files[other].display()
            ));
        }
        let mut all = merge(&reports).map_err(|error| UsageError(format!("--merge: {error}")))?;
        all.run.title = arguments.title.or(all.run.title);
        reports = vec![all];
    } else if let [_, _, ..] = reports.as_slice() {
        // Several runs are told apart by their files where they have no name.
        for (report, file) in reports.iter_mut().zip(&arguments.files) {
            let title = &mut report.run.title;
            title.get_or_insert_with(|| file.display().to_string());
        }
    }
    for report in &reports {
        outputs::announce(&options, &report.run, b"")?;
    }
    outputs::write(&options, &reports)
}

fn check(arguments: &Arguments) -> Result<(), UsageError> {
    let found = arguments.files.len();
    let refuse = |text: String| Err(UsageError(text));
    if found > FILES_MAX {
        return refuse(format!("found {found} files, expected at most {FILES_MAX}"));
    }
    if arguments.compare && found != 2 {
        return refuse(format!("--compare takes two files, found {found}"));
    }
    if arguments.forms.save.is_some() && found > 1 && !arguments.merge {
        return refuse("--save needs --merge: a file holds one run".to_owned());
    }
    arguments.forms.check()
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let refused = || UsageError(format!("cannot use {}", file.display()));
    let text = String::from_utf8(super::run::read(file).with_context(refused)?).with_context(refused)?;
    saved::read(&text).with_context(refused)
}

/// Two runs of which one began when the other was over.
fn apart(reports: &[Report]) -> Option<(usize, usize)> {
    let end = |report: &Report| report.run.started_unix_ms as f64 + report.seconds * 1e3;
    let (last, latest) = reports
        .iter()
        .enumerate()
        .max_by_key(|(_, report)| report.run.started_unix_ms)?;
    let over = |(_, report): &(usize, &Report)| end(report) < latest.run.started_unix_ms as f64;
    let (first, _) = reports.iter().enumerate().find(over)?;
    Some((first, last))
}

fn compare(files: &[PathBuf], reports: &[Report], options: &Options) -> anyhow::Result<()> {
    let ([one, other], [first, second]) = (files, reports) else {
        return Err(UsageError("--compare takes two files".to_owned()).into());
    };
    let name = |file: &Path, report: &Report| {
        let file = file.display();
        report
            .run
            .title
            .as_ref()
            .map_or_else(|| file.to_string(), |title| format!("{title} ({file})"))
    };
    let (one, other) = (name(one, first), name(other, second));
    let shown = outputs::shown(options);
    let found = Comparison::of(first, second, &shown);
    if let Some(file) = &options.forms.html {
        outputs::put(
            file,
            &html::write_all(reports, &found.text([&one, &other]), &shown),
        )?;
    }
    match &options.forms.json {
        Some(file) => outputs::put(file, &format!("{:#}\n", found.json([&one, &other]))),
        None => Ok(output::whole(&found.text([&one, &other]))?),
    }
}
