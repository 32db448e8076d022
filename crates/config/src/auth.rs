//! `[auth.NAME]`

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, str::FromStr as _, time::Duration};

use forebay_auth::{Algorithm, CertificateName, JwtSettings, KeyLocation, PasswordHash, SecretDigest, User};
use http::Uri;

use crate::Secret;
use crate::build::Context;
use crate::fields::{Fields, Value};
use crate::key::{HOUR, KIB, MINUTE, SECOND};
use crate::section::{Entry, Unused, section, unless, words};
use crate::setting::{Text, parsed};

/// The keys that are methods.
const METHODS: [&str; 5] = ["jwt", "tokens", "basic", "api_keys", "certificate"];

section! {
    /// A way for clients to prove who they are, which routes name by `auth`. It has exactly one method: `jwt`, `tokens`, `basic`, `api_keys` or
    /// `certificate`. Handlers see the client as `request.user`.
    #[rules(Auth::rules)]
    #[check(Auth::check)]
    #[unused(Auth::unused)]
    pub struct Auth {
        /// Method: `Authorization: Bearer` with a JSON Web Token of an issuer.
        jwt: Option<JwtAuth> => "401 with `WWW-Authenticate`",
        /// Method: `[auth.NAME.tokens.SUBJECT]`, clients with a fixed token each, sent as `Authorization: Bearer`.
        tokens: BTreeMap<String, TokenAuth> => "401 with `WWW-Authenticate`",
        /// Method: `[auth.NAME.basic.USER]`, users with passwords, sent as `Authorization: Basic`.
        basic: BTreeMap<String, UserAuth> => "401 with `WWW-Authenticate`",
        /// Method: `[auth.NAME.api_keys.SUBJECT]`, clients with a key each, sent in the header `header`.
        api_keys: BTreeMap<String, ApiKeyAuth> => "401 with `WWW-Authenticate`",
        /// For `api_keys`: the header that has the key.
        header: String = "x-api-key",
        /// Method: the certificate that the client shows in the TLS handshake, which `server.client_ca` has signed; `certificate = {}`.
        certificate: Option<CertificateAuth> => "401 with `WWW-Authenticate`",
    }
}

section! {
    /// `auth.NAME.jwt`
    #[rules(JwtAuth::rules)]
    #[unused(JwtAuth::unused)]
    pub struct JwtAuth {
        /// The only accepted issuer: the claim `iss`.
        issuer: String,
        /// Names of this service, one of which must be in the claim `aud`.
        audience: Vec<String> as at_least(1),
        /// The URL of the issuer's public keys (a JSON Web Key Set), with `https:`; with `http:` only on this machine. The keys are fetched in the background;
        /// while that fails, the last ones stay in force.
        jwks: Option<Uri>,
        /// Instead of `jwks`: a file with the keys, read when the configuration is.
        jwks_file: Option<PathBuf> as FILE,
        /// For `jwks`: a PEM file with the authorities that have signed the certificate of its server. Without it those that the system trusts.
        jwks_ca: Option<PathBuf> as FILE,
        /// For `jwks`: how often the keys are fetched. A token with an unknown key has them fetched at once, at most every 5 seconds.
        jwks_refresh: Duration as duration(SECOND, 24 * HOUR) = "15m",
        /// The accepted signature algorithms: `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`. Each is used with keys of its
        /// type only.
        algorithms: Vec<Algorithm> as at_least(1) = "RS256",
        /// How far the clocks of issuer and server may differ when `exp` and `nbf` are compared.
        leeway: Duration as duration(0, 10 * MINUTE) = "30s",
        /// The longest token.
        token_bytes_max: usize as size(256, 64 * KIB) = "8KiB",
        /// Claims that handlers get, such as `email`, as `request.user.claims`. Subject and scopes they get in any case.
        claims: Vec<String> = "",
    }
}

section! {
    /// `auth.NAME.tokens.SUBJECT`
    pub struct TokenAuth {
        /// The environment variable with the token.
        token: Secret,
        /// The client's scopes; routes ask for them by `scopes`.
        scopes: Vec<String> = "",
    }
}

section! {
    /// `auth.NAME.basic.USER`
    pub struct UserAuth {
        /// The hash of the password by Argon2id: what `forebay password` prints.
        password: PasswordHash,
        /// The user's scopes; routes ask for them by `scopes`.
        scopes: Vec<String> = "",
    }
}

section! {
    /// `auth.NAME.api_keys.SUBJECT`
    pub struct ApiKeyAuth {
        /// The SHA-256 digest of the key, in hexadecimal digits: what `printf %s KEY | sha256sum` prints. Keys should be long and random.
        sha256: SecretDigest,
        /// The client's scopes; routes ask for them by `scopes`.
        scopes: Vec<String> = "",
    }
}

section! {
    /// `auth.NAME.certificate`
    pub struct CertificateAuth {
        /// The name in the certificate that is the client's: `common_name` or `distinguished_name` of its subject, or its first alternative name
        /// of the kind `dns`, `email` or `uri`.
        name: CertificateName = "common_name",
        /// The scopes of all these clients; routes ask for them by `scopes`.
        scopes: Vec<String> = "",
    }
}

words! {
    for CertificateName {
        CommonName = "common_name",
        DistinguishedName = "distinguished_name",
        Dns = "dns",
        Email = "email",
        Uri = "uri",
    }
}

impl Text for Algorithm {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let is_public = |algorithm: &Self| !matches!(algorithm, Self::HS256 | Self::HS384 | Self::HS512);
        let found = Self::from_str(written).ok().filter(is_public);
        if found.is_none() {
            let message = format!(
                "found {written:?}, expected an algorithm with public keys: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA"
            );
            entry.note(context, line, message);
        }
        found
    }

    fn to_text(&self) -> String {
        format!("{self:?}")
    }
}

fn tables<'f>(fields: &'f Fields, key: &str) -> &'f [(String, Fields)] {
    match fields.value(key) {
        Some(Value::TableMap(tables)) => tables,
        _ => &[],
    }
}

impl Auth {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let written: Vec<&str> = METHODS.into_iter().filter(|name| fields.has(name)).collect();
        if written.len() != 1 {
            let found = if written.is_empty() {
                "none".to_owned()
            } else {
                written.join(" and ")
            };
            let message = format!("found {found}; it has exactly one method: {}", METHODS.join(", "));
            context.note(fields.whole_problem(message));
        }
        let header = fields.text("header").unwrap_or_default();
        if !crate::is_token(header.as_bytes()) || header.eq_ignore_ascii_case("authorization") {
            let message =
                format!("found {header:?}, expected the name of a header for the key, such as \"x-api-key\"");
            context.note(fields.problem("header", message));
        }
        for key in ["tokens", "basic", "api_keys"] {
            if fields.has(key) && tables(fields, key).is_empty() {
                context.note(fields.problem(key, "it names no one"));
            }
        }
        for (user, of) in tables(fields, "basic") {
            if user.contains(':') {
                context.note(of.whole_problem(
                    "a user's name has no colon (RFC 7617): that is where the password begins",
                ));
            }
        }
    }

    fn check(&mut self, _: &Fields, _: &mut Context<'_>) {
        self.header.make_ascii_lowercase();
    }

    fn unused(&self) -> Unused {
        unless(
            !self.api_keys.is_empty(),
            &["header"],
            "it is only for `api_keys`",
        )
    }
}

impl JwtAuth {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        if fields.has("jwks") == fields.has("jwks_file") {
            let message = "the keys of the issuer come from exactly one of `jwks` and `jwks_file`";
            context.note(fields.problem("jwks", message));
        }
        let Some(Ok(url)) = fields.text("jwks").map(Uri::from_str) else {
            return;
        };
        let host = url.host().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let is_fit = match url.scheme_str() {
            Some("https") => !host.is_empty(),
            Some("http") => is_here,
            _ => false,
        };
        if !is_fit {
            let message = format!(
                "found {:?}, expected a URL with `https:`: whoever changes the keys on their way can make any token",
                fields.text("jwks").unwrap_or_default()
            );
            context.note(fields.problem("jwks", message));
        }
    }

    fn unused(&self) -> Unused {
        let why = "it is only for `jwks`";
        unless(self.jwks.is_some(), &["jwks_ca", "jwks_refresh"], why)
    }

    /// Where the keys of the issuer come from.
    pub fn keys(&self) -> Option<KeyLocation> {
        if let Some(file) = &self.jwks_file {
            return Some(KeyLocation::File(file.clone()));
        }
        Some(KeyLocation::Url {
            url: self.jwks.clone()?,
            ca: self.jwks_ca.clone(),
            refresh: self.jwks_refresh,
        })
    }

    /// Which tokens are accepted.
    pub fn settings(&self) -> JwtSettings {
        JwtSettings {
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            algorithms: self.algorithms.clone(),
            leeway: self.leeway,
            token_bytes_max: self.token_bytes_max,
            claims: self.claims.clone(),
        }
    }
}

impl UserAuth {
    /// The user as it is checked.
    pub fn user(&self) -> User {
        User {
            password: self.password.clone(),
            scopes: self.scopes.clone(),
        }
    }
}

parsed!("": Uri);
parsed!("": hidden PasswordHash, SecretDigest);
