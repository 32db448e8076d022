//! The checks of an ID token beyond those of every token (OpenID Connect Core 1.0, 3.1.3.7).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use ring::digest;
use serde_json::{Map, Value};

use super::LoginError;
use crate::{JwtSettings, claims};

/// The login that an ID token must belong to.
pub(super) struct Expected<'a> {
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// The access token that came with it.
    pub(super) access_token: Option<&'a str>,
}

impl Expected<'_> {
    pub(super) fn check(
        &self,
        token: &Map<String, Value>,
        algorithm: Algorithm,
        settings: &JwtSettings,
        now: SystemTime,
    ) -> Result<(), LoginError> {
        let text = |claim| token.get(claim).map(|value| value.as_str().unwrap_or_default());
        if text("nonce") != Some(self.nonce) {
            return Err(LoginError::Claim { claim: "nonce" });
        }
        let has_others = token
            .get("aud")
            .and_then(Value::as_array)
            .is_some_and(|names| names.len() > 1);
        if text("azp").map_or(has_others, |azp| azp != self.client_id) {
            return Err(LoginError::Claim { claim: "azp" });
        }
        let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let latest = now_s + settings.leeway.as_secs_f64();
        let issued = claims::time(token, "iat").map_err(LoginError::IdToken)?;
        if issued.is_none_or(|issued| issued > latest) {
            return Err(LoginError::Claim { claim: "iat" });
        }
        let at_hash = self
            .access_token
            .map(|access_token| half_hash(access_token, algorithm));
        if text("at_hash").is_some() && text("at_hash") != at_hash.as_deref() {
            return Err(LoginError::Claim { claim: "at_hash" });
        }
        Ok(())
    }
}

/// The left half of a token's hash, by the hash function of the algorithm (OpenID Connect Core 1.0, 3.1.3.6).
fn half_hash(token: &str, algorithm: Algorithm) -> String {
    let function = match algorithm {
        Algorithm::RS384 | Algorithm::PS384 | Algorithm::ES384 => &digest::SHA384,
        Algorithm::RS512 | Algorithm::PS512 | Algorithm::EdDSA => &digest::SHA512,
        _ => &digest::SHA256,
    };
    let hash = digest::digest(function, token.as_bytes());
    URL_SAFE_NO_PAD.encode(&hash.as_ref()[..hash.as_ref().len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_function_is_that_of_the_algorithm() {
        // OpenID Connect Core 1.0, A.3.
        let token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";
        assert_eq!(half_hash(token, Algorithm::RS256), "77QmUPtjPfzWtF2AnpK9RQ");
        let hash = "8xltSlOGYrWy8W9yNvRlEth1i_bXW-JROWPLvCv5zog";
        assert_eq!(half_hash("dNZX1hEZ9wBCzNL40Upu646bdzQA", Algorithm::EdDSA), hash);
    }
}
