//! Passwords, fixed tokens, keys and certificates.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use forebay_auth::{
    Authenticator, CertificateName, Checked, CredentialKind, Method, PasswordHash, PasswordHashError,
    Refusal, SecretDigest, User,
};
use forebay_tls::ClientCertificate;
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::issuer::{finished, now};

/// Of `correct horse`, with 1 MiB of memory and two passes.
const HASH: &str =
    "$argon2id$v=19$m=1024,t=2,p=1$5sCFINnK4LaXhKEWwRai7A$TupL9WOXNxrbaKIRhq0gKR/iidzxqxhUg/xf9NlQXf4";

fn users() -> Authenticator {
    let user = User {
        password: HASH.parse().unwrap(),
        scopes: vec!["read".to_owned()],
    };
    let users = BTreeMap::from([("ada".to_owned(), user)]);
    Authenticator::new("people".to_owned(), Method::Passwords(users))
}

fn basic(name: &str, password: &str) -> Vec<u8> {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))).into_bytes()
}

#[test]
fn a_user_is_known_by_the_password() {
    let users = users();
    assert_eq!(users.challenge(), "Basic realm=\"people\", charset=\"UTF-8\"");
    let first = users.check(Some(&basic("ada", "correct horse")), None, now());
    assert!(matches!(first, Checked::Later(_)), "it takes a while");
    let identity = finished(first).unwrap();
    assert_eq!(
        (identity.subject(), identity.kind()),
        ("ada", CredentialKind::Password)
    );
    assert_eq!(identity.missing_scope(&["read".to_owned()]), None);
    // For a minute it is not computed again.
    let again = |at: SystemTime| users.check(Some(&basic("ada", "correct horse")), None, at);
    assert!(matches!(
        again(now() + Duration::from_secs(59)),
        Checked::Now(Ok(_))
    ));
    assert!(matches!(again(now() + Duration::from_mins(1)), Checked::Later(_)));
    for (name, password) in [
        ("ada", "correct horses"),
        ("ada", "correct horse "),
        ("ada", "Correct horse"),
        ("ada", ""),
        ("bob", "correct horse"),
        ("", ""),
        ("ada:correct", " horse"),
    ] {
        let checked = users.check(Some(&basic(name, password)), None, now());
        assert!(
            matches!(checked, Checked::Later(_)),
            "an unknown user takes as long: {name}"
        );
        assert_eq!(finished(checked), Err(Refusal::Wrong), "{name}:{password}");
    }
}

#[test]
fn each_hash_is_by_argon2id_with_a_salt_of_its_own() {
    let parts = [
        PasswordHash::of(b"correct horse"),
        PasswordHash::of(b"correct horse"),
    ]
    .map(|hash| {
        let text = hash.to_string();
        let parts: Vec<_> = text.split('$').map(str::to_owned).collect();
        assert_eq!(parts[1..4].join("$"), "argon2id$v=19$m=19456,t=2,p=1");
        let [salt, hash] = &parts[4..] else {
            panic!("{text}")
        };
        // 128 bits and 256.
        assert_eq!((salt.len(), hash.len()), (22, 43), "{text}");
        (salt.clone(), hash.clone())
    });
    assert!(parts[0].0 != parts[1].0 && parts[0].1 != parts[1].1);
}

#[test]
fn what_is_no_basic_field_is_refused_at_once() {
    let users = users();
    for (value, is_missing) in [
        (&b"Bearer abc"[..], true),
        (b"Basic", true),
        (b"basic YWRhOng=", false),
        (b"Basic !!!", false),
        (b"Basic YWRh", false),
        (b"Basic /zp4", false),
    ] {
        match users.check(Some(value), None, now()) {
            Checked::Now(Err(Refusal::Missing)) => assert!(is_missing, "{value:?}"),
            Checked::Now(Err(Refusal::Malformed { .. })) => assert!(!is_missing, "{value:?}"),
            Checked::Later(_) => assert_eq!(value, b"basic YWRhOng="),
            other @ Checked::Now(_) => panic!("{value:?}: {other:?}"),
        }
    }
    assert!(matches!(
        users.check(None, None, now()),
        Checked::Now(Err(Refusal::Missing))
    ));
}

#[test]
fn only_so_many_passwords_wait_to_be_checked() {
    let users = users();
    let checks: Vec<_> = (0..200)
        .map(
            |number| match users.check(Some(&basic("ada", &number.to_string())), None, now()) {
                Checked::Later(checking) => checking,
                Checked::Now(outcome) => panic!("{outcome:?}"),
            },
        )
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcomes = runtime.block_on(async {
        let running: Vec<_> = checks.into_iter().map(tokio::spawn).collect();
        let mut outcomes = Vec::new();
        for running in running {
            outcomes.push(running.await.unwrap());
        }
        outcomes
    });
    let busy = outcomes
        .iter()
        .filter(|outcome| **outcome == Err(Refusal::Busy { waiting_max: 64 }))
        .count();
    // Some may have been checked before the last one came.
    assert!((100..=200 - 64).contains(&busy), "{busy}");
    assert!(Refusal::Busy { waiting_max: 64 }.is_temporary());
    // Their places are free again.
    let after = users.check(Some(&basic("ada", "correct horse")), None, now());
    assert!(finished(after).is_ok());
}

#[test]
fn hashes_that_cannot_be_used_say_why() {
    let salted = "c29tZXNhbHRzb21lc2FsdA$T7WIf0iSpR0fZg4y3YsXKCfv2kkKNfYlsL1K4JzrN4k";
    for wrong in [
        "",
        "secret",
        "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
        &format!("$argon2i$v=19$m=65536,t=2,p=1${salted}"),
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHRzb21lc2FsdA",
    ] {
        assert_eq!(
            wrong.parse::<PasswordHash>(),
            Err(PasswordHashError::Form),
            "{wrong}"
        );
    }
    let costly = format!("$argon2id$v=19$m=4194304,t=2,p=1${salted}").parse::<PasswordHash>();
    assert!(matches!(
        costly,
        Err(PasswordHashError::Cost {
            memory_kib: 4_194_304,
            passes: 2
        })
    ));
    // A password longer than the block of the hash, and another salt each time.
    let password = "é".repeat(200);
    let [one, other] = [(); 2].map(|()| PasswordHash::of(password.as_bytes()).to_string());
    assert_ne!(one, other);
    assert_eq!(one.parse::<PasswordHash>().unwrap().to_string(), one);
    assert_eq!(HASH.parse::<PasswordHash>().unwrap().to_string(), HASH);
    assert_eq!(format!("{:?}", HASH.parse::<PasswordHash>().unwrap()), "***");
}

#[test]
fn a_fixed_token_and_a_key_are_compared_as_a_whole() {
    let owned = || {
        vec![
            (
                SecretDigest::of(b"first secret"),
                "first".to_owned(),
                vec!["a".to_owned()],
            ),
            (
                SecretDigest::of(b"second secret"),
                "second".to_owned(),
                Vec::new(),
            ),
        ]
    };
    let tokens = Authenticator::new("jobs".to_owned(), Method::Tokens(owned()));
    let keys = Authenticator::new("keys".to_owned(), Method::ApiKeys("x-key".to_owned(), owned()));
    assert_eq!(
        (tokens.field(), keys.field()),
        (Some("authorization"), Some("x-key"))
    );
    let of_token = |value: &str| finished(tokens.check(Some(value.as_bytes()), None, now()));
    let of_key = |value: &str| finished(keys.check(Some(value.as_bytes()), None, now()));
    assert_eq!(of_token("Bearer second secret").unwrap().subject(), "second");
    assert_eq!(of_key("first secret").unwrap().subject(), "first");
    assert_eq!(of_key("first secret").unwrap().kind(), CredentialKind::ApiKey);
    for wrong in [
        "",
        "first",
        "first secret2",
        "First secret",
        "first secretsecond secret",
    ] {
        assert_eq!(of_key(wrong), Err(Refusal::Wrong), "{wrong}");
        assert_eq!(
            of_token(&format!("Bearer {wrong}")),
            Err(Refusal::Wrong),
            "{wrong}"
        );
    }
    assert_eq!(of_token("first secret"), Err(Refusal::Missing));
    assert_eq!(finished(keys.check(None, None, now())), Err(Refusal::Missing));
}

#[test]
fn a_certificate_names_its_client() {
    let mut params = CertificateParams::new(["device.example".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "device 7");
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let certificate = ClientCertificate::parse(certificate.der()).unwrap();
    let by = |name, certificate: Option<&ClientCertificate>| {
        let method = Method::Certificates(name, vec!["send".to_owned()]);
        finished(Authenticator::new("devices".to_owned(), method).check(None, certificate, now()))
    };
    let identity = by(CertificateName::CommonName, Some(&certificate)).unwrap();
    assert_eq!(
        (identity.subject(), identity.kind()),
        ("device 7", CredentialKind::Certificate)
    );
    assert!(
        identity.json().contains(r#""dns":["device.example"]"#),
        "{}",
        identity.json()
    );
    assert_eq!(
        by(CertificateName::Dns, Some(&certificate)).unwrap().subject(),
        "device.example"
    );
    assert_eq!(
        by(CertificateName::Uri, Some(&certificate)),
        Err(Refusal::Nameless)
    );
    assert_eq!(by(CertificateName::CommonName, None), Err(Refusal::Missing));
}
