use std::{fs::File, io::Read as _, path::PathBuf};

use anyhow::Context as _;
use forebay_workflow::{SourceParser, SourceProblem};

use crate::output;

/// Longest TypeScript file, as in the SDK's loader.
const SOURCE_BYTES_MAX: u64 = 64 << 20;

/// Print a TypeScript file as JavaScript: its types become spaces
///
/// This is what workers run when they load TypeScript.
#[derive(Debug, clap::Args)]
pub(crate) struct StripArgs {
    /// An ES module. Example: forebay strip handlers/api.ts
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &StripArgs) -> anyhow::Result<()> {
    let name = arguments.file.display().to_string();
    let source = read(&arguments.file).with_context(|| format!("cannot read {name}"))?;
    Ok(output::whole(&forebay_typescript::strip(&source, &name)?)?)
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    let mut source = String::new();
    File::open(file)?
        .take(SOURCE_BYTES_MAX + 1)
        .read_to_string(&mut source)?;
    anyhow::ensure!(
        source.len() as u64 <= SOURCE_BYTES_MAX,
        "it is longer than {SOURCE_BYTES_MAX} bytes"
    );
    Ok(source)
}

/// The parser of scripts, rules and handlers.
pub(crate) const PARSER: SourceParser = SourceParser {
    erase_types: |source, file| {
        forebay_typescript::strip(source, &file.to_string_lossy()).map_err(|error| error.to_string())
    },
    unawaited_calls: |files| {
        let files: Vec<_> = files.iter().map(|file| (&*file.name, &*file.text)).collect();
        forebay_typescript::unawaited_calls(&files)
    },
    handler_problems: |source, file, is_bun| {
        let problems = forebay_typescript::handler_problems(source, file, is_bun).into_iter();
        problems
            .map(|problem| SourceProblem {
                line: problem.line,
                column: problem.column,
                message: problem.message,
            })
            .collect()
    },
};
