//! Checks what clients present to prove who they are: JSON Web Tokens, fixed tokens, passwords, API keys, certificates and the sessions of
//! browsers that it logs in by OpenID Connect. Credentials and the time come in as plain values, an [`Identity`] or a [`Refusal`] comes out; the
//! crate serves no requests. It uses the network on threads of its own only, to fetch the public keys of token issuers and to ask who has logged in.

#![forbid(unsafe_code)]

mod authenticator;
mod authorization;
mod cache;
mod claims;
mod fetch;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod identity;
mod jwt;
mod key_set;
mod key_source;
mod oidc;
mod passwords;
mod refusal;
mod secrets;
mod signatures;

pub use jsonwebtoken::Algorithm;

pub use self::{
    authenticator::{Authenticator, Checked, Method},
    authorization::{basic, bearer},
    identity::{CredentialKind, Identity},
    jwt::JwtSettings,
    key_set::KeySetError,
    key_source::{KeyLocation, KeySource, KeySourceError},
    oidc::{LoginError, OidcClient, OidcSettings, Redirect, Site, is_login_cookie, is_protected},
    passwords::{PasswordHash, PasswordHashError, User},
    refusal::Refusal,
    secrets::{SecretDigest, SecretDigestError, is_same},
};
pub use forebay_tls::CertificateName;

use ring::rand::{SecureRandom as _, SystemRandom};

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random numbers");
    bytes
}
