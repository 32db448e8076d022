//! Values that are never shown.

use std::fmt;

/// Stands for a value that the configuration itself holds.
const HIDDEN: &str = "***";

/// A value that is never shown: it has no `Display`, and its `Debug` is what a printed configuration has in its place.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    variable: Option<String>,
    value: String,
}

impl Secret {
    /// What an environment variable held when the configuration was read.
    pub fn of_variable(variable: &str, value: &str) -> Self {
        Self {
            variable: Some(variable.to_owned()),
            value: value.to_owned(),
        }
    }

    /// What stands in the configuration itself.
    pub fn literal(value: &str) -> Self {
        Self {
            variable: None,
            value: value.to_owned(),
        }
    }

    /// The value, for whoever needs it.
    pub fn reveal(&self) -> &str {
        &self.value
    }

    /// What is shown instead: the variable's name, or `***`.
    pub fn shown(&self) -> &str {
        self.variable.as_deref().unwrap_or(HIDDEN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.shown())
    }
}
