//! Logins of browsers at an OpenID provider, `oidc-provider` in Node: what browsers, handlers and logs see of them.

mod browser;

use std::{fs, path::Path, process::Command};

use forebay_testkit::{Response, Server, Setup, blocks, wait_until};
use serde_json::{Value, json};

use self::browser::{Browser, NAVIGATION};
use crate::{
    certificates::{for_name, issuer},
    support::ONE_WORKER,
};

const COOKIE_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The provider, as a pool of another server.
fn provider() -> Server {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/node_modules/oidc-provider/lib/index.js");
    let source = include_str!("../handlers/issuer.mjs").replace("PACKAGE", &package.display().to_string());
    let pool = format!(
        "[pool.issuer]\nhandler = \"issuer.mjs\"\n{ONE_WORKER}\n[[route]]\npath = \"/*\"\npool = \"issuer\"\n"
    );
    Setup::new(&pool).file("issuer.mjs", source).start()
}

/// `[auth.people]` with this issuer.
fn section(issuer: &str) -> String {
    format!(
        "[auth.people.oidc]\nissuer = \"http://{issuer}\"\nclient_id = \"shop\"\nclient_secret = \"CLIENT_SECRET\"\ncookie_secret = \"COOKIE_SECRET\"\n\
         callback = \"/login/callback\"\nlogout = \"/logout\"\nscopes = [\"email\"]\nclaims = [\"email\"]\n"
    )
}

fn setup(config: &str) -> Setup {
    Setup::new(config)
        .file("s.mjs", ECHO)
        .env("CLIENT_SECRET", "secret+of&the%shop")
        .env("COOKIE_SECRET", COOKIE_SECRET)
}

/// Routes to a script that says what it gets, in the way of each thing that may see a session's cookie.
fn routes(issuer: &Server, behind: &Server) -> String {
    let route = |path: &str, target: &str| format!("[[route]]\npath = \"{path}\"\n{target}\n");
    let guarded = |path: &str, target: &str| route(path, &format!("{target}\nauth = [\"people\"]"));
    [
        section(&issuer.address().to_string()),
        "[script.s]\nhandler = \"s.mjs\"\n".to_owned(),
        format!("[pool.node]\nhandler = \"s.mjs\"\n{ONE_WORKER}\n"),
        format!("[proxy.behind]\nservers = [\"http://{}\"]\n", behind.address()),
        guarded("/script/*", "script = \"s\""),
        guarded("/pool/*", "pool = \"node\""),
        guarded("/proxy/*", "proxy = \"behind\""),
        route("/old/:name", "rewrite = \"/script/:name\""),
        route("/open/*", "script = \"s\""),
        guarded("/way/:name", "rewrite = \"/open/:name\""),
        guarded("/*", "script = \"s\""),
        guarded(
            "/cors/*",
            "script = \"s\"\ncors = { origins = [\"https://app.example\"] }",
        ),
        guarded("/mail", "script = \"s\"\nscopes = [\"email\"]"),
        guarded("/admin", "script = \"s\"\nscopes = [\"admin\"]"),
        route("/", "respond = { text = \"home\" }"),
    ]
    .concat()
}

const ECHO: &str = "export default (request) => ({ user: request.user, path: request.path, page: request.query.get('page'), cookie: request.headers.get('cookie') });";

fn behind() -> Server {
    Setup::new("[script.s]\nhandler = \"s.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"s\"\n")
        .file("s.mjs", ECHO)
        .start()
}

/// A GET request with these header lines.
fn get(server: &Server, path: &str, lines: &[&str]) -> Response {
    let mut client = server.connect();
    let lines = [&["host: localhost"], lines].concat().join("\r\n");
    client.send(format!("GET {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
    client.response()
}

#[test]
fn a_browser_logs_in_and_out_and_nobody_behind_the_server_sees_its_session() {
    let (issuer, behind) = (provider(), behind());
    let server = setup(&routes(&issuer, &behind)).start();
    let at = |path: &str| format!("http://{}{path}", server.address());
    let browser = Browser::new("ada");
    let ada = json!({ "subject": "ada", "kind": "oidc", "scopes": ["openid", "email"], "claims": { "email": "ada@example.org" } });
    // The first request goes to the issuer and comes back to where it was to go.
    let (status, address, body) = browser.open(&at("/old/a?page=%2F&c"), &[]);
    assert_eq!((status, address), (200, at("/old/a?page=%2F&c")), "{body}");
    let first: Value = serde_json::from_str(&body).expect("it is JSON");
    assert_eq!(
        (&first["user"], &first["path"], &first["page"]),
        (&ada, &json!("/script/a"), &json!("/"))
    );
    let [cookie] = &browser.cookies()[..] else {
        panic!("{:?}", browser.cookies())
    };
    assert!(
        cookie.starts_with("#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t") && cookie.contains("\tforebay.people\t"),
        "{cookie}"
    );
    for path in ["/script/a", "/pool/a", "/proxy/a", "/mail", "/open/a"] {
        let user = if path == "/open/a" || path == "/proxy/a" {
            &Value::Null
        } else {
            &ada
        };
        let seen = browser.json(&at(path), &[]);
        assert_eq!(&seen["user"], user, "{path}");
        let cookies = seen["cookie"]
            .as_str()
            .expect("those of the issuer, which has the same host");
        assert!(
            cookies.contains("_session=") && !cookies.contains("forebay"),
            "{path}: {cookies}"
        );
    }
    // It is known to pages that fetch something, too, but may not do everything.
    let fetch = [
        "--header",
        "accept: application/json",
        "--header",
        "sec-fetch-mode: cors",
    ];
    assert_eq!(browser.json(&at("/script/b"), &fetch)["user"], ada);
    assert_eq!(browser.open(&at("/admin"), &[]).0, 403);
    // Following redirects, curl would read its file of cookies again.
    let (status, _, body) = browser.open(&at("/logout"), &["--no-location"]);
    assert_eq!(status, 303, "{body}");
    assert!(browser.cookies().is_empty(), "{:?}", browser.cookies());
    assert_eq!(get(&server, "/script/a", &NAVIGATION).status, 303);
}

#[test]
fn with_tls_the_cookies_are_for_this_host_and_tls_alone() {
    let (issuing, behind, authority) = (provider(), behind(), issuer("authority"));
    let (cert, key) = for_name(&authority, "localhost", 2020..2100);
    // The routes of a host do not hide the path to which the issuer sends browsers back.
    let config = routes(&issuing, &behind)
        + "[[route]]\npath = \"/*\"\nhost = \"localhost\"\nscript = \"s\"\nauth = [\"people\"]\n\
           [tls.a]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    let server = setup(&config)
        .listen("\"https://127.0.0.1:0\"")
        .file("cert.pem", cert.pem())
        .file("key.pem", key.serialize_pem())
        .start();
    let port = server.urls()[0]
        .rsplit_once(':')
        .expect("it has a port")
        .1
        .to_owned();
    for version in ["--http1.1", "--http2"] {
        let mut browser = Browser::new("grace");
        let file = browser.folder.path().join("authority.pem");
        fs::write(&file, authority.pem()).expect("the folder is there");
        browser.authority = Some(file.display().to_string());
        let seen = browser.json(&format!("https://localhost:{port}/script/a"), &[version]);
        assert_eq!(seen["user"]["subject"], "grace");
        assert_eq!(
            browser.json(&format!("https://localhost:{port}/script/a"), &[version])["cookie"],
            Value::Null
        );
        let [cookie] = &browser.cookies()[..] else {
            panic!("{:?}", browser.cookies())
        };
        assert!(
            cookie.starts_with("#HttpOnly_localhost\tFALSE\t/\tTRUE\t")
                && cookie.contains("\t__Host-forebay.people\t"),
            "{cookie}"
        );
    }
}

#[test]
fn only_browsers_that_open_a_page_are_sent_to_a_login() {
    let (issuer, behind) = (provider(), behind());
    let server = setup(&routes(&issuer, &behind)).start();
    let sent = get(&server, "/script/a", &NAVIGATION);
    assert_eq!(
        (sent.status, sent.header("cache-control")),
        (303, Some("no-store"))
    );
    let location = sent.header("location").expect("it is sent somewhere");
    assert!(
        location.starts_with(&format!(
            "http://{}/auth?response_type=code&client_id=shop&",
            issuer.address()
        )),
        "{location}"
    );
    assert_eq!(
        get(&server, "/script/a", &NAVIGATION[..1]).status,
        303,
        "an older browser"
    );
    for lines in [
        &[][..],
        &["accept: */*"],
        &["accept: text/html", "sec-fetch-mode: cors"],
        &["accept: application/json", "sec-fetch-mode: navigate"],
    ] {
        let refused = get(&server, "/script/a", lines);
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Cookie realm=\"people\"")),
            "{lines:?}"
        );
        assert_eq!(
            (refused.header("location"), refused.header("set-cookie")),
            (None, None)
        );
        assert_eq!(refused.detail(), "credentials are needed");
    }
    let mut client = server.connect();
    client.send("POST /script/a HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\nsec-fetch-mode: navigate\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(client.response().status, 401);
    // Without TLS, cookies could be read on the way to any other host.
    client.send(format!(
        "GET /script/a HTTP/1.1\r\nhost: shop.example\r\n{}\r\n\r\n",
        NAVIGATION.join("\r\n")
    ));
    let refused = client.response();
    assert_eq!(
        (refused.status, refused.detail()),
        (403, "a login needs https, except on this machine".into())
    );
    // Whatever it asks for, it comes back to this server.
    for (path, end) in [
        ("//evil.example/a", "/"),
        ("/script/a%0d%0ab:c?%0a", "/script/a%0d%0ab:c?%0a"),
        ("/script/\\\\evil", "/script/\\\\evil"),
    ] {
        let (status, address, body) =
            Browser::new("ada").open(&format!("http://{}{path}", server.address()), &[]);
        assert_eq!(
            (status, address),
            (200, format!("http://{}{end}", server.address())),
            "{body}"
        );
    }
}

#[test]
fn what_is_made_up_begins_no_session_and_ends_none() {
    let (issuer, behind) = (provider(), behind());
    let config = routes(&issuer, &behind) + "[log]\naccess = true\nformat = \"json\"\n";
    let server = setup(&config).start();
    let begun = get(&server, "/script/a", &NAVIGATION);
    let cookie = begun
        .header("set-cookie")
        .and_then(|cookie| cookie.split(';').next())
        .expect("a cookie");
    let location = begun.header("location").expect("it is sent somewhere").to_owned();
    let state = location
        .split('&')
        .find_map(|pair| pair.strip_prefix("state="))
        .expect("a state");
    let callback = |query: &str, cookie: &str| get(&server, &format!("/login/callback?{query}"), &[cookie]);
    let own = format!("cookie: {cookie}");
    let not_begun =
        "this login was not begun in this browser, or took more than 10 minutes: open the page again";
    for (query, cookie, status, detail) in [
        (
            "code=SeCrEtCoDe".to_owned(),
            &own[..],
            400,
            "malformed response of the issuer: it has no `state`",
        ),
        (format!("code=SeCrEtCoDe&state={state}a"), &own, 400, not_begun),
        (
            format!("code=SeCrEtCoDe&state={state}"),
            "cookie: a=b",
            400,
            not_begun,
        ),
        (
            format!("code=SeCrEtCoDe&state={state}"),
            &own[..own.len() - 1],
            400,
            not_begun,
        ),
        (
            format!("code=SeCrEtCoDe&state={state}&iss=http://evil.example"),
            &own,
            403,
            "the response is not of this issuer",
        ),
        (
            format!("code=SeCrEtCoDe&state={state}"),
            &own,
            403,
            "the response is not of this issuer",
        ),
        (
            format!(
                "error=access_denied&error_description=%3Cb%3E&state={state}&iss=http://{}",
                issuer.address()
            ),
            &own,
            403,
            "the issuer refuses the login: access_denied",
        ),
        (
            format!("code=SeCrEtCoDe&state={state}&iss=http://{}", issuer.address()),
            &own,
            400,
            "the issuer does not accept the code: it has been used, or is too old",
        ),
    ] {
        let refused = callback(&query, cookie);
        assert_eq!(
            (refused.status, refused.detail()),
            (status, detail.into()),
            "{query}"
        );
        assert_eq!(
            (refused.header("location"), refused.header("set-cookie")),
            (None, None)
        );
    }
    // A session that is made up is none; a browser logs in again, others are told.
    let browser = Browser::new("ada");
    let url = format!("http://{}/script/a", server.address());
    browser.json(&url, &[]);
    let line = browser.header();
    let session = line.strip_prefix("cookie: forebay.people=").expect("its value");
    let with = |value: &str| {
        get(
            &server,
            "/script/a",
            &[&format!("cookie: a=b; forebay.people={value}")],
        )
    };
    assert_eq!(with(session).status, 200);
    for value in [
        &session[1..],
        &session[..session.len() - 2],
        &format!("{session}AAAA"),
        "",
        &"A".repeat(5000),
        &cookie[cookie.len() - 200..],
    ] {
        let refused = with(value);
        assert_eq!(
            (refused.status, refused.detail()),
            (
                401,
                "the session has ended, or is not one of this server: log in again".into()
            )
        );
        let line = format!("cookie: forebay.people={value}");
        assert_eq!(
            get(&server, "/script/a", &[&NAVIGATION[..], &[&line]].concat()).status,
            303
        );
    }
    let other = get(
        &server,
        "/script/a",
        &[&format!("cookie: __Host-forebay.people={session}")],
    );
    assert_eq!(other.status, 401, "without TLS nobody has such a cookie");
    // Pages of other sites can neither use it to change something nor end it.
    let post = |path: &str, lines: &[&str]| {
        let mut client = server.connect();
        let lines = [&["host: localhost", "content-length: 0", &line], lines]
            .concat()
            .join("\r\n");
        client.send(format!("POST {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
        client.response().status
    };
    for path in ["/script/a", "/old/a", "/pool/a", "/way/a"] {
        assert_eq!(post(path, &["sec-fetch-site: same-origin"]), 200, "{path}");
        assert_eq!(post(path, &["origin: http://localhost"]), 200, "{path}");
        assert_eq!(post(path, &[]), 200, "{path}: no browser");
        assert_eq!(
            post(
                path,
                &["sec-fetch-site: same-site", "origin: http://evil.localhost"]
            ),
            403,
            "{path}"
        );
        assert_eq!(post(path, &["origin: http://evil.localhost"]), 403, "{path}");
    }
    let socket = [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        "origin: http://evil.localhost",
    ];
    let refused = get(&server, "/pool/a", &[&[&line[..]], &socket[..]].concat());
    assert_eq!(refused.status, 403);
    assert_eq!(
        post(
            "/cors/a",
            &["sec-fetch-site: same-site", "origin: https://app.example"]
        ),
        200
    );
    assert_eq!(
        post("/open/a", &["origin: http://evil.localhost"]),
        200,
        "nobody is asked there"
    );
    for site in [
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
        "origin: https://evil.example",
    ] {
        let refused = get(&server, "/logout", &[&line, site]);
        assert_eq!(
            (refused.status, refused.header("set-cookie")),
            (403, None),
            "{site}"
        );
    }
    get(&server, "/open/end", &["user-agent: last"]);
    server.wait_for_log(&["forebay::access", "\"user_agent\":\"last\""]);
    let log = server.log();
    assert!(log.contains("/login/callback"), "{log}");
    for secret in ["SeCrEtCoDe", &session[20..40], &state[10..20], COOKIE_SECRET] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

#[test]
fn while_the_issuer_is_down_sessions_go_on_and_logins_wait() {
    let (issuer, behind) = (provider(), behind());
    let config = routes(&issuer, &behind);
    let server = setup(&config).start();
    let browser = Browser::new("ada");
    let url = format!("http://{}/script/a", server.address());
    browser.json(&url, &[]);
    let begun = get(&server, "/script/a", &NAVIGATION);
    let address = issuer.address();
    drop(issuer);
    let refused = {
        let location = begun.header("location").expect("it is sent somewhere");
        let state = location
            .split('&')
            .find_map(|pair| pair.strip_prefix("state="))
            .expect("a state");
        let cookie = begun
            .header("set-cookie")
            .and_then(|cookie| cookie.split(';').next())
            .expect("a cookie");
        let path = format!("/login/callback?code=a&state={state}&iss=http://{address}");
        get(&server, &path, &[&format!("cookie: {cookie}")])
    };
    assert_eq!(
        (refused.status, refused.detail()),
        (502, "the issuer cannot be asked for the user's identity".into())
    );
    server.wait_for_log(&["a login fails", "token_endpoint"]);
    assert_eq!(browser.json(&url, &[])["user"]["subject"], "ada");
    // A reload goes on with the configuration of the issuer.
    let else_route = "[[route]]\npath = \"/else\"\nrespond = { text = \"else\" }\n";
    server.reconfigure(&(config + else_route));
    server.hang_up();
    wait_until("the other route is there", || {
        get(&server, "/else", &[]).text() == "else"
    });
    assert_eq!(get(&server, "/script/a", &NAVIGATION).status, 303);
    // An issuer that has not yet said where its logins are has them wait; a session of the first one is none there.
    server.reconfigure(
        &(section("127.0.0.1:1")
            + "[[route]]\npath = \"/script/*\"\nauth = [\"people\"]\nrespond = { text = \"else\" }\n"),
    );
    server.hang_up();
    wait_until("the other configuration is in force", || {
        get(&server, "/script/a", &NAVIGATION).status == 503
    });
    let refused = get(&server, "/script/a", &NAVIGATION);
    assert_eq!(
        (refused.header("retry-after"), refused.detail()),
        (
            Some("1"),
            "the configuration of the issuer is not available (oidc.issuer)".into()
        )
    );
    assert_eq!(get(&server, "/script/a", &[&browser.header()]).status, 401);
    server.reconfigure(
        &(section(&address.to_string())
            + "[[route]]\npath = \"/script/*\"\nauth = [\"people\"]\nrespond = { text = \"again\" }\n"),
    );
    server.hang_up();
    wait_until("the first issuer is in force again", || {
        get(&server, "/script/a", &[&browser.header()]).text() == "again"
    });
}

#[test]
fn chromium_logs_in_and_out() {
    let issuer = provider();
    // A page that shows who is logged in, then ends the session.
    let page = "<!doctype html><body><script>
        const shown = sessionStorage.shown;
        if (shown) document.body.textContent = shown;
        else fetch('/me').then((response) => response.json()).then((user) => {
          sessionStorage.shown = user.subject + ' ' + user.claims.email + ' ' + document.cookie.length;
          location = '/logout';
        });
      </script>";
    let config = section(&issuer.address().to_string())
        + "[script.s]\nhandler = \"user.mjs\"\n[[route]]\npath = \"/me\"\nscript = \"s\"\nauth = [\"people\"]\n\
           [[route]]\npath = \"/\"\nrespond = { file = \"page.html\" }\nauth = [\"people\"]\n\
           [log]\naccess = true\n";
    let server = setup(&config)
        .file("user.mjs", "export default (request) => request.user;")
        .file("page.html", page)
        .start();
    let chromium = std::env::var("FOREBAY_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--user-agent=grace",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            server.folder().path().join("chromium").display()
        ))
        .arg(format!("http://localhost:{}/", server.address().port()))
        .output()
        .expect("Chromium can be started: `make browser`");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let log = server.log();
    assert!(
        shown.contains("grace grace@example.org 0"),
        "{shown}\n{errors}\n{log}"
    );
    // The page that is shown in the end needed a login of its own.
    assert_eq!(log.matches("GET /login/callback").count(), 2, "{log}");
}

#[test]
fn the_guide_logs_a_browser_in() {
    const GUIDE: &str = include_str!("../../../../../docs/guide/authentication.md");
    let issuer = provider();
    let config = blocks(GUIDE, "toml")[1].replace(
        "https://id.example.org/realms/shop",
        &format!("http://{}", issuer.address()),
    );
    let home = blocks(GUIDE, "js")
        .into_iter()
        .find(|block| block.starts_with("// home.mjs"));
    let server = setup(&config)
        .file("home.mjs", home.expect("the guide has it"))
        .start();
    let (status, _, body) = Browser::new("ada").open(&format!("http://{}/", server.address()), &[]);
    assert_eq!((status, &*body), (200, "Hello ada@example.org!"));
}
