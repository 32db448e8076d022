//! The identity of an authenticated client.

use serde::Serialize;
use serde_json::{Map, Value};

/// The kind of credentials that a client has presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A signed token of an issuer.
    Jwt,
    /// A fixed bearer token.
    Token,
    /// A user name and a password.
    Password,
    /// An API key.
    ApiKey,
    /// A certificate, in the TLS handshake.
    Certificate,
    /// The session that a login by OpenID Connect has begun.
    Oidc,
}

impl CredentialKind {
    /// As handlers and logs see it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::Token => "token",
            Self::Password => "password",
            Self::ApiKey => "api_key",
            Self::Certificate => "certificate",
            Self::Oidc => "oidc",
        }
    }
}

/// As handlers get it, in this order.
#[derive(Serialize)]
struct Written<'a> {
    subject: &'a str,
    kind: &'a str,
    scopes: &'a [String],
    claims: Map<String, Value>,
}

/// The identity of an authenticated client, with its scopes.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    subject: String,
    kind: CredentialKind,
    scopes: Vec<String>,
    json: String,
}

impl Identity {
    /// An identity with these claims, as far as handlers are to see them.
    pub fn new(
        subject: String,
        kind: CredentialKind,
        scopes: Vec<String>,
        claims: Map<String, Value>,
    ) -> Self {
        let written = Written {
            subject: &subject,
            kind: kind.name(),
            scopes: &scopes,
            claims,
        };
        let json = serde_json::to_string(&written).expect("names and JSON values can be written");
        Self {
            subject,
            kind,
            scopes,
            json,
        }
    }

    /// The name of the user, client or device.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The kind of credentials presented.
    pub fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// The first of these scopes that it lacks.
    pub fn missing_scope<'s>(&self, needed: &'s [String]) -> Option<&'s str> {
        let is_missing = |scope: &&String| !self.scopes.contains(*scope);
        needed.iter().find(is_missing).map(String::as_str)
    }

    /// The JSON object that handlers get: `subject`, `kind`, `scopes`, `claims`.
    pub fn json(&self) -> &str {
        &self.json
    }
}
