//! Secret values, which are never printed.

use std::fmt;

/// Printed in place of a secret that is written in the configuration itself, and of a hash of one.
pub(crate) const HIDDEN: &str = "***";

/// A secret value. It has no `Display`; `Debug` prints the same placeholder as a printed configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    variable: Option<String>,
    value: String,
}

impl Secret {
    /// A secret from an environment variable, read when the configuration was loaded.
    pub fn of_variable(variable: &str, value: &str) -> Self {
        Self {
            variable: Some(variable.to_owned()),
            value: value.to_owned(),
        }
    }

    /// A secret written in the configuration itself.
    pub fn literal(value: &str) -> Self {
        Self {
            variable: None,
            value: value.to_owned(),
        }
    }

    /// The secret value.
    pub fn reveal(&self) -> &str {
        &self.value
    }

    /// The text to print instead: the variable's name, or `***`.
    pub fn shown(&self) -> &str {
        self.variable.as_deref().unwrap_or(HIDDEN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.shown())
    }
}
