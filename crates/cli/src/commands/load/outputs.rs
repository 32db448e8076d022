//! Writes results to standard output and files, and reads saved ones: `forebay load report`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use forebay_load::report::{self, Report, comparison::Comparison, html, json, saved, text};

use super::{
    LoadError,
    arguments::{Forms, STANDARD_OUTPUT},
    run::read,
};
use crate::{failure::UsageError, output};

/// Most files of `forebay load report`.
const FILES_MAX: usize = 100;

/// Print saved runs again, or set two beside each other
///
/// The files are what --save writes. Each is printed as if it had just been measured; --html puts all of them into one page.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArguments {
    /// Saved runs; `-` is standard input. Example: before.json after.json
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Set two runs beside each other. Example: --compare before.json after.json
    #[arg(long, conflicts_with = "save")]
    compare: bool,
    #[command(flatten)]
    forms: Forms,
}

/// `forebay load report`: prints saved runs again, or compares two.
pub(crate) fn report(arguments: &ReportArguments) -> anyhow::Result<()> {
    let ReportArguments {
        files,
        compare,
        forms,
    } = arguments;
    let found = files.len();
    if found > FILES_MAX {
        return Err(UsageError(format!("found {found} files, expected at most {FILES_MAX}")).into());
    }
    if *compare && found != 2 {
        return Err(UsageError(format!("--compare takes two files, found {found}")).into());
    }
    if forms.save.is_some() && found > 1 {
        return Err(UsageError("--save takes one run: a file holds one".to_owned()).into());
    }
    check_files(forms.files())?;
    let load = |file: &PathBuf| -> anyhow::Result<Report> {
        let refused = || UsageError(format!("cannot use {}", file.display()));
        let text = String::from_utf8(read(file).with_context(refused)?).with_context(refused)?;
        let mut report = saved::read(&text).with_context(refused)?;
        if found > 1 {
            // Several runs are told apart by their files.
            let name = file.display().to_string();
            let title = report.run.title.get_or_insert_default();
            *title = if title.is_empty() {
                name
            } else {
                format!("{title} ({name})")
            };
        }
        Ok(report)
    };
    let reports = files.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let (true, [first, second]) = (*compare, reports.as_slice()) else {
        return write(forms, &reports);
    };
    let style = style(forms);
    let names = [first, second].map(|report| report.run.title.as_deref().unwrap_or_default());
    let found = Comparison::of([first, second], &style);
    if let Some(file) = &forms.html {
        put(file, &html::write(&reports, &found.text(names), &style))?;
    }
    print(forms, &found.text(names), &format!("{:#}\n", found.json(names)))
}

/// Checks that files can be written, as far as possible before there is a result; `-` always can.
pub(crate) fn check_files<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), UsageError> {
    for file in files.filter(|file| file.as_os_str() != STANDARD_OUTPUT) {
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        let what = match folder {
            _ if file.is_dir() => "is a folder",
            Some(folder) if !folder.is_dir() => "lies in a folder that does not exist",
            _ => continue,
        };
        let file = file.display();
        return Err(UsageError(format!("{file} cannot be written: it {what}")));
    }
    Ok(())
}

/// Options of the reports.
pub(crate) fn style(forms: &Forms) -> report::Options {
    let mut style = report::Options::default();
    if !forms.percentiles.is_empty() {
        style.percentiles.clone_from(&forms.percentiles);
    }
    style
}

/// Writes the requested forms; the text unless JSON goes to standard output.
pub(crate) fn write(forms: &Forms, reports: &[Report]) -> anyhow::Result<()> {
    let style = style(forms);
    if let Some(file) = &forms.html {
        put(file, &html::write(reports, "", &style))?;
    }
    if let (Some(file), [report]) = (&forms.save, reports) {
        put(file, &saved::write(report, &style))?;
    }
    let texts: Vec<String> = reports.iter().map(|report| text::write(report, &style)).collect();
    let objects: Vec<String> = reports.iter().map(|report| json::write(report, &style)).collect();
    let json = match objects.as_slice() {
        [one] => one.clone(),
        several => format!("{{\"runs\": [{}]}}\n", several.join(",")),
    };
    print(forms, &texts.join("\n"), &json)
}

/// Writes JSON if it is asked for, and the text to standard output unless JSON goes there.
pub(crate) fn print(forms: &Forms, text: &str, json: &str) -> anyhow::Result<()> {
    if let Some(file) = &forms.json {
        put(file, json)?;
        if file.as_os_str() == STANDARD_OUTPUT {
            return Ok(());
        }
    }
    Ok(output::whole(text)?)
}

/// Writes to a file, or to standard output.
pub(crate) fn put(file: &Path, text: &str) -> anyhow::Result<()> {
    if file.as_os_str() == STANDARD_OUTPUT {
        return Ok(output::whole(text)?);
    }
    let written = fs::write(file, text);
    Ok(written.map_err(|source| LoadError::Write {
        file: file.display().to_string(),
        source,
    })?)
}
