//! Functions for the fuzz target `credentials`: each panics when a property does not hold.

use std::time::{Duration, SystemTime};

use jsonwebtoken::Algorithm;
use serde_json::Value;

use crate::{
    JwtSettings, basic, bearer,
    claims::{self, Object},
    key_set::KeySet,
    oidc::Metadata,
};

const ISSUER: &str = "https://id.example.org/";

/// Reads the same bytes as the value of `Authorization`, as the claims of a token whose signature is right, and as what an issuer publishes:
/// its keys, and its OpenID configuration.
pub fn credentials(bytes: &[u8]) {
    if let Some(token) = bearer(bytes) {
        assert!(token.len() < bytes.len() && token.trim_ascii() == token);
    }
    if let Ok((name, _)) = basic(bytes) {
        assert!(!name.contains(':'), "the first colon ends the name");
    }
    if let Ok(Object(object)) = serde_json::from_slice(bytes) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let settings = JwtSettings {
            issuer: ISSUER.to_owned(),
            audience: vec!["shop".to_owned()],
            algorithms: vec![Algorithm::ES256],
            leeway: Duration::from_mins(1),
            token_bytes_max: usize::MAX,
            claims: vec!["email".to_owned()],
        };
        if let Ok((identity, until)) = claims::check(&object, &settings, now) {
            assert_eq!(object.get("iss"), Some(&Value::from(ISSUER)));
            assert_eq!(object.get("sub"), Some(&Value::from(identity.subject())));
            assert!(until >= now, "it has not expired");
        }
    }
    if let Ok(keys) = KeySet::parse(bytes) {
        assert!(!keys.is_empty());
        let of_text = std::str::from_utf8(bytes).ok();
        keys.candidates(of_text, Algorithm::ES256);
    }
    if let Ok(metadata) = Metadata::parse(bytes, ISSUER) {
        assert!(metadata.token.host().is_some(), "codes go to a host");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "Basic ",
        "bearer ",
        "dTpw",
        "\"iss\":\"https://id.example.org/\"",
        "\"aud\":\"shop\"",
        "\"aud\":[1,\"shop\"]",
        "\"sub\":\"a\"",
        "\"exp\":1e300",
        "\"exp\":1000000000",
        "\"nbf\":-1",
        "\"scope\":\"a b\"",
        "\"scp\":[",
        "\"keys\":[",
        "\"kty\":\"EC\"",
        "\"crv\":\"P-256\"",
        "\"x\":\"AKQbyYzM632ZJJdODBGHjkBTTFPhzn0vsF_FeYVFAdo\"",
        "\"issuer\":\"https://id.example.org/\"",
        "\"token_endpoint\":\"https://id.example.org/t\"",
        "\"jwks_uri\":\"http://a\"",
        "1e999",
        "\u{e9}",
        "\\u0000",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_credentials_or_refused(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..16)) {
            credentials(words.concat().as_bytes());
            credentials(format!("{{{}}}", words.join(",")).as_bytes());
        }
    }
}
