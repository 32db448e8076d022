//! Bodies that are checked with a JSON Schema before a target gets them.

use std::fs;

use forebay_testkit::{Response, Server, Setup, curl};
use serde_json::{Value, json};

use crate::store::ask;

const SCHEMA: &str = r#"{ "type": "object", "required": ["name"], "properties": { "name": { "type": "string", "pattern": "^[a-z]+$" }, "items": { "type": "array", "items": { "type": "integer" } } } }"#;

fn setup() -> Setup {
    let echo = "export default async (request) => { const text = await request.text(); return { length: text.length, name: text && JSON.parse(text).name }; };";
    Setup::new(
        r#"
[pool.echo]
handler = "echo.mjs"
[script.echo]
handler = "echo.mjs"
[[route]]
path = "/pool"
pool = "echo"
body_schema = "schema.json"
[[route]]
path = "/script"
script = "echo"
body_schema = "schema.json"
body_bytes_max = "16MiB"
[[route]]
path = "/memory"
respond = { text = "memory" }
body_schema = "schema.json"
"#,
    )
    .server("body_buffer_max = \"64KiB\"")
    .file("echo.mjs", echo)
    .file("schema.json", SCHEMA)
}

fn post(server: &Server, target: &str, kind: &str, body: &[u8]) -> Response {
    ask(
        &mut server.connect(),
        "POST",
        target,
        &[("content-type", kind)],
        body,
    )
}

#[test]
fn a_body_that_matches_reaches_the_target_whole_and_the_connection_is_kept() {
    let server = setup().start();
    // Longer than what is sent to a worker at once, and than what is read before it gets the rest.
    let long = json!({ "name": "ada", "items": vec![1; 200_000] }).to_string();
    for body in [r#"{"name":"ada"}"#, &long] {
        for target in ["/pool", "/script"] {
            let mut client = server.connect();
            for chunked in [false, true] {
                let answer = if chunked {
                    let length = body.len();
                    client.send(format!(
                        "POST {target} HTTP/1.1\r\nhost: a\r\ncontent-type: application/merge-patch+json; a=b\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
                    ));
                    client.response()
                } else {
                    ask(
                        &mut client,
                        "POST",
                        target,
                        &[("content-type", "application/json")],
                        body.as_bytes(),
                    )
                };
                let found: Value = answer.json();
                assert_eq!(found, json!({ "length": body.len(), "name": "ada" }), "{target}");
            }
        }
        // A target that reads no body leaves the connection as it should be.
        let mut client = server.connect();
        for _ in 0..2 {
            let answer = ask(
                &mut client,
                "POST",
                "/memory",
                &[("content-type", "application/json")],
                body.as_bytes(),
            );
            assert_eq!(answer.text(), "memory");
        }
    }
    assert_eq!(server.get("/pool").status, 200);
    let file = server.folder().path().join("long.json");
    fs::write(&file, &long).unwrap();
    for target in ["/pool", "/script"] {
        let http2 = curl([
            "--http2-prior-knowledge",
            "--header",
            "content-type: application/json",
            "--data-binary",
            &format!("@{}", file.display()),
            &format!("http://{}{target}", server.address()),
        ]);
        let found: Value = serde_json::from_slice(&http2.stdout).expect("JSON");
        assert_eq!(found["length"], long.len(), "{target}");
    }
}

#[test]
fn a_body_that_does_not_match_is_refused_with_its_place() {
    let server = setup().start();
    let json = "application/json";
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let long = format!("{{\"name\":\"{}\"}}", "a".repeat(1 << 20));
    for (kind, body, status, said) in [
        (
            json,
            r#"{"name":7}"#,
            422,
            r#"(body_schema): at /name: 7 is not of type \"string\""#,
        ),
        (json, r#"{"name":"a","items":[1,"b"]}"#, 422, "at /items/1:"),
        (json, "{}", 422, r#"at /: \"name\" is a required property"#),
        (json, r#"{"name":"A"}"#, 422, "at /name:"),
        (json, r#"{"name":"a""#, 400, "the body is not JSON"),
        (json, "", 400, "the body is not JSON"),
        (json, &deep, 400, "recursion limit"),
        (json, &long, 413, "1048576 bytes"),
        (
            "text/plain",
            r#"{"name":"a"}"#,
            415,
            "only application/json is understood here",
        ),
        (
            "application/x-www-form-urlencoded",
            "name=a",
            415,
            "only application/json",
        ),
    ] {
        for target in ["/pool", "/script", "/memory"] {
            let answer = post(&server, target, kind, body.as_bytes());
            let shown = &body[..body.len().min(40)];
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (status, Some("application/problem+json")),
                "{shown}"
            );
            assert!(answer.text().contains(said), "{shown}: {}", answer.text());
        }
    }
    let problem: Value = serde_json::from_str(post(&server, "/pool", json, br#"{"name":7}"#).text()).unwrap();
    assert_eq!(problem["pointer"], "/name");
}

#[test]
fn a_schema_that_cannot_be_used_is_an_error_of_the_configuration() {
    for (schema, said) in [
        ("{", "schema.json` cannot be used (route.body_schema): EOF"),
        (
            r#"{"type":"text"}"#,
            "schema.json` cannot be used (route.body_schema): ",
        ),
        (
            r#"{"$ref":"other.json"}"#,
            "schema.json` cannot be used (route.body_schema): ",
        ),
        (
            r#"{"$ref":"https://schemas.example/a.json"}"#,
            "schema.json` cannot be used (route.body_schema): ",
        ),
        // It could take exponential time.
        (
            r#"{"pattern":"(a+)+\\1$"}"#,
            "schema.json` cannot be used (route.body_schema): ",
        ),
    ] {
        let server = setup().admin().start();
        assert!(server.command(&["check"]).status.success());
        server.folder().write("other.json", "{}");
        server.folder().write("schema.json", schema);
        let reloaded = crate::reload::reload(&server);
        assert!(
            reloaded.status >= 400 && reloaded.text().contains(said),
            "{schema}: {}",
            reloaded.text()
        );
        let checked = server.command(&["check"]);
        assert!(
            String::from_utf8_lossy(&checked.stderr).contains(said),
            "{checked:?}"
        );
        assert_eq!(server.get("/pool").status, 200);
    }
}
