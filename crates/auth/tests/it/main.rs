//! Credentials in, identities or refusals out, as the server calls it.

mod issuer;
mod key_source;
mod methods;
mod tokens;
