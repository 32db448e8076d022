//! Access rules for kinds, supplied by the user of this crate.

/// An action on records of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at records.
    Read,
    /// Create, change or remove records.
    Write,
}

impl Action {
    /// The action as a verb.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Why an action is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// No caller is allowed to.
    Nobody,
    /// A token is required, and there was none.
    TokenNeeded,
    /// The token was wrong.
    WrongToken,
}

/// The access rules for one caller.
pub trait Permission {
    /// Checks whether records of a kind may be read or written.
    fn check(&self, kind: &str, action: Action) -> Result<(), Denial>;
}

/// Unrestricted access, as handlers have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Permission for Everything {
    fn check(&self, _: &str, _: Action) -> Result<(), Denial> {
        Ok(())
    }
}
