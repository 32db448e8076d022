//! Listings of nodes: `tree` and `ls`.

use std::io::Write as _;

use forebay_store::{Key, Read, Snapshot, StoreError};

use crate::output::{self, OutputError};

use super::{StoreFailure, data::Data, path};

/// Most characters of a value that are shown in a tree.
const VALUE_SHOWN: usize = 100;

/// Print nodes and their values as an indented tree
#[derive(Debug, clap::Args)]
pub(super) struct Tree {
    /// The node at the top; all globals without. Example: forebay store tree Person/data
    #[arg(value_name = "PATH", value_parser = path::parse)]
    path: Option<Key>,
    /// Most levels below the top. Example: forebay store tree --depth 1
    #[arg(long, value_name = "N", default_value_t = 4)]
    depth: usize,
    /// Most nodes. Example: forebay store tree Person --limit 1000
    #[arg(long, value_name = "N", default_value_t = 200)]
    limit: u64,
    #[command(flatten)]
    data: Data,
}

/// List the globals, or a node's children, one a line
#[derive(Debug, clap::Args)]
pub(super) struct Ls {
    /// The node; the globals without. Example: forebay store ls Person/data
    #[arg(value_name = "PATH", value_parser = path::parse)]
    path: Option<Key>,
    /// After a tab, how many values are at it and below. Example: forebay store ls --count
    #[arg(long)]
    count: bool,
    /// Most lines. Example: forebay store ls Person/data --limit 20
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    data: Data,
}

pub(super) fn tree(arguments: &Tree) -> anyhow::Result<()> {
    let mut snapshot = arguments.data.read()?.snapshot()?;
    let mut tree = Printed {
        out: output::stream(),
        depth: arguments.depth,
        left: arguments.limit,
    };
    match &arguments.path {
        Some(key) => {
            there(&snapshot, key)?;
            tree.node(&mut snapshot, key, &key.to_string(), 0)?;
        }
        None => {
            for name in globals(&snapshot, usize::MAX)? {
                if !tree.node(&mut snapshot, &Key::global(&name)?, &format!("^{name}"), 0)? {
                    break;
                }
            }
        }
    }
    tree.out.flush().map_err(OutputError::from)?;
    if tree.left == 0 {
        output::complaint(&format!(
            "{} nodes shown; `--limit N` shows more",
            arguments.limit
        ));
    }
    Ok(())
}

struct Printed<W> {
    out: W,
    depth: usize,
    left: u64,
}

impl<W: std::io::Write> Printed<W> {
    /// Prints a node and its descendants; `false` when the limit was reached.
    fn node(&mut self, snapshot: &mut Snapshot, key: &Key, name: &str, level: usize) -> anyhow::Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let defined = snapshot.defined(key)?;
        let mut line = format!("{}{name}", "  ".repeat(level));
        if defined.children && snapshot.is_array(key)? {
            line.push_str(" []");
        }
        if let Some(value) = snapshot.get(key)? {
            let value = String::from_utf8_lossy(value);
            line.push_str(" = ");
            line.extend(value.chars().take(VALUE_SHOWN));
            if value.chars().nth(VALUE_SHOWN).is_some() {
                line.push_str("...");
            }
        }
        let deeper = level < self.depth;
        if defined.children && !deeper {
            line.push_str(" ...");
        }
        writeln!(self.out, "{line}").map_err(OutputError::from)?;
        if !deeper {
            return Ok(true);
        }
        let mut is_whole = true;
        snapshot.each_child(key, |snapshot, child| {
            let name = child.text();
            is_whole = self.node(snapshot, &key.child(&name)?, &path::escape(&name), level + 1)?;
            Ok::<_, anyhow::Error>(is_whole)
        })?;
        Ok(is_whole)
    }
}

pub(super) fn ls(arguments: &Ls) -> anyhow::Result<()> {
    let mut snapshot = arguments.data.read()?.snapshot()?;
    let mut out = output::stream();
    let mut put = |snapshot: &mut Snapshot, name: &str, key: &Key| {
        let line = if arguments.count {
            let count = snapshot.count_values(key)?;
            writeln!(out, "{name}\t{count}")
        } else {
            writeln!(out, "{name}")
        };
        line.map_err(OutputError::from)?;
        Ok::<_, anyhow::Error>(())
    };
    let limit = arguments.limit.unwrap_or(usize::MAX);
    match &arguments.path {
        Some(key) => {
            there(&snapshot, key)?;
            let mut left = limit;
            snapshot.each_child(key, |snapshot, child| {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                let name = child.text();
                put(snapshot, &path::escape(&name), &key.child(&name)?).map(|()| true)
            })?;
        }
        None => {
            for name in globals(&snapshot, limit)? {
                put(&mut snapshot, &path::escape(&name), &Key::global(&name)?)?;
            }
        }
    }
    Ok(out.flush().map_err(OutputError::from)?)
}

/// The names of the first globals.
fn globals(snapshot: &Snapshot, limit: usize) -> Result<Vec<String>, StoreError> {
    snapshot.globals("")?.take(limit).collect()
}

/// Fails if the node does not exist.
pub(super) fn there(snapshot: &Snapshot, key: &Key) -> anyhow::Result<()> {
    if snapshot.defined(key)?.exists() {
        return Ok(());
    }
    Err(StoreFailure::Absent {
        path: key.to_string(),
    }
    .into())
}
