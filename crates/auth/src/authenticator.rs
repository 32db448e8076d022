//! One way for clients to prove who they are.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc, time::SystemTime};

use forebay_tls::{CertificateName, ClientCertificate};
use serde_json::{Map, Value};

use crate::{
    CredentialKind, Identity, JwtSettings, KeySource, OidcClient, OidcSettings, Refusal, SecretDigest, User,
    authorization::{basic, bearer},
    jwt::Jwt,
    passwords::Passwords,
    secrets::Secrets,
};

/// The credentials that clients present, and their owners.
#[derive(Debug)]
pub enum Method {
    /// `Authorization: Bearer` with a token signed by an issuer (RFC 6750, RFC 7519).
    Jwt(JwtSettings, Arc<KeySource>),
    /// `Authorization: Bearer` with a fixed token: digest, subject and scopes of each.
    Tokens(Vec<(SecretDigest, String, Vec<String>)>),
    /// `Authorization: Basic` with name and password (RFC 7617).
    Passwords(BTreeMap<String, User>),
    /// A header field with a key: its name in lower case; digest, subject and scopes of each key.
    ApiKeys(String, Vec<(SecretDigest, String, Vec<String>)>),
    /// A certificate in the TLS handshake, which names the client, and the scopes of all of them.
    Certificates(CertificateName, Vec<String>),
    /// A cookie of a session that a login at an OpenID provider has begun.
    Oidc(OidcSettings, Arc<KeySource>),
}

/// The outcome of a check.
pub enum Checked {
    /// It is known at once.
    Now(Result<Arc<Identity>, Refusal>),
    /// It takes a while: a password is checked, or keys are fetched. The future needs a runtime of Tokio.
    Later(Pin<Box<dyn Future<Output = Result<Arc<Identity>, Refusal>> + Send>>),
}

/// Checks credentials of one kind.
#[derive(Debug)]
pub struct Authenticator {
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Jwt(Arc<Jwt>),
    Tokens(Secrets),
    Passwords(Arc<Passwords>),
    ApiKeys(String, Secrets),
    Certificates(CertificateName, Vec<String>),
    Oidc(Arc<OidcClient>),
}

fn secrets(kind: CredentialKind, owned: Vec<(SecretDigest, String, Vec<String>)>) -> Secrets {
    let owned = owned.into_iter();
    let owned =
        owned.map(|(digest, subject, scopes)| (digest, Identity::new(subject, kind, scopes, Map::new())));
    Secrets::new(owned.collect())
}

impl fmt::Debug for Checked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(checked) => out.debug_tuple("Now").field(checked).finish(),
            Self::Later(_) => out.write_str("Later"),
        }
    }
}

impl Authenticator {
    /// Checks credentials by a method. The name stands in challenges as the realm: letters, digits, `-` and `_`.
    pub fn new(name: String, method: Method) -> Self {
        let kind = match method {
            Method::Jwt(settings, keys) => Kind::Jwt(Arc::new(Jwt::new(settings, keys))),
            Method::Tokens(owned) => Kind::Tokens(secrets(CredentialKind::Token, owned)),
            Method::Passwords(users) => Kind::Passwords(Arc::new(Passwords::new(users))),
            Method::ApiKeys(field, owned) => Kind::ApiKeys(field, secrets(CredentialKind::ApiKey, owned)),
            Method::Certificates(name, scopes) => Kind::Certificates(name, scopes),
            Method::Oidc(settings, keys) => {
                Kind::Oidc(Arc::new(OidcClient::new(name.clone(), settings, keys)))
            }
        };
        Self { name, kind }
    }

    /// The name of its section.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The header field with its credentials, in lower case; `None` if they are not in one.
    pub fn field(&self) -> Option<&str> {
        match &self.kind {
            Kind::Jwt(_) | Kind::Tokens(_) | Kind::Passwords(_) => Some("authorization"),
            Kind::ApiKeys(field, _) => Some(field),
            Kind::Certificates(..) | Kind::Oidc(_) => None,
        }
    }

    /// The client of an OpenID provider: it logs browsers in and checks their sessions, whose cookies [`Self::check`] does not see.
    pub fn oidc(&self) -> Option<&Arc<OidcClient>> {
        match &self.kind {
            Kind::Oidc(client) => Some(client),
            _ => None,
        }
    }

    /// The scheme of its challenge in `WWW-Authenticate` (RFC 9110, 11.6.1) with the parameters that it always has. A field of API keys,
    /// certificates and cookies have no registered scheme, but the status 401 demands one.
    pub fn challenge(&self) -> String {
        let name = &self.name;
        match &self.kind {
            Kind::Jwt(_) | Kind::Tokens(_) => format!("Bearer realm=\"{name}\""),
            Kind::Passwords(_) => format!("Basic realm=\"{name}\", charset=\"UTF-8\""),
            Kind::ApiKeys(field, _) => format!("ApiKey realm=\"{name}\", field=\"{field}\""),
            Kind::Certificates(..) => format!("ClientCertificate realm=\"{name}\""),
            Kind::Oidc(_) => format!("Cookie realm=\"{name}\""),
        }
    }

    /// Checks the value of [`Self::field`], or the certificate that the client's TLS handshake has proved to be its own.
    pub fn check(
        &self,
        value: Option<&[u8]>,
        certificate: Option<&ClientCertificate>,
        now: SystemTime,
    ) -> Checked {
        let checked = match &self.kind {
            Kind::Jwt(jwt) => return check_jwt(jwt, value.and_then(bearer), now),
            Kind::Passwords(passwords) => return check_password(passwords, value, now),
            Kind::Tokens(tokens) => {
                let token = value.and_then(bearer).ok_or(Refusal::Missing);
                token.and_then(|token| tokens.owner(token))
            }
            Kind::ApiKeys(_, keys) => value.ok_or(Refusal::Missing).and_then(|key| keys.owner(key)),
            Kind::Certificates(name, scopes) => check_certificate(*name, scopes, certificate),
            Kind::Oidc(_) => Err(Refusal::Missing),
        };
        Checked::Now(checked)
    }
}

fn check_jwt(jwt: &Arc<Jwt>, token: Option<&[u8]>, now: SystemTime) -> Checked {
    let Some(token) = token else {
        return Checked::Now(Err(Refusal::Missing));
    };
    let checked = jwt.verify(token, now);
    if !matches!(checked, Err(Refusal::UnknownKey | Refusal::NoKeys)) {
        return Checked::Now(checked);
    }
    let Some(renewed) = jwt.keys().renewed() else {
        return Checked::Now(checked);
    };
    let (jwt, token) = (Arc::clone(jwt), token.to_vec());
    Checked::Later(Box::pin(async move {
        renewed.await;
        jwt.verify(&token, now)
    }))
}

fn check_password(passwords: &Arc<Passwords>, value: Option<&[u8]>, now: SystemTime) -> Checked {
    let (name, password) = match value.ok_or(Refusal::Missing).and_then(basic) {
        Ok(pair) => pair,
        Err(refusal) => return Checked::Now(Err(refusal)),
    };
    match passwords.known(&name, password.as_bytes(), now) {
        Some(identity) => Checked::Now(Ok(identity)),
        None => Checked::Later(Box::pin(Arc::clone(passwords).verify(
            name,
            password.into_bytes(),
            now,
        ))),
    }
}

fn check_certificate(
    name: CertificateName,
    scopes: &[String],
    certificate: Option<&ClientCertificate>,
) -> Result<Arc<Identity>, Refusal> {
    let certificate = certificate.ok_or(Refusal::Missing)?;
    let subject = certificate.name(name).ok_or(Refusal::Nameless)?;
    let mut claims = Map::new();
    claims.insert(
        "distinguished_name".to_owned(),
        certificate.distinguished_name().into(),
    );
    for (kind, names) in [
        ("dns", certificate.names(CertificateName::Dns)),
        ("email", certificate.names(CertificateName::Email)),
        ("uri", certificate.names(CertificateName::Uri)),
    ] {
        if !names.is_empty() {
            claims.insert(kind.to_owned(), Value::from(names.to_vec()));
        }
    }
    let identity = Identity::new(
        subject.to_owned(),
        CredentialKind::Certificate,
        scopes.to_vec(),
        claims,
    );
    Ok(Arc::new(identity))
}
