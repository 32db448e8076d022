//! Permissions of a request's sender on records, kept for when the request itself is no longer at hand.

use std::collections::BTreeMap;

use forebay_records::{Action, Denial, Permission};

/// Permissions by kind, as they were when the request arrived.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    /// Set for handlers, which have the store open and may do anything.
    everything: bool,
    /// Read and write permission for each kind; kinds without an entry are denied.
    of_kinds: BTreeMap<String, [Result<(), Denial>; 2]>,
}

impl Grants {
    pub(crate) fn new(of_kinds: BTreeMap<String, [Result<(), Denial>; 2]>) -> Self {
        Self {
            everything: false,
            of_kinds,
        }
    }

    /// Full access to one kind and none to others.
    pub(crate) fn only(kind: &str) -> Self {
        Self::new(BTreeMap::from([(kind.to_owned(), [Ok(()), Ok(())])]))
    }

    /// Full access, as handlers have it.
    pub(crate) fn everything() -> Self {
        Self {
            everything: true,
            of_kinds: BTreeMap::new(),
        }
    }
}

impl Permission for Grants {
    fn check(&self, kind: &str, action: Action) -> Result<(), Denial> {
        if self.everything {
            return Ok(());
        }
        let nobody = [Err(Denial::Nobody); 2];
        let [read, write] = self.of_kinds.get(kind).copied().unwrap_or(nobody);
        match action {
            Action::Read => read,
            Action::Write => write,
        }
    }
}
