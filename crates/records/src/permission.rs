//! Who may read and write which kind, as whoever uses this crate says it.

/// What somebody is about to do with records of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To see them.
    Read,
    /// To make, change or remove them.
    Write,
}

impl Action {
    /// As a verb.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Nobody may.
    Nobody,
    /// Whoever has a token may, and there was none.
    TokenNeeded,
    /// There was another token.
    WrongToken,
}

/// The rules that hold for one caller.
pub trait Permission {
    /// Whether records of a kind may be read or written.
    fn check(&self, kind: &str, action: Action) -> Result<(), Denial>;
}

/// Leave to do everything, which handlers have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Permission for Everything {
    fn check(&self, _: &str, _: Action) -> Result<(), Denial> {
        Ok(())
    }
}
