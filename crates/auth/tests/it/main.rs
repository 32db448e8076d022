//! Credentials in, identities or refusals out, as the server calls it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod issuer;
mod key_source;
mod login_failures;
mod logins;
mod methods;
mod provider;
mod tokens;
