//! What statements are, without running them.

use std::fmt::Write as _;

use super::Lease;
use crate::{PgError, json::JSON_TYPES, timing::Timing};

/// What text a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// That of its type.
    Text,
    /// JSON.
    Json,
    /// An array as the server writes it: `{1,2}`.
    Array,
}

/// Has the server prepare a statement, and says what its parameters take.
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
