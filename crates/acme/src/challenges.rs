//! Answers to the challenges by which an authority verifies that this server has a name.

use std::{collections::HashMap, io, sync::Arc};

use forebay_tls::challenge_config;
use instant_acme::KeyAuthorization;
use parking_lot::Mutex;
use rustls::ServerConfig;

use crate::Challenge;

/// The proofs of orders that are under way. Nothing else is answered.
#[derive(Debug, Default)]
pub struct Challenges {
    /// Key authorizations by token.
    http: Mutex<HashMap<String, String>>,
    /// Settings of handshakes by name.
    tls: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

impl Challenges {
    /// The response to `/.well-known/acme-challenge/TOKEN`, if an authority is expected to ask for this token.
    pub fn key_authorization(&self, token: &str) -> Option<String> {
        self.http.lock().get(token).cloned()
    }

    /// Settings for the handshake of an authority that asks for this name by [`forebay_tls::ACME_TLS`], if it is expected.
    pub fn tls_config(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.tls.lock().get(&name.to_ascii_lowercase()).cloned()
    }

    /// Expects an authority to ask, until the guard is dropped.
    pub(crate) fn expect(
        self: &Arc<Self>,
        challenge: Challenge,
        name: &str,
        token: &str,
        proof: &KeyAuthorization,
    ) -> io::Result<Expected> {
        let key = match challenge {
            Challenge::Http01 => {
                let text = proof.as_str().to_owned();
                self.http.lock().insert(token.to_owned(), text);
                token
            }
            Challenge::TlsAlpn01 => {
                let config = challenge_config(name, proof.digest().as_ref())?;
                self.tls.lock().insert(name.to_owned(), Arc::new(config));
                name
            }
        };
        Ok(Expected {
            challenges: Arc::clone(self),
            challenge,
            key: key.to_owned(),
        })
    }
}

/// A proof that is given while this exists.
#[derive(Debug)]
pub(crate) struct Expected {
    challenges: Arc<Challenges>,
    challenge: Challenge,
    key: String,
}

impl Drop for Expected {
    fn drop(&mut self) {
        match self.challenge {
            Challenge::Http01 => drop(self.challenges.http.lock().remove(&self.key)),
            Challenge::TlsAlpn01 => drop(self.challenges.tls.lock().remove(&self.key)),
        }
    }
}
