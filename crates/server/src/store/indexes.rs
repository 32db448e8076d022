//! Creates missing indexes of the configuration at the start, before any request is answered.

use std::time::Instant;

use forebay_store::{
    Read, Store,
    index::{Definition, field_text},
};

use super::{StoreOpenError, path};

/// Creates the missing indexes. An existing index with another definition is an error and is left alone: another program may use it, and
/// rebuilding can take long. Indexes that the configuration does not name stay as well.
pub(super) fn make(store: &Store, wanted: &[Definition]) -> Result<(), StoreOpenError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let there = store.snapshot()?.indexes()?;
    let mut missing = Vec::new();
    for definition in wanted {
        match there.iter().find(|index| index.name == definition.name) {
            None => missing.push(definition),
            Some(found) if found == definition => {}
            Some(found) => {
                return Err(StoreOpenError::OtherIndex {
                    name: definition.name.clone(),
                    found: described(found),
                    wanted: described(definition),
                    path: store.path().into(),
                });
            }
        }
    }
    for definition in missing {
        let (name, begun) = (&definition.name, Instant::now());
        tracing::info!(target: "forebay::store", index = name, of = %described(definition), "an index is being made");
        store
            .transact(|transaction| transaction.define_index(definition))
            .map_err(|source| StoreOpenError::Index {
                name: name.clone(),
                source,
            })?;
        let ms = begun.elapsed().as_millis() as u64;
        tracing::info!(target: "forebay::store", index = name, ms, "the index is there");
    }
    Ok(())
}

fn described(index: &Definition) -> String {
    let mut text = String::new();
    path::put_key(&index.records, &mut text);
    let fields: Vec<String> = index.fields.iter().map(|field| field_text(field)).collect();
    let unique = if index.unique { ", unique" } else { "" };
    format!("{text} by {}{unique}", fields.join(", "))
}
