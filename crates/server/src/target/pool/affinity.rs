//! The client of a request, for pools whose clients stay with one worker.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use crate::{config::Sticky, front::Head, target::Request};

/// The cookie by which the server knows a client again. Its value says nothing: a hash of it chooses the worker.
const COOKIE: &str = "forebay-client";
/// Hexadecimal digits of the cookie's value.
const DIGITS: usize = 16;

/// Its keys are secret, so nobody can choose a worker.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The client's key for the pool, and the value of `Set-Cookie` that makes a new client known.
pub(super) fn client_of(sticky: &Sticky, request: &Request<'_>) -> (Option<u64>, Option<String>) {
    let of_address = || (!request.peer.is_empty()).then(|| HASHER.hash_one(request.peer));
    match sticky {
        Sticky::Address => (of_address(), None),
        Sticky::Header(name) => {
            let value = request.head.field(name);
            (
                value.map(|value| HASHER.hash_one(value)).or_else(of_address),
                None,
            )
        }
        Sticky::Cookie => match cookie(request.head) {
            Some(value) => (Some(HASHER.hash_one(value)), None),
            None => {
                let value = format!("{:016x}", HASHER.hash_one(request.thread.request_id()));
                let secure = if request.is_secure { "; Secure" } else { "" };
                let cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax{secure}");
                (Some(HASHER.hash_one(value.as_bytes())), Some(cookie))
            }
        },
    }
}

fn cookie(head: &Head) -> Option<&[u8]> {
    let is_key = |value: &[u8]| value.len() == DIGITS && value.iter().all(u8::is_ascii_hexdigit);
    let mut cookies = head.cookies();
    cookies.find_map(|(name, value)| (name == COOKIE.as_bytes() && is_key(value)).then_some(value))
}
