//! Responses of OpenID providers, and forged ones, that must not begin a session.

use forebay_auth::{LoginError, Refusal};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{
    issuer::{Key, NOW, encoded, key_set, now, ok},
    provider::{Browser, CLIENT, Provider, SITE, block_on},
};

fn with_status(line: &str) -> Vec<u8> {
    format!("HTTP/1.1 {line}\r\nconnection: close\r\n\r\n").into_bytes()
}

fn unavailable(error: &LoginError) -> &str {
    match error {
        LoginError::Unavailable { cause } => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_response_of_another_issuer_is_refused() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    provider.grant(&begun.nonce, json!({}));
    for issuer in ["https://evil.example", "", &format!("{}/", provider.url)] {
        let query = format!("{}&iss={issuer}", begun.query());
        assert_eq!(
            browser.finish(&client, &query),
            Err(LoginError::OtherIssuer),
            "{issuer}"
        );
    }
    assert!(provider.requests("/token").is_empty());
    assert!(
        browser
            .finish(&client, &format!("{}&iss={}", begun.query(), provider.url))
            .is_ok()
    );
    // An issuer whose metadata promise `iss` must send it (RFC 9207, 2.4).
    provider.describe(json!({ "authorization_response_iss_parameter_supported": true }));
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    assert_eq!(
        browser.finish(&client, &begun.query()),
        Err(LoginError::OtherIssuer)
    );
}

#[test]
fn an_id_token_that_is_not_of_this_login_is_refused() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let other = Browser::default().begin(&client, "/").nonce;
    let claim = |claim| LoginError::Claim { claim };
    let wrong = LoginError::IdToken;
    for (claims, error) in [
        (json!({ "nonce": other }), claim("nonce")),
        (json!({ "nonce": null }), claim("nonce")),
        (json!({ "nonce": ["a"] }), claim("nonce")),
        (json!({ "iss": "https://evil.example" }), wrong(Refusal::Issuer)),
        (json!({ "aud": "another" }), wrong(Refusal::Audience)),
        (json!({ "aud": [CLIENT, "another"] }), claim("azp")),
        (
            json!({ "aud": [CLIENT, "another"], "azp": "another" }),
            claim("azp"),
        ),
        (json!({ "azp": "another" }), claim("azp")),
        (json!({ "azp": 1 }), claim("azp")),
        (json!({ "exp": NOW - 31 }), wrong(Refusal::Expired)),
        (json!({ "exp": null }), wrong(Refusal::Claim { claim: "exp" })),
        (json!({ "iat": NOW + 31 }), claim("iat")),
        (json!({ "iat": null }), claim("iat")),
        (json!({ "nbf": NOW + 31 }), wrong(Refusal::NotYetValid)),
        (json!({ "sub": "" }), wrong(Refusal::Claim { claim: "sub" })),
        (json!({ "at_hash": encoded("x") }), claim("at_hash")),
        (json!({ "at_hash": 1 }), claim("at_hash")),
    ] {
        let begun = browser.begin(&client, "/");
        provider.grant(&begun.nonce, claims.clone());
        assert_eq!(browser.finish(&client, &begun.query()), Err(error), "{claims}");
    }
    let begun = browser.begin(&client, "/");
    let usual = crate::issuer::with(provider.claims(&begun.nonce, json!({}))).to_string();
    let unsigned = format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(&usual));
    let (_, signature) = provider
        .key
        .token(json!({}))
        .rsplit_once('.')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let moved = format!(
        "{}.{}.{signature}",
        encoded(r#"{"alg":"ES256","kid":"one"}"#),
        encoded(&usual)
    );
    let shared = format!(
        "{}.{}.AAAA",
        encoded(r#"{"alg":"HS256","kid":"one"}"#),
        encoded(&usual)
    );
    for (token, error) in [
        (
            unsigned,
            "malformed credentials: its header is not one of a signed JSON Web Token",
        ),
        (moved, "the signature of the token is not valid"),
        (shared, "the algorithm of the token is not accepted (algorithms)"),
        (
            Key::new("one").token(provider.claims(&begun.nonce, json!({}))),
            "the signature of the token is not valid",
        ),
        (
            Key::new("two").token(provider.claims(&begun.nonce, json!({}))),
            "no key of the issuer is the one of the token",
        ),
        (
            "a.b.c".to_owned(),
            "malformed credentials: its header is not one of a signed JSON Web Token",
        ),
        (
            "a".repeat(65 << 10),
            "the token has more than 65536 bytes (token_bytes_max)",
        ),
    ] {
        provider.grant_token(&token);
        let error = format!("the ID token of the issuer is not accepted: {error}");
        assert_eq!(
            browser.finish(&client, &begun.query()).unwrap_err().to_string(),
            error
        );
    }
    assert_eq!(browser.session(&client), Err(Refusal::Missing));
    // With all of them right, also those that are often left out.
    let hash = digest(&SHA256, b"at");
    let claims =
        json!({ "at_hash": encoded(&hash.as_ref()[..16]), "aud": ["another", CLIENT], "azp": CLIENT });
    provider.grant(&begun.nonce, claims);
    assert!(browser.finish(&client, &begun.query()).is_ok());
}

#[test]
fn an_id_token_by_a_new_key_has_the_keys_fetched() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    let new = Key::new("new");
    provider.respond("/keys", ok(&key_set(&[&new])));
    provider.grant_token(&new.token(provider.claims(&begun.nonce, json!({}))));
    assert!(browser.finish(&client, &begun.query()).is_ok());
}

#[test]
fn claims_that_the_id_token_lacks_come_from_the_issuer() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    for (response, outcome) in [
        (
            ok(r#"{"sub":"ada","email":"a@b.c","phone":"1"}"#),
            Ok(json!({ "email": "a@b.c" })),
        ),
        (ok(r#"{"sub":"ada"}"#), Ok(json!({}))),
        (
            ok(r#"{"sub":"bob","email":"b@b.c"}"#),
            Err("it answers with another user's claims"),
        ),
        (
            ok(r#"{"email":"b@b.c"}"#),
            Err("it answers with another user's claims"),
        ),
        (
            ok("eyJhbGciOiJub25lIn0.e30."),
            Err("its response is not a JSON object of claims: "),
        ),
        (with_status("401 Unauthorized"), Err("it answers with status 401")),
    ] {
        let begun = browser.begin(&client, "/");
        provider.grant(&begun.nonce, json!({ "email": null }));
        provider.respond("/userinfo", response);
        match (browser.finish(&client, &begun.query()), outcome) {
            (Ok(_), Ok(claims)) => {
                let identity: Value = serde_json::from_str(browser.session(&client).unwrap().json()).unwrap();
                assert_eq!(identity["claims"], claims);
            }
            (Err(error), Err(cause)) => assert!(unavailable(&error).contains(cause), "{error:?}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }
    assert!(
        provider.requests("/userinfo")[0]
            .0
            .contains("authorization: Bearer at\r\n")
    );
}

#[test]
fn while_the_issuer_says_nothing_of_use_there_are_no_logins() {
    for (document, keys) in [
        (ok("<html>"), true),
        (ok("{}"), true),
        (with_status("500 Oops"), true),
        (with_status("302 Found\r\nlocation: http://127.0.0.1:1/"), true),
        (ok(&" ".repeat(257 << 10)), true),
        (Vec::new(), true),
        (ok("{}"), false),
    ] {
        let provider = Provider::start();
        if keys {
            provider.respond("/.well-known/openid-configuration", document);
        } else {
            provider.respond("/keys", ok("{}"));
        }
        let client = provider.client();
        let begun = block_on(client.begin(SITE, "/", |_| None, now()));
        assert_eq!(begun, Err(LoginError::NotReady));
    }
    for members in [
        json!({ "issuer": "https://evil.example" }),
        json!({ "token_endpoint": null }),
        json!({ "token_endpoint": "http://id.example.org/token" }),
        json!({ "authorization_endpoint": "javascript:alert(1)" }),
        json!({ "jwks_uri": "file:///etc/keys" }),
        json!({ "end_session_endpoint": "/end" }),
    ] {
        let provider = Provider::start();
        provider.describe(members.clone());
        let begun = block_on(provider.client().begin(SITE, "/", |_| None, now()));
        assert_eq!(begun, Err(LoginError::NotReady), "{members}");
    }
}

#[test]
fn a_token_endpoint_that_fails_is_no_login_and_can_be_asked_again() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    let refused = "HTTP/1.1 401 No\r\nconnection: close\r\n\r\n{\"error\":\"invalid_client\"}";
    for (response, cause) in [
        (Vec::new(), "connection closed"),
        (b"no HTTP".to_vec(), "(token_endpoint): "),
        (
            ok("<html>maintenance</html>"),
            "its response is not one with an ID token: ",
        ),
        (ok(r#"{"access_token":"a"}"#), "missing field `id_token`"),
        (ok(&" ".repeat(257 << 10)), "length limit exceeded"),
        (with_status("500 Oops"), "it answers with status 500 \"\""),
        (
            with_status("302 Found\r\nlocation: http://127.0.0.1:1/"),
            "it answers with status 302",
        ),
        (
            refused.as_bytes().to_vec(),
            "it answers with status 401 \"invalid_client\"",
        ),
    ] {
        provider.respond("/token", response);
        let error = browser.finish(&client, &begun.query()).unwrap_err();
        assert!(unavailable(&error).contains(cause), "{cause}: {error:?}");
        assert_eq!(
            error.to_string(),
            "the issuer cannot be asked for the user's identity"
        );
    }
    provider.grant(&begun.nonce, json!({}));
    assert!(browser.finish(&client, &begun.query()).is_ok());
}

#[test]
fn so_many_logins_wait_for_the_issuer_and_no_more() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    let query = begun.query();
    // Its token endpoint does not answer.
    let outcomes = block_on(async {
        let finish = || client.finish(SITE, query.as_bytes(), |name| browser.cookie(name), now());
        let mut waiting: Vec<_> = (0..64).map(|_| Box::pin(finish())).collect();
        for one in &mut waiting {
            let polled =
                std::future::poll_fn(|cx| std::task::Poll::Ready(one.as_mut().poll(cx).is_pending()));
            assert!(polled.await, "it waits");
        }
        assert_eq!(finish().await, Err(LoginError::Busy));
        // Each is given up at its deadline, and makes room.
        let mut outcomes = Vec::new();
        for one in waiting {
            outcomes.push(one.await);
        }
        outcomes
    });
    for outcome in outcomes {
        assert!(unavailable(&outcome.unwrap_err()).ends_with("it has not answered after 10s"));
    }
    provider.grant(&begun.nonce, json!({}));
    assert!(browser.finish(&client, &query).is_ok());
}
