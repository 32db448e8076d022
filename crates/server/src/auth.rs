//! Authentication for routes: from the head of a request and its connection to an identity, or to a refusal.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Weak},
    time::SystemTime,
};

use forebay_auth::{
    Authenticator, Checked, Identity, KeyLocation, KeySource, KeySourceError, Method, OidcClient, Redirect,
    Refusal, SecretDigest,
};
use parking_lot::Mutex;

use crate::{
    config,
    front::{Client, Head},
    reply::HeaderLines,
    target::{End, Request, wait_for},
};

/// Authenticators by the names of their sections.
pub(crate) type Authenticators = BTreeMap<String, Arc<Authenticator>>;

/// Keys of token issuers that some app still has; a reload goes on with them.
pub(crate) type KeySources = Mutex<Vec<Weak<KeySource>>>;

/// The keys of a token issuer cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the keys for `auth.{name}` cannot be used")]
pub struct AuthError {
    name: String,
    #[source]
    source: Box<KeySourceError>,
}

/// The authenticators of a configuration. URLs of keys are asked in the background.
pub(crate) fn authenticators(
    configured: &BTreeMap<String, config::Auth>,
    known: &KeySources,
) -> Result<Authenticators, AuthError> {
    let authenticator = |(name, auth): (&String, &config::Auth)| {
        let method = method(auth, known).map_err(|source| AuthError {
            name: name.clone(),
            source: Box::new(source),
        })?;
        Ok((name.clone(), Arc::new(Authenticator::new(name.clone(), method))))
    };
    configured.iter().map(authenticator).collect()
}

/// Reads the files of keys of a configuration. No URL is asked.
pub fn check_keys(config: &config::Config) -> Result<(), AuthError> {
    for (name, auth) in &config.auth {
        let location = auth.jwt.as_ref().and_then(config::JwtAuth::keys);
        if let Some(location @ KeyLocation::File(_)) = location {
            KeySource::start(location).map_err(|source| AuthError {
                name: name.clone(),
                source: Box::new(source),
            })?;
        }
    }
    Ok(())
}

fn method(auth: &config::Auth, known: &KeySources) -> Result<Method, KeySourceError> {
    if let Some(jwt) = &auth.jwt {
        let location = jwt.keys().expect("the configuration was checked");
        return Ok(Method::Jwt(jwt.settings(), key_source(location, known)?));
    }
    if let Some(oidc) = &auth.oidc {
        return Ok(Method::Oidc(oidc.settings(), key_source(oidc.keys(), known)?));
    }
    if let Some(certificate) = &auth.certificate {
        return Ok(Method::Certificates(certificate.name, certificate.scopes.clone()));
    }
    if !auth.basic.is_empty() {
        let users = auth.basic.iter().map(|(name, user)| (name.clone(), user.user()));
        return Ok(Method::Passwords(users.collect()));
    }
    if !auth.api_keys.is_empty() {
        let keys = auth.api_keys.iter();
        let keys = keys.map(|(subject, key)| (key.sha256.clone(), subject.clone(), key.scopes.clone()));
        return Ok(Method::ApiKeys(auth.header.clone(), keys.collect()));
    }
    let tokens = auth.tokens.iter().map(|(subject, of)| {
        let digest = SecretDigest::of(of.token.reveal().as_bytes());
        (digest, subject.clone(), of.scopes.clone())
    });
    Ok(Method::Tokens(tokens.collect()))
}

/// Keys from this place: those that are known already if it is a URL, so that a reload needs no answer of it.
fn key_source(location: KeyLocation, known: &KeySources) -> Result<Arc<KeySource>, KeySourceError> {
    let mut known = known.lock();
    known.retain(|source| source.strong_count() > 0);
    let is_url = !matches!(location, KeyLocation::File(_));
    let kept = known.iter().filter_map(Weak::upgrade);
    let mut kept = kept.filter(|source| is_url && *source.location() == location);
    if let Some(kept) = kept.next() {
        return Ok(kept);
    }
    let source = KeySource::start(location)?;
    known.push(Arc::downgrade(&source));
    Ok(source)
}

/// The client of a request, once it is authenticated.
#[derive(Debug)]
pub(crate) struct User {
    identity: Arc<Identity>,
    by: Arc<Authenticator>,
}

impl User {
    /// The NAME of the `[auth.NAME]` and the subject: no two users share them.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.by.name(), self.subject())
    }
}

impl Deref for User {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

/// The authentication that a route asks for.
#[derive(Debug)]
pub(crate) struct RouteAuth {
    /// With the names of their sections.
    any_of: Vec<(String, Arc<Authenticator>)>,
    scopes: Vec<String>,
}

impl RouteAuth {
    /// `None` for a route that answers everybody.
    pub(crate) fn new(required: config::AuthRequirement, authenticators: &Authenticators) -> Option<Self> {
        let any_of = required.any_of.into_iter();
        let any_of: Vec<_> = any_of
            .map(|name| {
                let authenticator = Arc::clone(&authenticators[&name]);
                (name, authenticator)
            })
            .collect();
        (!any_of.is_empty()).then_some(Self {
            any_of,
            scopes: required.scopes,
        })
    }

    /// Finds out who the client is, once the route is known and before its target does anything: the name of the first way in which the client
    /// can prove it, and the subject. The request's identity is the first that is found out.
    pub(crate) async fn check<'a>(
        &'a self,
        request: &Request<'a>,
        client: &mut dyn Client,
    ) -> Result<(&'a str, &'a str), End> {
        let now = SystemTime::now();
        let mut refused: Option<(usize, Refusal)> = None;
        for (at, (name, authenticator)) in self.any_of.iter().enumerate() {
            let cookie = |name: &str| request.head.cookie(name);
            let checked = match authenticator.oidc() {
                Some(oidc) => Checked::Now(oidc.session(request.site(), cookie, now)),
                None => match credentials(authenticator, request.head) {
                    Ok(value) => authenticator.check(value, request.certificate, now),
                    Err(refusal) => Checked::Now(Err(refusal)),
                },
            };
            let checked = match checked {
                Checked::Now(checked) => checked,
                Checked::Later(checking) => {
                    client.before_waiting().await?;
                    wait_for(checking, request.deadline, client).await?
                }
            };
            match checked {
                Ok(identity) => return Ok((name, self.admit(identity, authenticator, request)?)),
                // A client that shows something wrong is told of that. What cannot be checked now may be right.
                Err(refusal) => match &refused {
                    Some((_, before)) if before.is_temporary() => {}
                    Some((_, before)) if *before != Refusal::Missing && !refusal.is_temporary() => {}
                    _ => refused = Some((at, refusal)),
                },
            }
        }
        let (at, cause) = refused.expect("a route with `auth` has at least one way");
        let oidc = self.any_of.iter().find_map(|(_, way)| way.oidc());
        if let Some(oidc) = oidc
            && matches!(cause, Refusal::Missing | Refusal::Session)
            && is_navigation(request.head)
        {
            return Err(login(oidc, request, client, now).await?.into());
        }
        let challenges = self.challenges(|way| {
            let is_wrong = way == at && cause != Refusal::Missing;
            is_wrong.then(|| format!("error=\"invalid_token\", error_description=\"{cause}\""))
        });
        Err(crate::failure::Refusal::Auth(Box::new(AuthFailure::Refused { cause, challenges })).into())
    }

    fn admit<'a>(
        &self,
        identity: Arc<Identity>,
        by: &Arc<Authenticator>,
        request: &Request<'a>,
    ) -> Result<&'a str, End> {
        let missing = identity.missing_scope(&self.scopes).map(str::to_owned);
        // The log names who was refused, too.
        let identity = request.identity.get_or_init(|| User {
            identity,
            by: Arc::clone(by),
        });
        let Some(scope) = missing else {
            return Ok(identity.subject());
        };
        let needed = self.scopes.join(" ");
        let challenges =
            self.challenges(|_| Some(format!("error=\"insufficient_scope\", scope=\"{needed}\"")));
        Err(crate::failure::Refusal::Auth(Box::new(AuthFailure::Scope { scope, challenges })).into())
    }

    /// The challenges of all ways; those for bearer tokens with these further parameters (RFC 6750, 3).
    fn challenges(&self, further: impl Fn(usize) -> Option<String>) -> Vec<String> {
        let challenge = |(at, (_, authenticator)): (usize, &(String, Arc<Authenticator>))| {
            let challenge = authenticator.challenge();
            match further(at).filter(|_| challenge.starts_with("Bearer ")) {
                Some(further) => format!("{challenge}, {further}"),
                None => challenge,
            }
        };
        self.any_of.iter().enumerate().map(challenge).collect()
    }
}

/// Whether a browser opens a page, so that it can be sent to a login. What a page fetches cannot.
fn is_navigation(head: &Head) -> bool {
    head.method() == "GET"
        && head.accepts_html()
        && head
            .field("sec-fetch-mode")
            .is_none_or(|mode| mode == b"navigate")
}

/// Sends a browser to the issuer, from where it returns to the address that it has asked for.
async fn login(
    oidc: &OidcClient,
    request: &Request<'_>,
    client: &mut dyn Client,
    now: SystemTime,
) -> Result<crate::failure::Refusal, End> {
    let asked = request.via.map_or(request.head, |via| via.head);
    let mut address = asked.path().to_owned();
    if !asked.query().is_empty() {
        address.push('?');
        address.push_str(&String::from_utf8_lossy(asked.query()));
    }
    client.before_waiting().await?;
    let begun = oidc.begin(request.site(), &address, |name| asked.cookie(name), now);
    Ok(match wait_for(begun, request.deadline, client).await? {
        Ok(redirect) => crate::failure::Refusal::Auth(Box::new(AuthFailure::Login(redirect))),
        Err(error) => crate::failure::Refusal::Login(error),
    })
}

/// The fields that send a browser on.
pub(crate) fn put_redirect(headers: &mut HeaderLines, redirect: &Redirect) {
    headers.push_known("location", &redirect.location);
    for cookie in &redirect.cookies {
        headers.push_known("set-cookie", cookie);
    }
    headers.push_known("cache-control", "no-store");
}

/// The value of the field that the authenticator reads.
fn credentials<'h>(authenticator: &Authenticator, head: &'h Head) -> Result<Option<&'h [u8]>, Refusal> {
    let Some(field) = authenticator.field() else {
        return Ok(None);
    };
    let mut values = head.fields().filter(|(name, _)| *name == field.as_bytes());
    let first = values.next().map(|(_, value)| value);
    match values.next() {
        Some(_) => Err(Refusal::Repeated),
        None => Ok(first),
    }
}

/// Why a client may not use a route.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum AuthFailure {
    /// It has not proved who it is.
    #[error("{cause}")]
    Refused {
        cause: Refusal,
        /// Values of `WWW-Authenticate`.
        challenges: Vec<String>,
    },
    /// It may not do what the route is for.
    #[error("the scope `{scope}` is needed here (scopes)")]
    Scope { scope: String, challenges: Vec<String> },
    /// It is sent to a login.
    #[error("log in at the issuer")]
    Login(Redirect),
}

impl AuthFailure {
    pub(crate) fn challenges(&self) -> &[String] {
        match self {
            Self::Refused { cause, .. } if cause.is_temporary() => &[],
            Self::Login(_) => &[],
            Self::Refused { challenges, .. } | Self::Scope { challenges, .. } => challenges,
        }
    }
}
