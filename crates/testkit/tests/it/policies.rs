//! Policies of routes: addresses, rate limits, header rules and error pages, whatever answers.

use std::thread;

use forebay_testkit::{Response, Server, Setup, curl};

use crate::{reload::reload, store::ask};

/// The server believes `X-Forwarded-For` of this machine. Policies named `site` hold for every request.
fn serve(config: &str) -> Server {
    let site = if config.contains("[policy.site]") {
        "\"site\""
    } else {
        ""
    };
    Setup::new(config)
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .server(&format!("policy = [{site}]"))
        .file("404.html", "<h1>Nothing here</h1>")
        .file("broken.html", "<h1>Broken</h1>")
        .file(
            "handler.mjs",
            "export default () => new Response('node', { headers: { 'x-powered-by': 'secret', 'x-kept': 'a' } })",
        )
        .start()
}

fn from(server: &Server, address: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    let fields: Vec<_> = [("x-forwarded-for", address)]
        .iter()
        .chain(fields)
        .copied()
        .collect();
    ask(&mut server.connect(), "GET", target, &fields, b"")
}

#[test]
fn addresses_that_are_not_admitted_are_refused_before_the_target_is_asked() {
    let server = serve(
        r#"
[policy.inside]
allow = ["10.0.0.0/8", "fd00::/8"]
deny = ["10.0.0.66"]
[policy.office]
allow = "10.1.0.0/16"
[[route]]
path = "/"
policy = "inside"
respond = { text = "in" }
[[route]]
path = "/office"
policy = ["inside", "office"]
respond = { text = "office" }
[[route]]
path = "/open"
respond = { text = "open" }
"#,
    );
    for (address, status, at_office) in [
        ("10.1.2.3", 200, 200),
        ("10.2.0.1", 200, 403),
        ("::ffff:10.1.2.3", 200, 200),
        ("fd00::1", 200, 403),
        ("10.0.0.66", 403, 403),
        ("192.0.2.1", 403, 403),
    ] {
        assert_eq!(from(&server, address, "/", &[]).status, status, "{address}");
        assert_eq!(
            from(&server, address, "/office", &[]).status,
            at_office,
            "{address}"
        );
    }
    assert_eq!(from(&server, "192.0.2.1", "/open", &[]).status, 200);
    // Whatever the length of its body.
    for (address, status) in [("192.0.2.1", 403), ("10.1.2.3", 413)] {
        let length = [("content-length", "99999999999")];
        assert_eq!(from(&server, address, "/", &length).status, status, "{address}");
    }
    let refused = from(&server, "192.0.2.1", "/", &[]).text().to_owned();
    assert!(
        refused.contains("requests from 192.0.2.1 are not admitted (policy.NAME: allow, deny)"),
        "{refused}"
    );
}

#[test]
fn all_rate_limits_hold_and_a_refused_request_counts_for_none() {
    let server = serve(
        r#"
[policy.api]
rate_limits = ["5/1h", "3/1h by x-api-key"]
[[route]]
path = "/api/*"
policy = "api"
respond = { text = "api" }
"#,
    );
    let ask = |address: &str, key: &str| from(&server, address, "/api/x", &[("x-api-key", key)]);
    let fields = |answer: &Response| {
        [
            "ratelimit-limit",
            "ratelimit-remaining",
            "ratelimit-reset",
            "retry-after",
        ]
        .map(|name| answer.header(name).map(str::to_owned))
    };
    let first = ask("192.0.2.1", "a");
    assert_eq!(
        fields(&first),
        [Some("3".into()), Some("2".into()), Some("1200".into()), None]
    );
    assert_eq!(ask("192.0.2.1", "a").status, 200);
    assert_eq!(ask("192.0.2.1", "a").status, 200);
    // The key has none left, whatever address it comes from. None of these counts for the addresses.
    for address in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"] {
        let refused = ask(address, "a");
        assert_eq!(refused.status, 429);
        let [limit, left, reset, retry] = fields(&refused);
        assert_eq!((limit.as_deref(), left.as_deref()), (Some("3"), Some("0")));
        let seconds = |text: Option<String>| text.unwrap().parse::<u64>().unwrap();
        assert!((1..=1_200).contains(&seconds(retry)) && (1_200..=3_600).contains(&seconds(reset)));
    }
    assert_eq!(ask("192.0.2.1", "b").header("ratelimit-remaining"), Some("1"));
    assert_eq!(ask("192.0.2.1", "b").status, 200);
    // Now the address has none left.
    let refused = ask("192.0.2.1", "c");
    assert_eq!(
        (refused.status, refused.header("ratelimit-limit")),
        (429, Some("5"))
    );
    assert!(
        refused.text().contains("more than 5 requests"),
        "{}",
        refused.text()
    );
    assert_eq!(ask("192.0.2.2", "c").status, 200);
}

#[test]
fn a_limit_holds_exactly_for_requests_at_the_same_time_and_across_routes_and_reloads() {
    let config = r#"
[policy.shared]
rate_limits = "50/24h"
[[route]]
path = "/a"
policy = "shared"
respond = { text = "a" }
[[route]]
path = "/b"
policy = "shared"
respond = { text = "b" }
"#;
    let server = Setup::new(config).admin().start();
    let count = || {
        let asking = (0..8).map(|number| {
            let mut client = server.connect();
            let target = if number % 2 == 0 { "/a" } else { "/b" };
            thread::spawn(move || (0..10).filter(|_| client.get(target).status == 200).count())
        });
        let asking: Vec<_> = asking.collect();
        asking
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<usize>()
    };
    assert_eq!(count(), 50);
    server.reconfigure(&config.replace("text = \"a\"", "text = \"new\""));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(count(), 0);
}

#[test]
fn responses_of_all_targets_have_the_policys_headers_and_none_that_it_removes() {
    let server = serve(
        r#"
[policy.site]
headers = { x-frame-options = "DENY" }
remove_headers = "X-Powered-By"
[pool.node]
handler = "handler.mjs"
[[route]]
path = "/node"
pool = "node"
[[route]]
path = "/memory"
headers = { x-own = "1" }
respond = { text = "memory", headers = { x-powered-by = "secret" } }
"#,
    );
    for (target, status) in [("/node", 200), ("/memory", 200), ("/none", 404)] {
        let answer = server.get(target);
        assert_eq!(
            (answer.status, answer.header("x-frame-options")),
            (status, Some("DENY")),
            "{target}"
        );
        assert_eq!(answer.header("x-powered-by"), None, "{target}");
    }
    assert_eq!(server.get("/node").header("x-kept"), Some("a"));
    assert_eq!(server.get("/memory").header("x-own"), Some("1"));
}

#[test]
fn browsers_get_the_pages_for_errors_and_programs_get_the_problem() {
    let server = serve(
        r#"
[policy.site]
error_pages = { 404 = "404.html", 4xx = "broken.html" }
rate_limits = "2/1h by x-limited"
[[route]]
path = "/here"
methods = ["GET"]
respond = { text = "here" }
"#,
    );
    let html = ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
    let page = from(&server, "192.0.2.1", "/none", &[html]);
    assert_eq!((page.status, page.text()), (404, "<h1>Nothing here</h1>"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("vary"), Some("accept"));
    let problem = from(&server, "192.0.2.1", "/none", &[("accept", "*/*")]);
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem.header("vary"), Some("accept"));
    let post = ask(&mut server.connect(), "POST", "/here", &[html], b"");
    assert_eq!(
        (post.status, post.text(), post.header("allow")),
        (405, "<h1>Broken</h1>", Some("GET, HEAD, OPTIONS"))
    );
    for _ in 0..2 {
        assert_eq!(
            from(&server, "192.0.2.1", "/here", &[("x-limited", "1")]).status,
            200
        );
    }
    // A limit that holds for every request holds for those that no route answers, too.
    let limited = from(&server, "192.0.2.1", "/none", &[("x-limited", "1"), html]);
    assert_eq!((limited.status, limited.text()), (429, "<h1>Broken</h1>"));
    assert!(limited.header("retry-after").is_some());
}

/// Clients with keys: of two realms, in which one of them has the same name.
const REALMS: &str = r#"
[auth.people.api_keys]
# key-of-ada
ada = { sha256 = "5532e44183f47ed1fc146851b96d585c24da5bd5fe31a885cebc357261ed8f7f", scopes = ["read", "write"] }
# key-of-eve
eve = { sha256 = "c8fab31a2dfb22d9ca0982ba68eaa017a4b1c0d9d1c1f5a973b486833c855c98", scopes = ["read"] }
[auth.programs]
header = "x-program"
[auth.programs.api_keys]
# key-of-bot
ada = { sha256 = "7a78d6f23ef0a0f9e460abbe2d2912504b7252fbf5f6f98eabf43d57ec1dac18", scopes = ["read"] }
"#;

const ADA: (&str, &str) = ("x-api-key", "key-of-ada");
const EVE: (&str, &str) = ("x-api-key", "key-of-eve");
const BOT: (&str, &str) = ("x-program", "key-of-bot");

#[test]
fn what_a_route_and_all_its_policies_ask_of_clients_holds() {
    let server = serve(&format!(
        "{REALMS}{}",
        r#"
[policy.known]
auth = ["people", "programs"]
scopes = "read"
[policy.writers]
scopes = "write"
[policy.people]
auth = "people"
[[route]]
path = "/wider"
policy = "people"
auth = ["programs", "people"]
respond = { text = "answered" }
[[route]]
path = "/known"
policy = "known"
respond = { text = "answered" }
[[route]]
path = "/people"
policy = "known"
auth = "people"
respond = { text = "answered" }
[[route]]
path = "/write"
policy = ["known", "writers"]
respond = { text = "answered" }
[[route]]
path = "/own"
policy = "known"
scopes = "write"
respond = { text = "answered" }
[[route]]
path = "/open"
respond = { text = "answered" }
[[route]]
path = "/rewritten"
policy = "known"
rewrite = "/open"
"#
    ));
    let statuses = |path: &str| {
        [&[][..], &[ADA], &[EVE], &[BOT]].map(|fields| from(&server, "192.0.2.1", path, fields).status)
    };
    assert_eq!(statuses("/known"), [401, 200, 200, 200]);
    // A route can narrow what its policy asks for, and cannot widen it.
    assert_eq!(statuses("/wider"), [401, 200, 200, 401]);
    assert_eq!(statuses("/people"), [401, 200, 200, 401]);
    assert_eq!(statuses("/write"), [401, 200, 403, 403]);
    assert_eq!(statuses("/own"), [401, 200, 403, 403]);
    assert_eq!(statuses("/rewritten"), [401, 200, 200, 200]);
    assert_eq!(statuses("/open"), [200; 4]);
    let refused = from(&server, "192.0.2.1", "/known", &[]);
    let challenges = refused
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
    assert_eq!(
        challenges.map(|(_, value)| &value[..]).collect::<Vec<_>>(),
        [
            "ApiKey realm=\"people\", field=\"x-api-key\"",
            "ApiKey realm=\"programs\", field=\"x-program\""
        ]
    );
}

#[test]
fn with_authentication_for_every_request_a_stranger_learns_no_paths() {
    let server = serve(&format!(
        "{REALMS}{}",
        r#"
[policy.site]
auth = "people"
[[route]]
path = "/here"
methods = ["GET"]
cors = { origins = ["https://a.example"], headers = ["x-api-key"] }
respond = { text = "here" }
[[route]]
path = "/short/*"
rewrite = "/none/*"
"#
    ));
    let ask = |method: &str, path: &str, fields: &[(&str, &str)]| {
        ask(&mut server.connect(), method, path, fields, b"")
    };
    for (method, path, known) in [
        ("GET", "/here", 200),
        ("GET", "/none", 404),
        ("GET", "/short/x", 404),
        ("GET", "/%2e%2e/x", 400),
        ("POST", "/here", 405),
        ("OPTIONS", "/here", 204),
    ] {
        let stranger = ask(method, path, &[]);
        assert_eq!(
            (stranger.status, stranger.header("allow")),
            (401, None),
            "{method} {path}"
        );
        assert!(stranger.header("www-authenticate").is_some(), "{method} {path}");
        assert_eq!(ask(method, path, &[ADA]).status, known, "{method} {path}");
        let url = format!("http://{}{path}", server.address());
        let options = [
            "--path-as-is",
            "--write-out",
            " %{http_code}",
            "--request",
            method,
        ];
        let answer = curl(["--http2-prior-knowledge", &url].iter().chain(&options));
        assert!(answer.stdout.ends_with(b" 401"), "{method} {path}: {answer:?}");
    }
    // A browser asks that without credentials, whatever it has.
    let preflight = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "x-api-key"),
    ];
    let permitted = ask("OPTIONS", "/here", &preflight);
    assert_eq!(
        (permitted.status, permitted.header("access-control-allow-origin")),
        (204, Some("https://a.example"))
    );
}

#[test]
fn a_user_has_its_requests_wherever_it_comes_from_and_nobody_by_address() {
    let server = serve(&format!(
        "{REALMS}{}",
        r#"
[policy.quota]
rate_limits = ["2/1h by user", "100/1h"]
[policy.address]
rate_limits = "4/1h"
[[route]]
path = "/api"
policy = "quota"
auth = ["people", "programs"]
respond = { text = "api" }
[[route]]
path = "/open"
policy = "quota"
respond = { text = "open" }
[[route]]
path = "/short"
policy = "quota"
rewrite = "/api"
[[route]]
path = "/guarded"
policy = ["address", "quota"]
auth = "people"
respond = { text = "api" }
"#
    ));
    let get = |address: &str, path: &str, fields: &[(&str, &str)]| from(&server, address, path, fields);
    let left = |answer: &Response| {
        (
            answer.status,
            answer.header("ratelimit-remaining").map(str::to_owned),
        )
    };
    // The limit of the user is nearer to its end than that of the address.
    assert_eq!(left(&get("192.0.2.1", "/api", &[ADA])), (200, Some("1".into())));
    // A rewritten request counts once, though both routes have the policy.
    assert_eq!(left(&get("192.0.2.2", "/short", &[ADA])), (200, Some("0".into())));
    let refused = get("192.0.2.3", "/api", &[ADA]);
    assert_eq!(left(&refused), (429, Some("0".into())));
    assert_eq!(refused.header("ratelimit-limit"), Some("2"));
    // Another user, and a user of another realm with the same name, have requests of their own.
    assert_eq!(left(&get("192.0.2.1", "/api", &[EVE])), (200, Some("1".into())));
    assert_eq!(left(&get("192.0.2.1", "/api", &[BOT])), (200, Some("1".into())));
    // Nobody is counted by address.
    for expected in [200, 200, 429] {
        assert_eq!(get("192.0.2.9", "/open", &[ADA]).status, expected);
    }
    assert_eq!(get("192.0.2.8", "/open", &[]).status, 200);
    // What the limit of the user refuses does not count for the address; wrong passwords do.
    for _ in 0..6 {
        assert_eq!(get("192.0.2.7", "/guarded", &[ADA]).status, 429);
    }
    for expected in [401, 401, 401, 401, 429] {
        let wrong = ("x-api-key", "guess");
        assert_eq!(get("192.0.2.7", "/guarded", &[wrong]).status, expected);
    }
}

#[test]
fn targets_get_the_request_fields_of_the_policy_and_none_that_pass_for_them() {
    let behind =
        Setup::new("[script.echo]\nhandler = \"echo.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"echo\"\n")
            .file("echo.mjs", ECHO)
            .start();
    let server = Setup::new(&format!(
        r#"{REALMS}
[policy.secret]
remove_request_headers = "x-api-key"
[script.who]
handler = "who.mjs"
[[route]]
path = "/who"
policy = "secret"
auth = "people"
script = "who"
[policy.tenant]
request_headers = {{ x-tenant = "blue", Accept-Language = "en" }}
remove_request_headers = ["Authorization", "x-debug"]
[policy.other]
request_headers = {{ x-debug = "own" }}
[policy.cached]
cache = {{}}
[script.echo]
handler = "echo.mjs"
[pool.node]
handler = "echo.mjs"
[pool.wsgi]
handler = "wsgi.py"
[proxy.behind]
servers = ["http://{}"]
[[route]]
path = "/script"
policy = "tenant"
script = "echo"
[[route]]
path = "/node"
policy = "tenant"
pool = "node"
[[route]]
path = "/wsgi"
policy = "tenant"
pool = "wsgi"
[[route]]
path = "/behind"
policy = "tenant"
proxy = "behind"
[[route]]
path = "/both"
policy = ["tenant", "other"]
script = "echo"
[[route]]
path = "/short"
policy = "tenant"
rewrite = "/open"
[[route]]
path = "/open"
script = "echo"
[[route]]
path = "/cached"
policy = ["tenant", "cached"]
script = "echo"
"#,
        behind.address()
    ))
    .file("echo.mjs", ECHO)
    .file("who.mjs", "export default (request) => [request.user.subject, request.headers.get('x-api-key')];")
    .file(
        "wsgi.py",
        "import json\ndef app(environ, start_response):\n    start_response('200 OK', [('content-type', 'application/json')])\n    \
         names = ['x-tenant', 'accept-language', 'authorization', 'x-debug', 'x-kept']\n    \
         values = [environ.get('HTTP_' + name.upper().replace('-', '_')) for name in names]\n    \
         return [json.dumps(values).encode()]\n",
    )
    .start();
    let fields = [
        ("x-tenant", "red"),
        ("X-Tenant", "red"),
        ("x_tenant", "red"),
        ("x_debug", "1"),
        ("connection", "x-tenant, accept-language"),
        ("authorization", "Bearer secret"),
        ("accept-language", "de"),
        ("x-debug", "1"),
        ("x-kept", "kept"),
    ];
    let seen = |path: &str| ask(&mut server.connect(), "GET", path, &fields, b"").json();
    let changed = serde_json::json!(["blue", "en", null, null, "kept"]);
    for path in ["/script", "/node", "/wsgi", "/behind", "/short"] {
        assert_eq!(seen(path), changed, "{path}");
    }
    assert_eq!(
        seen("/both"),
        serde_json::json!(["blue", "en", null, "own", "kept"])
    );
    // Without a policy a client may drop what it has named in `Connection`.
    assert_eq!(
        seen("/open"),
        serde_json::json!([null, null, "Bearer secret", "1", "kept"])
    );
    // The server has seen the credential, the target does not.
    let who = ask(&mut server.connect(), "GET", "/who", &[ADA], b"").json();
    assert_eq!(who, serde_json::json!(["ada", null]));
    // A response is stored for what the target has seen: no credentials, and one language.
    let statuses = ["de", "fr"].map(|language| {
        let fields = [("authorization", "Bearer secret"), ("accept-language", language)];
        let answer = ask(&mut server.connect(), "GET", "/cached", &fields, b"");
        answer
            .header("cache-status")
            .map(|status| status.split("; ttl").next().unwrap_or_default().to_owned())
    });
    assert_eq!(
        statuses,
        [
            Some("forebay; fwd=uri-miss; stored".to_owned()),
            Some("forebay; hit".to_owned())
        ]
    );
}

/// Answers with what it finds of some fields.
const ECHO: &str = "export default (request) => {
    const names = ['x-tenant', 'accept-language', 'authorization', 'x-debug', 'x-kept'];
    const values = names.map((name) => request.headers.get(name));
    return Response.json(values, { headers: { 'cache-control': 'max-age=60', vary: 'accept-language' } });
};";

#[test]
fn a_policy_that_is_named_twice_holds_once() {
    let server = serve(
        "[policy.site]\nrate_limits = \"10/1h\"\nheaders = { x-site = \"1\" }\n\
         [[route]]\npath = \"/\"\npolicy = \"site\"\nrespond = { text = \"here\" }\n",
    );
    let answer = from(&server, "192.0.2.1", "/", &[]);
    assert_eq!(answer.header("ratelimit-remaining"), Some("9"));
    assert_eq!(answer.header("x-site"), Some("1"));
    let lines = answer.headers.iter().filter(|(name, _)| name == "x-site");
    assert_eq!(lines.count(), 1);
}
