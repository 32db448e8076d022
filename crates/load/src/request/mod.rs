//! What is sent: requests as bytes, made before the run wherever they can be. A request that never changes is a [`Message`]; one with
//! placeholders is a [`Template`]; one that depends on earlier answers is a step of a [`Scenario`]. Nothing here connects or waits.

mod access_log;
pub mod body;
mod csv;
mod flaw;
mod har;
pub mod multipart;
mod parts;
mod proxied;
mod raw;
mod redirect;
mod scenario;
mod sigv4;
mod source;
mod template;
mod urls;

use std::sync::Arc;

pub use self::{
    access_log::{AccessLog, AccessLogError, read_access_log},
    body::{Bodies, BodyError, Lines},
    csv::{Csv, CsvError},
    flaw::Flaw,
    har::{Har, HarError, read_har},
    parts::{Message, Parts, RequestError, Version},
    raw::RawError,
    scenario::{Scenario, ScenarioError},
    sigv4::{Signer, SignerError},
    template::{Grammar, Template, TemplateError, split_url},
    urls::{Origin, Target, Targets, TargetsError},
};
pub(crate) use self::{
    redirect::{Follower, Led},
    scenario::{Pass, Turn, User},
    source::{Put, Random, Seat, Source},
};

/// A value of JSON, or each of an array, where one may stand for several.
fn one_or_more(value: &serde_json::Value) -> &[serde_json::Value] {
    match value {
        serde_json::Value::Array(values) => values,
        one => std::slice::from_ref(one),
    }
}

/// What a lane carries.
#[derive(Clone, Debug)]
pub enum Requests {
    /// The same again and again.
    Same(Message),
    /// Any other kind that needs nothing but a number: several, or one with placeholders.
    Several(Arc<Several>),
    /// Steps that use what earlier answers said. Each connection is one user that goes through them.
    Scenario(Arc<Scenario>),
    /// Any of these, each with a signature of its own.
    Signed(Arc<(Self, Signer)>),
}

/// Several requests and how they follow each other.
#[derive(Clone, Debug)]
pub struct Several {
    templates: Box<[Template]>,
    /// The sum of the weights up to and including each.
    weights: Box<[u64]>,
    order: Order,
}

/// The order in which several requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other, from the start again at the end. Weights do not matter.
    #[default]
    InTurn,
    /// Any, at random, all as often.
    Random,
    /// Any, at random, as often as its weight says.
    Weighted,
    /// One after the other, shared by all threads, as [`Plan::trace`](crate::plan::Plan::trace) says.
    Replay,
}

impl Requests {
    /// Several requests with their weights. `None` when there are none, or all weights are 0.
    pub fn several(templates: Vec<(Template, u32)>, order: Order) -> Option<Self> {
        let mut sum = 0;
        let weigh = |(_, weight): &(Template, u32)| {
            sum += u64::from(*weight);
            sum
        };
        let weights: Box<[u64]> = templates.iter().map(weigh).collect();
        (sum > 0).then(|| {
            Self::Several(Arc::new(Several {
                templates: templates.into_iter().map(|(template, _)| template).collect(),
                weights,
                order,
            }))
        })
    }

    /// One request: the same bytes each time unless it has placeholders.
    pub fn one(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        let template = Template::new(parts, grammar)?;
        Ok(match template.into_fixed() {
            Ok(message) => Self::Same(message),
            Err(template) => Self::Several(Arc::new(Several {
                templates: [template].into(),
                weights: [1].into(),
                order: Order::InTurn,
            })),
        })
    }

    /// How many different requests are told apart.
    pub fn kinds(&self) -> usize {
        match self {
            Self::Same(_) | Self::Scenario(_) => 1,
            Self::Several(several) => several.templates.len(),
            Self::Signed(signed) => signed.0.kinds(),
        }
    }

    /// The first of them, as it could be sent.
    pub fn sample(&self) -> Vec<u8> {
        self.samples().into_iter().next().unwrap_or_default()
    }

    /// One of each kind, as it could be sent.
    pub(crate) fn samples(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Same(message) => vec![message.bytes.to_vec()],
            Self::Several(several) => several.templates.iter().map(Template::sample).collect(),
            Self::Scenario(scenario) => scenario.samples(),
            Self::Signed(signed) => signed.0.samples(),
        }
    }

    /// The same with signatures.
    #[must_use]
    pub fn signed(self, signer: Signer) -> Self {
        Self::Signed(Arc::new((self, signer)))
    }

    /// Steps for every connection to go through.
    pub fn scenario(scenario: Scenario) -> Self {
        Self::Scenario(Arc::new(scenario))
    }
}
