//! `export` and `import`.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter},
    path::{Path, PathBuf},
    time::SystemTime,
};

use forebay_store::{
    Key, Snapshot,
    transfer::{self, ExportOptions, ImportOptions, TransferError},
};

use crate::{
    failure::UsageError,
    output::{self, OutputError},
};

use super::{StoreFailure, data::Data, lists::there, path, progress::Bar};

/// Write globals or subtrees as lines of text, from one state of the store
#[derive(Debug, clap::Args)]
pub(super) struct Export {
    /// Globals or subtrees to export; by default everything. Example: forebay store export Person/data Address
    #[arg(value_name = "PATH", value_parser = path::parse)]
    paths: Vec<Key>,
    /// Into a file, which is there when it is complete; standard output without. Example: forebay store export --to backup.ndjson
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// How lines are written; told by FILE's ending without. Example: forebay store export --format zwr
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// NDJSON: a line for each node with a value, instead of one for each short subtree. Example: forebay store export --nodes
    #[arg(long)]
    nodes: bool,
    /// ZWR: what M has no value for as M programs write it, such as 1 for true; an import does not give it back. Example: forebay store export --format zwr --lossy
    #[arg(long)]
    lossy: bool,
    #[command(flatten)]
    data: Data,
}

/// Read lines that `export`, GT.M or `YottaDB` have written into the store
#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// The file, or `-` for standard input. Example: forebay store import people.ndjson
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How lines are written; told by the first line without. Example: forebay store import people.txt --format zwr
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Empty each global that the file names before its first line; without, lines are laid over what is there. Example: forebay store import people.ndjson --replace
    #[arg(long)]
    replace: bool,
    /// Leave out the lines before, which an import that failed has said are in the store. Example: forebay store import people.ndjson --from-line 20001
    #[arg(long, value_name = "N", default_value_t = 1)]
    from_line: u64,
    #[command(flatten)]
    data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A JSON object a line
    Ndjson,
    /// The extract of GT.M and `YottaDB`
    Zwr,
}

impl From<Format> for transfer::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Ndjson => Self::Ndjson,
            Format::Zwr => Self::Zwr,
        }
    }
}

pub(super) fn export(arguments: &Export) -> anyhow::Result<()> {
    let ending = arguments.to.as_deref().and_then(Path::extension);
    let zwr = ending.is_some_and(|ending| ending.eq_ignore_ascii_case("zwr"));
    let told = if zwr { Format::Zwr } else { Format::Ndjson };
    let format = arguments.format.unwrap_or(told);
    if arguments.lossy && format != Format::Zwr || arguments.nodes && format != Format::Ndjson {
        return Err(UsageError("`--nodes` is for NDJSON, `--lossy` for ZWR".into()).into());
    }
    let mut options = ExportOptions {
        format: format.into(),
        lossy: arguments.lossy,
        date: date(SystemTime::now()),
        ..ExportOptions::default()
    };
    if arguments.nodes {
        options.document_bytes_max = 0;
    }
    let mut snapshot = arguments.data.read()?.snapshot()?;
    for path in &arguments.paths {
        there(&snapshot, path)?;
    }
    let Some(file) = &arguments.to else {
        let mut out = output::stream();
        return write(&mut snapshot, &arguments.paths, &options, &mut out).map(|_| ());
    };
    // A file of that name is always a complete export.
    let mut part = file.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| StoreFailure::File { what, path, source }
    };
    let mut out = BufWriter::new(File::create(&part).map_err(failed("write", &part))?);
    let summary = write(&mut snapshot, &arguments.paths, &options, &mut out).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })?;
    out.get_ref().sync_all().map_err(failed("write", &part))?;
    fs::rename(&part, file).map_err(failed("write", file))?;
    output::complaint(&format!("{}: {summary}", file.display()));
    Ok(())
}

fn write(
    snapshot: &mut Snapshot,
    paths: &[Key],
    options: &ExportOptions,
    out: &mut dyn io::Write,
) -> anyhow::Result<String> {
    let mut bar = Bar::new("export", "lines", None);
    let outcome = transfer::export(snapshot, paths, options, out, &mut |progress| {
        bar.at(progress.lines, progress.bytes);
    });
    match outcome {
        Ok(done) => {
            out.flush().map_err(OutputError::from)?;
            Ok(bar.end(done.lines, done.bytes))
        }
        Err(TransferError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(OutputError::from(error).into())
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn import(arguments: &Import) -> anyhow::Result<()> {
    let mut total_bytes = None;
    let mut input: Box<dyn BufRead> = if arguments.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let failed = |source| StoreFailure::File {
            what: "read",
            path: arguments.file.clone(),
            source,
        };
        let file = File::open(&arguments.file).map_err(failed)?;
        total_bytes = file.metadata().ok().map(|about| about.len());
        Box::new(BufReader::with_capacity(1 << 16, file))
    };
    let store = arguments.data.write_or_make()?;
    let options = ImportOptions {
        format: arguments.format.map(Into::into),
        replace: arguments.replace,
        from_line: arguments.from_line,
        ..ImportOptions::default()
    };
    let mut bar = Bar::new("import", "lines", total_bytes);
    let done = transfer::import(&store, &mut input, &options, &mut |progress| {
        bar.at(progress.lines, progress.bytes);
    })?;
    output::complaint(&bar.end(done.lines, done.bytes));
    Ok(())
}

/// As GT.M writes it, in UTC: `22-NOV-2026  01:57:07`.
fn date(now: SystemTime) -> String {
    // Sun, 22 Nov 2026 01:57:07 GMT (RFC 9110, 5.6.7).
    let text = httpdate::fmt_http_date(now);
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        [_, day, month, year, time, ..] => {
            format!("{day}-{}-{year}  {time}", month.to_ascii_uppercase())
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_look_as_in_m() {
        let moment = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_795_312_627);
        assert_eq!(date(moment), "22-NOV-2026  01:57:07");
    }
}
