//! `forebay new`: writes a first application from a template.

mod kinds;
mod templates;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::ValueEnum as _;

use self::{kinds::Kinds, templates::Template};
use crate::{failure::UsageError, output};

/// Write a first application that serves at once
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// The folder to create; it may exist if it is empty. Example: forebay new app
    #[arg(value_name = "DIR", required_unless_present = "list")]
    folder: Option<PathBuf>,
    /// The template; see --list. Example: forebay new shop --template records
    #[arg(long, short, value_name = "TEMPLATE", value_enum, default_value_t = Template::Api)]
    template: Template,
    /// The kinds of records that the template `records` has, between commas; Article and Person if not given. Example: forebay new library --template records --kinds Book,Author
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Print what there is to begin with, and write nothing. Example: forebay new --list
    #[arg(long, conflicts_with_all = ["folder", "kinds"])]
    list: bool,
}

/// The folder is not empty.
#[derive(Debug, thiserror::Error)]
#[error("{} is not empty, and nothing is ever overwritten", .folder.display())]
struct NotEmpty {
    folder: PathBuf,
}

pub(crate) fn run(arguments: &NewArgs) -> anyhow::Result<()> {
    let Some(folder) = &arguments.folder else {
        return list();
    };
    if arguments.kinds.is_some() && arguments.template != Template::Records {
        return Err(UsageError("--kinds goes with --template records".to_owned()).into());
    }
    let kinds = match &arguments.kinds {
        Some(names) => Kinds::read(names).map_err(|error| UsageError(error.to_string()))?,
        None => Kinds::default(),
    };
    let cannot = || format!("cannot write to {}", folder.display());
    if !is_empty(folder).with_context(cannot)? {
        return Err(NotEmpty {
            folder: folder.clone(),
        }
        .into());
    }
    let mut files = arguments.template.files(&kinds);
    files.push(("forebay.schema.json", forebay_server::config::schema()));
    for (name, text) in files {
        let file = folder.join(name);
        write_new(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        output::line(&format!("wrote {}", file.display()))?;
    }
    let enter = if folder == Path::new(".") {
        String::new()
    } else {
        format!("cd {} && ", folder.display())
    };
    // npm's `npx` says so; there is no `forebay` in the PATH of whoever used it.
    let npx = if std::env::var_os("npm_command").is_some_and(|command| command == "exec") {
        "npx "
    } else {
        ""
    };
    output::line(&format!("next: {enter}{npx}forebay serve"))?;
    Ok(())
}

fn list() -> anyhow::Result<()> {
    for template in Template::value_variants() {
        let value = template.to_possible_value().expect("no template is hidden");
        let about = value.get_help().expect("every template says what it is");
        output::line(&format!("{:<10} {about}", value.get_name()))?;
    }
    Ok(())
}

/// Whether the folder is empty or does not exist.
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
