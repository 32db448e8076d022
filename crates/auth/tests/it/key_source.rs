//! Keys that are fetched: from a server that is down, slow, wrong, and that changes them.

use forebay_auth::{KeyLocation, KeySource, KeySourceError, Refusal};
use serde_json::json;

use crate::issuer::{Key, KeyServer, authenticator, check, key_set, ok};

/// Repeats until the condition holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !condition() {
        assert!(std::time::Instant::now() < end, "not within a minute: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn the_first_token_waits_for_the_keys() {
    let key = Key::new("one");
    let server = KeyServer::start(Some(ok(&key_set(&[&key]))));
    let authenticator = authenticator(server.location());
    assert_eq!(
        check(&authenticator, &key.token(json!({}))).unwrap().subject(),
        "ada"
    );
    assert_eq!(server.requests(), 1);
}

#[test]
fn a_token_by_a_new_key_has_the_keys_fetched_but_not_again_and_again() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let server = KeyServer::start(Some(ok(&key_set(&[&old]))));
    let authenticator = authenticator(server.location());
    assert!(check(&authenticator, &old.token(json!({}))).is_ok());
    server.answer(Some(ok(&key_set(&[&old, &new]))));
    assert!(check(&authenticator, &new.token(json!({}))).is_ok(), "at once");
    assert_eq!(server.requests(), 2);
    // Made-up keys.
    for _ in 0..100 {
        assert_eq!(
            check(&authenticator, &Key::new("third").token(json!({}))),
            Err(Refusal::UnknownKey)
        );
    }
    assert_eq!(server.requests(), 2);
    // A key that is withdrawn takes what was verified by it along.
    let token = old.token(json!({}));
    assert!(check(&authenticator, &token).is_ok());
    server.answer(Some(ok(&key_set(&[&new]))));
    until("the old key is not accepted any more", || {
        let _ = check(&authenticator, &Key::new("third").token(json!({})));
        check(&authenticator, &token).is_err()
    });
    assert!(check(&authenticator, &new.token(json!({}))).is_ok());
}

#[test]
fn while_the_server_fails_the_last_keys_stay() {
    let (key, other) = (Key::new("one"), Key::new("two"));
    // Good answers but for their status or their size.
    let keys = key_set(&[&other]);
    let with_status = |line: &str| {
        let text = String::from_utf8(ok(&keys)).unwrap();
        Some(text.replacen("HTTP/1.1 200 OK", line, 1).into_bytes())
    };
    for failure in [
        with_status("HTTP/1.1 500 Oops"),
        with_status("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/"),
        Some(ok(&(keys.clone() + &" ".repeat(257 << 10)))),
        Some(Vec::new()),
        Some(b"no HTTP".to_vec()),
        Some(ok("<html>maintenance</html>")),
        Some(ok(r#"{"keys":[]}"#)),
    ] {
        let server = KeyServer::start(Some(ok(&key_set(&[&key]))));
        let authenticator = authenticator(server.location());
        assert!(check(&authenticator, &key.token(json!({}))).is_ok());
        server.answer(failure.clone());
        let unknown = other.token(json!({}));
        let answer =
            failure.map(|failure| String::from_utf8_lossy(&failure[..failure.len().min(40)]).into_owned());
        assert_eq!(
            check(&authenticator, &unknown),
            Err(Refusal::UnknownKey),
            "{answer:?}"
        );
        assert_eq!(server.requests(), 2);
        assert!(
            check(&authenticator, &key.token(json!({ "sub": "bob" }))).is_ok(),
            "{answer:?}"
        );
    }
}

#[test]
fn without_keys_nothing_can_be_said_until_they_come() {
    let key = Key::new("one");
    let failing = b"HTTP/1.1 503 Soon\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let server = KeyServer::start(Some(failing.to_vec()));
    let authenticator = authenticator(server.location());
    let token = key.token(json!({}));
    assert_eq!(check(&authenticator, &token), Err(Refusal::NoKeys));
    assert!(Refusal::NoKeys.is_temporary());
    server.answer(Some(ok(&key_set(&[&key]))));
    until("the keys are fetched again", || {
        check(&authenticator, &token).is_ok()
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let key = Key::new("one");
    let server = KeyServer::start(None);
    let authenticator = authenticator(server.location());
    // Waits for the deadline of the fetch.
    assert_eq!(check(&authenticator, &key.token(json!({}))), Err(Refusal::NoKeys));
    assert_eq!(server.requests(), 1);
    server.answer(Some(ok(&key_set(&[&key]))));
    until("the keys are fetched", || {
        check(&authenticator, &key.token(json!({}))).is_ok()
    });
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let start = || KeySource::start(KeyLocation::File(path.clone())).unwrap_err();
    assert!(matches!(start(), KeySourceError::File { .. }));
    std::fs::write(&path, "{}").unwrap();
    let error = start();
    assert!(matches!(error, KeySourceError::KeySet { .. }));
    let text = error.to_string();
    assert!(
        text.contains("keys.json cannot be used: it is not a JSON Web Key Set: "),
        "{text}"
    );
}

#[test]
fn keys_that_nobody_uses_are_not_kept() {
    let server = KeyServer::start(Some(ok(&key_set(&[&Key::new("one")]))));
    let source = KeySource::start(server.location()).unwrap();
    until("the keys are asked for", || server.requests() == 1);
    let weak = std::sync::Arc::downgrade(&source);
    drop(source);
    // Not only after the hour until they would be fetched again.
    until("its thread has let it go", || weak.strong_count() == 0);
}
