//! Where results go: standard output and files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use forebay_load::report::{self, Report, html, json, saved, text};

use super::{
    LoadError,
    arguments::{Forms, STANDARD_OUTPUT},
};
use crate::{failure::UsageError, output};

/// Whether these files can be written, as far as that can be known before there is a result; `-` always can.
pub(crate) fn check_files<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), UsageError> {
    for file in files.filter(|file| file.as_os_str() != STANDARD_OUTPUT) {
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() || file.is_dir() {
            let what = if file.is_dir() {
                "is a folder"
            } else {
                "lies in a folder that does not exist"
            };
            return Err(UsageError(format!(
                "{} cannot be written: it {what}",
                file.display()
            )));
        }
    }
    Ok(())
}

/// How reports are written.
pub(crate) fn style(forms: &Forms) -> report::Options {
    let mut style = report::Options {
        colour: output::in_colour(),
        ..report::Options::default()
    };
    if !forms.percentiles.is_empty() {
        style.percentiles.clone_from(&forms.percentiles);
    }
    style
}

/// Writes what is asked for; the text unless JSON takes standard output.
pub(crate) fn write(forms: &Forms, reports: &[Report]) -> anyhow::Result<()> {
    let style = style(forms);
    if let Some(file) = &forms.html {
        put(file, &html::write_all(reports, "", &style))?;
    }
    if let (Some(file), [report]) = (&forms.save, reports) {
        put(file, &saved::write(report, &style))?;
    }
    if let Some(file) = &forms.json {
        let objects: Vec<String> = reports.iter().map(|report| json::write(report, &style)).collect();
        let written = match objects.as_slice() {
            [one] => one.clone(),
            several => format!("{{\"runs\": [{}]}}\n", several.join(",")),
        };
        put(file, &written)?;
        if file.as_os_str() == STANDARD_OUTPUT {
            return Ok(());
        }
    }
    let texts: Vec<String> = reports.iter().map(|report| text::write(report, &style)).collect();
    Ok(output::whole(&texts.join("\n"))?)
}

/// Writes to a file, or to standard output.
pub(crate) fn put(file: &Path, text: &str) -> anyhow::Result<()> {
    if file.as_os_str() == STANDARD_OUTPUT {
        return Ok(output::whole(text)?);
    }
    fs::write(file, text).map_err(|source| {
        LoadError::Write {
            file: file.display().to_string(),
            source,
        }
        .into()
    })
}
