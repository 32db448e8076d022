//! The cookies of logins: encrypted and authenticated, so that the server keeps nothing of a login or a session.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::uri::Authority;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Prk, Salt},
};

use super::provider::is_loopback;
use crate::random;

/// The longest cookie, name and value together: browsers drop longer ones (RFC 6265, 6.1).
pub(super) const COOKIE_BYTES_MAX: usize = 4096;
/// With it, a browser takes a cookie only from this host and by TLS (RFC 6265bis, 4.1.3.2).
const HOST_PREFIX: &str = "__Host-";
/// Names of sections have no dot, so no two have the same cookies.
const OWN_PREFIX: &str = "forebay.";
const SALT_BYTES: usize = 16;

/// The address by which a client reaches this server.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Whether the client uses TLS.
    pub is_secure: bool,
    /// The host that the client has asked, with its port.
    pub host: &'a str,
}

impl Site<'_> {
    /// Whether cookies are safe on their way: by TLS, or on this machine.
    pub(super) fn is_safe(&self) -> bool {
        let host = self.host.parse::<Authority>();
        host.is_ok_and(|host| self.is_secure || is_loopback(host.host()))
    }

    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.host)
    }

    /// The name of the cookie with a session of the `[auth.NAME]` with this name. Without TLS it cannot have the prefix.
    pub fn session_cookie(&self, name: &str) -> String {
        self.cookie_name(name)
    }

    pub(super) fn cookie_name(&self, name: &str) -> String {
        let prefix = if self.is_secure { HOST_PREFIX } else { "" };
        format!("{prefix}{OWN_PREFIX}{name}")
    }

    /// A value of `Set-Cookie`; no time removes the cookie.
    pub(super) fn set_cookie(&self, name: &str, value: &str, time: Duration) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let seconds = time.as_secs();
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }
}

/// Whether a cookie is one of logins and sessions, which handlers and other servers do not get.
pub fn is_login_cookie(name: &[u8]) -> bool {
    let name = name.strip_prefix(HOST_PREFIX.as_bytes()).unwrap_or(name);
    name.starts_with(OWN_PREFIX.as_bytes())
}

/// Encrypts and authenticates values: AES-256-GCM, each with a key of its own, which HKDF (RFC 5869) derives from the secret and a random salt.
#[derive(Debug)]
pub(super) struct Sealer(Prk);

impl Sealer {
    /// Values can be opened with the same secret and context only.
    pub(super) fn new(secret: &[u8], context: &[u8]) -> Self {
        Self(Salt::new(HKDF_SHA256, context).extract(secret))
    }

    fn key(&self, salt: &[u8]) -> LessSafeKey {
        let info = [salt];
        let key = self.0.expand(&info, &AES_256_GCM);
        LessSafeKey::new(UnboundKey::from(key.expect("its length is that of a key")))
    }

    /// The nonce of a key that is used once.
    fn nonce() -> Nonce {
        Nonce::assume_unique_for_key([0; NONCE_LEN])
    }

    /// The sealed content in characters of cookies. It can be opened for the same purpose only.
    pub(super) fn seal(&self, purpose: &str, content: &[u8]) -> String {
        let salt: [u8; SALT_BYTES] = random();
        let mut sealed = content.to_vec();
        let key = self.key(&salt);
        key.seal_in_place_append_tag(Self::nonce(), Aad::from(purpose.as_bytes()), &mut sealed)
            .expect("a cookie is short enough");
        URL_SAFE_NO_PAD.encode([&salt[..], &sealed].concat())
    }

    /// The content; `None` if it was not sealed here for this purpose.
    pub(super) fn open(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        if sealed.len() > COOKIE_BYTES_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (salt, sealed) = sealed.split_at_checked(SALT_BYTES)?;
        let mut content = sealed.to_vec();
        let key = self.key(salt);
        let opened = key.open_in_place(Self::nonce(), Aad::from(purpose.as_bytes()), &mut content);
        let length = opened.ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_can_be_opened_as_it_was_sealed_and_in_no_other_way() {
        let sealer = Sealer::new(b"secret", b"context");
        let sealed = sealer.seal("purpose", b"content");
        assert_ne!(sealed, sealer.seal("purpose", b"content"));
        let open = |sealer: &Sealer, purpose: &str, sealed: &[u8]| sealer.open(purpose, sealed);
        assert_eq!(open(&sealer, "purpose", sealed.as_bytes()).unwrap(), b"content");
        assert_eq!(open(&sealer, "other", sealed.as_bytes()), None);
        for other in [
            Sealer::new(b"other", b"context"),
            Sealer::new(b"secret", b"other"),
        ] {
            assert_eq!(open(&other, "purpose", sealed.as_bytes()), None);
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(open(&sealer, "purpose", &changed), None, "byte {at}");
            assert_eq!(
                open(&sealer, "purpose", &sealed.as_bytes()[..at]),
                None,
                "{at} bytes"
            );
        }
        let long = [sealed.as_bytes(), &[b'A'; COOKIE_BYTES_MAX]].concat();
        assert_eq!(open(&sealer, "purpose", &long), None);
        assert_eq!(open(&sealer, "purpose", b"%00"), None);
    }

    #[test]
    fn without_tls_cookies_are_for_this_machine_only() {
        let is_safe = |is_secure, host| Site { is_secure, host }.is_safe();
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:80",
            "[::1]:80",
            "127.1.2.3",
        ] {
            assert!(is_safe(false, host), "{host}");
        }
        for host in [
            "example.org",
            "localhost.example.org",
            "10.0.0.1",
            "127.0.0.1.example.org",
            "me@localhost",
        ] {
            assert_eq!(
                (is_safe(false, host), is_safe(true, host)),
                (host == "me@localhost", true),
                "{host}"
            );
        }
        assert!(!is_safe(true, ""), "a client that names no host");
    }
}
