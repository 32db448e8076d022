//! `[auth.NAME]`

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    str::FromStr as _,
    time::Duration,
};

use forebay_auth::{
    Algorithm, CertificateName, JwtSettings, KeyLocation, OidcSettings, PasswordHash, SecretDigest, User,
    is_protected,
};
use forebay_router::{Pattern, Router, RouterError, Rule};
use http::Uri;

use crate::Secret;
use crate::build::{Config, Context};
use crate::fields::{Fields, Value};
use crate::key::{HOUR, KIB, MINUTE, SECOND};
use crate::section::{Entry, Unused, section, unless, words};
use crate::setting::{Text, parsed};

/// The keys that are methods.
const METHODS: [&str; 6] = ["jwt", "tokens", "basic", "api_keys", "certificate", "oidc"];

section! {
    /// A way for clients to prove who they are, which routes name by `auth`. It has exactly one method: `jwt`, `tokens`, `basic`, `api_keys`,
    /// `certificate` or `oidc`. Handlers see the client as `request.user`.
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
        /// Method: a login of browsers at an issuer by OpenID Connect, which begins a session in a cookie.
        oidc: Option<OidcAuth> => "303 to the issuer for browsers that open a page, else 401 with `WWW-Authenticate`",
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

section! {
    /// `auth.NAME.oidc`
    #[rules(OidcAuth::rules)]
    #[check(OidcAuth::check)]
    pub struct OidcAuth {
        /// The URL of the OpenID provider, with `https:`; with `http:` only on this machine. Its addresses and keys come from
        /// `/.well-known/openid-configuration` below it. They are fetched in the background, every 15 minutes; while that fails, the last ones stay in force.
        issuer: String => "logins: 503",
        /// A PEM file with the authorities that have signed the certificate of the issuer. Without it those that the system trusts.
        issuer_ca: Option<PathBuf> as FILE,
        /// The name that the issuer has given to this server.
        client_id: String,
        /// The environment variable with the secret that goes with it. Without the key, the server is a public client.
        client_secret: Option<Secret>,
        /// The environment variable with a secret of at least 32 characters (`openssl rand -hex 32`), from which the keys of cookies are derived. Servers
        /// with the same one know each other's sessions. With another one all sessions end.
        cookie_secret: Secret,
        /// The path to which the issuer sends browsers back, which the server answers itself, such as `/login/callback`. Register its URL with the issuer.
        callback: String,
        /// The path that ends a session, which the server answers itself, such as `/logout`. The browser goes on to the issuer, if that can end its session,
        /// else to `/`. Without the key there is no such path.
        logout: Option<String>,
        /// Scopes to ask the issuer for beside `openid`, such as `email`. What it grants are the scopes of the client; routes ask for them by `scopes`.
        scopes: Vec<String> = "",
        /// Claims that handlers get, such as `email`, as `request.user.claims`. They must fit into a cookie of 4096 bytes. Subject and scopes they get in any
        /// case.
        claims: Vec<String> = "" => "500",
        /// The life of a session.
        session: Duration as duration(MINUTE, 30 * 24 * HOUR) = "8h" => "a new login",
        /// The accepted signature algorithms of ID tokens, as for `jwt`.
        algorithms: Vec<Algorithm> as at_least(1) = "RS256",
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
        if !is_protected(&url) {
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

/// How often the configuration and the keys of an OpenID provider are fetched.
const DISCOVERY_REFRESH: Duration = Duration::from_mins(15);
/// The shortest secret for cookies.
const COOKIE_SECRET_BYTES_MIN: usize = 32;

impl OidcAuth {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let issuer = fields.text("issuer").unwrap_or_default();
        let is_fit = |url: &Uri| is_protected(url) && url.query().is_none() && !issuer.contains('#');
        if fields.has("issuer") && !issuer.parse().is_ok_and(|url| is_fit(&url)) {
            let message = format!(
                "found {issuer:?}, expected a URL with `https:` and without a query: whoever changes its documents on their way can log in as anybody"
            );
            context.note(fields.problem("issuer", message));
        }
        for key in ["callback", "logout"] {
            let Some(path) = fields.text(key) else { continue };
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
            let is_path = path.starts_with('/') && path.bytes().all(is_plain) && Pattern::parse(path).is_ok();
            if !is_path {
                let message = format!(
                    "found {path:?}, expected a path of letters, digits and `-._~/`, such as \"/login/callback\""
                );
                context.note(fields.problem(key, message));
            }
        }
        for scope in fields.texts("scopes") {
            let is_scope = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
            if scope.text.is_empty() || !scope.text.bytes().all(is_scope) {
                let message = format!(
                    "found {:?}, expected a scope without spaces, such as \"email\"",
                    scope.text
                );
                context.note(fields.problem_at(scope.line, "scopes", message));
            }
        }
    }

    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        let found = self.cookie_secret.reveal().len();
        if found < COOKIE_SECRET_BYTES_MIN {
            let message = format!(
                "the secret has {found} characters, expected at least {COOKIE_SECRET_BYTES_MIN}, such as `openssl rand -hex 32` prints: whoever guesses it can log in as anybody"
            );
            context.note(fields.problem("cookie_secret", message));
        }
    }

    /// Where the configuration and the keys of the issuer come from.
    pub fn keys(&self) -> KeyLocation {
        KeyLocation::Discovery {
            issuer: self.issuer.clone(),
            ca: self.issuer_ca.clone(),
            refresh: DISCOVERY_REFRESH,
        }
    }

    /// How browsers are logged in.
    pub fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret: self
                .client_secret
                .as_ref()
                .map(|secret| secret.reveal().to_owned()),
            cookie_secret: self.cookie_secret.reveal().to_owned(),
            callback: self.callback.clone(),
            scopes: self.scopes.clone(),
            algorithms: self.algorithms.clone(),
            claims: self.claims.clone(),
            session: self.session,
        }
    }
}

/// A path that the server answers itself for logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginPath {
    /// The NAME of the `[auth.NAME]`.
    pub auth: String,
    /// The key that names the path.
    pub key: &'static str,
    /// The path.
    pub path: String,
    /// The methods it answers.
    pub methods: &'static [&'static str],
    /// A host of the routes with that authentication, as they name it.
    pub host: Option<String>,
}

impl LoginPath {
    /// Whether it ends sessions; else logins are finished there.
    pub fn is_logout(&self) -> bool {
        self.key == "logout"
    }

    pub(crate) fn all(config: &Config) -> Vec<Self> {
        let mut all = Vec::new();
        for (name, auth) in &config.auth {
            let Some(oidc) = &auth.oidc else { continue };
            let routes = config.routes.iter().map(Some).chain([None]);
            let of_auth = routes.filter(|route| config.auth_requirement(*route).any_of.contains(name));
            let hosts: BTreeSet<_> = of_auth
                .map(|route| route.and_then(|route| route.host.as_ref()))
                .collect();
            for host in hosts {
                let path = |key, path: &String, methods| Self {
                    auth: name.clone(),
                    key,
                    path: path.clone(),
                    methods,
                    host: host.cloned(),
                };
                all.push(path("callback", &oidc.callback, &["GET"]));
                all.extend(
                    oidc.logout
                        .as_ref()
                        .map(|logout| path("logout", logout, &["GET", "POST"])),
                );
            }
        }
        all
    }

    /// Its rule for the router.
    pub fn rule<T>(&self, target: T) -> Rule<T> {
        Rule {
            methods: self.methods.iter().map(|method| (*method).to_owned()).collect(),
            host: self.host.clone(),
            path: self.path.clone(),
            target,
        }
    }
}

/// Reports paths of logins that are answered already.
pub(crate) fn check_login_paths(config: &Config, sections: &[(String, Fields)], context: &mut Context<'_>) {
    let routes = config.routes.iter();
    let rules = routes.flat_map(|route| {
        route.paths().map(|(path, _)| Rule {
            methods: route.methods().to_vec(),
            host: route.host.clone(),
            path,
            target: (),
        })
    });
    let mut rules: Vec<_> = rules.collect();
    let paths = config.login_paths();
    let first = rules.len();
    rules.extend(paths.iter().map(|path| path.rule(())));
    let Err(RouterError::Conflict {
        second, method, path, ..
    }) = Router::compile(rules)
    else {
        return;
    };
    let Some(login) = second.checked_sub(first).map(|at| &paths[at]) else {
        return;
    };
    let written = sections.iter().find(|(name, _)| *name == login.auth);
    if let Some(Value::Table(fields)) = written.and_then(|(_, fields)| fields.value("oidc")) {
        let message = format!("`{path}` answers {method} already, by a route or another path of a login");
        context.note(fields.problem(login.key, message));
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
