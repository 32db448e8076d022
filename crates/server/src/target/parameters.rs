//! Query parameters: form-decoded, each given at most once.

use std::{borrow::Cow, str::FromStr};

use crate::failure::Refusal;
use forebay_router::decode;

/// A decoded parameter.
#[derive(Debug)]
pub(crate) struct Parameter<'q> {
    pub(crate) name: Cow<'q, str>,
    pub(crate) value: Cow<'q, str>,
}

/// The query's parameters in order. A parameter given twice is refused, except the one named by `repeated`.
pub(crate) fn parameters<'q>(
    query: &'q [u8],
    repeated: &'static str,
) -> impl Iterator<Item = Result<Parameter<'q>, Refusal>> {
    let mut seen: Vec<Cow<'q, str>> = Vec::new();
    let pairs = query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    pairs.map(move |pair| {
        let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let (name, value) = (&pair[..at], pair.get(at + 1..).unwrap_or_default());
        let (Some(name), Some(value)) = (text(name), text(value)) else {
            return Err(Refusal::Query {
                name: String::from_utf8_lossy(name).into_owned(),
                what: "it is not percent-encoded UTF-8",
            });
        };
        let parameter = Parameter { name, value };
        if seen.contains(&parameter.name) {
            return Err(parameter.wrong("it is given twice"));
        }
        if parameter.name != repeated {
            seen.push(parameter.name.clone());
        }
        Ok(parameter)
    })
}

impl Parameter<'_> {
    /// The error for an invalid value of this parameter.
    pub(super) fn wrong(&self, what: &'static str) -> Refusal {
        Refusal::Query {
            name: self.name.clone().into_owned(),
            what,
        }
    }

    /// A whole number; digits only.
    pub(super) fn number<N: FromStr>(&self) -> Option<N> {
        let is_plain = self.value.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| self.value.parse().ok()).flatten()
    }

    pub(super) fn flag(&self) -> Result<bool, Refusal> {
        match &*self.value {
            "" | "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong("it is `true`, `false` or without a value")),
        }
    }
}

/// Form decoding: `+` is a space.
fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    let raw = std::str::from_utf8(raw).ok()?;
    if !raw.contains('+') {
        return decode(raw);
    }
    decode(&raw.replace('+', " ")).map(|text| Cow::Owned(text.into_owned()))
}
