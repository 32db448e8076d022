//! `forebay load report`: saved runs, printed again or beside each other.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forebay_load::report::{Report, comparison::Comparison, html, saved};

use super::{arguments::Forms, outputs};
use crate::{failure::UsageError, output};

/// Most files.
const FILES_MAX: usize = 100;

/// Print saved runs again, or set two beside each other
///
/// The files are what --save writes. Each is printed as if it had just been measured; --html puts all of them into one page.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Saved runs; `-` is standard input. Example: before.json after.json
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Set two runs beside each other. Example: --compare before.json after.json
    #[arg(long, conflicts_with = "save")]
    compare: bool,
    #[command(flatten)]
    forms: Forms,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments {
        files,
        compare,
        forms,
    } = arguments;
    let found = files.len();
    if found > FILES_MAX {
        return Err(UsageError(format!("found {found} files, expected at most {FILES_MAX}")).into());
    }
    if compare && found != 2 {
        return Err(UsageError(format!("--compare takes two files, found {found}")).into());
    }
    if forms.save.is_some() && found > 1 {
        return Err(UsageError("--save takes one run: a file holds one".to_owned()).into());
    }
    outputs::check_files(forms.files())?;
    let mut reports = files
        .iter()
        .map(|file| read(file))
        .collect::<Result<Vec<_>, _>>()?;
    if let (true, [one, other], [first, second]) = (compare, files.as_slice(), reports.as_slice()) {
        return beside([one, other], [first, second], &forms);
    }
    if found > 1 {
        // Several runs are told apart by their files where they have no name.
        for (report, file) in reports.iter_mut().zip(&files) {
            let title = &mut report.run.title;
            title.get_or_insert_with(|| file.display().to_string());
        }
    }
    outputs::write(&forms, &reports)
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let refused = || UsageError(format!("cannot use {}", file.display()));
    let text = String::from_utf8(super::run::read(file).with_context(refused)?).with_context(refused)?;
    saved::read(&text).with_context(refused)
}

fn beside(files: [&PathBuf; 2], reports: [&Report; 2], forms: &Forms) -> anyhow::Result<()> {
    let name = |at: usize| {
        let file = files[at].display();
        let title = reports[at].run.title.as_ref();
        title.map_or_else(|| file.to_string(), |title| format!("{title} ({file})"))
    };
    let (one, other) = (name(0), name(1));
    let style = outputs::style(forms);
    let found = Comparison::of(reports[0], reports[1], &style);
    if let Some(file) = &forms.html {
        let both = reports.map(Report::clone);
        outputs::put(file, &html::write_all(&both, &found.text([&one, &other]), &style))?;
    }
    match &forms.json {
        Some(file) => outputs::put(file, &format!("{:#}\n", found.json([&one, &other]))),
        None => Ok(output::whole(&found.text([&one, &other]))?),
    }
}
