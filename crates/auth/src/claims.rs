//! Reads and checks the claims of a token (RFC 7519, 4.1).

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::{CredentialKind, Identity, Refusal, jwt::JwtSettings};

/// A JSON object in which no name comes twice: of two, another reader might take the other one.
#[derive(Debug)]
pub(crate) struct Object(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Object, A::Error> {
                let mut object = Map::new();
                while let Some((name, value)) = members.next_entry::<String, Value>()? {
                    if object.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name comes twice"));
                    }
                }
                Ok(Object(object))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Checks claims. Returns the identity, and until when it is good.
pub(crate) fn check(
    claims: &Map<String, Value>,
    settings: &JwtSettings,
    now: SystemTime,
) -> Result<(Identity, SystemTime), Refusal> {
    let (subject, until) = check_registered(claims, settings, now)?;
    let identity = Identity::new(
        subject.to_owned(),
        CredentialKind::Jwt,
        scopes(claims)?,
        selected(claims, settings),
    );
    Ok((identity, until))
}

/// The claims that handlers get, as far as the token has them.
pub(crate) fn selected(claims: &Map<String, Value>, settings: &JwtSettings) -> Map<String, Value> {
    let selected = settings.claims.iter();
    let selected = selected.filter_map(|name| Some((name.clone(), claims.get(name)?.clone())));
    selected.collect()
}

/// Checks issuer, audience and times of claims. Returns their subject, and until when they are valid.
pub(crate) fn check_registered<'c>(
    claims: &'c Map<String, Value>,
    settings: &JwtSettings,
    now: SystemTime,
) -> Result<(&'c str, SystemTime), Refusal> {
    let missing = |claim| Refusal::Claim { claim };
    let expires = time(claims, "exp")?.ok_or(missing("exp"))?;
    let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let leeway_s = settings.leeway.as_secs_f64();
    if now_s >= expires + leeway_s {
        return Err(Refusal::Expired);
    }
    if time(claims, "nbf")?.is_some_and(|from| now_s + leeway_s < from) {
        return Err(Refusal::NotYetValid);
    }
    if text(claims, "iss")? != settings.issuer {
        return Err(Refusal::Issuer);
    }
    let is_ours = |name: &str| settings.audience.iter().any(|ours| ours == name);
    let is_for_us = match claims.get("aud") {
        Some(Value::String(name)) => is_ours(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is_ours),
        _ => return Err(missing("aud")),
    };
    if !is_for_us {
        return Err(Refusal::Audience);
    }
    let subject = text(claims, "sub")?;
    if subject.is_empty() {
        return Err(missing("sub"));
    }
    // A cached token is good for as long as one that is verified now.
    let until =
        UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(expires + leeway_s).unwrap_or(Duration::MAX));
    Ok((subject, until.unwrap_or(now)))
}

/// A date in seconds (RFC 7519, 2).
pub(crate) fn time(claims: &Map<String, Value>, claim: &'static str) -> Result<Option<f64>, Refusal> {
    match claims.get(claim) {
        None => Ok(None),
        Some(Value::Number(seconds)) => match seconds.as_f64().filter(|seconds| seconds.is_finite()) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(Refusal::Claim { claim }),
        },
        Some(_) => Err(Refusal::Claim { claim }),
    }
}

pub(crate) fn text<'c>(claims: &'c Map<String, Value>, claim: &'static str) -> Result<&'c str, Refusal> {
    claims
        .get(claim)
        .and_then(Value::as_str)
        .ok_or(Refusal::Claim { claim })
}

/// The scopes in `scope` (RFC 8693, 4.2), or in `scp`, which some issuers have instead: words separated by spaces, or a list.
fn scopes(claims: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let Some(written) = claims.get("scope").or_else(|| claims.get("scp")) else {
        return Ok(Vec::new());
    };
    let malformed = Refusal::Claim { claim: "scope" };
    match written {
        Value::String(text) => Ok(words(text)),
        Value::Array(list) => {
            let list = list.iter().map(|scope| scope.as_str().map(str::to_owned));
            list.collect::<Option<_>>().ok_or(malformed)
        }
        _ => Err(malformed),
    }
}

/// The words of a list as OAuth writes it (RFC 6749, 3.3).
pub(crate) fn words(text: &str) -> Vec<String> {
    let words = text.split(' ').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
