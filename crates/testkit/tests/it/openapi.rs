//! The OpenAPI document of the routes: printed, served, and shown to browsers.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use forebay_testkit::{Server, Setup, blocks, command, wait_until};
use serde_json::{Value, json};

use crate::{applications::packages, store::ask, workflows::rules_of};

/// A route of every kind.
const EVERY_KIND: &str = r#"
[openapi]
title = "Every kind"
version = "1.2.3"
description = "All of it."
[store]
[store.access]
Open = { read = "public", write = "token:STORE_TOKEN" }
[sql.db]
url = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"
[script.s]
handler = "handler.mjs"
[pool.p]
handler = "handler.mjs"
workers = { min = 0, max = 1 }
[proxy.behind]
servers = "http://127.0.0.1:1"
[workflow]
path = "flows"
[workflow.clients.a]
token = "CLIENT_TOKEN"
[auth.key]
header = "x-key"
api_keys.ada.sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[auth.token]
tokens.ada.token = "STORE_TOKEN"
[auth.jwt.jwt]
issuer = "https://issuer.example"
audience = "api"
jwks_file = "keys.json"
algorithms = "EdDSA"
[auth.login.oidc]
issuer = "http://127.0.0.1:1"
client_id = "shop"
cookie_secret = "COOKIE_SECRET"
callback = "/login/callback"
[policy.limits]
deny = "192.0.2.0/24"
rate_limits = "1000/1m"
[policy.readers]
auth = ["token", "key"]
scopes = "read"

[[route]]
path = "/respond"
respond = { json = { a = 1 } }
doc = { summary = "Says one", tags = ["memory", "fixed"] }
[[route]]
path = "/old/:id"
redirect = { to = "/new/:id" }
[[route]]
path = "/rewritten"
rewrite = "/respond"
[[route]]
path = "/files/*"
files = "public"
[[route]]
path = "/store/*"
store = {}
[[route]]
path = "/read/*"
methods = ["GET"]
store = {}
[[route]]
path = "/records/*"
records = {}
[[route]]
path = "/tql"
tql = {}
[[route]]
path = "/rows/:id"
methods = ["GET"]
sql = { source = "db", query = "select :id::int, :name, :since::timestamp, :n::bigint[], :all::bool", optional = ["name"] }
policy = "limits"
[[route]]
path = "/rows"
methods = ["POST"]
sql = { source = "db", query = "insert into t values (:name::text, :age::int8) returning 1", optional = "age", result = "value" }
[[route]]
path = "/pool/*"
pool = "p"
doc = { summary = "Anything", description = "Any *method*.", tags = ["pool"] }
[[route]]
path = "/orders/:id"
methods = ["GET", "HEAD", "PUT", "PROPFIND"]
pool = "p"
auth = ["key", "jwt"]
scopes = ["write"]
body_schema = "order.schema.json"
body_bytes_max = "16KiB"
policy = "limits"
[[route]]
path = "/checked"
script = "s"
policy = "readers"
auth = "token"
body_schema = "order.schema.json"
[[route]]
path = "/proxy/:a/*"
methods = ["GET", "POST"]
proxy = "behind"
auth = ["token", "login"]
[[route]]
path = "/workflow/*"
workflow = {}
[[route]]
path = "/:rest/flows/*"
workflow = {}
doc = { summary = "Of a tenant", tags = ["flows"] }
[[route]]
path = "/scenes"
workflow = {}
[[route]]
path = "/hosted"
host = "api.example"
methods = ["GET"]
pool = "p"
[[route]]
path = "/hosted"
host = "*.example.org"
methods = ["GET"]
pool = "p"
[[route]]
path = "/hosted"
methods = ["GET"]
pool = "p"
[[route]]
path = "/same/:one"
methods = ["GET"]
pool = "p"
[[route]]
path = "/same/:other"
methods = ["PUT"]
pool = "p"
[[route]]
path = "/same/*"
methods = ["GET"]
pool = "p"
[[route]]
path = "/hidden"
pool = "p"
doc = { hidden = true }
[[route]]
path = "/docs"
openapi = {}
"#;

/// The schema of a tree, by every kind of reference that leads from its root.
const ORDER: &str = r##"{ "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/order", "type": "object", "required": ["parts"],
  "$defs": { "part": { "type": "object", "properties": { "name": { "type": "string" }, "parts": { "type": "array", "items": { "$ref": "#/$defs/part" } }, "order": { "$ref": "#" } } } },
  "properties": { "parts": { "type": "array", "items": { "$ref": "#/$defs/part" } } } }"##;

/// The public key of RFC 8037, A.2.
const KEYS: &str =
    r#"{ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }] }"#;

fn setup(config: &str) -> Setup {
    let args = json!({"args": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}});
    rules_of(Setup::new(config), &[("same", "return new ScriptResult(true);")])
        .file("handler.mjs", "export default () => 'x';")
        .file("public/index.html", "x")
        .file("order.schema.json", ORDER)
        .file("keys.json", KEYS)
        .file("flows/schemas/same.json", args.to_string())
        .env("STORE_TOKEN", "sesame")
        .env("CLIENT_TOKEN", "open-up")
        .env("COOKIE_SECRET", "0123456789abcdef0123456789abcdef")
}

/// What `forebay openapi` prints.
fn printed(setup: &Setup, config: &str) -> Value {
    setup.folder().write("forebay.toml", config);
    let output = command(&["openapi", "-c", "forebay.toml"])
        .current_dir(setup.folder().path())
        .env("STORE_TOKEN", "sesame")
        .env("CLIENT_TOKEN", "open-up")
        .env("COOKIE_SECRET", "0123456789abcdef0123456789abcdef")
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Has a validator of others read the document, and checks what it does not: references, and ids of operations.
fn check(document: &Value) {
    const VALIDATOR: &str = "import { compileErrors, validate } from '@readme/openapi-parser'; import { json } from 'node:stream/consumers';
        const result = await validate(await json(process.stdin));
        console.log(result.valid && result.warnings.length === 0 ? 'valid' : compileErrors(result));";
    let mut child = Command::new(packages().join("../node/node_modules/.bin/node"))
        .args(["--input-type=module", "--eval", VALIDATOR])
        .current_dir(packages())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("there is a Node");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin
        .write_all(document.to_string().as_bytes())
        .expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.trim(),
        "valid",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    references(document, document);
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(document) {
        let id = operation["operationId"].as_str().expect("it has an id");
        assert!(ids.insert(id.to_owned()), "{method} {path}: {id} is not its own");
    }
}

/// All references lead to something, from the root of the document.
fn references(value: &Value, document: &Value) {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
        let pointer = reference.strip_prefix('#').expect("it is in the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let below: Vec<&Value> = match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    for value in below {
        references(value, document);
    }
}

/// Path, method and operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("it has paths").iter();
    let operations = paths.flat_map(|(path, item)| {
        let members = item.as_object().expect("an object").iter();
        members
            .filter(|(name, _)| !["parameters", "summary", "description", "x-tags"].contains(&name.as_str()))
            .map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    operations.collect()
}

#[test]
fn routes_of_every_kind_are_in_a_valid_document() {
    let document = printed(&setup(""), EVERY_KIND);
    check(&document);
    let found: Vec<String> = operations(&document)
        .into_iter()
        .map(|(path, method, _)| format!("{method} {path}"))
        .collect();
    let expected = [
        "patch /checked",
        "post /checked",
        "put /checked",
        "get /files/{rest}",
        "get /hosted",
        "get /hosted#*.example.org",
        "get /hosted#api.example",
        "get /old/{id}",
        "get /orders/{id}",
        "put /orders/{id}",
        "get /proxy/{a}/{rest}",
        "post /proxy/{a}/{rest}",
        "get /read/{rest}",
        "get /read:changes",
        "get /records/",
        "post /records/",
        "delete /records/{rest}",
        "get /records/{rest}",
        "patch /records/{rest}",
        "put /records/{rest}",
        "get /respond",
        "post /rows",
        "get /rows/{id}",
        "get /same/{one}",
        "put /same/{one}",
        "get /same/{rest}#other",
        "post /scenes",
        "delete /store/{rest}",
        "get /store/{rest}",
        "patch /store/{rest}",
        "post /store/{rest}",
        "put /store/{rest}",
        "post /store:batch",
        "get /store:changes",
        "post /tql",
        "post /workflow/same",
        "post /{rest}/flows/same",
    ];
    assert_eq!(found, expected);
    let info = json!({"title": "Every kind", "version": "1.2.3", "description": "All of it."});
    assert_eq!(document["info"], info);
    assert!(!document.to_string().contains("sesame"), "{document}");
    let paths = &document["paths"];
    let pool = json!({
        "summary": "Anything", "description": "Any *method*.", "x-tags": ["pool"],
        "parameters": [{"name": "rest", "in": "path", "required": true, "schema": {"type": "string"}, "description": "The rest of the path, which may be empty and have slashes."}],
    });
    assert_eq!(paths["/pool/{rest}"], pool);
    assert_eq!(paths["/rewritten"], json!({}));
    let respond = &paths["/respond"]["get"];
    assert_eq!(respond["tags"], json!(["memory", "fixed"]));
    assert_eq!(
        (&respond["summary"], &respond["operationId"]),
        (&"Says one".into(), &"getRespond".into())
    );
    let servers =
        json!([{"url": "//{subdomain}.example.org", "variables": {"subdomain": {"default": "www"}}}]);
    assert_eq!(paths["/hosted#*.example.org"]["get"]["servers"], servers);
}

#[test]
fn operations_say_what_the_configuration_knows_of_requests_and_responses() {
    let document = printed(&setup(""), EVERY_KIND);
    let paths = &document["paths"];
    let put = &paths["/orders/{id}"]["put"];
    assert_eq!(put["security"], json!([{"key": ["write"]}, {"jwt": ["write"]}]));
    let body = json!({
        "required": true, "description": "At most 16KiB.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/order"}}},
    });
    assert_eq!(put["requestBody"], body);
    let statuses = |operation: &Value| {
        let responses = operation["responses"].as_object().expect("responses");
        responses.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(statuses(put), "400 401 403 413 415 422 429 502 503 504 default");
    assert_eq!(
        statuses(&paths["/orders/{id}"]["get"]),
        "401 403 429 502 503 504 default"
    );
    let limit = json!({"$ref": "#/components/headers/RateLimit-Limit"});
    assert_eq!(put["responses"]["default"]["headers"]["RateLimit-Limit"], limit);
    let order = &document["components"]["schemas"]["order"];
    let parts = json!({"$ref": "#/components/schemas/order/$defs/part"});
    assert_eq!(order["$defs"]["part"]["properties"]["parts"]["items"], parts);
    let schemes = json!({
        "key": {"type": "apiKey", "in": "header", "name": "x-key"},
        "token": {"type": "http", "scheme": "bearer"},
        "login": {"type": "apiKey", "in": "cookie", "name": "__Host-forebay.login", "description": "A session, which begins with a login at http://127.0.0.1:1"},
        "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A token of https://issuer.example"},
        "store.token": {"type": "http", "scheme": "bearer"},
        "workflow.token": {"type": "http", "scheme": "bearer"},
    });
    assert_eq!(document["components"]["securitySchemes"], schemes);
    assert_eq!(
        paths["/store/{rest}"]["put"]["security"],
        json!([{}, {"store.token": []}])
    );
    let query = |name: &str, required: bool, schema: Value| json!({"name": name, "in": "query", "required": required, "schema": schema});
    let parameters = json!([
        query("name", false, json!({})),
        query("since", true, json!({})),
        query("n", true, json!({})),
        query("all", true, json!({"type": "boolean"})),
    ]);
    assert_eq!(paths["/rows/{id}"]["get"]["parameters"], parameters);
    assert_eq!(
        statuses(&paths["/rows/{id}"]["get"]),
        "200 400 403 429 503 504 default"
    );
    let schema = json!({
        "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    });
    let post = &paths["/rows"]["post"];
    assert_eq!(
        post["requestBody"]["content"]["application/json"]["schema"],
        schema
    );
    assert_eq!(statuses(post), "200 204 400 404 413 503 504 default");
    let workflow = &paths["/workflow/same"]["post"];
    let args = &workflow["requestBody"]["content"]["application/json"]["schema"]["anyOf"][0];
    assert_eq!(*args, json!({"$ref": "#/components/schemas/same.args"}));
    assert_eq!(workflow["security"], json!([{"workflow.token": []}]));
    let checked = &paths["/checked"]["put"];
    assert_eq!(checked["security"], json!([{"token": ["read"]}]));
    assert_eq!(statuses(checked), "400 401 403 413 415 422 503 504 default");
    // A file that is used twice is there once.
    let schema = &paths["/checked"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(*schema, json!({"$ref": "#/components/schemas/order"}));
}

#[test]
fn the_examples_have_valid_documents() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for example in ["showcase", "techempower"] {
        let output = command(&["openapi", "-c", "forebay.toml"])
            .current_dir(examples.join(example))
            .env(
                "FOREBAY_PG_URL",
                "postgres://nobody@127.0.0.1:1/none?sslmode=disable",
            )
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{example}: {output:?}");
        check(&serde_json::from_slice(&output.stdout).expect("it is JSON"));
    }
}

#[test]
fn a_document_of_hostile_names_and_of_ten_thousand_routes_is_valid() {
    let mut config = String::new();
    let paths = [
        "/</script><script>alert(1)</script>",
        "/{id}/:id",
        "/café/\u{202e}x/\"'`",
        "/a-b",
        "/a_b",
        "/a.b",
        "/a/b",
        "/a/b2",
        "/~/:rest/*",
        "/:constructor/__proto__",
    ];
    for path in paths {
        let doc = r#"doc = { summary = "</script><img src=x onerror=alert(1)>", tags = ["<b>"] }"#;
        let path = Value::from(path);
        write!(
            config,
            "[[route]]\npath = {path}\nmethods = [\"GET\"]\nrespond = {{ text = \"x\" }}\n{doc}\n"
        )
        .unwrap();
    }
    for number in 0..10_000 {
        // All have the same words, in which they would have the same id.
        let separators: String = (0..14)
            .map(|bit| if number >> bit & 1 == 1 { "-x" } else { "_x" })
            .collect();
        write!(
            config,
            "[[route]]\npath = \"/many{separators}\"\nrespond = {{ text = \"x\" }}\n"
        )
        .unwrap();
    }
    let document = printed(&setup(""), &config);
    check(&document);
    let found: BTreeSet<&str> = operations(&document).into_iter().map(|(path, ..)| path).collect();
    for path in [
        "/%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/%7Bid%7D/{id}",
        "/caf%C3%A9/%E2%80%AEx/%22'%60",
        "/~/{rest}/{rest_}",
    ] {
        assert!(found.contains(path), "{path}");
    }
    assert_eq!(found.len(), 10_000 + paths.len());
}

#[test]
fn a_schema_with_anchors_keeps_them_under_an_id() {
    let schema = r##"{ "$defs": { "a": { "$anchor": "here", "type": "integer" } }, "properties": { "n": { "$ref": "#here" } } }"##;
    let config = "[script.s]\nhandler = \"handler.mjs\"\n[[route]]\npath = \"/\"\nmethods = [\"POST\"]\nscript = \"s\"\nbody_schema = \"Problem.json\"\n";
    let setup = setup("").file("Problem.json", schema);
    let document = printed(&setup, config);
    let own = &document["components"]["schemas"]["Problem2"];
    assert_eq!(own["$id"], "urn:forebay:schema:Problem2", "{document}");
    assert_eq!(own["properties"]["n"]["$ref"], "#here");
}

fn served() -> Server {
    setup(EVERY_KIND).admin().start()
}

#[test]
fn a_route_gives_browsers_the_page_and_everybody_else_the_document() {
    let server = served();
    let get = |target: &str, accept: &str| {
        let fields: &[_] = if accept.is_empty() {
            &[]
        } else {
            &[("accept", accept)]
        };
        ask(&mut server.connect(), "GET", target, fields, b"")
    };
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    let page = get("/docs", browser);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("vary"), Some("accept"));
    let policy = page.header("content-security-policy").expect("it has one");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    let parts = ["/docs?page.js", "/docs?page.css"].map(|target| get(target, "*/*"));
    assert_eq!(
        parts[0].header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert_eq!(parts[1].header("content-type"), Some("text/css; charset=utf-8"));
    let bytes: usize = parts.iter().chain([&page]).map(|part| part.text().len()).sum();
    assert!(bytes < 25_000, "{bytes}");
    let document = get("/docs", "");
    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.header("vary"), Some("accept"));
    assert_eq!(document.json(), printed(&setup(""), EVERY_KIND));
    assert_eq!(get("/docs", "application/json").text(), document.text());
    assert_eq!(server.admin().get("/openapi.json").text(), document.text());
    for (answer, accept) in [(&page, browser), (&document, "*/*")] {
        let tag = answer.header("etag").expect("it has one");
        let head = ask(&mut server.connect(), "HEAD", "/docs", &[("accept", accept)], b"");
        assert_eq!(
            (head.status, head.header("etag"), head.text()),
            (200, Some(tag), "")
        );
        assert_eq!(
            head.header("content-length"),
            Some(&*answer.text().len().to_string())
        );
        let known = [("accept", accept), ("if-none-match", tag)];
        let known = ask(&mut server.connect(), "GET", "/docs", &known, b"");
        assert_eq!(
            (known.status, known.text(), known.header("etag")),
            (304, "", Some(tag))
        );
        let other = [("accept", accept), ("if-match", "\"other\"")];
        assert_eq!(
            ask(&mut server.connect(), "GET", "/docs", &other, b"").status,
            412
        );
    }
    for (method, status) in [("POST", 405), ("OPTIONS", 204)] {
        let answer = ask(&mut server.connect(), method, "/docs", &[], b"");
        assert_eq!(
            (answer.status, answer.header("allow")),
            (status, Some("GET, HEAD, OPTIONS"))
        );
    }
}

#[test]
fn the_document_has_the_workflows_that_are_in_force() {
    let config = EVERY_KIND.replace("path = \"flows\"", "path = \"flows\"\nwatch = true");
    let server = setup(&config).start();
    let document = || server.get("/docs").json();
    let is_there = |document: &Value| document["paths"].get("/workflow/other").is_some();
    assert!(!is_there(&document()));
    let flow = server.folder().read("flows/same.json").expect("it is there");
    server.folder().write("flows/other.json", flow);
    wait_until("the new workflow", || is_there(&document()));
}

#[test]
fn workflows_that_are_in_the_store_are_whatever_the_path_names() {
    let config = "[store]\n[workflow]\nstore = \"flows\"\nruns = { global = \"runs\" }\n[[route]]\npath = \"/workflow/*\"\nworkflow = {}\n";
    let document = printed(&setup(""), config);
    check(&document);
    let item = &document["paths"]["/workflow/{rest}"];
    assert_eq!(item["post"]["summary"], "Runs the workflow that the path names");
    let parameters = item["post"]["parameters"].as_array().expect("it has some");
    let names: Vec<&str> = parameters
        .iter()
        .filter_map(|parameter| parameter["name"].as_str())
        .collect();
    assert_eq!(names, ["trace", "release", "Prefer", "Idempotency-Key"]);
    assert_eq!(item["get"]["parameters"][0]["name"], "run");
}

#[test]
fn a_configuration_or_schema_that_cannot_be_used_is_an_error() {
    let setup = setup("").file("bad.json", "{ \"type\": 5 }");
    for (config, said) in [
        (
            "[[route]]\npath = \"/\"\nopenapi = { title = \"x\" }\n",
            "route.openapi.title: no such key",
        ),
        (
            "[script.s]\nhandler = \"handler.mjs\"\n[[route]]\npath = \"/\"\nscript = \"s\"\nbody_schema = \"bad.json\"\n",
            "bad.json",
        ),
    ] {
        setup.folder().write("forebay.toml", config);
        let output = command(&["openapi"])
            .current_dir(setup.folder().path())
            .output()
            .expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said) && output.stdout.is_empty(), "{text}");
        assert_eq!(output.status.code(), Some(3), "{text}");
    }
}

#[test]
fn the_guide_is_served_as_it_stands() {
    const GUIDE: &str = include_str!("../../../../docs/guide/openapi.md");
    let config = blocks(GUIDE, "toml")[0];
    let server = setup(config)
        .file("orders.mjs", "export default () => 'x';")
        .start();
    let document = server.get("/docs").json();
    check(&document);
    let found: Vec<(&str, &str)> = operations(&document)
        .into_iter()
        .map(|(path, method, _)| (path, method))
        .collect();
    assert_eq!(found, [("/orders", "post"), ("/orders/{id}", "get")]);
    assert_eq!(
        document["paths"]["/orders"]["post"]["security"],
        json!([{"customers": []}])
    );
}

#[test]
fn a_durable_route_answers_with_the_address_of_a_job() {
    let config = "[store]\n[pool.p]\nhandler = \"handler.mjs\"\n[[route]]\npath = \"/mails\"\npool = \"p\"\ndurable = {}\n";
    let document = printed(&setup(""), config);
    check(&document);
    let paths = &document["paths"];
    assert!(paths["/mails"]["post"]["responses"]["202"]["headers"]["Location"].is_object());
    let job = &paths["/mails/jobs/{job}"];
    assert_eq!(job["get"]["parameters"][0]["name"], "wait");
    assert!(job["delete"]["responses"]["409"].is_object());
}
