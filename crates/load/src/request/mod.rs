//! The requests of a run as bytes, built before the run wherever possible. A request that never changes is a [`Message`]; one with
//! placeholders is a [`Template`]. Nothing here connects or waits.

mod body;
mod parts;
mod source;
mod template;
mod urls;

use std::sync::Arc;

pub(crate) use self::source::{Random, Seat, Source};
pub use self::{
    body::{Bodies, Lines, LinesError},
    parts::{Message, Parts, RequestError, Version},
    template::{Grammar, ReadFile, Template, TemplateError, split_url},
    urls::{Targets, TargetsError},
};

/// The requests that a lane sends.
#[derive(Clone, Debug)]
pub enum Requests {
    /// The same request every time.
    Same(Message),
    /// Several requests, or one with placeholders.
    Several(Arc<Several>),
}

/// Several requests and the order in which they are sent.
#[derive(Clone, Debug)]
pub struct Several {
    templates: Box<[Template]>,
    order: Order,
}

/// The order in which several requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other, starting again at the end.
    #[default]
    InTurn,
    /// Each at random.
    Random,
}

impl Requests {
    /// Several requests. `None` when there are none.
    pub fn several(templates: Vec<Template>, order: Order) -> Option<Self> {
        let templates: Box<[Template]> = templates.into();
        (!templates.is_empty()).then(|| Self::Several(Arc::new(Several { templates, order })))
    }

    /// One request: the same bytes each time unless it has placeholders.
    pub fn one(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        Ok(match Template::new(parts, grammar)?.into_fixed() {
            Ok(message) => Self::Same(message),
            Err(template) => Self::Several(Arc::new(Several {
                templates: [template].into(),
                order: Order::InTurn,
            })),
        })
    }
}
