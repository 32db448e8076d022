//! The command `query`.

use std::{io::Write as _, ops::Bound};

use forebay_store::{
    Read as _,
    index::{Place, Query},
    json,
};

use crate::output::{self, OutputError};

use super::{data::Data, index, path};

/// Records found at a time, before they are read.
const RECORDS_MAX: usize = 1024;

/// Print the records that an index leads to, each with its path and document; without an index, all indexes
#[derive(Debug, clap::Args)]
pub(super) struct StoreQueryArgs {
    /// The index. Example: forebay store query by-name
    #[arg(value_name = "INDEX")]
    index: Option<String>,
    /// Values of the first fields, as JSON or text. Example: forebay store query by-name Tweed Rob
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    values: Vec<String>,
    /// Least value of the next field. Example: forebay store query by-age --from 18
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    from: Option<String>,
    /// Greatest value of the next field. Example: forebay store query by-age --from 18 --to 65
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    to: Option<String>,
    /// From the greatest to the least. Example: forebay store query by-age --reverse --limit 1
    #[arg(long)]
    reverse: bool,
    /// Most records. Example: forebay store query by-name Tweed --limit 20
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only the paths. Example: forebay store query by-name Tweed --paths
    #[arg(long)]
    paths: bool,
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(arguments: &StoreQueryArgs) -> anyhow::Result<()> {
    let Some(name) = &arguments.index else {
        return index::list(&arguments.data);
    };
    let mut snapshot = arguments.data.read()?.snapshot()?;
    let indexes = snapshot.indexes()?;
    let mut out = output::stream();
    let bound = |value: &Option<String>| {
        value
            .as_deref()
            .map_or(Bound::Unbounded, |value| Bound::Included(scalar(value)))
    };
    let query = Query {
        equal: arguments.values.iter().map(|value| scalar(value)).collect(),
        from: bound(&arguments.from),
        to: bound(&arguments.to),
        reverse: arguments.reverse,
    };
    let mut place = Some(Place::default());
    // The query succeeds only for an existing index.
    let records = indexes.iter().find(|index| index.name == *name);
    let mut left = arguments.limit.unwrap_or(usize::MAX);
    while let Some(behind) = place.filter(|_| left > 0) {
        let mut found = Vec::new();
        let mut walk = snapshot.query_behind(name, &query, behind)?;
        let is_over = loop {
            match walk.next().transpose()? {
                None => break true,
                Some(subscript) => found.push(subscript.text()),
            }
            if found.len() == RECORDS_MAX || found.len() == left || snapshot.has_read_much() {
                break false;
            }
        };
        place = (!is_over).then(|| walk.into_place());
        left -= found.len();
        for subscript in found {
            let Some(index) = records else { break };
            let record = index.records.child(&subscript)?;
            let mut line = path::show(&record);
            if !arguments.paths {
                let document = snapshot.document(&record)?.unwrap_or_default();
                line.push('\t');
                line.push_str(&String::from_utf8_lossy(&document));
            }
            writeln!(out, "{line}").map_err(OutputError::from)?;
            snapshot.forget_read();
        }
    }
    Ok(out.flush().map_err(OutputError::from)?)
}

/// Parses a value as JSON; any other text is a string.
fn scalar(value: &str) -> Vec<u8> {
    json::canonical(value.as_bytes()).unwrap_or_else(|_| json::string(value))
}
