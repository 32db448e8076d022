//! In-place JSON Merge Patch (RFC 7396): nodes that the patch does not name are neither read nor written.

use crate::{
    error::StoreError, json::Json, key::Key, read::Read, transaction::Transaction, tree::write::check_paths,
};

impl Transaction {
    /// Applies a merge patch to the document at a node. A value next to children is not part of the document and stays;
    /// expiry times of the node, and of objects that the patch descends into, stay as well. Invalid input is rejected
    /// before anything is changed.
    pub fn patch(&mut self, key: &Key, patch: &[u8]) -> Result<(), StoreError> {
        let max = self.reader().tables.value_bytes_max;
        if patch.len() > max {
            return Err(StoreError::ValueTooLong {
                bytes: patch.len(),
                max,
            });
        }
        let patch = Json::read(patch)?;
        check_paths(key, &patch)?;
        self.keep_time(key, |transaction| transaction.merge_patch(key, patch))
    }

    /// Makes a change after which the node has the same expiry time as before.
    fn keep_time(
        &mut self,
        key: &Key,
        change: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let before = self.expires(key)?;
        change(self)?;
        if before.is_some() && self.expires(key)? != before {
            self.expire(key, before)?;
        }
        Ok(())
    }

    fn merge_patch(&mut self, key: &Key, patch: Json<'_>) -> Result<(), StoreError> {
        let Json::Object(members) = patch else {
            return self.replace(key, &patch);
        };
        if !self.is_object(key)? {
            return self.replace(key, &without_nulls(Json::Object(members)));
        }
        let (removed, kept): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, member)| is_null(member));
        for (name, member) in kept {
            self.merge_patch(&key.child(&name)?, member)?;
        }
        for (name, _) in removed {
            self.remove(key, &key.child(&name)?)?;
        }
        Ok(())
    }

    /// Replaces the document at a node. If both the old and the new document have children, the node's own value stays.
    fn replace(&mut self, key: &Key, document: &Json<'_>) -> Result<(), StoreError> {
        let beside = self.defined(key)?.children && !document.is_leaf();
        let own = self.get(key)?.filter(|_| beside).map(<[u8]>::to_vec);
        self.put(key, &document.to_text())?;
        own.map_or(Ok(()), |own| self.set(key, &own))
    }

    /// Removes a member. An object that loses its last member becomes `{}`, although nodes without children usually
    /// vanish; if it has a value of its own, that remains.
    fn remove(&mut self, parent: &Key, key: &Key) -> Result<(), StoreError> {
        if !self.defined(key)?.exists() {
            return Ok(());
        }
        let mut children = self.children(parent, crate::Range::default())?.take(2);
        let alone = children.next().is_some() && children.next().is_none();
        drop(children);
        if !alone || self.defined(parent)?.value {
            return self.kill(key).map(drop);
        }
        // For the patch it is still the same object.
        self.keep_time(parent, |transaction| transaction.put(parent, b"{}"))
    }

    fn is_object(&self, key: &Key) -> Result<bool, StoreError> {
        let defined = self.defined(key)?;
        if defined.children {
            return Ok(!self.is_array(key)?);
        }
        Ok(self.get(key)? == Some(b"{}"))
    }
}

fn is_null(value: &Json<'_>) -> bool {
    matches!(value, Json::Scalar(text) if text == "null")
}

/// The result of a patch applied to nothing: null members are left out, in nested objects too.
fn without_nulls(patch: Json<'_>) -> Json<'_> {
    let Json::Object(members) = patch else {
        return patch;
    };
    let members = members.into_iter().filter(|(_, member)| !is_null(member));
    Json::Object(
        members
            .map(|(name, member)| (name, without_nulls(member)))
            .collect(),
    )
}
