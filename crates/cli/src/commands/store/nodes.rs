//! Commands on a single node: `get`, `set`, `kill`.

use std::io::Read as _;

use forebay_store::{Durability, Key, Read as _, Store, json};

use crate::{failure::UsageError, output};

use super::{StoreFailure, data::Data, path, pretty::pretty};

/// Most nodes that are counted to say what a `kill` would remove.
const COUNTED_MAX: usize = 1_000_000;

/// Print the document below a node: indented on a terminal, canonical JSON elsewhere
#[derive(Debug, clap::Args)]
pub(super) struct Get {
    /// The node. Example: forebay store get Person/data/1
    #[arg(value_name = "PATH", value_parser = path::parse)]
    path: Key,
    /// Only the node's own value, not its children. Example: forebay store get Person/data --value
    #[arg(long)]
    value: bool,
    /// A string as its text, without quotes; anything else as canonical JSON. Example: forebay store get Person/data/1/firstName --raw
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    data: Data,
}

/// Give a node a value. An object or array replaces all that is below the node; anything else leaves its children
#[derive(Debug, clap::Args)]
pub(super) struct Set {
    /// The node. Example: forebay store set Person/data/1 '{"firstName":"Rob"}'
    #[arg(value_name = "PATH", value_parser = path::parse)]
    path: Key,
    /// The value as JSON, or `-` to read it from standard input. Example: forebay store set Person/nextId 17
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: String,
    /// VALUE is a text, not JSON. Example: forebay store set Person/data/1/firstName Rob --string
    #[arg(long)]
    string: bool,
    #[command(flatten)]
    data: Data,
}

/// Remove a node and all that is below it
#[derive(Debug, clap::Args)]
pub(super) struct Kill {
    /// The node. Example: forebay store kill Person/data/1 --yes
    #[arg(value_name = "PATH", value_parser = path::parse)]
    path: Key,
    /// Do it; without, only what would be removed is told. Example: forebay store kill Person/data/1 --yes
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    data: Data,
}

pub(super) fn get(arguments: &Get) -> anyhow::Result<()> {
    let snapshot = arguments.data.read()?.snapshot()?;
    let key = &arguments.path;
    let found = if arguments.value {
        snapshot.get(key)?.map(Into::into)
    } else {
        snapshot.document(key)?
    };
    let Some(found) = found else {
        let path = key.to_string();
        return Err(if snapshot.defined(key)?.exists() {
            StoreFailure::NoValue { path }
        } else {
            StoreFailure::Absent { path }
        }
        .into());
    };
    let text = String::from_utf8_lossy(&found);
    let line = match serde_json::from_str(&text) {
        Ok(serde_json::Value::String(content)) if arguments.raw => content,
        _ if arguments.raw || !output::is_terminal() => text.into_owned(),
        _ => pretty(&text),
    };
    Ok(output::line(&line)?)
}

pub(super) fn set(arguments: &Set) -> anyhow::Result<()> {
    let mut value = arguments.value.clone().into_bytes();
    if arguments.value == "-" {
        value.clear();
        std::io::stdin()
            .read_to_end(&mut value)
            .map_err(|source| StoreFailure::File {
                what: "read the value from",
                path: "standard input".into(),
                source,
            })?;
    }
    if arguments.string {
        let text = String::from_utf8(value).map_err(|_| UsageError("the value is not UTF-8".into()))?;
        value = json::string(&text);
    } else if let Err(error) = json::canonical(&value) {
        // Checked before a store is created for it.
        return Err(UsageError(format!("{error}; `--string` sets VALUE as a text")).into());
    }
    let store = arguments.data.write_or_make()?;
    change(&store, |transaction| transaction.set(&arguments.path, &value))
}

pub(super) fn kill(arguments: &Kill) -> anyhow::Result<()> {
    let key = &arguments.path;
    let store = arguments.data.write()?;
    let snapshot = store.snapshot()?;
    if !snapshot.defined(key)?.exists() {
        return Err(StoreFailure::Absent {
            path: key.to_string(),
        }
        .into());
    }
    if !arguments.yes {
        let counted = snapshot.values(key)?.take(COUNTED_MAX).count();
        let more = if counted == COUNTED_MAX { "at least " } else { "" };
        return Err(UsageError(format!(
            "`kill` would remove {more}{counted} values at {key}; `--yes` does it"
        ))
        .into());
    }
    drop(snapshot);
    change(&store, |transaction| transaction.kill(key).map(|_| ()))
}

/// Runs a change and waits until it is on the disk.
fn change(
    store: &Store,
    work: impl FnOnce(&mut forebay_store::Transaction) -> Result<(), forebay_store::StoreError>,
) -> anyhow::Result<()> {
    let mut transaction = store.begin()?;
    work(&mut transaction)?;
    transaction.commit(Durability::Sync)?;
    Ok(())
}
