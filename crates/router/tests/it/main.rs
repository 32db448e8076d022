//! The router through its public API: examples of each rule, and a slow reference model with which it must agree.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cmp::Reverse;
use std::collections::BTreeSet;

use forebay_router::{Outcome, Router, RouterError, Rule};

fn rule(methods: &str, host: Option<&str>, path: &str) -> Rule<String> {
    let label = format!("{methods} {} {path}", host.unwrap_or("-"));
    Rule {
        methods: methods.split_whitespace().map(str::to_owned).collect(),
        host: host.map(str::to_owned),
        path: path.to_owned(),
        target: label,
    }
}

fn router(paths: &[&str]) -> Router<String> {
    Router::compile(paths.iter().map(|path| rule("", None, path)).collect()).unwrap()
}

/// The result of a GET: the pattern and its parameters, or the error.
fn get(router: &Router<String>, path: &str) -> String {
    answer(router, "GET", "", path)
}

fn answer(router: &Router<String>, method: &str, host: &str, path: &str) -> String {
    match router.find(method, host, path) {
        Outcome::Found(found) => {
            let params: Vec<String> = found
                .params
                .iter()
                .map(|(name, value)| format!(" {name}={value}"))
                .collect();
            format!("{}{}", found.pattern, params.concat())
        }
        Outcome::Options { allow } => format!("options: {allow}"),
        Outcome::MethodNotAllowed { allow } => format!("405: {allow}"),
        Outcome::NotFound => "404".to_owned(),
        Outcome::BadPath => "400".to_owned(),
    }
}

#[test]
fn static_comes_before_param_before_rest_segment_by_segment() {
    let router = router(&[
        "/",
        "/users/me",
        "/users/:id",
        "/users/:id/posts",
        "/users/me/*rest",
        "/*",
        "/a/:x/c",
        "/:y/b/d",
    ]);
    for (path, found) in [
        ("/", "/"),
        ("/users/me", "/users/me"),
        ("/users/you", "/users/:id id=you"),
        ("/users/", "/* *=users/"),
        ("/users/you/posts", "/users/:id/posts id=you"),
        ("/users/me/posts", "/users/me/*rest rest=posts"),
        ("/users/me/", "/users/me/*rest rest="),
        ("/users/me/a/b/", "/users/me/*rest rest=a/b/"),
        ("/users/you/other", "/* *=users/you/other"),
        ("/a/b/c", "/a/:x/c x=b"),
        ("/a/b/d", "/:y/b/d y=a"),
        ("/a/b/e", "/* *=a/b/e"),
        ("//", "/* *=/"),
    ] {
        assert_eq!(get(&router, path), found, "{path}");
    }
}

#[test]
fn a_slash_at_the_end_counts() {
    let router = router(&["/a", "/b/", "/static/*"]);
    for (path, found) in [
        ("/a", "/a"),
        ("/a/", "404"),
        ("/b", "404"),
        ("/b/", "/b/"),
        ("/static", "404"),
        ("/static/", "/static/* *="),
    ] {
        assert_eq!(get(&router, path), found, "{path}");
    }
}

#[test]
fn segments_are_compared_and_handed_on_decoded() {
    let router = router(&["/café/:name", "/files/*path", "/:a"]);
    for (path, found) in [
        ("/caf%C3%A9/x%20y", "/café/:name name=x y"),
        ("/café/%e2%82%ac", "/café/:name name=€"),
        ("/%63af%c3%a9/a%2Fb", "/café/:name name=a/b"),
        ("/caf%C3%A9%2Fx", "/:a a=café/x"),
        ("/files/a%20b/c%25", "/files/*path path=a b/c%"),
        ("/a+b", "/:a a=a+b"),
    ] {
        assert_eq!(get(&router, path), found, "{path}");
    }
    let Outcome::Found(found) = router.find("GET", "", "/files/a%2Fb/%63") else {
        panic!("not found")
    };
    assert_eq!(found.rest, Some("a%2Fb/%63"));
    let Outcome::Found(found) = router.find("GET", "", "/x") else {
        panic!("not found")
    };
    assert_eq!(found.rest, None);
}

#[test]
fn broken_paths_are_refused() {
    let router = router(&["/*"]);
    for path in [
        "",
        "a",
        "*",
        "http://a/",
        "/%",
        "/%4",
        "/%zz",
        "/a%",
        "/%ff",
        "/%c3",
        "/%c3/%a9",
        "/%00",
        "/\0",
        "/.",
        "/..",
        "/a/./b",
        "/a/../b",
        "/%2e",
        "/.%2E/x",
        "/%2e%2e/%2e%2e/etc",
        "/%ED%A0%80",
        "/%C0%AF",
    ] {
        assert_eq!(get(&router, path), "400", "{path}");
    }
    for path in ["/...", "/.a", "/a..", "/%2e%2e%2e", "/a%2F..%2Fb"] {
        assert!(get(&router, path).starts_with("/* "), "{path}");
    }
}

#[test]
fn methods_choose_among_routes_of_one_path() {
    let rules = [
        "GET|/a",
        "PUT POST|/a",
        "|/b",
        "GET|/b",
        "HEAD|/c",
        "GET|/c",
        "POST|/d/me",
        "GET|/d/:id",
        "OPTIONS|/e",
        "GET|/e",
    ];
    let rules = rules.iter().map(|rule_text| {
        let (methods, path) = rule_text.split_once('|').unwrap();
        rule(methods, None, path)
    });
    let router = Router::compile(rules.collect()).unwrap();
    let target = |method, path| match router.find(method, "", path) {
        Outcome::Found(found) => found.target.clone(),
        _ => answer(&router, method, "", path),
    };
    for (method, path, found) in [
        ("GET", "/a", "GET - /a"),
        ("HEAD", "/a", "GET - /a"),
        ("POST", "/a", "PUT POST - /a"),
        ("DELETE", "/a", "405: GET, HEAD, OPTIONS, POST, PUT"),
        ("get", "/a", "405: GET, HEAD, OPTIONS, POST, PUT"),
        ("OPTIONS", "/a", "options: GET, HEAD, OPTIONS, POST, PUT"),
        ("GET", "/b", "GET - /b"),
        ("HEAD", "/b", "GET - /b"),
        ("DELETE", "/b", " - /b"),
        ("OPTIONS", "/b", " - /b"),
        ("HEAD", "/c", "HEAD - /c"),
        ("GET", "/d/me", "GET - /d/:id"),
        ("POST", "/d/me", "POST - /d/me"),
        ("PUT", "/d/me", "405: GET, HEAD, OPTIONS, POST"),
        ("PUT", "/d/you", "405: GET, HEAD, OPTIONS"),
        ("OPTIONS", "/e", "OPTIONS - /e"),
        ("OPTIONS", "/f", "404"),
        (
            "OPTIONS",
            "*",
            "options: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
        ),
        ("GET", "*", "400"),
    ] {
        assert_eq!(target(method, path), found, "{method} {path}");
    }
}

#[test]
fn the_more_specific_host_is_asked_first() {
    let hosts = [
        None,
        Some("a.example.com"),
        Some("*.example.com"),
        Some("*.a.example.com"),
        Some("[::1]"),
    ];
    let mut rules: Vec<_> = hosts.into_iter().map(|host| rule("", host, "/x")).collect();
    rules.push(rule("", None, "/y"));
    let router = Router::compile(rules).unwrap();
    for (host, path, found) in [
        ("a.example.com", "/x", " a.example.com /x"),
        ("A.Example.COM:8080", "/x", " a.example.com /x"),
        ("b.example.com", "/x", " *.example.com /x"),
        ("b.a.example.com.", "/x", " *.a.example.com /x"),
        ("example.com", "/x", " - /x"),
        ("", "/x", " - /x"),
        ("[::1]:80", "/x", " [::1] /x"),
        ("a.example.com", "/y", " - /y"),
    ] {
        let Outcome::Found(answer) = router.find("GET", host, path) else {
            panic!("{host} {path}")
        };
        assert_eq!(answer.target, found, "{host} {path}");
    }
}

#[test]
fn two_routes_that_tie_are_refused() {
    let conflict = |rules: Vec<Rule<String>>| match Router::compile(rules) {
        Err(RouterError::Conflict {
            first,
            second,
            method,
            ..
        }) => Some((first, second, method)),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    let clash = |method: &str| Some((0, 1, method.to_owned()));
    let any = |path| rule("", None, path);
    assert_eq!(conflict(vec![any("/a"), any("/a")]), clash("every method"));
    assert_eq!(conflict(vec![any("/:a"), any("/:b")]), clash("every method"));
    assert_eq!(conflict(vec![any("/*"), any("/*rest")]), clash("every method"));
    assert_eq!(
        conflict(vec![rule("GET PUT", None, "/a"), rule("POST PUT", None, "/a")]),
        clash("PUT")
    );
    assert_eq!(
        conflict(vec![rule("GET", Some("a"), "/a"), rule("GET", Some("A"), "/a")]),
        clash("GET")
    );
    assert_eq!(
        conflict(vec![
            any("/a"),
            rule("GET", None, "/a"),
            rule("", Some("a"), "/a"),
            any("/a/")
        ]),
        None
    );
    let text = Router::compile(vec![any("/a"), any("/a")])
        .unwrap_err()
        .to_string();
    assert_eq!(text, "`/a` answers every method twice");
}

/// A small reproducible random number generator (xorshift64*, Vigna 2016).
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// A path of 1 to `more` + 1 segments.
    fn path(&mut self, more: usize, segments: &[&str]) -> String {
        let count = self.below(more + 1) + 1;
        (0..count).flat_map(|_| ["/", self.pick(segments)]).collect()
    }
}

/// One rule of the model, matched against requests in the simplest way.
struct Model<'r> {
    rule: &'r Rule<String>,
    segments: Vec<&'r str>,
}

impl Model<'_> {
    fn host_rank(&self, host: &str) -> Option<(u8, Reverse<usize>)> {
        match self.rule.host.as_deref() {
            None => Some((2, Reverse(0))),
            Some(wild) if wild.starts_with('*') => {
                (host.ends_with(&wild[1..]) && host.len() >= wild.len()).then_some((1, Reverse(wild.len())))
            }
            Some(exact) => (exact == host).then_some((0, Reverse(0))),
        }
    }

    /// One digit per segment; lower means more specific.
    fn path_rank(&self, path: &[&str]) -> Option<Vec<u8>> {
        let mut rank = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let given = path.get(at)?;
            match segment.chars().next() {
                Some('*') => {
                    rank.push(2);
                    return Some(rank);
                }
                Some(':') if !given.is_empty() => rank.push(1),
                Some(':') => return None,
                _ if segment == given => rank.push(0),
                _ => return None,
            }
        }
        (self.segments.len() == path.len()).then_some(rank)
    }

    fn method_rank(&self, method: &str) -> Option<u8> {
        let named = |wanted: &str| self.rule.methods.iter().any(|m| m == wanted);
        if named(method) {
            Some(0)
        } else if method == "HEAD" && named("GET") {
            Some(1)
        } else {
            (method != "TRACE" && self.rule.methods.is_empty()).then_some(2)
        }
    }

    fn allowed(&self) -> Vec<&str> {
        match self.rule.methods.as_slice() {
            [] => vec!["DELETE", "GET", "PATCH", "POST", "PUT"],
            methods => methods.iter().map(String::as_str).collect(),
        }
    }
}

/// The label of the matching route, or the error.
fn model_answer(models: &[Model<'_>], method: &str, host: &str, path: &str) -> String {
    let segments: Vec<&str> = path[1..].split('/').collect();
    let matching: Vec<_> = models
        .iter()
        .filter_map(|model| Some((model.host_rank(host)?, model.path_rank(&segments)?, model)))
        .collect();
    let accepting = matching.iter().filter_map(|(host, path, model)| {
        Some(((*host, path, model.method_rank(method)?), &model.rule.target))
    });
    if let Some((_, target)) = accepting.min_by(|left, right| left.0.cmp(&right.0)) {
        return target.clone();
    }
    if matching.is_empty() {
        return "404".to_owned();
    }
    let mut allow: BTreeSet<&str> = matching
        .iter()
        .flat_map(|(_, _, model)| model.allowed())
        .collect();
    if allow.contains("GET") {
        allow.insert("HEAD");
    }
    allow.insert("OPTIONS");
    let allow = allow.into_iter().collect::<Vec<_>>().join(", ");
    if method == "OPTIONS" {
        format!("options: {allow}")
    } else {
        format!("405: {allow}")
    }
}

#[test]
fn the_router_agrees_with_a_slow_model() {
    let hosts = ["a", "b.a", "c.b.a", "d"];
    let methods = ["GET", "HEAD", "PUT", "OPTIONS", "TRACE"];
    for seed in 1..=2000 {
        let mut noise = Noise(seed);
        let mut rules: Vec<Rule<String>> = Vec::new();
        for _ in 0..noise.below(12) {
            let path = noise.path(3, &["a", "b", ":p"]);
            // Names must be unique within a pattern, so each parameter is given its position.
            let path: String = path
                .chars()
                .enumerate()
                .map(|(at, c)| if c == 'p' { format!("p{at}") } else { c.to_string() })
                .collect();
            let path = path + noise.pick(&["", "", "/", "/*rest"]);
            let host = [None, None, Some("a"), Some("*.a"), Some("*.b.a")][noise.below(5)];
            let candidate = rule(
                noise.pick(&["", "GET", "PUT", "GET PUT", "HEAD", "OPTIONS"]),
                host,
                &path,
            );
            rules.push(candidate);
            if Router::compile(rules.clone()).is_err() {
                rules.pop();
            }
        }
        let models: Vec<Model<'_>> = rules
            .iter()
            .map(|rule| Model {
                rule,
                segments: rule.path[1..].split('/').collect(),
            })
            .collect();
        let router = Router::compile(rules.clone()).unwrap();
        for _ in 0..60 {
            let path = noise.path(4, &["a", "b", "c", ""]);
            let (method, host) = (noise.pick(&methods), noise.pick(&hosts));
            let found = match router.find(method, host, &path) {
                Outcome::Found(found) => found.target.clone(),
                _ => answer(&router, method, host, &path),
            };
            assert_eq!(
                found,
                model_answer(&models, method, host, &path),
                "seed {seed}: {method} {host} {path} in {rules:#?}"
            );
        }
    }
}

#[test]
fn garbage_never_panics() {
    let router = router(&["/", "/a/:b", "/a/:b/c/*d", "/é"]);
    let pieces = [
        "/", "%", "%2f", "%2e", "..", ".", "%c3", "%a9", "é", "a", "\0", "%00", "//", "?", "#", "*", ":b",
        " ",
    ];
    for seed in 1..=20_000 {
        let mut noise = Noise(seed);
        let path: String = (0..noise.below(12)).map(|_| noise.pick(&pieces)).collect();
        let host: String = (0..noise.below(4))
            .map(|_| noise.pick(&["a", ":", "[", "]", ".", "é", "1"]))
            .collect();
        answer(&router, noise.pick(&["GET", "", "é"]), &host, &path);
        let _ = Router::compile(vec![rule("", Some(&host), &path)]);
    }
}

#[test]
fn a_path_of_many_segments_is_searched_without_blowing_up() {
    let paths: Vec<String> = (0..60)
        .map(|depth| format!("/{}{}end", "a/".repeat(depth), ":p/"))
        .collect();
    let router = router(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(get(&router, &"/a".repeat(100_000)), "404");
}
