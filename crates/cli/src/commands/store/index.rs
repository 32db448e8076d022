//! The command `index`: lists, makes and drops indexes.

use std::io::Write as _;

use forebay_store::{
    Durability, Key, Read as _, StoreError,
    index::{Definition, field_text, parse_field},
};

use crate::output::{self, OutputError};

use super::{StoreFailure, data::Data, path};

/// List, make and drop indexes, which `query` and `?where=` over HTTP ask
#[derive(Debug, clap::Args)]
pub(super) struct StoreIndexArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Define(Define),
    Drop(Drop),
}

/// Print each index with its records' node and its fields
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    data: Data,
}

/// Make an index over the children of a node: those that there are, and all that will come
#[derive(Debug, clap::Args)]
struct Define {
    /// Its name. Example: forebay store index define by-name Person/data lastName firstName
    #[arg(value_name = "NAME")]
    name: String,
    /// The node whose children are the records. Example: forebay store index define by-age Person/data age
    #[arg(value_name = "PATH", value_parser = path::parse)]
    records: Key,
    /// Up to eight fields of a record: `lastName`, `address.city`, `tags.*` for each element of an array. Example: forebay store index define by-tag Person/data 'tags.*'
    #[arg(value_name = "FIELD", required = true)]
    fields: Vec<String>,
    /// Refuse a record whose values another one has. Example: forebay store index define by-mail Person/data mail --unique
    #[arg(long)]
    unique: bool,
    #[command(flatten)]
    data: Data,
}

/// Drop an index; the records stay
#[derive(Debug, clap::Args)]
struct Drop {
    /// Its name. Example: forebay store index drop by-name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(arguments: StoreIndexArgs) -> anyhow::Result<()> {
    match arguments.command {
        Command::List(arguments) => list(&arguments.data),
        Command::Define(arguments) => define(arguments),
        Command::Drop(arguments) => drop_index(&arguments),
    }
}

/// Prints all indexes of a store.
pub(super) fn list(data: &Data) -> anyhow::Result<()> {
    let mut out = output::stream();
    for index in data.read()?.snapshot()?.indexes()? {
        writeln!(out, "{}", described(&index)).map_err(OutputError::from)?;
    }
    Ok(out.flush().map_err(OutputError::from)?)
}

fn define(arguments: Define) -> anyhow::Result<()> {
    let mut fields = Vec::new();
    for text in arguments.fields {
        match parse_field(&text) {
            Ok(field) => fields.push(field),
            Err(source) => return Err(StoreFailure::Field { text, source }.into()),
        }
    }
    let definition = Definition {
        name: arguments.name,
        records: arguments.records,
        fields,
        unique: arguments.unique,
    };
    // Checked before a store is created for it.
    definition.check()?;
    let store = arguments.data.write_or_make()?;
    if store.snapshot()?.indexes()?.contains(&definition) {
        return Ok(());
    }
    let mut transaction = store.begin()?;
    transaction.define_index(&definition)?;
    transaction.commit(Durability::Sync)?;
    Ok(())
}

fn drop_index(arguments: &Drop) -> anyhow::Result<()> {
    let store = arguments.data.write()?;
    let mut transaction = store.begin()?;
    if !transaction.drop_index(&arguments.name)? {
        let reason = "there is no such index; `forebay store index list` prints all".to_owned();
        let name = arguments.name.clone();
        return Err(StoreError::Index { name, reason }.into());
    }
    transaction.commit(Durability::Sync)?;
    Ok(())
}

/// Name, node of the records, fields, and whether it is unique, separated by tabs.
fn described(index: &Definition) -> String {
    let fields: Vec<String> = index.fields.iter().map(|field| field_text(field)).collect();
    let unique = if index.unique { "\tunique" } else { "" };
    format!(
        "{}\t{}\t{}{unique}",
        index.name,
        path::show(&index.records),
        fields.join(", ")
    )
}
