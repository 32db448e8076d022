use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::output;

/// What a new folder gets.
const FILES: [(&str, &str); 4] = [
    ("forebay.toml", include_str!("../../scaffold/forebay.toml")),
    (
        "handlers/api.mjs",
        include_str!("../../scaffold/handlers/api.mjs"),
    ),
    ("README.md", include_str!("../../scaffold/README.md")),
    (".gitignore", include_str!("../../scaffold/gitignore")),
];

/// Write a first application that serves at once
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder to make; one that is there must be empty. Example: forebay new app
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The folder has something in it.
#[derive(Debug, thiserror::Error)]
#[error("{} is not empty, and nothing is ever overwritten", .folder.display())]
struct NotEmpty {
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    let cannot = || format!("cannot write to {}", folder.display());
    if !is_empty(folder).with_context(cannot)? {
        return Err(NotEmpty {
            folder: folder.clone(),
        }
        .into());
    }
    for (name, text) in FILES {
        let file = folder.join(name);
        write_new(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        output::line(&format!("wrote {}", file.display()))?;
    }
    let enter = if folder == Path::new(".") {
        String::new()
    } else {
        format!("cd {} && ", folder.display())
    };
    output::line(&format!("next: {enter}forebay serve"))?;
    Ok(())
}

/// Whether there is nothing in the folder, or no folder yet.
fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn write_new(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    io::Write::write_all(&mut fs::File::create_new(file)?, text.as_bytes())
}
