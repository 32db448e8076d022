//! Describes statements without running them.

use std::fmt::Write as _;

use super::Lease;
use crate::{PgError, json::JSON_TYPES, timing::Timing};

/// Text format that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// The text format of its type.
    Text,
    /// A JSON document.
    Json,
    /// An array as the server writes it: `{1,2}`.
    Array,
}

/// Prepares a statement on the server and returns the format of each parameter.
pub(crate) async fn describe(mut lease: Lease, text: &str) -> Result<Vec<Takes>, PgError> {
    let connection = lease.connection();
    let parameters = connection.describe(text).await?.parameters;
    let mut list = String::from("{");
    for (index, oid) in parameters.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(list, "{comma}{oid}");
    }
    list.push('}');
    let query = "select oid::text from pg_catalog.pg_type where typcategory = 'A' and oid = any ($1::oid[])";
    let arrays = connection
        .query(query, &[Some(list.as_bytes())], &Timing::default())
        .await?;
    let is_array = |oid: &u32| {
        let oid = oid.to_string();
        arrays.rows.iter().any(|row| row.text(0) == Some(oid.as_bytes()))
    };
    let takes = parameters.iter().map(|oid| match oid {
        oid if JSON_TYPES.contains(oid) => Takes::Json,
        oid if is_array(oid) => Takes::Array,
        _ => Takes::Text,
    });
    Ok(takes.collect())
}
