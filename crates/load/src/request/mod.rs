//! The requests of a run as bytes, built before the run wherever possible. A request that never changes is a [`Message`]; one with
//! placeholders is a [`Template`]. Nothing here connects or waits.

mod body;
mod parts;
mod source;
mod template;
mod urls;

use std::sync::Arc;

pub(crate) use self::source::{Random, Source, SourceId};
pub use self::{
    body::{Lines, LinesError},
    parts::{Message, Parts, RequestError, Version},
    template::{Grammar, ReadFile, Template, TemplateError, split_url},
    urls::{Targets, TargetsError},
};

/// The requests that a lane sends.
#[derive(Clone, Debug)]
pub enum Requests {
    /// The same request every time.
    Same(Message),
    /// Several requests, one after the other, or one with placeholders.
    Several(Arc<[Template]>),
}

impl Requests {
    /// One request: the same bytes each time unless it has placeholders.
    pub fn one(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        Ok(match Template::new(parts, grammar)?.into_fixed() {
            Ok(message) => Self::Same(message),
            Err(template) => Self::Several([template].into()),
        })
    }
}
