//! Where results go: standard output, files, and the exit code.

use std::{fs, path::Path};

use forebay_load::report::{self, Report, csv, hgrm, json, ndjson, text};

use super::{LoadError, arguments::Options};
use crate::{failure::UsageError, output};

/// The name of standard output where a file is asked for.
const STANDARD_OUTPUT: &str = "-";

/// Whether everything that is asked for can be written, as far as that can be known before there is a result.
pub(crate) fn check(options: &Options) -> Result<(), UsageError> {
    let files = [&options.json, &options.ndjson, &options.csv, &options.hgrm, &options.html, &options.save, &options.junit];
    for file in files.into_iter().flatten().filter(|file| file.as_os_str() != STANDARD_OUTPUT) {
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() || file.is_dir() {
            let what = if file.is_dir() { "is a folder" } else { "lies in a folder that does not exist" };
            return Err(UsageError(format!("{} cannot be written: it {what}", file.display())));
        }
    }
    Ok(())
}

/// How reports are written.
pub(crate) fn shown(options: &Options) -> report::Options {
    let mut shown = report::Options {
        colour: output::in_colour(),
        ..report::Options::default()
    };
    if !options.percentiles.is_empty() {
        shown.percentiles.clone_from(&options.percentiles);
    }
    shown
}

/// Writes what is asked for; the text unless something else takes standard output.
pub(crate) fn write(options: &Options, reports: &[Report]) -> anyhow::Result<()> {
    let shown = shown(options);
    let each = |form: &dyn Fn(&Report) -> String| reports.iter().map(form).collect::<String>();
    let objects = || match reports {
        [report] => json::write(report, &shown),
        several => {
            let objects: Vec<String> = several.iter().map(|report| json::write(report, &shown)).collect();
            format!("{{\"runs\": [{}]}}\n", objects.join(","))
        }
    };
    let forms: [(&Option<_>, &dyn Fn() -> String); 4] = [
        (&options.json, &objects),
        (&options.ndjson, &|| each(&ndjson::write)),
        (&options.csv, &|| each(&|report| csv::percentiles(report, &shown))),
        (&options.hgrm, &|| each(&hgrm::write)),
    ];
    let mut standard_output_is_taken = false;
    for (file, form) in forms {
        if let Some(file) = file {
            standard_output_is_taken |= file.as_os_str() == STANDARD_OUTPUT;
            put(file, &form())?;
        }
    }
    if !standard_output_is_taken {
        output::whole(&each(&|report| text::write(report, &shown)))?;
    }
    Ok(())
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
