//! Logs browsers in by OpenID Connect Core 1.0: the authorization code flow with PKCE (RFC 7636), `state` and `nonce`. A login on its way and a
//! session are cookies that only this server can make and read, so the server keeps nothing of either.

mod cookies;
mod error;
mod exchange;
mod id_token;
mod provider;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use form_urlencoded::Serializer;
use jsonwebtoken::Algorithm;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

pub(crate) use self::provider::{Metadata, discovery_url};
use self::{
    cookies::{COOKIE_BYTES_MAX, Sealer},
    exchange::CodeGrant,
};
pub use self::{
    cookies::{Site, is_login_cookie},
    error::LoginError,
    provider::is_protected,
};
use crate::{
    CredentialKind, Identity, JwtSettings, KeySource, Refusal,
    cache::{Cache, digest},
    jwt::Jwt,
    random,
};

/// From the request that needs a login to the issuer's response.
const ATTEMPT_TIME_MAX: Duration = Duration::from_mins(10);
/// Logins of one browser at a time. Each has a cookie, and all of them together take less than 6 KiB of a request.
const ATTEMPTS: u8 = 4;
/// The longest address to which a browser returns after its login, in bytes; from a longer one it goes to `/`.
const RETURN_BYTES_MAX: usize = 768;
/// Logins that wait for the issuer.
const LOGINS_MAX: usize = 64;
/// How far the clocks of issuer and server may differ.
const LEEWAY: Duration = Duration::from_secs(30);
/// The longest ID token.
const ID_TOKEN_BYTES_MAX: usize = 64 << 10;

/// A client of an OpenID provider.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The provider's URL, as its document and its tokens name it.
    pub issuer: String,
    /// The name that the provider has given to this server.
    pub client_id: String,
    /// The client secret; `None` for a public client.
    pub client_secret: Option<String>,
    /// The secret from which the keys of cookies are derived.
    pub cookie_secret: String,
    /// The path to which the provider sends browsers back.
    pub callback: String,
    /// The scopes that are asked for, beside `openid`.
    pub scopes: Vec<String>,
    /// The accepted algorithms of ID tokens.
    pub algorithms: Vec<Algorithm>,
    /// The claims that handlers get.
    pub claims: Vec<String>,
    /// How long a session lasts.
    pub session: Duration,
}

impl fmt::Debug for OidcSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("OidcSettings");
        out.field("issuer", &self.issuer)
            .field("client_id", &self.client_id);
        out.finish_non_exhaustive()
    }
}

/// Where a browser is sent, and which cookies it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The value of `Location`.
    pub location: String,
    /// Values of `Set-Cookie`.
    pub cookies: Vec<String>,
}

/// Logs browsers in at one provider, and knows them again.
#[derive(Debug)]
pub struct OidcClient {
    name: String,
    settings: OidcSettings,
    jwt: Jwt,
    sealer: Sealer,
    sessions: Cache,
    logins: Arc<Semaphore>,
}

/// A login on its way.
#[derive(Serialize, Deserialize)]
struct Attempt {
    nonce: String,
    verifier: String,
    /// The address that the browser has asked for.
    address: String,
    /// Seconds since 1970 UTC.
    until: u64,
}

/// A user who is logged in.
#[derive(Serialize, Deserialize)]
struct Session {
    subject: String,
    scopes: Vec<String>,
    claims: Map<String, Value>,
    /// Seconds since 1970 UTC.
    until: u64,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// 256 random bits as text.
fn secret() -> String {
    let bytes: [u8; 32] = random();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An address of this server without its host, so that it leads nowhere else; `/` for anything that browsers could read as another one.
fn local(address: &str) -> &str {
    let is_local = address
        .strip_prefix('/')
        .is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && address.len() <= RETURN_BYTES_MAX
        && address.bytes().all(|byte| byte.is_ascii_graphic());
    if is_local { address } else { "/" }
}

impl OidcClient {
    /// A client with the name of its section: letters, digits, `-` and `_`. The keys come from [`KeyLocation::Discovery`](crate::KeyLocation).
    pub(crate) fn new(name: String, settings: OidcSettings, keys: Arc<KeySource>) -> Self {
        let jwt = JwtSettings {
            issuer: settings.issuer.clone(),
            audience: vec![settings.client_id.clone()],
            algorithms: settings.algorithms.clone(),
            leeway: LEEWAY,
            token_bytes_max: ID_TOKEN_BYTES_MAX,
            claims: settings.claims.clone(),
        };
        // Cookies sealed for one issuer or client cannot be opened for another one.
        let context = (&settings.issuer, &settings.client_id);
        let context = serde_json::to_vec(&context).expect("texts can be written");
        Self {
            jwt: Jwt::new(jwt, keys),
            sealer: Sealer::new(settings.cookie_secret.as_bytes(), &context),
            sessions: Cache::default(),
            logins: Arc::new(Semaphore::new(LOGINS_MAX)),
            name,
            settings,
        }
    }

    /// The name of the cookie of sessions.
    pub(crate) fn session_cookie(&self, site: Site<'_>) -> String {
        site.session_cookie(&self.name)
    }

    fn attempt_cookie(&self, site: Site<'_>, slot: u8) -> String {
        site.cookie_name(&format!("{}.login{slot}", self.name))
    }

    /// The scopes that are asked for.
    fn scope(&self) -> String {
        let others = self.settings.scopes.iter().map(String::as_str);
        let all: Vec<&str> = std::iter::once("openid")
            .chain(others.filter(|scope| *scope != "openid"))
            .collect();
        all.join(" ")
    }

    async fn metadata(&self) -> Result<Arc<Metadata>, LoginError> {
        let keys = self.jwt.keys();
        if keys.metadata().is_none()
            && let Some(renewed) = keys.renewed()
        {
            renewed.await;
        }
        keys.metadata().ok_or(LoginError::NotReady)
    }

    /// The user whose session a request's cookies prove. `cookie` finds the value of a cookie by its name.
    pub fn session<'c>(
        &self,
        site: Site<'_>,
        cookie: impl Fn(&str) -> Option<&'c [u8]>,
        now: SystemTime,
    ) -> Result<Arc<Identity>, Refusal> {
        let name = self.session_cookie(site);
        let value = cookie(&name).filter(|_| site.is_safe()).ok_or(Refusal::Missing)?;
        let digest = digest(&[name.as_bytes(), b"=", value]);
        if let Some(identity) = self.sessions.get(&digest, now, 0) {
            return Ok(identity);
        }
        let content = self.sealer.open(&name, value).ok_or(Refusal::Session)?;
        let session: Session = serde_json::from_slice(&content).map_err(|_| Refusal::Session)?;
        let until = UNIX_EPOCH + Duration::from_secs(session.until);
        if now >= until {
            return Err(Refusal::Session);
        }
        let identity = Identity::new(
            session.subject,
            CredentialKind::Oidc,
            session.scopes,
            session.claims,
        );
        let identity = Arc::new(identity);
        self.sessions.put(digest, &identity, now, until, 0);
        Ok(identity)
    }

    /// Sends a browser to the issuer. After its login it returns to this address, which has no host. Waits for the issuer's configuration if it is
    /// not known yet.
    pub async fn begin<'c>(
        &self,
        site: Site<'_>,
        address: &str,
        cookie: impl Fn(&str) -> Option<&'c [u8]>,
        now: SystemTime,
    ) -> Result<Redirect, LoginError> {
        if !site.is_safe() {
            return Err(LoginError::Insecure);
        }
        let metadata = self.metadata().await?;
        // The first one that is free. Requests of many pages at once may take the same one: then the last of them can be finished.
        let is_free = |slot: &u8| cookie(&self.attempt_cookie(site, *slot)).is_none();
        let [any]: [u8; 1] = random();
        let slot = (0..ATTEMPTS).find(is_free).unwrap_or(any % ATTEMPTS);
        let state = format!("{slot}{}", secret());
        let attempt = Attempt {
            nonce: secret(),
            verifier: secret(),
            address: local(address).to_owned(),
            until: seconds(now + ATTEMPT_TIME_MAX),
        };
        let challenge = URL_SAFE_NO_PAD.encode(digest(&[attempt.verifier.as_bytes()]));
        let query = Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &site.url(&self.settings.callback))
            .append_pair("scope", &self.scope())
            .append_pair("state", &state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .finish();
        let name = self.attempt_cookie(site, slot);
        let content = serde_json::to_vec(&attempt).expect("texts can be written");
        let value = self.sealer.seal(&format!("{name} {state}"), &content);
        let mut cookies = vec![site.set_cookie(&name, &value, ATTEMPT_TIME_MAX)];
        // A cookie that cannot be opened only takes room.
        let session = self.session_cookie(site);
        if cookie(&session).is_some() {
            cookies.push(site.set_cookie(&session, "", Duration::ZERO));
        }
        Ok(Redirect {
            location: with_query(&metadata.authorization, &query),
            cookies,
        })
    }

    /// Finishes a login: `query` is what the issuer has sent the browser back with. Its code is redeemed on the thread that fetches keys.
    pub async fn finish<'c>(
        self: &Arc<Self>,
        site: Site<'_>,
        query: &[u8],
        cookie: impl Fn(&str) -> Option<&'c [u8]>,
        now: SystemTime,
    ) -> Result<Redirect, LoginError> {
        let response = Response::parse(query)?;
        let Some((name, attempt)) = self.attempt(site, &response.state, &cookie, now) else {
            // The user is logged in already: the browser has gone back to this address, or several logins were begun.
            return match self.session(site, cookie, now) {
                Ok(_) => Ok(Redirect {
                    location: "/".to_owned(),
                    cookies: Vec::new(),
                }),
                Err(_) => Err(LoginError::Unknown),
            };
        };
        let metadata = self.metadata().await?;
        let is_issuer = |named: String| named == self.settings.issuer;
        if !response.iss.map_or(!metadata.names_issuer, is_issuer) {
            return Err(LoginError::OtherIssuer);
        }
        let code = CodeGrant {
            code: response.code?,
            redirect_uri: site.url(&self.settings.callback),
            verifier: attempt.verifier,
            nonce: attempt.nonce,
        };
        let logins = Arc::clone(&self.logins);
        let permit = logins.try_acquire_owned().map_err(|_| LoginError::Busy)?;
        let client = Arc::clone(self);
        let redeemed = self.jwt.keys().spawn(|fetcher| async move {
            // The request may end first: the login keeps its place until the issuer has answered.
            let _permit = permit;
            code.redeem(client, fetcher, metadata, now).await
        });
        let stopped = || LoginError::Unavailable {
            cause: "the thread that asks it has ended".to_owned(),
        };
        let session = redeemed.ok_or_else(stopped)?.await.map_err(|_| stopped())??;
        let session = self.seal_session(site, session, now)?;
        Ok(Redirect {
            location: attempt.address,
            cookies: vec![session, site.set_cookie(&name, "", Duration::ZERO)],
        })
    }

    /// The login of this browser with this state, and the name of its cookie.
    fn attempt<'c>(
        &self,
        site: Site<'_>,
        state: &str,
        cookie: impl Fn(&str) -> Option<&'c [u8]>,
        now: SystemTime,
    ) -> Option<(String, Attempt)> {
        let slot = state
            .bytes()
            .next()?
            .checked_sub(b'0')
            .filter(|slot| *slot < ATTEMPTS)?;
        let name = self.attempt_cookie(site, slot);
        let value = cookie(&name).filter(|_| site.is_safe())?;
        let content = self.sealer.open(&format!("{name} {state}"), value)?;
        let attempt: Attempt = serde_json::from_slice(&content).ok()?;
        (attempt.until > seconds(now)).then_some((name, attempt))
    }

    fn seal_session(&self, site: Site<'_>, session: Session, now: SystemTime) -> Result<String, LoginError> {
        let session = Session {
            until: seconds(now + self.settings.session),
            ..session
        };
        let name = self.session_cookie(site);
        let content = serde_json::to_vec(&session).expect("texts and JSON values can be written");
        let value = self.sealer.seal(&name, &content);
        let bytes = name.len() + value.len();
        if bytes > COOKIE_BYTES_MAX {
            return Err(LoginError::TooLong {
                bytes,
                bytes_max: COOKIE_BYTES_MAX,
            });
        }
        Ok(site.set_cookie(&name, &value, self.settings.session))
    }

    /// Ends a session, and sends the browser to the issuer to end the one there, if the issuer has an address for that (OpenID Connect RP-Initiated
    /// Logout 1.0); else to `/`.
    pub fn logout(&self, site: Site<'_>) -> Redirect {
        let metadata = self.jwt.keys().metadata();
        let location = match metadata
            .as_ref()
            .and_then(|metadata| metadata.end_session.as_ref())
        {
            Some(endpoint) if site.is_safe() => {
                let query = Serializer::new(String::new())
                    .append_pair("client_id", &self.settings.client_id)
                    .append_pair("post_logout_redirect_uri", &site.url("/"))
                    .finish();
                with_query(endpoint, &query)
            }
            _ => "/".to_owned(),
        };
        Redirect {
            location,
            cookies: vec![site.set_cookie(&self.session_cookie(site), "", Duration::ZERO)],
        }
    }
}

fn with_query(endpoint: &http::Uri, query: &str) -> String {
    let between = if endpoint.query().is_some() { '&' } else { '?' };
    format!("{endpoint}{between}{query}")
}

/// The parameters with which an issuer sends a browser back (RFC 6749, 4.1.2).
struct Response {
    state: String,
    iss: Option<String>,
    code: Result<String, LoginError>,
}

impl Response {
    fn parse(query: &[u8]) -> Result<Self, LoginError> {
        let malformed = |what| LoginError::Malformed { what };
        let [mut state, mut iss, mut code, mut error] = [const { None }; 4];
        for (name, value) in form_urlencoded::parse(query) {
            let place = match &*name {
                "state" => &mut state,
                "iss" => &mut iss,
                "code" => &mut code,
                "error" => &mut error,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(malformed("a parameter comes twice"));
            }
        }
        let is_code = |text: &str| {
            (1..=64).contains(&text.len())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let code = match (error, code) {
            (Some(code), _) if is_code(&code) => Err(LoginError::Refused { code }),
            (None, Some(code)) => Ok(code),
            _ => Err(malformed("it has neither a code nor an error code")),
        };
        let state = state.ok_or(malformed("it has no `state`"))?;
        Ok(Self { state, iss, code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_returns_to_addresses_of_this_server_only() {
        for address in ["/", "/a?b=//c", "/a//b", "/%2F/evil.example", "/a\\b", "/:80"] {
            assert_eq!(local(address), address);
        }
        let long = format!("/{}", "a".repeat(RETURN_BYTES_MAX));
        for address in [
            "",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example/",
            "evil",
            "/\t/evil.example",
            "/a\r\nset-cookie: a=b",
            "/a b",
            "/\u{e9}",
            "javascript:alert(1)",
            &long,
        ] {
            assert_eq!(local(address), "/", "{address:?}");
        }
    }

    #[test]
    fn a_response_has_each_parameter_once() {
        let parse = |query: &str| Response::parse(query.as_bytes()).map(|response| response.code);
        assert_eq!(
            parse("state=a&code=b%20c&other=1&other=2"),
            Ok(Ok("b c".to_owned()))
        );
        let denied = LoginError::Refused {
            code: "access_denied".to_owned(),
        };
        assert_eq!(
            parse("state=a&error=access_denied&error_description=<b>"),
            Ok(Err(denied))
        );
        for (query, what) in [
            ("code=a", "it has no `state`"),
            ("state=a&state=a&code=b", "a parameter comes twice"),
            ("state=a&code=b&code=b", "a parameter comes twice"),
            ("state=a&code=b&iss=c&iss=d", "a parameter comes twice"),
        ] {
            assert_eq!(parse(query), Err(LoginError::Malformed { what }), "{query}");
        }
        let what = "it has neither a code nor an error code";
        for query in [
            "state=a",
            "state=a&error=",
            "state=a&error=%3Cscript%3E&code=a",
            "state=a&error=a%0d%0ab",
        ] {
            assert_eq!(parse(query), Ok(Err(LoginError::Malformed { what })), "{query}");
        }
    }
}
