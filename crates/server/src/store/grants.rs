//! What the sender of a request may do with records, for when the request is not at hand any more.

use std::collections::BTreeMap;

use forebay_records::{Action, Denial, Permission};

/// What was said of kinds when the request came.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    /// Whoever has the store open may do everything.
    everything: bool,
    /// Of reading and of writing; nothing of what nobody may do.
    of_kinds: BTreeMap<String, [Result<(), Denial>; 2]>,
}

impl Grants {
    pub(crate) fn new(of_kinds: BTreeMap<String, [Result<(), Denial>; 2]>) -> Self {
        Self {
            everything: false,
            of_kinds,
        }
    }

    /// Leave to do everything with one kind, and nothing with others.
    pub(crate) fn only(kind: &str) -> Self {
        Self::new(BTreeMap::from([(kind.to_owned(), [Ok(()), Ok(())])]))
    }

    /// Leave to do everything, which handlers have.
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
