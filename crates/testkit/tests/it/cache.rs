//! The response cache of a policy: what it stores, whom it answers, and what cannot get into it.

use std::net::SocketAddr;

use forebay_testkit::{Client, Response, Server, Setup, wait_until};

use crate::{
    control::order,
    proxy::answers,
    reload::reload,
    store::{ask, send},
    support::{ONE_WORKER, metric},
};

/// Fresh for an hour.
const FRESH: &str = "h=cache-control:max-age=3600";

/// A pool whose responses are cached with these settings, but not those at `/control/`; beside it `/here`, which needs no worker.
fn setup(settings: &str) -> Setup {
    Setup::new(&config(settings))
        .admin()
        .file("cached.mjs", include_str!("handlers/cached.mjs"))
}

fn config(settings: &str) -> String {
    format!(
        "[policy.pages]\ncache = {{ {settings} }}\n[pool.api]\nhandler = \"cached.mjs\"\nconcurrency = 100\n{ONE_WORKER}\n\
         [[route]]\npath = \"/*\"\npolicy = \"pages\"\npool = \"api\"\n\
         [[route]]\npath = \"/control/*\"\npool = \"api\"\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    )
}

fn start() -> Server {
    setup("").start()
}

fn get(server: &Server, target: &str, fields: &[(&str, &str)]) -> Response {
    ask(&mut server.connect(), "GET", target, fields, b"")
}

/// How often the handler was called.
fn calls(server: &Server) -> u32 {
    let calls = server.get("/control/calls");
    calls.text().parse().expect("the handler says a number")
}

/// What `Cache-Status` says, without the time left.
fn status(answer: &Response) -> &str {
    let status = answer.header("cache-status").expect("a cache was asked");
    let status = status.strip_prefix("forebay; ").expect("it is this cache");
    status.split_once("; ttl=").map_or(status, |(status, _)| status)
}

#[test]
fn a_response_is_stored_as_long_as_it_says_and_answers_later_requests() {
    let server = start();
    for (query, is_stored) in [
        ("h=cache-control:max-age=3600", true),
        ("h=cache-control:public,s-maxage=3600", true),
        ("h=expires:Fri,%2001%20Jan%202100%2000:00:00%20GMT", true),
        ("h=cache-control:max-age=3600&status=404", true),
        ("h=cache-control:max-age=3600&stream=1&size=200000", true),
        ("h=x-a:b", false),
        ("h=cache-control:max-age=3600&status=500", false),
        ("h=cache-control:max-age=3600,no-store", false),
        ("h=cache-control:max-age=3600,private", false),
        ("h=cache-control:max-age=3600&h=set-cookie:a=b", false),
        ("h=cache-control:max-age=3600&h=vary:*", false),
        ("h=cache-control:max-age=3600&h=age:3600", false),
    ] {
        let target = format!("/page?{query}");
        let (first, second) = (server.get(&target), server.get(&target));
        assert_eq!(first.header("age").is_some(), query.contains("age:"), "{query}");
        assert_eq!(first.body == second.body, is_stored, "{query}");
        if is_stored {
            assert_eq!((status(&second), first.status), ("hit", second.status), "{query}");
            let age: u64 = second.header("age").unwrap().parse().unwrap();
            assert!(age < 3600, "{query}: {age}");
            assert_eq!(
                first.header("cache-control"),
                second.header("cache-control"),
                "{query}"
            );
        } else {
            assert_eq!(status(&second), "fwd=uri-miss", "{query}");
        }
        let is_stream = query.contains("stream");
        let stored = if is_stored && !is_stream {
            "fwd=uri-miss; stored"
        } else {
            "fwd=uri-miss"
        };
        assert_eq!(status(&first), stored, "{query}");
    }
    let count = |outcome: &str| {
        metric(
            &server,
            &format!("forebay_cache_requests_total{{policy=\"pages\",outcome=\"{outcome}\"}}"),
        )
    };
    assert_eq!((count("hit"), count("miss")), (5, 19));
    // HEAD is answered with what GET has brought.
    let target = format!("/page?{FRESH}");
    let head = ask(&mut server.connect(), "HEAD", &target, &[], b"");
    assert_eq!((status(&head), head.body.len()), ("hit", 0));
    assert_eq!(
        head.header("content-length").map(str::to_owned),
        Some(server.get(&target).body.len().to_string())
    );
}

#[test]
fn a_client_may_ask_for_more_than_what_is_stored() {
    let server = start();
    let target = format!("/page?{FRESH}");
    let first = server.get(&target);
    for (directives, expected) in [
        ("no-cache", "fwd=request; stored"),
        ("max-age=0", "fwd=request; stored"),
        ("min-fresh=7200", "fwd=request; stored"),
        ("max-age=60", "hit"),
        ("no-store", "hit"),
    ] {
        let answer = get(&server, &target, &[("cache-control", directives)]);
        assert_eq!(status(&answer), expected, "{directives}");
    }
    assert_ne!(server.get(&target).body, first.body);
    let target = format!("/other?{FRESH}");
    assert_eq!(
        status(&get(&server, &target, &[("cache-control", "no-store")])),
        "fwd=uri-miss"
    );
    assert_eq!(status(&server.get(&target)), "fwd=uri-miss; stored");
}

#[test]
fn responses_that_say_nothing_are_stored_for_the_time_of_the_policy() {
    let server = setup("default_max_age = \"1h\"").start();
    for (query, is_stored) in [
        ("a=1", true),
        ("a=1&status=302", false),
        ("a=1&status=404", false),
        ("h=cache-control:max-age=0", false),
        ("h=cache-control:no-cache", false),
    ] {
        let target = format!("/page?{query}");
        let (first, second) = (server.get(&target), server.get(&target));
        assert_eq!(first.body == second.body, is_stored, "{query}");
    }
    let cookie = [("cookie", "session=a")];
    assert_eq!(status(&get(&server, "/mine", &cookie)), "fwd=uri-miss");
    assert_eq!(status(&server.get("/mine")), "fwd=uri-miss; stored");
}

#[test]
fn requests_that_differ_in_fields_that_vary_names_get_different_responses() {
    let server = start();
    let target = format!("/page?{FRESH}&h=vary:accept-language,%20Accept");
    let ask = |language: &str| {
        get(
            &server,
            &target,
            &[("accept-language", language), ("accept", "a, b")],
        )
    };
    let (german, french) = (ask("de"), ask("fr"));
    assert_eq!(status(&french), "fwd=vary-miss; stored");
    assert_ne!(german.body, french.body);
    assert_eq!(
        (ask("de").body, ask("fr").body),
        (german.body.clone(), french.body)
    );
    // Spaces in a list mean nothing.
    let spaced = get(&server, &target, &[("accept-language", "de"), ("accept", "a,b")]);
    assert_eq!(spaced.body, german.body);
    assert_eq!(status(&server.get(&target)), "fwd=vary-miss; stored");
    // However many there are, the newest are kept.
    for number in 0..40 {
        ask(&format!("x-{number}"));
    }
    assert_eq!(status(&ask("x-39")), "hit");
    assert_eq!(status(&ask("de")), "fwd=vary-miss; stored");
}

#[test]
fn a_client_that_has_the_response_gets_304_from_the_cache() {
    let server = start();
    let modified = "Sun,%2006%20Nov%201994%2008:49:37%20GMT";
    let target = format!("/page?{FRESH}&h=etag:%22a%22&h=last-modified:{modified}&h=content-type:text/plain");
    // The target is asked for all of it, and this client has it already.
    let first = get(&server, &target, &[("if-none-match", "W/\"b\", \"a\"")]);
    assert_eq!((first.status, status(&first)), (304, "fwd=uri-miss; stored"));
    for (field, value, expected) in [
        ("if-none-match", "\"a\"", 304),
        ("if-none-match", "\"b\", W/\"a\"", 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"b\"", 200),
        ("if-none-match", "a", 200),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT", 304),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:38 GMT", 304),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT", 200),
        ("if-modified-since", "yesterday", 200),
    ] {
        let answer = get(&server, &target, &[(field, value)]);
        assert_eq!(
            (answer.status, status(&answer)),
            (expected, "hit"),
            "{field}: {value}"
        );
        assert_eq!(answer.header("etag"), Some("\"a\""), "{field}: {value}");
        assert_eq!(
            answer.header("content-type").is_some(),
            expected == 200,
            "{field}: {value}"
        );
        assert_eq!(answer.body.is_empty(), expected == 304, "{field}: {value}");
    }
    assert_eq!(calls(&server), 1);
}

#[test]
fn a_stale_response_is_confirmed_by_its_target_or_replaced() {
    let server = start();
    let target = "/page?h=cache-control:no-cache&h=etag:%22a%22";
    let first = server.get(target);
    let second = server.get(target);
    assert_eq!(status(&second), "fwd=stale; fwd-status=304; stored");
    assert_eq!((second.status, &second.body), (200, &first.body));
    let known = get(&server, target, &[("if-none-match", "\"a\"")]);
    assert_eq!(
        (known.status, status(&known)),
        (304, "fwd=stale; fwd-status=304; stored")
    );
    assert_eq!(calls(&server), 3);
    // Without a validator there is nothing to confirm.
    let target = "/page?h=cache-control:max-age=0";
    assert_ne!(server.get(target).body, server.get(target).body);
}

#[test]
fn a_stale_response_stands_in_for_a_target_that_fails_if_it_allows_that() {
    let server = start();
    let lenient = "/page?h=cache-control:max-age=0,stale-if-error=3600";
    let strict = "/page?h=cache-control:max-age=0,stale-if-error=3600,must-revalidate&h=etag:%22a%22";
    let (first, _) = (server.get(lenient), server.get(strict));
    server.get("/control/fail");
    let answer = server.get(lenient);
    assert_eq!((answer.status, status(&answer)), (200, "hit; detail=error"));
    assert_eq!(answer.body, first.body);
    assert_eq!(server.get(strict).status, 500);
}

/// Sends a request on each of these connections, and returns once the server has read them all. It has a single I/O thread.
fn send_to_all(server: &Server, clients: &mut [Client], target: &str, fields: &[(&str, &str)]) {
    for client in clients {
        send(client, "GET", target, fields, b"");
    }
    for _ in 0..3 {
        assert_eq!(server.get("/here").status, 200);
    }
}

#[test]
fn many_requests_for_a_response_that_is_not_stored_yet_ask_the_target_once() {
    let server = setup("").threads(1).start();
    let target = format!("/page?{FRESH}&wait=1");
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    send_to_all(&server, &mut clients, &target, &[]);
    wait_until("the handler to be asked", || calls(&server) > 0);
    assert_eq!(calls(&server), 1);
    server.get("/control/open");
    let answers: Vec<_> = clients.iter_mut().map(Client::response).collect();
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    let collapsed = answers
        .iter()
        .filter(|answer| status(answer) == "fwd=uri-miss; collapsed");
    assert_eq!((collapsed.count(), calls(&server)), (19, 1));

    // One that goes away leaves the others to another one.
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let target = format!("/left?{FRESH}&wait=1");
    send_to_all(&server, &mut clients[..1], &target, &[]);
    wait_until("the handler to be asked", || calls(&server) == 2);
    send_to_all(&server, &mut clients[1..], &target, &[]);
    drop(clients.remove(0));
    wait_until("another one to ask", || calls(&server) == 3);
    server.get("/control/open");
    let answers: Vec<_> = clients.iter_mut().map(Client::response).collect();
    assert_eq!((&answers[0].body, calls(&server)), (&answers[1].body, 3));
}

#[test]
fn requests_that_may_get_different_responses_do_not_wait_for_each_other() {
    let server = setup("").threads(1).start();
    let count = |calls_before: u32, wanted: u32| {
        wait_until("the handler to be asked", || {
            calls(&server) == calls_before + wanted
        });
    };
    // With credentials: each for itself.
    let target = format!("/mine?{FRESH}&wait=1");
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        send(
            client,
            "GET",
            &target,
            &[("authorization", &format!("Bearer {number}"))],
            b"",
        );
    }
    count(0, 3);
    server.get("/control/open");
    let bodies: Vec<_> = clients.iter_mut().map(|client| client.response().body).collect();
    for (number, body) in bodies.iter().enumerate() {
        assert!(String::from_utf8_lossy(body).contains(&format!("Bearer {number}")));
    }
    // What cannot be stored is for one client each, and later ones know that.
    let target = "/unstorable?h=cache-control:no-store&wait=1";
    send_to_all(&server, &mut clients, target, &[]);
    count(3, 1);
    server.get("/control/open");
    count(4, 2);
    let mut later: Vec<_> = (0..2).map(|_| server.connect()).collect();
    send_to_all(&server, &mut later, target, &[]);
    count(6, 2);
    server.get("/control/open");
    let answers = clients.iter_mut().chain(&mut later).map(Client::response);
    let mut bodies: Vec<_> = answers.map(|answer| answer.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 5);
}

/// Method, query, fields, body and language of a request.
type Attack<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], &'a str);

#[test]
fn nobody_gets_what_another_client_has_made_the_handler_say() {
    let server = start();
    let vary = format!("{FRESH}&h=vary:x-lang");
    // What an attacker sends, and what others then ask for: the handler repeats all that it is asked with.
    let corpus: &[Attack<'_>] = &[
        ("GET", FRESH, &[("x-forwarded-host", "evil")], b"", ""),
        ("GET", FRESH, &[("X-Forwarded-Proto", "evil")], b"", ""),
        ("GET", FRESH, &[("x_forwarded_host", "evil")], b"", ""),
        ("GET", FRESH, &[("x-original-url", "/evil")], b"", ""),
        ("GET", FRESH, &[("x-rewrite-url", "/evil")], b"", ""),
        ("GET", FRESH, &[("x-host", "evil")], b"", ""),
        ("GET", FRESH, &[("forwarded", "for=1.2.3.4;host=evil")], b"", ""),
        ("GET", FRESH, &[("x-http-method-override", "evil")], b"", ""),
        ("GET", FRESH, &[("range", "bytes=0-1, evil")], b"", ""),
        ("GET", FRESH, &[("cookie", "evil=1")], b"", ""),
        ("GET", FRESH, &[("authorization", "evil")], b"", ""),
        // A field that does not reach the handler, though the response varies by it.
        (
            "GET",
            &vary,
            &[("x-lang", "de"), ("connection", "x-lang"), ("x-a", "evil")],
            b"",
            "de",
        ),
        // A body, which a handler may read even of GET.
        (
            "GET",
            FRESH,
            &[("content-length", "4"), ("x-a", "evil")],
            b"evil",
            "",
        ),
        (
            "GET",
            FRESH,
            &[("transfer-encoding", "chunked"), ("x-a", "evil")],
            b"4\r\nevil\r\n0\r\n\r\n",
            "",
        ),
        ("HEAD", FRESH, &[("x-a", "evil")], b"", ""),
        (
            "POST",
            FRESH,
            &[("content-length", "0"), ("x-a", "evil")],
            b"",
            "",
        ),
    ];
    let mut poisoned = Vec::new();
    for (number, (method, query, fields, body, language)) in corpus.iter().enumerate() {
        let target = format!("/{number}?{query}");
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: test\r\n");
        for (name, value) in *fields {
            request.extend([name, ": ", value, "\r\n"]);
        }
        let mut client = server.connect();
        client.send([request.as_bytes(), b"\r\n", body].concat());
        assert_eq!(client.response_to(method).status, 200, "{fields:?}");
        let victim = || get(&server, &target, &[("x-lang", language)]);
        let (first, second) = (victim(), victim());
        if first.text().contains("evil")
            || !status(&first).ends_with("miss; stored")
            || status(&second) != "hit"
        {
            poisoned.push((method, fields, status(&first).to_owned()));
        }
    }
    assert!(poisoned.is_empty(), "{poisoned:#?}");
}

#[test]
fn paths_hosts_and_queries_that_differ_have_different_responses() {
    let server = start();
    let raw = |target: &str, host: &str| {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        client.response()
    };
    let ordinary = raw(&format!("/page?{FRESH}"), "test");
    let mut seen = vec![ordinary.body.clone()];
    for (target, host) in [
        (format!("/page?{FRESH}"), "evil"),
        (format!("/page?{FRESH}"), "test:1337"),
        (format!("/%70age?{FRESH}"), "test"),
        (format!("/page/?{FRESH}"), "test"),
        (format!("//page?{FRESH}"), "test"),
        (format!("/PAGE?{FRESH}"), "test"),
        (format!("/page;x=y?{FRESH}"), "test"),
        (format!("/page%3f{FRESH}?{FRESH}"), "test"),
        (format!("/page?{FRESH}&"), "test"),
        (format!("/page?&{FRESH}"), "test"),
        (format!("http://evil.example/page?{FRESH}"), "test"),
    ] {
        let answer = raw(&target, host);
        assert_eq!(status(&answer), "fwd=uri-miss; stored", "{target} {host}");
        assert!(!seen.contains(&answer.body), "{target} {host}");
        seen.push(answer.body);
    }
    // The case of a host means nothing.
    let same = raw(&format!("/page?{FRESH}"), "TEST");
    assert_eq!((status(&same), &same.body), ("hit", &ordinary.body));
}

#[test]
fn what_may_be_for_one_user_is_stored_only_if_the_response_says_that_it_is_for_all() {
    let server = start();
    for credentials in [("authorization", "Bearer a"), ("cookie", "session=a")] {
        let ask = |query: &str, fields: &[(&str, &str)]| {
            get(
                &server,
                &format!("/{}?h=cache-control:{query}", credentials.0),
                fields,
            )
        };
        for (directives, is_stored) in [
            ("max-age=3600", false),
            ("public,max-age=3600", true),
            ("s-maxage=3600", true),
            ("max-age=3600,must-revalidate", true),
        ] {
            let mine = ask(directives, &[credentials]);
            let other = ask(directives, &[]);
            assert_eq!(
                mine.body == other.body,
                is_stored,
                "{directives} with {credentials:?}"
            );
        }
    }
}

#[test]
fn what_a_client_gets_that_has_proved_who_it_is_is_for_that_client() {
    // Of `key-of-ada` and `key-of-bob`.
    let keys = "[auth.keys.api_keys]\n\
        ada = { sha256 = \"5532e44183f47ed1fc146851b96d585c24da5bd5fe31a885cebc357261ed8f7f\" }\n\
        bob = { sha256 = \"808a1d81b5de08d72083995df738947d519d230a20c236003268f0f4b65ee475\" }\n";
    let config = config("default_max_age = \"1h\"").replacen(
        "policy = \"pages\"",
        "policy = \"pages\"\nauth = \"keys\"",
        1,
    );
    let server = Setup::new(&format!("{keys}{config}"))
        .file("cached.mjs", include_str!("handlers/cached.mjs"))
        .start();
    let ask = |name: &str, target: &str| {
        let key = format!("key-of-{name}");
        get(&server, target, &[("x-api-key", &key)])
    };
    for query in ["h=cache-control:max-age=3600", "a=b"] {
        let target = format!("/page?{query}");
        let (ada, bob) = (ask("ada", &target), ask("bob", &target));
        assert_eq!((ada.status, status(&bob)), (200, "fwd=uri-miss"), "{query}");
        assert_ne!(ada.body, bob.body, "{query}");
    }
    // What is for all of them is not for those who have proved nothing.
    let target = "/page?h=cache-control:public,max-age=3600";
    ask("ada", target);
    assert_eq!(status(&ask("bob", target)), "hit");
    assert_eq!(server.get(target).status, 401);
}

#[test]
fn a_change_drops_what_is_stored_even_if_it_was_asked_for_before() {
    let server = setup("").threads(1).start();
    let target = format!("/page?{FRESH}");
    let first = server.get(&target);
    let change = |target: &str, method: &str| ask(&mut server.connect(), method, target, &[], b"");
    assert_eq!(
        status(&change(&format!("{target}&status=400"), "POST")),
        "fwd=method"
    );
    assert_eq!(status(&change("/other", "DELETE")), "fwd=method");
    assert_eq!(status(&change(&target, "OPTIONS")), "fwd=bypass");
    assert_eq!(server.get(&target).body, first.body);
    for method in ["POST", "PUT", "PATCH", "DELETE", "SOMETHING"] {
        change(&target, method);
        assert_eq!(status(&server.get(&target)), "fwd=uri-miss; stored", "{method}");
    }
    // A change that fails changes nothing.
    let failing = format!("/page?{FRESH}&status=404");
    server.get(&failing);
    change(&failing, "POST");
    assert_eq!(status(&server.get(&failing)), "hit");
    // The handler has begun to answer before the change, and ends after it.
    let target = format!("/slow?{FRESH}&wait=1");
    let before = calls(&server);
    let mut reading = server.connect();
    send(&mut reading, "GET", &target, &[], b"");
    wait_until("the handler to read", || calls(&server) == before + 1);
    assert_eq!(change(&target, "POST").status, 200);
    server.get("/control/open");
    assert_eq!(status(&reading.response()), "fwd=uri-miss");
    send(&mut reading, "GET", &target, &[], b"");
    wait_until("the handler to read again", || calls(&server) == before + 3);
    server.get("/control/open");
    assert_eq!(status(&reading.response()), "fwd=uri-miss; stored");
}

#[test]
fn stored_responses_are_purged_by_policy_path_and_prefix() {
    let server = start();
    let targets = ["/a", "/a/b", "/a/%63", "/ab", "/d"].map(|path| format!("{path}?{FRESH}"));
    let fill = || targets.iter().for_each(|target| drop(server.get(target)));
    let stored = || {
        targets
            .each_ref()
            .map(|target| status(&server.get(target)) == "hit")
    };
    let socket = server.folder().path().join("control.sock");
    let socket = socket.to_str().unwrap();
    let purge = |words: &[&str]| {
        let output = server.command(&[&["cache", "purge", "--socket", socket], words].concat());
        let text = if output.status.success() {
            output.stdout
        } else {
            output.stderr
        };
        String::from_utf8(text).unwrap()
    };
    fill();
    assert_eq!(purge(&["/a"]), "responses purged: 1\n");
    assert_eq!(stored(), [false, true, true, true, true]);
    // Encoded or not, it is the same path.
    assert_eq!(purge(&["/a/c", "--policy", "pages"]), "responses purged: 1\n");
    assert_eq!(stored(), [true, true, false, true, true]);
    assert_eq!(purge(&["/a*"]), "responses purged: 4\n");
    assert_eq!(stored(), [false, false, false, false, true]);
    assert_eq!(purge(&[]), "responses purged: 5\n");
    assert_eq!(stored(), [false; 5]);
    let unknown = purge(&["--policy", "nope"]);
    assert!(
        unknown.contains("policy `nope` has no cache; these have one: pages"),
        "{unknown}"
    );
    let relative = purge(&["a"]);
    assert!(relative.contains("expected {\"policy\""), "{relative}");
    let mut control = server.control();
    for body in ["{\"path\": 1}", "{\"what\": \"/\"}", "[]"] {
        assert_eq!(
            order(&mut control, "POST", "/cache/purge", body).status,
            400,
            "{body}"
        );
    }
}

#[test]
fn a_cache_has_no_more_bytes_than_it_may() {
    let server = setup("bytes_max = \"1MiB\", response_bytes_max = \"64KiB\"").start();
    let read = |name: &str| metric(&server, &format!("forebay_cache_{name}{{policy=\"pages\"}}"));
    for number in 0..200 {
        let stream = if number % 2 == 0 { "&stream=1" } else { "" };
        server.get(&format!("/{number}?{FRESH}&size=30000{stream}"));
        assert!(read("bytes") <= read("bytes_max"), "{}", read("bytes"));
    }
    assert_eq!(read("bytes_max"), 1 << 20);
    assert!(read("bytes") > 1 << 18, "{}", read("bytes"));
    assert!(read("evictions_total") > 100, "{}", read("evictions_total"));
    // A response that is too long goes through whole.
    for stream in ["", "&stream=1"] {
        let target = format!("/long?{FRESH}&size=100000{stream}");
        for _ in 0..2 {
            let answer = server.get(&target);
            assert_eq!((answer.body.len(), status(&answer)), (100_000, "fwd=uri-miss"));
        }
    }
}

#[test]
fn responses_of_other_servers_are_stored_once_they_have_ended_whole() {
    let serve = |address: SocketAddr| {
        let server = format!("[proxy.app]\nservers = [\"http://{address}\"]\n");
        let route = "[[route]]\npath = \"/*\"\npolicy = \"pages\"\nproxy = \"app\"\n";
        Setup::new(&format!("[policy.pages]\ncache = {{}}\n{server}{route}")).start()
    };
    let behind = start();
    let server = serve(behind.address());
    let target = format!("/control/page?{FRESH}&size=200000");
    let first = server.get(&target);
    assert_eq!((first.body.len(), status(&first)), (200_000, "fwd=uri-miss"));
    let second = server.get(&target);
    assert_eq!((&second.body, status(&second)), (&first.body, "hit"));
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 10\r\n\r\nabc"[..],
        b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let server = serve(answers(bytes));
        for _ in 0..2 {
            let mut client = server.connect();
            client.request("GET", "/");
            let answer = client.try_response("GET");
            assert!(answer.is_err() || answer.is_ok_and(|answer| !answer.whole || answer.status == 502));
        }
    }
}

#[test]
fn a_reload_empties_the_cache() {
    let server = start();
    let target = format!("/page?{FRESH}");
    server.get(&target);
    assert_eq!(status(&server.get(&target)), "hit");
    assert_eq!(reload(&server).status, 200);
    assert_eq!(status(&server.get(&target)), "fwd=uri-miss; stored");
}

#[test]
fn a_stored_response_is_compressed_once_for_each_coding() {
    let server = setup("").server("compress = \"public\"").start();
    let target = format!("/page?{FRESH}&h=content-type:text/plain&h=etag:%22a%22&size=20000");
    let plain = server.get(&target);
    let compressed = || {
        let series = |coding| format!("forebay_compression_input_bytes_total{{coding=\"{coding}\"}}");
        ["gzip", "br", "zstd"].map(|coding| metric(&server, &series(coding)))
    };
    for coding in ["gzip", "br", "zstd"] {
        let first = get(&server, &target, &[("accept-encoding", coding)]);
        let after = compressed();
        let second = get(&server, &target, &[("accept-encoding", coding)]);
        assert_eq!((status(&first), status(&second)), ("hit", "hit"), "{coding}");
        assert_eq!(second.header("content-encoding"), Some(coding));
        assert_eq!(second.header("etag"), Some("W/\"a\""));
        assert!(first.body.len() < 2_000 && first.body == second.body, "{coding}");
        assert_eq!(compressed(), after, "{coding}");
    }
    assert_eq!(server.get(&target).body, plain.body);
}

#[test]
fn fields_behind_a_body_pass_and_are_not_stored() {
    let application = "import { createServer } from 'node:http';\n\
         createServer((request, response) => {\n\
           response.writeHead(200, { 'cache-control': 'max-age=60', trailer: 'x-a' });\n\
           response.write('a');\n\
           response.addTrailers({ 'x-a': '1' });\n\
           response.end('b');\n\
         }).listen(80);\n";
    let server = setup("").file("cached.mjs", application).start();
    let mut client = server.connect();
    client.request("GET", "/");
    let first = client.read_until("\r\n0\r\nx-a: 1\r\n\r\n");
    assert!(first.contains("trailer: x-a\r\n"), "{first}");
    let second = get(&server, "/", &[]);
    assert_eq!((status(&second), second.text()), ("hit", "ab"));
    assert_eq!(second.header("trailer"), None);
}
