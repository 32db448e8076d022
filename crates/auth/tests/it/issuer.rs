//! An issuer of tokens: signs them and serves its keys.

use std::{
    future::Future,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    pin::Pin,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use forebay_auth::{
    Algorithm, Authenticator, Checked, Identity, JwtSettings, KeyLocation, KeySource, Method, Refusal,
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://id.example.org/";
pub(crate) const AUDIENCE: &str = "api";

/// The time of every test: 2026-01-01.
pub(crate) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}
pub(crate) const NOW: u64 = 1_767_225_600;

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer.
pub(crate) struct Key {
    pub(crate) id: &'static str,
    pair: EcdsaKeyPair,
}

impl Key {
    pub(crate) fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        Self { id, pair }
    }

    /// Its public part (RFC 7518, 6.2).
    pub(crate) fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": encoded(&point[1..33]), "y": encoded(&point[33..]) })
    }

    /// A token with this header and these claims as they are.
    pub(crate) fn sign(&self, header: impl AsRef<[u8]>, claims: impl AsRef<[u8]>) -> String {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature))
    }

    /// A token whose claims are the usual ones with these in their place; null leaves one out.
    pub(crate) fn token(&self, claims: Value) -> String {
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": self.id });
        self.sign(header.to_string(), with(claims).to_string())
    }
}

/// The usual claims with these in their place; null leaves one out.
pub(crate) fn with(claims: Value) -> Value {
    let mut all =
        json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 600, "scope": "read write" });
    let claims: serde_json::Map<String, Value> = serde_json::from_value(claims).unwrap();
    let members = all.as_object_mut().unwrap();
    members.extend(claims);
    members.retain(|_, value| !value.is_null());
    all
}

pub(crate) fn key_set(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>() }).to_string()
}

/// Accepts tokens of the issuer by keys from this place.
pub(crate) fn authenticator(location: KeyLocation) -> Authenticator {
    let settings = JwtSettings {
        issuer: ISSUER.to_owned(),
        audience: vec!["other".to_owned(), AUDIENCE.to_owned()],
        algorithms: vec![Algorithm::ES256, Algorithm::RS256],
        leeway: Duration::from_secs(30),
        token_bytes_max: 2048,
        claims: vec!["email".to_owned()],
    };
    Authenticator::new(
        "api".to_owned(),
        Method::Jwt(settings, KeySource::start(location).unwrap()),
    )
}

/// Accepts tokens by these keys, which are in a file.
pub(crate) fn of_keys(keys: &str) -> Authenticator {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), keys).unwrap();
    authenticator(KeyLocation::File(file.path().to_owned()))
}

/// Checks a token, and waits for what that takes.
pub(crate) fn check(authenticator: &Authenticator, token: &str) -> Result<Arc<Identity>, Refusal> {
    finished(authenticator.check(Some(format!("Bearer {token}").as_bytes()), None, now()))
}

/// The outcome of a check.
pub(crate) fn finished(checked: Checked) -> Result<Arc<Identity>, Refusal> {
    match checked {
        Checked::Now(outcome) => outcome,
        Checked::Later(checking) => block_on(checking),
    }
}

pub(crate) fn block_on<T>(future: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// Answers requests for keys as it is told to.
pub(crate) struct KeyServer {
    pub(crate) port: u16,
    shared: Arc<Mutex<Answering>>,
}

#[derive(Default)]
struct Answering {
    /// The whole response; none: the request is left without one.
    response: Option<Vec<u8>>,
    requests: usize,
    /// Clients that are left without a response.
    left: Vec<TcpStream>,
}

pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl KeyServer {
    pub(crate) fn start(response: Option<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::new(Answering {
            response,
            ..Answering::default()
        }));
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if client.read(&mut byte).unwrap_or(0) == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                let mut answering = of_thread.lock().unwrap();
                answering.requests += 1;
                match answering.response.clone() {
                    // A client that has read enough may have left.
                    Some(response) => drop(client.write_all(&response)),
                    None => answering.left.push(client),
                }
            }
        });
        Self { port, shared }
    }

    pub(crate) fn answer(&self, response: Option<Vec<u8>>) {
        self.shared.lock().unwrap().response = response;
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.lock().unwrap().requests
    }

    pub(crate) fn location(&self) -> KeyLocation {
        KeyLocation::Url {
            url: format!("http://127.0.0.1:{}/keys", self.port).parse().unwrap(),
            ca: None,
            refresh: Duration::from_hours(1),
        }
    }
}
