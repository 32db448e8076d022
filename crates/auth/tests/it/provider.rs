//! An OpenID provider whose responses a test chooses, and a browser that keeps cookies.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, SystemTime},
};

use forebay_auth::{
    Algorithm, Authenticator, Identity, KeyLocation, KeySource, LoginError, Method, OidcClient, OidcSettings,
    Redirect, Refusal, Site,
};
use serde_json::{Value, json};

use crate::issuer::{Key, NOW, key_set, now, ok};

pub(crate) const CLIENT: &str = "shop & co";
/// The browser's address of the server.
pub(crate) const SITE: Site<'_> = Site {
    is_secure: true,
    host: "shop.example",
};

#[derive(Default)]
struct Shared {
    /// Whole responses by path; for others, clients are left without one.
    responses: HashMap<&'static str, Vec<u8>>,
    /// Head and body of each request.
    requests: Vec<(String, String)>,
    left: Vec<TcpStream>,
}

pub(crate) struct Provider {
    pub(crate) url: String,
    pub(crate) key: Key,
    shared: Arc<Mutex<Shared>>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let provider = Self::silent();
        provider.describe(json!({}));
        provider.respond("/keys", ok(&key_set(&[&provider.key])));
        provider
    }

    /// A provider without responses.
    pub(crate) fn silent() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let shared = Arc::new(Mutex::new(Shared::default()));
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let shared = Arc::clone(&of_thread);
                thread::spawn(move || serve(client.unwrap(), &shared));
            }
        });
        let key = Key::new("one");
        Self { url, key, shared }
    }

    /// Has its document be the usual one with these members in their place; null leaves one out.
    pub(crate) fn describe(&self, members: Value) {
        let at = |path: &str| format!("{}{path}", self.url);
        let mut all = json!({
            "issuer": self.url, "authorization_endpoint": at("/authorize?tenant=1"), "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"), "end_session_endpoint": at("/end"), "userinfo_endpoint": at("/userinfo"),
        });
        let members: serde_json::Map<String, Value> = serde_json::from_value(members).unwrap();
        let all_members = all.as_object_mut().unwrap();
        all_members.extend(members);
        all_members.retain(|_, value| !value.is_null());
        self.respond("/.well-known/openid-configuration", ok(&all.to_string()));
    }

    pub(crate) fn respond(&self, path: &'static str, response: Vec<u8>) {
        self.shared.lock().unwrap().responses.insert(path, response);
    }

    /// Has the token endpoint answer with an ID token whose claims are the usual ones with these in their place.
    pub(crate) fn grant(&self, nonce: &str, claims: Value) {
        self.grant_token(&self.key.token(self.claims(nonce, claims)));
    }

    pub(crate) fn claims(&self, nonce: &str, claims: Value) -> Value {
        let mut all = json!({ "iss": self.url, "aud": CLIENT, "iat": NOW, "nonce": nonce, "scope": null, "email": "ada@example.org" });
        let claims: serde_json::Map<String, Value> = serde_json::from_value(claims).unwrap();
        all.as_object_mut().unwrap().extend(claims);
        all
    }

    pub(crate) fn grant_token(&self, id_token: &str) {
        let tokens = json!({ "access_token": "at", "token_type": "Bearer", "scope": "openid email", "id_token": id_token });
        self.respond("/token", ok(&tokens.to_string()));
    }

    /// The requests for a path.
    pub(crate) fn requests(&self, path: &str) -> Vec<(String, String)> {
        let shared = self.shared.lock().unwrap();
        let is_it = |(head, _): &&(String, String)| head.split(' ').nth(1) == Some(path);
        shared.requests.iter().filter(is_it).cloned().collect()
    }

    pub(crate) fn settings(&self) -> OidcSettings {
        OidcSettings {
            issuer: self.url.clone(),
            client_id: CLIENT.to_owned(),
            client_secret: Some("s%cret".to_owned()),
            cookie_secret: "0123456789abcdef0123456789abcdef".to_owned(),
            callback: "/login/callback".to_owned(),
            scopes: vec!["email".to_owned()],
            algorithms: vec![Algorithm::ES256],
            claims: vec!["email".to_owned()],
            session: Duration::from_hours(1),
        }
    }

    pub(crate) fn keys(&self) -> Arc<KeySource> {
        let location = KeyLocation::Discovery {
            issuer: self.url.clone(),
            ca: None,
            refresh: Duration::from_hours(1),
        };
        KeySource::start(location).unwrap()
    }

    pub(crate) fn client(&self) -> Arc<OidcClient> {
        client("people", self.settings(), self.keys())
    }
}

pub(crate) fn client(name: &str, settings: OidcSettings, keys: Arc<KeySource>) -> Arc<OidcClient> {
    let authenticator = Authenticator::new(name.to_owned(), Method::Oidc(settings, keys));
    Arc::clone(authenticator.oidc().unwrap())
}

fn serve(mut client: TcpStream, shared: &Mutex<Shared>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let mut shared = shared.lock().unwrap();
    shared.requests.push((head, String::from_utf8(body).unwrap()));
    match shared.responses.get(&*path).cloned() {
        // A client that has read enough may have left.
        Some(response) => drop(client.write_all(&response)),
        None => shared.left.push(client),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

#[derive(Clone, Default)]
pub(crate) struct Browser {
    pub(crate) cookies: HashMap<String, String>,
}

/// A login on its way, as the issuer sees it.
#[derive(Clone)]
pub(crate) struct StartedLogin {
    pub(crate) location: String,
    pub(crate) state: String,
    pub(crate) nonce: String,
}

impl StartedLogin {
    /// A parameter of the address of the issuer.
    pub(crate) fn parameter(&self, name: &str) -> String {
        let query = self.location.split_once('?').unwrap().1;
        let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(other, _)| other == name);
        let (_, value) = found
            .next()
            .unwrap_or_else(|| panic!("{} has no {name}", self.location));
        assert_eq!(found.next(), None);
        value.into_owned()
    }

    pub(crate) fn query(&self) -> String {
        format!("code=c0de&state={}", self.state)
    }
}

impl Browser {
    pub(crate) fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.cookies.get(name).map(String::as_bytes)
    }

    pub(crate) fn take(&mut self, redirect: &Redirect) {
        for cookie in &redirect.cookies {
            let (name, rest) = cookie.split_once('=').unwrap();
            let (value, attributes) = rest.split_once("; ").unwrap();
            if attributes.contains("Max-Age=0;") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    pub(crate) fn begin(&mut self, client: &OidcClient, address: &str) -> StartedLogin {
        let begun = client.begin(SITE, address, |name| self.cookie(name), now());
        let redirect = block_on(begun).unwrap();
        self.take(&redirect);
        let mut begun = StartedLogin {
            location: redirect.location,
            state: String::new(),
            nonce: String::new(),
        };
        begun.state = begun.parameter("state");
        begun.nonce = begun.parameter("nonce");
        begun
    }

    pub(crate) fn finish(&mut self, client: &Arc<OidcClient>, query: &str) -> Result<String, LoginError> {
        self.finish_at(client, query, now())
    }

    pub(crate) fn finish_at(
        &mut self,
        client: &Arc<OidcClient>,
        query: &str,
        now: SystemTime,
    ) -> Result<String, LoginError> {
        let finished = client.finish(SITE, query.as_bytes(), |name| self.cookie(name), now);
        let redirect = block_on(finished)?;
        self.take(&redirect);
        Ok(redirect.location)
    }

    pub(crate) fn session(&self, client: &OidcClient) -> Result<Arc<Identity>, Refusal> {
        client.session(SITE, |name| self.cookie(name), now())
    }
}
