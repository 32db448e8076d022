//! Logins of browsers at an OpenID provider, and what stands in their way.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use forebay_auth::{LoginError, OidcSettings, Redirect, Refusal, Site};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{
    issuer::{encoded, now},
    provider::{Browser, CLIENT, Provider, SITE, StartedLogin, block_on, client},
};

const SESSION: &str = "__Host-forebay.people";

/// A browser that has logged in, with its client.
fn logged_in(provider: &Provider) -> (Browser, Arc<forebay_auth::OidcClient>) {
    let (mut browser, client) = (Browser::default(), provider.client());
    let begun = browser.begin(&client, "/");
    provider.grant(&begun.nonce, json!({}));
    assert_eq!(browser.finish(&client, &begun.query()), Ok("/".to_owned()));
    (browser, client)
}

#[test]
fn a_login_begins_a_session() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    assert_eq!(browser.session(&client), Err(Refusal::Missing));
    let begun = browser.begin(&client, "/orders?page=2&sort=%2F");
    assert!(begun.location.starts_with(&format!(
        "{}/authorize?tenant=1&response_type=code&",
        provider.url
    )));
    for (name, value) in [
        ("client_id", CLIENT),
        ("redirect_uri", "https://shop.example/login/callback"),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(begun.parameter(name), value);
    }
    provider.grant(&begun.nonce, json!({}));
    let query = format!("{}&session_state=1", begun.query());
    assert_eq!(
        browser.finish(&client, &query),
        Ok("/orders?page=2&sort=%2F".to_owned())
    );
    let identity = browser.session(&client).unwrap();
    let json: Value = serde_json::from_str(identity.json()).unwrap();
    assert_eq!(
        json,
        json!({ "subject": "ada", "kind": "oidc", "scopes": ["openid", "email"], "claims": { "email": "ada@example.org" } })
    );
    assert_eq!(
        browser.cookies.keys().collect::<Vec<_>>(),
        [SESSION],
        "the login's is gone"
    );
    // The parameters of the request to the issuer.
    let [(head, body)] = &provider.requests("/token")[..] else {
        panic!("one request")
    };
    let form: std::collections::HashMap<_, _> = form_urlencoded::parse(body.as_bytes()).collect();
    assert_eq!(form["grant_type"], "authorization_code");
    assert_eq!(form["code"], "c0de");
    assert_eq!(form["redirect_uri"], "https://shop.example/login/callback");
    assert_eq!(
        encoded(digest(&SHA256, form["code_verifier"].as_bytes())),
        begun.parameter("code_challenge")
    );
    let basic = STANDARD.encode("shop+%26+co:s%25cret");
    assert!(
        head.contains(&format!("authorization: Basic {basic}\r\n")),
        "{head}"
    );
    assert!(
        provider.requests("/userinfo").is_empty(),
        "the ID token has all claims"
    );
}

#[test]
fn a_client_proves_who_it_is_as_the_issuer_can_take_it() {
    for (methods, secret) in [
        (json!(["client_secret_post"]), Some("s%cret")),
        (json!(null), None),
    ] {
        let provider = Provider::start();
        provider.describe(json!({ "token_endpoint_auth_methods_supported": methods }));
        let settings = OidcSettings {
            client_secret: secret.map(str::to_owned),
            ..provider.settings()
        };
        let client = client("people", settings, provider.keys());
        let mut browser = Browser::default();
        let begun = browser.begin(&client, "/");
        provider.grant(&begun.nonce, json!({}));
        assert!(browser.finish(&client, &begun.query()).is_ok());
        let (head, body) = &provider.requests("/token")[0];
        let form: std::collections::HashMap<_, _> = form_urlencoded::parse(body.as_bytes()).collect();
        assert!(!head.contains("authorization: "), "{head}");
        assert_eq!(
            (
                &*form["client_id"],
                form.get("client_secret").map(|secret| &**secret)
            ),
            (CLIENT, secret)
        );
    }
}

#[test]
fn a_response_is_taken_only_for_a_login_of_its_browser() {
    let provider = Provider::start();
    let client = provider.client();
    let (mut browser, mut other) = (Browser::default(), Browser::default());
    let (begun, of_other) = (browser.begin(&client, "/"), other.begin(&client, "/"));
    provider.grant(&begun.nonce, json!({}));
    let forged = begun.state.replace(&begun.state[4..8], "AAAA");
    for (query, error) in [
        (
            "code=c0de".to_owned(),
            LoginError::Malformed {
                what: "it has no `state`",
            },
        ),
        ("code=c0de&state=".to_owned(), LoginError::Unknown),
        (format!("code=c0de&state={forged}"), LoginError::Unknown),
        (
            format!("code=c0de&state=9{}", &begun.state[1..]),
            LoginError::Unknown,
        ),
        (of_other.query(), LoginError::Unknown),
        (
            format!("{}&state=a", begun.query()),
            LoginError::Malformed {
                what: "a parameter comes twice",
            },
        ),
        (
            format!("error=access_denied&state={}", begun.state),
            LoginError::Refused {
                code: "access_denied".to_owned(),
            },
        ),
    ] {
        assert_eq!(browser.finish(&client, &query), Err(error), "{query}");
    }
    assert_eq!(
        Browser::default().finish(&client, &begun.query()),
        Err(LoginError::Unknown),
        "no cookies"
    );
    let late = now() + Duration::from_mins(10);
    assert_eq!(
        browser.finish_at(&client, &begun.query(), late),
        Err(LoginError::Unknown)
    );
    assert!(
        provider.requests("/token").is_empty(),
        "no code of these is redeemed"
    );
    // A cookie of another login under the name that the state asks for.
    let [cookie] = browser
        .cookies
        .values()
        .cloned()
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let mut mixed = other.clone();
    for value in mixed.cookies.values_mut() {
        value.clone_from(&cookie);
    }
    assert_eq!(mixed.finish(&client, &of_other.query()), Err(LoginError::Unknown));
    // A login is finished once: a browser that comes back is logged in already, or is refused.
    assert_eq!(browser.finish(&client, &begun.query()), Ok("/".to_owned()));
    assert_eq!(browser.finish(&client, &begun.query()), Ok("/".to_owned()));
    browser.cookies.clear();
    assert_eq!(browser.finish(&client, &begun.query()), Err(LoginError::Unknown));
    assert_eq!(provider.requests("/token").len(), 1);
}

#[test]
fn a_code_that_has_been_used_begins_no_session() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    let body = r#"{"error":"invalid_grant","error_description":"<b>"}"#;
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    provider.respond("/token", response.into_bytes());
    assert_eq!(browser.finish(&client, &begun.query()), Err(LoginError::Code));
    assert_eq!(browser.session(&client), Err(Refusal::Missing));
}

#[test]
fn a_session_is_good_as_it_was_made_and_nowhere_else() {
    let provider = Provider::start();
    let (browser, client) = logged_in(&provider);
    let value = browser.cookies[SESSION].clone();
    let with = |value: &str| Browser {
        cookies: [(SESSION.to_owned(), value.to_owned())].into(),
    };
    assert!(with(&value).session(&client).is_ok());
    let flipped = if value.ends_with('A') { 'B' } else { 'A' };
    let in_the_middle = value.replace(&value[40..44], "AAAA");
    let attempt = {
        let mut browser = Browser::default();
        browser.begin(&client, "/");
        browser.cookies.into_values().next().unwrap()
    };
    for wrong in [
        "",
        "=",
        "a",
        &value[1..],
        &value[..value.len() - 1],
        &format!("{}{flipped}", &value[..value.len() - 1]),
        &format!("{value}A"),
        &in_the_middle,
        &"A".repeat(100_000),
        &attempt,
        "\u{e9}",
    ] {
        assert_eq!(with(wrong).session(&client), Err(Refusal::Session), "{wrong:.80}");
    }
    // Until its end, and no longer; a cached one, too.
    let at = |now| client.session(SITE, |name| browser.cookie(name), now);
    assert!(at(now() + Duration::from_secs(3599)).is_ok());
    assert_eq!(at(now() + Duration::from_hours(1)), Err(Refusal::Session));
    // With the same secret it is known after a restart, but in no other section, at no other issuer, and for no other client.
    let settings = provider.settings();
    let other = |name: &str, settings: OidcSettings| crate::provider::client(name, settings, provider.keys());
    assert!(browser.session(&other("people", settings.clone())).is_ok());
    let moved = Browser {
        cookies: [("__Host-forebay.staff".to_owned(), value.clone())].into(),
    };
    assert_eq!(
        moved.session(&other("staff", settings.clone())),
        Err(Refusal::Session)
    );
    for changed in [
        OidcSettings {
            cookie_secret: "0123456789abcdef0123456789abcdeF".to_owned(),
            ..settings.clone()
        },
        OidcSettings {
            issuer: "https://id.example.org".to_owned(),
            ..settings.clone()
        },
        OidcSettings {
            client_id: "other".to_owned(),
            ..settings.clone()
        },
    ] {
        assert_eq!(browser.session(&other("people", changed)), Err(Refusal::Session));
    }
    // A cookie that was set over TLS is not accepted without TLS, and the reverse: anybody on the way could have set that one.
    let plain = Site {
        is_secure: false,
        host: "localhost",
    };
    let session = |site, name: &'static str| {
        client.session(site, |asked| (asked == name).then_some(value.as_bytes()), now())
    };
    assert_eq!(session(plain, "forebay.people"), Err(Refusal::Session));
    assert_eq!(session(plain, SESSION), Err(Refusal::Missing));
    assert_eq!(session(SITE, "forebay.people"), Err(Refusal::Missing));
    // One of this machine is not taken for another host.
    let on = |host| Site {
        is_secure: false,
        host,
    };
    let cookie = |redirect: &Redirect| {
        let cookie = redirect.cookies[0].split(';').next().unwrap();
        cookie.split_once('=').map(|(_, value)| value.to_owned()).unwrap()
    };
    let begun = block_on(client.begin(plain, "/", |_| None, now())).unwrap();
    let parameter = |name: &str| {
        let query = begun.location.split_once('?').unwrap().1;
        let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(other, _)| other == name);
        found.next().unwrap().1.into_owned()
    };
    provider.grant(&parameter("nonce"), json!({}));
    let (query, attempt) = (format!("code=c&state={}", parameter("state")), cookie(&begun));
    let finish = |site| block_on(client.finish(site, query.as_bytes(), |_| Some(attempt.as_bytes()), now()));
    assert_eq!(finish(on("shop.example")), Err(LoginError::Unknown));
    let value = cookie(&finish(plain).unwrap());
    let session = |host| client.session(on(host), |_| Some(value.as_bytes()), now());
    assert!(session("localhost:80").is_ok());
    assert_eq!(session("shop.example"), Err(Refusal::Missing));
}

#[test]
fn without_tls_there_are_logins_on_this_machine_only() {
    let provider = Provider::start();
    let client = provider.client();
    let begin = |host| {
        block_on(client.begin(
            Site {
                is_secure: false,
                host,
            },
            "/",
            |_| None,
            now(),
        ))
    };
    assert_eq!(begin("shop.example"), Err(LoginError::Insecure));
    let redirect = begin("127.0.0.1:8080").unwrap();
    let [cookie] = &redirect.cookies[..] else {
        panic!("one cookie")
    };
    assert!(
        cookie.starts_with("forebay.people.login0=") && !cookie.contains("Secure"),
        "{cookie}"
    );
    assert!(
        redirect
            .location
            .contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Flogin%2Fcallback")
    );
    let [secure] = &block_on(client.begin(SITE, "/", |_| None, now()))
        .unwrap()
        .cookies[..]
    else {
        panic!("one cookie")
    };
    assert!(secure.starts_with("__Host-forebay.people.login0="), "{secure}");
    assert!(
        secure.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"),
        "{secure}"
    );
}

#[test]
fn a_browser_returns_to_no_other_server() {
    let provider = Provider::start();
    let client = provider.client();
    for address in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "/a\r\nb: c",
        &"/a".repeat(1000),
    ] {
        let mut browser = Browser::default();
        let begun = browser.begin(&client, address);
        provider.grant(&begun.nonce, json!({}));
        assert_eq!(
            browser.finish(&client, &begun.query()),
            Ok("/".to_owned()),
            "{address}"
        );
    }
}

#[test]
fn a_browser_may_have_some_logins_at_a_time_and_their_cookies_stay_few() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let address = format!("/{}", "a".repeat(767));
    let all: Vec<StartedLogin> = (0..4).map(|_| browser.begin(&client, &address)).collect();
    // Each can be finished.
    for begun in &all {
        provider.grant(&begun.nonce, json!({}));
        assert_eq!(browser.finish(&client, &begun.query()), Ok(address.clone()));
    }
    for _ in 0..20 {
        browser.begin(&client, &address);
    }
    let bytes: usize = browser
        .cookies
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert_eq!(browser.cookies.len(), 4);
    assert!(bytes < 6 << 10, "{bytes}");
}

#[test]
fn a_session_that_no_browser_keeps_is_refused() {
    let provider = Provider::start();
    let client = provider.client();
    let mut browser = Browser::default();
    let begun = browser.begin(&client, "/");
    provider.grant(&begun.nonce, json!({ "email": "a".repeat(4000) }));
    let error = browser.finish(&client, &begun.query()).unwrap_err();
    assert!(
        matches!(error, LoginError::TooLong { bytes_max: 4096, .. }),
        "{error}"
    );
}

#[test]
fn a_logout_ends_the_session_here_and_at_the_issuer() {
    let provider = Provider::start();
    let (mut browser, client) = logged_in(&provider);
    let redirect = client.logout(SITE);
    assert_eq!(
        redirect.location,
        format!(
            "{}/end?client_id=shop+%26+co&post_logout_redirect_uri=https%3A%2F%2Fshop.example%2F",
            provider.url
        )
    );
    browser.take(&redirect);
    assert_eq!(browser.session(&client), Err(Refusal::Missing));
    provider.describe(json!({ "end_session_endpoint": null }));
    let (_, client) = logged_in(&provider);
    assert_eq!(client.logout(SITE).location, "/");
}
