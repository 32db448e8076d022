//! JSON Web Tokens (RFC 7519), signed by an issuer whose public keys are known.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, crypto, decode_header};
use serde_json::{Map, Value};

use crate::{
    Identity, KeySource, Refusal,
    cache::{Cache, Digest, digest},
    claims::{self, Object},
    key_set::KeySet,
    signatures,
};

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The only issuer: the claim `iss`.
    pub issuer: String,
    /// Names of this service, one of which is in the claim `aud`.
    pub audience: Vec<String>,
    /// The accepted signature algorithms; each is used only with keys of its type.
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// Longest token, in bytes.
    pub token_bytes_max: usize,
    /// The claims that handlers get.
    pub claims: Vec<String>,
}

/// Verifies tokens.
#[derive(Debug)]
pub(crate) struct Jwt {
    settings: JwtSettings,
    keys: Arc<KeySource>,
    verified: Cache,
}

impl Jwt {
    pub(crate) fn new(settings: JwtSettings, keys: Arc<KeySource>) -> Self {
        signatures::install();
        Self {
            settings,
            keys,
            verified: Cache::default(),
        }
    }

    pub(crate) fn settings(&self) -> &JwtSettings {
        &self.settings
    }

    pub(crate) fn keys(&self) -> &Arc<KeySource> {
        &self.keys
    }

    /// Verifies a token by the keys that are known now.
    pub(crate) fn verify(&self, token: &[u8], now: SystemTime) -> Result<Arc<Identity>, Refusal> {
        self.check_length(token)?;
        let (keys, version) = self.keys.current();
        let digest: Digest = digest(&[token]);
        if let Some(identity) = self.verified.get(&digest, now, version) {
            return Ok(identity);
        }
        let (claims, _) = self.signed_claims(token, &keys)?;
        let (identity, until) = claims::check(&claims.0, &self.settings, now)?;
        let identity = Arc::new(identity);
        self.verified.put(digest, &identity, now, until, version);
        Ok(identity)
    }

    /// The claims of a token that is good now, and the algorithm of its signature.
    pub(crate) fn claims(
        &self,
        token: &[u8],
        now: SystemTime,
    ) -> Result<(Map<String, Value>, Algorithm), Refusal> {
        self.check_length(token)?;
        let (claims, algorithm) = self.signed_claims(token, &self.keys.current().0)?;
        claims::check_registered(&claims.0, &self.settings, now)?;
        Ok((claims.0, algorithm))
    }

    fn check_length(&self, token: &[u8]) -> Result<(), Refusal> {
        let bytes_max = self.settings.token_bytes_max;
        if token.len() > bytes_max {
            return Err(Refusal::TooLong { bytes_max });
        }
        Ok(())
    }

    /// The claims of a token whose signature is valid, and its algorithm. Nothing of the claims is looked at before.
    fn signed_claims(&self, token: &[u8], keys: &KeySet) -> Result<(Object, Algorithm), Refusal> {
        let malformed = |what| Refusal::Malformed { what };
        let not_a_token = malformed("it is not a signed JSON Web Token");
        let token = str::from_utf8(token).map_err(|_| not_a_token.clone())?;
        let mut parts = token.split('.');
        let (Some(_), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(not_a_token);
        };
        // An algorithm that is not known, such as `none`, is an error here.
        let header = decode_header(token)
            .map_err(|_| malformed("its header is not one of a signed JSON Web Token"))?;
        if header.crit.is_some() {
            return Err(malformed("it has critical extensions"));
        }
        if !self.settings.algorithms.contains(&header.alg) {
            return Err(Refusal::Algorithm);
        }
        if keys.is_empty() {
            return Err(Refusal::NoKeys);
        }
        let candidates = keys.candidates(header.kid.as_deref(), header.alg);
        if candidates.is_empty() {
            return Err(Refusal::UnknownKey);
        }
        let signed = &token.as_bytes()[..token.len() - signature.len() - 1];
        let is_signed_by = |key| crypto::verify(signature, signed, key, header.alg).unwrap_or(false);
        if !candidates.into_iter().any(is_signed_by) {
            return Err(Refusal::Signature);
        }
        let claims = URL_SAFE_NO_PAD.decode(payload).ok();
        let claims = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
        let not_claims = malformed("its claims are not a JSON object in which each name comes once");
        Ok((claims.ok_or(not_claims)?, header.alg))
    }
}
