//! Tokens that are not what they seem to be (RFC 8725).

use forebay_auth::{CredentialKind, Refusal};
use serde_json::{Value, json};

use crate::issuer::{AUDIENCE, ISSUER, Key, NOW, check, encoded, key_set, of_keys, with};

fn refused(claims: Value) -> Refusal {
    let key = Key::new("one");
    check(&of_keys(&key_set(&[&key])), &key.token(claims)).unwrap_err()
}

#[test]
fn a_token_of_the_issuer_is_accepted_with_its_claims() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    let token =
        key.token(json!({ "email": "ada@example.org", "phone": "1", "aud": [AUDIENCE, "x"], "nbf": NOW }));
    // The second time it comes from the cache.
    for _ in 0..2 {
        let identity = check(&authenticator, &token).unwrap();
        assert_eq!(identity.subject(), "ada");
        assert_eq!(identity.kind(), CredentialKind::Jwt);
        let json: Value = serde_json::from_str(identity.json()).unwrap();
        let expected = json!({ "subject": "ada", "kind": "jwt", "scopes": ["read", "write"], "claims": { "email": "ada@example.org" } });
        assert_eq!(json, expected);
        let needed = ["read".to_owned(), "admin".to_owned()];
        assert_eq!(identity.missing_scope(&needed), Some("admin"));
        assert_eq!(identity.missing_scope(&needed[..1]), None);
    }
}

#[test]
fn scopes_may_be_a_list_and_have_another_name() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    for claims in [
        json!({ "scope": null, "scp": ["a", "b"] }),
        json!({ "scope": ["a", "b"] }),
        json!({ "scope": null, "scp": "a  b" }),
    ] {
        let identity = check(&authenticator, &key.token(claims)).unwrap();
        assert_eq!(identity.missing_scope(&["a".to_owned(), "b".to_owned()]), None);
    }
    let none = check(&authenticator, &key.token(json!({ "scope": null }))).unwrap();
    assert_eq!(none.missing_scope(&["a".to_owned()]), Some("a"));
    for wrong in [json!(7), json!([7]), json!({})] {
        assert_eq!(
            refused(json!({ "scope": wrong })),
            Refusal::Claim { claim: "scope" }
        );
    }
}

#[test]
fn a_token_without_a_signature_is_refused() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    let claims = with(json!({})).to_string();
    for algorithm in ["none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512"] {
        for signature in ["", "AAAA"] {
            let header = json!({ "alg": algorithm, "kid": "one" }).to_string();
            let token = format!("{}.{}.{signature}", encoded(header), encoded(&claims));
            let refusal = check(&authenticator, &token).unwrap_err();
            let is_expected = matches!(refusal, Refusal::Malformed { .. } | Refusal::Algorithm);
            assert!(is_expected, "{algorithm}: {refusal:?}");
        }
    }
    let signed = key.token(json!({}));
    let (without, _) = signed.rsplit_once('.').unwrap();
    assert_eq!(
        check(&authenticator, &format!("{without}.")),
        Err(Refusal::Signature)
    );
    assert!(matches!(
        check(&authenticator, without),
        Err(Refusal::Malformed { .. })
    ));
}

#[test]
fn a_public_key_is_no_shared_secret() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    let signed = format!(
        "{}.{}",
        encoded(r#"{"alg":"HS256","kid":"one"}"#),
        encoded(with(json!({})).to_string())
    );
    let public = key.public();
    for secret in [public["x"].as_str().unwrap(), &public.to_string()] {
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let token = format!(
            "{signed}.{}",
            encoded(ring::hmac::sign(&secret, signed.as_bytes()))
        );
        assert_eq!(check(&authenticator, &token), Err(Refusal::Algorithm));
    }
}

#[test]
fn an_algorithm_that_is_not_configured_or_not_the_key_s_is_refused() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    let claims = with(json!({})).to_string();
    for (algorithm, expected) in [
        ("ES384", Refusal::Algorithm),
        ("EdDSA", Refusal::Algorithm),
        ("PS256", Refusal::Algorithm),
        // Accepted, but no key of the issuer is for it.
        ("RS256", Refusal::UnknownKey),
    ] {
        let header = json!({ "alg": algorithm, "kid": "one" }).to_string();
        assert_eq!(
            check(&authenticator, &key.sign(header, &claims)),
            Err(expected),
            "{algorithm}"
        );
    }
}

#[test]
fn only_keys_of_the_issuer_count() {
    let (key, other) = (Key::new("one"), Key::new("one"));
    let authenticator = of_keys(&key_set(&[&key]));
    assert_eq!(
        check(&authenticator, &other.token(json!({}))),
        Err(Refusal::Signature)
    );
    // Keys that a token brings itself, or leads to.
    let claims = with(json!({})).to_string();
    for header in [
        json!({ "alg": "ES256", "jwk": other.public() }),
        json!({ "alg": "ES256", "kid": "one", "jwk": other.public() }),
        json!({ "alg": "ES256", "kid": "one", "jku": "http://127.0.0.1:1/keys" }),
        json!({ "alg": "ES256", "kid": "../../one" }),
        json!({ "alg": "ES256", "kid": "' or 1=1" }),
    ] {
        let refusal = check(&authenticator, &other.sign(header.to_string(), &claims)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Signature | Refusal::UnknownKey),
            "{header}: {refusal:?}"
        );
    }
    // Several keys of one id are all tried; without an id a token needs the only key.
    let both = of_keys(&key_set(&[&key, &other]));
    assert!(check(&both, &other.token(json!({}))).is_ok() && check(&both, &key.token(json!({}))).is_ok());
    let nameless = key.sign(r#"{"alg":"ES256"}"#, &claims);
    assert!(check(&authenticator, &nameless).is_ok());
    assert_eq!(check(&both, &nameless), Err(Refusal::UnknownKey));
}

#[test]
fn times_are_compared_with_some_leeway() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    for (claims, expected) in [
        (json!({ "exp": NOW - 29 }), None),
        (json!({ "exp": NOW - 30 }), Some(Refusal::Expired)),
        (json!({ "exp": 0 }), Some(Refusal::Expired)),
        (json!({ "exp": -1 }), Some(Refusal::Expired)),
        (json!({ "exp": null }), Some(Refusal::Claim { claim: "exp" })),
        (
            json!({ "exp": "4102444800" }),
            Some(Refusal::Claim { claim: "exp" }),
        ),
        (
            json!({ "exp": [4_102_444_800_u64] }),
            Some(Refusal::Claim { claim: "exp" }),
        ),
        (json!({ "exp": 1e300 }), None),
        (json!({ "exp": NOW as f64 + 0.5 }), None),
        (json!({ "nbf": NOW + 30 }), None),
        (json!({ "nbf": NOW + 31 }), Some(Refusal::NotYetValid)),
        (json!({ "nbf": 1e300 }), Some(Refusal::NotYetValid)),
        (json!({ "nbf": "0" }), Some(Refusal::Claim { claim: "nbf" })),
        (json!({ "nbf": false }), Some(Refusal::Claim { claim: "nbf" })),
    ] {
        let found = check(&authenticator, &key.token(claims.clone())).err();
        assert_eq!(found, expected, "{claims}");
    }
}

#[test]
fn a_token_of_somebody_else_or_for_somebody_else_is_refused() {
    for (claims, expected) in [
        (json!({ "iss": "https://evil.example.org/" }), Refusal::Issuer),
        (json!({ "iss": format!("{ISSUER}x") }), Refusal::Issuer),
        (json!({ "iss": null }), Refusal::Claim { claim: "iss" }),
        (json!({ "iss": [ISSUER] }), Refusal::Claim { claim: "iss" }),
        (json!({ "aud": "web" }), Refusal::Audience),
        (json!({ "aud": "api2" }), Refusal::Audience),
        (json!({ "aud": [] }), Refusal::Audience),
        (json!({ "aud": [[AUDIENCE]] }), Refusal::Audience),
        (json!({ "aud": null }), Refusal::Claim { claim: "aud" }),
        (json!({ "aud": { "api": true } }), Refusal::Claim { claim: "aud" }),
        (json!({ "sub": null }), Refusal::Claim { claim: "sub" }),
        (json!({ "sub": "" }), Refusal::Claim { claim: "sub" }),
        (json!({ "sub": 7 }), Refusal::Claim { claim: "sub" }),
    ] {
        assert_eq!(refused(claims.clone()), expected, "{claims}");
    }
}

#[test]
fn a_name_that_comes_twice_is_refused() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    let claims = with(json!({})).to_string();
    let header = r#"{"alg":"ES256","kid":"one"}"#;
    for name in ["exp", "iss", "aud", "sub", "scope", "email"] {
        let twice = claims.replacen('{', &format!(r#"{{"{name}":"x","{name}":"y","#), 1);
        let refusal = check(&authenticator, &key.sign(header, twice)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Malformed { .. }),
            "{name}: {refusal:?}"
        );
    }
    for twice in [
        r#"{"alg":"none","alg":"ES256","kid":"one"}"#,
        r#"{"alg":"ES256","alg":"none","kid":"one"}"#,
        r#"{"alg":"ES256","kid":"two","kid":"one"}"#,
    ] {
        let refusal = check(&authenticator, &key.sign(twice, &claims)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Malformed { .. }),
            "{twice}: {refusal:?}"
        );
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let key = Key::new("one");
    let authenticator = of_keys(&key_set(&[&key]));
    let good = key.token(json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let (header, payload, signature) = (parts[0], parts[1], parts[2]);
    let malformed = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "a.b.c".to_owned(),
        "\u{0}.\u{0}.\u{0}".to_owned(),
        format!("{good}.x"),
        format!("{header}={payload}.{signature}"),
        format!("{header}==.{payload}.{signature}"),
        format!("{}.{payload}.{signature}", encoded("[]")),
        format!("{}.{payload}.{signature}", encoded("{\"alg\":")),
        format!("{}.{payload}.{signature}", encoded(b"\xff")),
        // Extensions that are critical and not understood (RFC 7515, 4.1.11).
        key.sign(
            r#"{"alg":"ES256","kid":"one","crit":["exp"]}"#,
            with(json!({})).to_string(),
        ),
        // Signed by the issuer, but no object.
        key.sign(r#"{"alg":"ES256","kid":"one"}"#, "[]"),
        key.sign(r#"{"alg":"ES256","kid":"one"}"#, "null"),
        key.sign(r#"{"alg":"ES256","kid":"one"}"#, b"\xff\xfe"),
        key.sign(
            r#"{"alg":"ES256","kid":"one"}"#,
            "{\"a\":".repeat(300) + "1" + &"}".repeat(300),
        ),
    ];
    for token in &malformed {
        let refusal = check(&authenticator, token).unwrap_err();
        let is_expected = matches!(refusal, Refusal::Malformed { .. } | Refusal::TooLong { .. });
        assert!(is_expected, "{token}: {refusal:?}");
    }
    // Every changed byte of a good one.
    for at in 0..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert!(
            check(&authenticator, str::from_utf8(&changed).unwrap()).is_err(),
            "byte {at}"
        );
    }
    let long = key.token(json!({ "padding": "x".repeat(4096) }));
    assert_eq!(
        check(&authenticator, &long),
        Err(Refusal::TooLong { bytes_max: 2048 })
    );
}
