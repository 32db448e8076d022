//! Where results go: standard output, files, and the exit code.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use forebay_load::report::{
    self, Report, Run, csv, explain, hgrm, html, json, ndjson, prometheus, saved,
    style::{self, Style, StyleOptions, ab, jmeter},
    text,
};

use super::{LoadError, arguments::Options, forms::STANDARD_OUTPUT};
use crate::{failure::UsageError, output};

/// Whether everything that is asked for can be written, as far as that can be known before there is a result.
pub(crate) fn check(options: &Options) -> Result<(), UsageError> {
    check_files(options.forms.files().chain(&options.junit).chain(&options.log))
}

/// Whether these files can be written, as far as that can be known; `-` always can.
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
pub(crate) fn shown(options: &Options) -> report::Options {
    let mut shown = report::Options {
        colour: output::in_colour(),
        ..report::Options::default()
    };
    if !options.forms.percentiles.is_empty() {
        shown.percentiles.clone_from(&options.forms.percentiles);
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
    let forms: [(&Option<_>, bool, &dyn Fn() -> String); 4] = [
        (&options.forms.json, false, &objects),
        (&options.forms.ndjson, options.forms.ndjson_is_written, &|| {
            each(&ndjson::write)
        }),
        (&options.forms.csv, false, &|| {
            each(&|report| csv::write(report, &shown))
        }),
        (&options.forms.hgrm, false, &|| each(&hgrm::write)),
    ];
    let mut standard_output_is_taken = false;
    for (file, is_written, form) in forms {
        if let Some(file) = file {
            standard_output_is_taken |= file.as_os_str() == STANDARD_OUTPUT;
            if !is_written {
                put(file, &form())?;
            }
        }
    }
    if let Some(file) = &options.forms.html {
        put(file, &html::write_all(reports, "", &shown))?;
    }
    if let (Some(file), Some(report)) = (&options.forms.prometheus, reports.last()) {
        replace(file, &prometheus::write(report, &shown))?;
    }
    for report in reports {
        if let Some(file) = &options.forms.save {
            put(file, &saved::write(report, &shown))?;
        }
        if let Some(file) = &options.old.percentages {
            put_with(file, &|out| ab::percentages_csv(report, out))?;
        }
        if let Some(file) = &options.old.gnuplot {
            put_with(file, &|out| ab::gnuplot_tsv(report, out))?;
        }
    }
    match options.forms.style {
        _ if standard_output_is_taken => Ok(()),
        Some(style) => in_style(style, options, reports),
        None => {
            let whole = |report: &Report| {
                let text = text::write(report, &shown);
                if options.forms.explain {
                    text + &explain::write(report)
                } else {
                    text
                }
            };
            Ok(output::whole(&each(&whole))?)
        }
    }
}

/// Prints what a tool prints before a run, some of them with the request, if it is known. True: that says what is about to be done, and nothing more need be said.
pub(crate) fn announce(options: &Options, run: &Run, request: &[u8]) -> anyhow::Result<bool> {
    let Some(style) = options.forms.style else {
        return Ok(false);
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let shown = StyleOptions {
        request: String::from_utf8_lossy(request).into_owned(),
        ..style_options(options)
    };
    style::announce(style, run, &shown, &mut out, &mut err)?;
    let said = !err.is_empty();
    pass_on(&out, &err)?;
    Ok(said)
}

/// Prints reports as another tool does.
fn in_style(style: Style, options: &Options, reports: &[Report]) -> anyhow::Result<()> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    if style == Style::Jmeter {
        let label = |report: &Report| format!("HTTP Request ({})", report.run.connections);
        let labels: Vec<String> = reports.iter().map(label).collect();
        let rows: Vec<(&str, &Report)> = labels.iter().map(String::as_str).zip(reports).collect();
        jmeter::table(&rows, &mut out)?;
    } else {
        for report in reports {
            style::write(style, report, &style_options(options), &mut out, &mut err)?;
        }
    }
    pass_on(&out, &err)
}

/// What the tool prints before a run has been printed then.
fn style_options(options: &Options) -> StyleOptions {
    StyleOptions {
        extras: options.old.more.clone(),
        announced: true,
        sample_ms: options.old.sample_ms,
        attributes: options.old.attributes.clone(),
        verbosity: options.old.verbosity,
        request: String::new(),
    }
}

fn pass_on(out: &[u8], err: &[u8]) -> anyhow::Result<()> {
    if !err.is_empty() {
        output::complaint(String::from_utf8_lossy(err).trim_end_matches('\n'));
    }
    if !out.is_empty() {
        output::whole(&String::from_utf8_lossy(out))?;
    }
    Ok(())
}

/// Writes what a form writes to a file, or to standard output.
fn put_with(file: &Path, form: &dyn Fn(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    form(&mut text)?;
    put(file, &String::from_utf8_lossy(&text))
}

/// Puts a file in another's place, so that whoever reads it now and then never sees half of it.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    put(Path::new(&name), text)?;
    let failed = |source| LoadError::Write {
        file: file.display().to_string(),
        source,
    };
    Ok(fs::rename(&name, file).map_err(failed)?)
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
