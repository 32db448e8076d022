//! Clients that prove who they are: what handlers, logs and clients themselves see of that.

use std::{
    fs,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_testkit::{Response, Server, Setup, blocks, command, wait_until};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};

use crate::{
    certificates::{Issuer, for_name, issuer},
    support::ONE_WORKER,
    workflows,
};

const ISSUER: &str = "https://id.example.org/";

/// A key of an issuer.
struct Key {
    id: &'static str,
    pair: KeyPair,
}

/// Without padding, as tokens have it (RFC 7515, 2).
fn encoded(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.as_ref().chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let digits = (0..=three.len()).map(|at| DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        text.extend(digits.map(char::from));
    }
    text
}

impl Key {
    fn new(id: &'static str) -> Self {
        Self {
            id,
            pair: KeyPair::generate_for(&PKCS_ED25519).expect("ring makes keys"),
        }
    }

    fn public(&self) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": encoded(self.pair.der_bytes()) })
    }

    /// A token for `ada` that is good for ten minutes, with these claims, too.
    fn token(&self, claims: &Value) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("it is after 1970")
            .as_secs();
        let mut all = json!({ "iss": ISSUER, "aud": "shop", "sub": "ada", "exp": now + 600 });
        for (name, value) in claims.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        let header = json!({ "alg": "EdDSA", "kid": self.id });
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(all.to_string()));
        let signature = self.pair.sign(signed.as_bytes()).expect("ring signs");
        format!("{signed}.{}", encoded(signature))
    }
}

fn key_set(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>() }).to_string()
}

/// Tokens of the issuer by keys in a file, keys of two clients, and a user.
const WAYS: &str = "
[auth.issuer.jwt]
issuer = \"https://id.example.org/\"
audience = [\"shop\"]
algorithms = [\"EdDSA\"]
claims = [\"email\"]
jwks_file = \"keys.json\"

[auth.keys.api_keys.robot]
# secret
sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"
scopes = [\"write\"]

[auth.people.basic.\"Jürgen Müller\"]
# correct horse
password = \"$argon2id$v=19$m=1024,t=2,p=1$5sCFINnK4LaXhKEWwRai7A$TupL9WOXNxrbaKIRhq0gKR/iidzxqxhUg/xf9NlQXf4\"

[auth.jobs.tokens.nightly]
token = \"NIGHTLY_TOKEN\"
";

/// Routes to everything that handles requests, for whoever proves who it is in one of the ways.
fn routes(targets: &[(&str, &str)]) -> String {
    let route = |(path, target): &(&str, &str)| {
        format!(
            "[[route]]\npath = \"{path}\"\n{target}\nauth = [\"issuer\", \"keys\", \"people\", \"jobs\"]\n"
        )
    };
    targets.iter().map(route).collect()
}

fn setup(key: &Key, config: &str) -> Setup {
    Setup::new(&format!("{WAYS}{config}"))
        .env("NIGHTLY_TOKEN", "sesame")
        .file("keys.json", key_set(&[key]))
}

/// A certificate and its key, as PEM.
fn files(issuer: &Issuer, name: &str) -> (String, String) {
    let (certificate, key) = for_name(issuer, name, 2020..2100);
    (certificate.pem(), key.serialize_pem())
}

/// A GET request with these header lines.
fn get(server: &Server, path: &str, lines: &[&str]) -> Response {
    let mut client = server.connect();
    let lines = [&["host: a"], lines].concat().join("\r\n");
    client.send(format!("GET {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
    client.response()
}

fn challenges(response: &Response) -> Vec<&str> {
    let fields = response.headers.iter();
    let fields = fields.filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
    fields.map(|(_, value)| &value[..]).collect()
}

/// Fields by which other servers say who the client is, and what looks like the inside of this one.
const FAKES: [&str; 12] = [
    "user: root",
    "identity: {\"subject\":\"root\"}",
    "remote-user: root",
    "remote_user: root",
    "x-remote-user: root",
    "x-forwarded-user: root",
    "x-auth-request-user: root",
    "x-authenticated-user: root",
    "forebay.user: root",
    "forebay-user: {\"subject\":\"root\",\"kind\":\"jwt\",\"scopes\":[],\"claims\":{}}",
    "x-ssl-client-s-dn: CN=root",
    "auth-type: Basic",
];

#[test]
fn handlers_see_who_the_client_is_and_no_header_changes_that() {
    let key = Key::new("one");
    let targets = [
        ("/script", "script = \"s\""),
        ("/node", "pool = \"node\""),
        ("/fetch", "pool = \"fetch\""),
        ("/http", "pool = \"http\""),
        ("/lines", "pool = \"lines\""),
        ("/python", "pool = \"python\""),
        ("/wsgi", "pool = \"wsgi\""),
        ("/asgi", "pool = \"asgi\""),
    ];
    let open = targets.map(|(path, target)| format!("[[route]]\npath = \"/open{path}\"\n{target}\n"));
    let open = open.concat();
    let pool = |name: &str, keys: &str| format!("[pool.{name}]\n{keys}\n{ONE_WORKER}\n");
    let config = [
        "[script.s]\nhandler = \"router.mjs\"\n".to_owned(),
        pool("node", "handler = \"router.mjs\""),
        pool("fetch", "handler = \"fetch.mjs\""),
        pool("http", "handler = \"http.mjs\""),
        pool("lines", "handler = \"router.mjs\"\nprotocol = \"jsonl\""),
        pool("python", "handler = \"app.py\""),
        pool("wsgi", "handler = \"wsgi.py\""),
        pool("asgi", "handler = \"asgi.py\""),
        routes(&targets),
        open,
    ];
    let server = setup(&key, &config.concat())
        .file("router.mjs", "export default (request) => ({ user: request.user });")
        .file("fetch.mjs", "export default { fetch: (request, env) => Response.json({ user: env.user }) };")
        .file(
            "http.mjs",
            "import { createServer } from 'node:http';
             createServer((request, response) => response.end(JSON.stringify({ user: request.user ?? null }))).listen(80);",
        )
        .file(
            "app.py",
            "from forebay import App\napp = App()\n@app.get('/*')\ndef who(request):\n    return {'user': request.user and request.user._asdict()}\n",
        )
        .file(
            "wsgi.py",
            "import json\ndef app(environ, start_response):\n    start_response('200 OK', [])\n    user = environ.get('forebay.user')\n    \
             name = environ.get('REMOTE_USER')\n    assert name == (user and user['subject'].encode().decode('latin-1')), name\n    \
             return [json.dumps({'user': user}).encode()]\n",
        )
        .file(
            "asgi.py",
            "import json\nasync def app(scope, receive, send):\n    assert scope['type'] == 'http'\n    \
             user = scope['extensions']['forebay'].get('user')\n    assert 'user' not in scope\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
             await send({'type': 'http.response.body', 'body': json.dumps({'user': user}).encode()})\n",
        )
        .start();
    let token = format!(
        "authorization: Bearer {}",
        key.token(&json!({ "email": "a@b.c", "scope": "x y" }))
    );
    let ada =
        json!({ "subject": "ada", "kind": "jwt", "scopes": ["x", "y"], "claims": { "email": "a@b.c" } });
    // `Jürgen Müller:correct horse`
    let password = "authorization: Basic SsO8cmdlbiBNw7xsbGVyOmNvcnJlY3QgaG9yc2U=";
    let jurgen = json!({ "subject": "Jürgen Müller", "kind": "password", "scopes": [], "claims": {} });
    for (path, _) in targets {
        for (line, user) in [
            (&token[..], &ada),
            (password, &jurgen),
            (
                "x-api-key: secret",
                &json!({ "subject": "robot", "kind": "api_key", "scopes": ["write"], "claims": {} }),
            ),
            (
                "authorization: bearer sesame",
                &json!({ "subject": "nightly", "kind": "token", "scopes": [], "claims": {} }),
            ),
        ] {
            let response = get(&server, path, &[&FAKES[..], &[line]].concat());
            assert_eq!(response.status, 200, "{path}: {line}: {}", response.text());
            assert_eq!(response.json(), json!({ "user": user }), "{path}: {line}");
        }
        let refused = get(&server, path, &FAKES);
        assert_eq!(refused.status, 401, "{path}: {}", refused.text());
        // Who is not asked is nobody, whatever it says or could prove.
        let open = get(
            &server,
            &format!("/open{path}"),
            &[&FAKES[..], &[&token]].concat(),
        );
        assert_eq!(open.json(), json!({ "user": null }), "{path}");
    }
}

#[test]
fn rules_see_who_the_client_is_and_a_key_of_one_user_is_no_key_of_another() {
    let key = Key::new("one");
    let policy = "[policy.site]\nauth = [\"keys\", \"jobs\"]\n[store]\n[workflow]\npath = \"flows\"\nruns = { global = \"Runs\" }\n";
    let who = "return new ScriptResult(true, { user: context.getParameter().getUser() });";
    let setup = setup(&key, &format!("{policy}{}", workflows::ROUTES)).server("policy = \"site\"");
    let server = workflows::rules_of(setup, &[("who", who)]).start();
    let post = |path: &str, lines: &[&str], body: &Value| {
        let lines = [lines, &[""]].concat().join("\r\n");
        server.connect().ask("POST", path, &lines, body.to_string())
    };
    let robot = json!({ "subject": "robot", "kind": "api_key", "scopes": ["write"], "claims": {} });
    let scenes = json!({ "requestId": "r", "clientId": "c", "clientSecret": "s", "scenesCodes": ["who"], "args": { "user": "root" } });
    let known = "x-api-key: secret";
    let run = post("/workflow/who", &[known], &json!({ "user": "root" }));
    assert_eq!(run.json()["valueMap"]["user"], robot, "{}", run.text());
    let run = post("/execute/internal/workflow", &[known], &scenes);
    assert_eq!(
        run.json()["data"]["results"][0]["valueMap"]["user"],
        robot,
        "{}",
        run.text()
    );
    // A run that may outlive its request keeps the user.
    let once = "idempotency-key: once";
    for _ in 0..2 {
        let run = post("/workflow/who", &[known, once], &json!({}));
        assert_eq!(run.json()["valueMap"]["user"], robot, "{}", run.text());
    }
    assert_eq!(
        post(
            "/workflow/who",
            &["authorization: Bearer sesame", once],
            &json!({})
        )
        .status,
        422
    );
    assert_eq!(post("/workflow/who", &[once], &json!({})).status, 401);
}

#[test]
fn clients_are_told_what_is_wrong_with_what_they_show() {
    let key = Key::new("one");
    let target = "respond = { text = \"here\" }";
    let scoped = format!(
        "{}scopes = [\"read\", \"write\"]\n",
        routes(&[("/scoped", target)])
    );
    let server = setup(&key, &(routes(&[("/here", target)]) + &scoped)).start();
    let bare = [
        "Bearer realm=\"issuer\"",
        "ApiKey realm=\"keys\", field=\"x-api-key\"",
        "Basic realm=\"people\", charset=\"UTF-8\"",
        "Bearer realm=\"jobs\"",
    ];
    let none = get(&server, "/here", &[]);
    assert_eq!(
        (none.status, none.detail()),
        (401, "credentials are needed".into())
    );
    assert_eq!(challenges(&none), bare);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let old = format!(
        "authorization: Bearer {}",
        key.token(&json!({ "exp": now - 100 }))
    );
    let expired = get(&server, "/here", &[&old]);
    assert_eq!(
        (expired.status, expired.detail()),
        (401, "the token has expired".into())
    );
    assert_eq!(
        challenges(&expired)[0],
        "Bearer realm=\"issuer\", error=\"invalid_token\", error_description=\"the token has expired\""
    );
    assert_eq!(challenges(&expired)[1..], bare[1..]);
    for (line, detail) in [
        ("x-api-key: secrets", "the credentials are wrong"),
        ("authorization: Basic YWRhOng=", "the credentials are wrong"),
        (
            "authorization: Basic =",
            "malformed credentials: `Basic` is followed by a name, a colon and a password in UTF-8, together in Base64",
        ),
        ("authorization: Digest username=\"ada\"", "credentials are needed"),
        (
            "authorization: Bearer x",
            "malformed credentials: it is not a signed JSON Web Token",
        ),
        (
            "authorization: Bearer sesame\r\nauthorization: Bearer sesame",
            "the field with the credentials comes more than once",
        ),
        (
            "x-api-key: secret\r\nx-api-key: secret",
            "the field with the credentials comes more than once",
        ),
    ] {
        let refused = get(&server, "/here", &[line]);
        assert_eq!((refused.status, refused.detail()), (401, detail.into()), "{line}");
    }
    // One way suffices, whatever else is sent.
    assert_eq!(
        get(
            &server,
            "/here",
            &["authorization: Bearer x", "x-api-key: secret"]
        )
        .text(),
        "here"
    );
    let scoped = get(&server, "/scoped", &["x-api-key: secret"]);
    assert_eq!(
        (scoped.status, scoped.detail()),
        (403, "the scope `read` is needed here (scopes)".into())
    );
    assert_eq!(
        challenges(&scoped)[0],
        "Bearer realm=\"issuer\", error=\"insufficient_scope\", scope=\"read write\""
    );
    let able = format!(
        "authorization: Bearer {}",
        key.token(&json!({ "scope": "write other read" }))
    );
    assert_eq!(get(&server, "/scoped", &[&able]).text(), "here");
    // Nothing of a request that is refused is read as the next one.
    let mut client = server.connect();
    client.send("POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nabcdeGET /here HTTP/1.1\r\nhost: a\r\nx-api-key: secret\r\n\r\n");
    assert_eq!(client.response().status, 401);
    assert_eq!(client.response().text(), "here");
}

#[test]
fn the_access_log_names_the_user() {
    let key = Key::new("one");
    let target = "respond = { text = \"here\" }";
    let server = setup(
        &key,
        &format!(
            "[log]\naccess = true\nformat = \"json\"\n{}",
            routes(&[("/here", target)])
        ),
    )
    .start();
    get(&server, "/here", &["x-api-key: secret", "user-agent: first"]);
    let line = server.wait_for_log(&["forebay::access", "\"user_agent\":\"first\""]);
    assert!(line.contains("\"user\":\"robot\""), "{line}");
    get(&server, "/here", &["user: robot", "user-agent: second"]);
    let line = server.wait_for_log(&["forebay::access", "\"user_agent\":\"second\""]);
    assert!(!line.contains("\"user\":"), "{line}");
}

#[test]
fn keys_are_fetched_and_their_rotation_needs_no_restart() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let issuer = Setup::new("[[route]]\npath = \"/keys\"\nrespond = { file = \"keys.json\" }\n")
        .file("keys.json", key_set(&[&old]))
        .start();
    let config = |address: &str| {
        format!(
            "[auth.issuer.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"shop\"]\nalgorithms = [\"EdDSA\"]\njwks = \"http://{address}/keys\"\n\
             [[route]]\npath = \"/here\"\nauth = [\"issuer\"]\nrespond = {{ text = \"here\" }}\n"
        )
    };
    let server = Setup::new(&config(&issuer.address().to_string())).start();
    let with = |key: &Key| {
        get(
            &server,
            "/here",
            &[&format!("authorization: Bearer {}", key.token(&json!({})))],
        )
    };
    // The first request waits for the keys, if they are not there yet.
    assert_eq!(with(&old).text(), "here");
    assert_eq!(
        (with(&new).status, with(&new).detail()),
        (401, "no key of the issuer is the one of the token".into())
    );
    fs::write(issuer.folder().path().join("keys.json"), key_set(&[&new, &old])).expect("the folder is there");
    issuer.hang_up();
    wait_until("the issuer has the new keys", || {
        issuer.get("/keys").text().contains("\"new\"")
    });
    wait_until("the new key is known", || with(&new).status == 200);
    // A reload goes on with the keys, even if nobody serves them any more.
    drop(issuer);
    server.reconfigure(
        &(config("127.0.0.1:1") + "[[route]]\npath = \"/else\"\nrespond = { text = \"else\" }\n"),
    );
    server.hang_up();
    wait_until("the other configuration is in force", || {
        server.get("/else").status == 200
    });
    let gone = with(&new);
    assert_eq!(
        (gone.status, gone.header("retry-after")),
        (503, Some("1")),
        "another URL has other keys"
    );
    assert_eq!(
        gone.detail(),
        "the keys of the token issuer are not available (jwt.keys)"
    );
}

#[test]
fn a_reload_goes_on_with_keys_whose_server_is_down() {
    let key = Key::new("one");
    let issuer = Setup::new("[[route]]\npath = \"/keys\"\nrespond = { file = \"keys.json\" }\n")
        .file("keys.json", key_set(&[&key]))
        .start();
    let config = format!(
        "[auth.issuer.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"shop\"]\nalgorithms = [\"EdDSA\"]\njwks = \"http://{}/keys\"\n\
         [[route]]\npath = \"/here\"\nauth = [\"issuer\"]\nrespond = {{ text = \"here\" }}\n",
        issuer.address()
    );
    let server = Setup::new(&config).start();
    let line = format!("authorization: Bearer {}", key.token(&json!({})));
    assert_eq!(get(&server, "/here", &[&line]).text(), "here");
    drop(issuer);
    server.reconfigure(&format!(
        "{config}[[route]]\npath = \"/else\"\nrespond = {{ text = \"else\" }}\n"
    ));
    server.hang_up();
    wait_until("the other configuration is in force", || {
        server.get("/else").status == 200
    });
    let other = format!("authorization: Bearer {}", key.token(&json!({ "jti": "2" })));
    assert_eq!(get(&server, "/here", &[&other]).text(), "here");
}

#[test]
fn a_certificate_proves_who_the_client_is() {
    let (authority, clients) = (issuer("authority"), issuer("clients"));
    let (cert, key) = files(&authority, "localhost");
    let (own, own_key) = files(&clients, "device.example");
    let server = Setup::new(
        "[auth.devices.certificate]\nname = \"dns\"\nscopes = [\"send\"]\n[script.s]\nhandler = \"s.mjs\"\n\
         [tls.a]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
         [[route]]\npath = \"/me\"\nscript = \"s\"\nauth = [\"devices\"]\nscopes = [\"send\"]\n",
    )
    .server("client_ca = \"clients.pem\"\nclient_certificates = \"optional\"")
    .listen("\"https://127.0.0.1:0\"")
    .file("cert.pem", cert)
    .file("key.pem", key)
    .file("clients.pem", clients.pem())
    .file("own.pem", own + &own_key)
    .file("authority.pem", authority.pem())
    .file("s.mjs", "export default (request) => request.user;")
    .start();
    let file = |name: &str| server.folder().path().join(name).display().to_string();
    let port = server.urls()[0]
        .rsplit_once(':')
        .expect("it has a port")
        .1
        .to_owned();
    let curl = |arguments: &[&str]| {
        let (authority, url) = (file("authority.pem"), format!("https://localhost:{port}/me"));
        let common = ["--cacert", &authority, "--write-out", " %{http_code}", &url];
        let output = forebay_testkit::curl(common.iter().chain(arguments));
        String::from_utf8(output.stdout).expect("it is text")
    };
    for version in ["--http1.1", "--http2"] {
        let known = curl(&[version, "--cert", &file("own.pem")]);
        let (body, status) = known.rsplit_once(' ').expect("a body and a status");
        assert_eq!(status, "200", "{known}");
        let user: Value = serde_json::from_str(body).expect("it is JSON");
        assert_eq!(
            (&user["subject"], &user["kind"], &user["scopes"]),
            (&json!("device.example"), &json!("certificate"), &json!(["send"]))
        );
        assert_eq!(user["claims"]["dns"], json!(["device.example"]));
        let unknown = curl(&[version, "-H", "x-ssl-client-s-dn: CN=device.example"]);
        assert!(unknown.ends_with(" 401"), "{unknown}");
    }
}

#[test]
fn the_guide_does_what_it_says() {
    const GUIDE: &str = include_str!("../../../../docs/guide/authentication.md");
    let of = |language: &str, at: usize| blocks(GUIDE, language)[at].to_owned();
    let mut setup = Setup::new(&of("toml", 0)).env("NIGHTLY_TOKEN", "sesame");
    for block in blocks(GUIDE, "js") {
        let (name, _) = block
            .strip_prefix("// ")
            .and_then(|rest| rest.split_once('\n'))
            .expect("it names its file");
        setup = setup.file(name, block);
    }
    let folder = setup.folder().path().to_owned();
    let binary = command(&[]).get_program().display().to_string();
    let shell = |command: &str| {
        let command = command.replace("forebay ", &format!("{binary} "));
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(&folder)
            .output()
            .expect("there is a shell");
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let console = blocks(GUIDE, "console").concat();
    let exchanges: Vec<(&str, &str)> = console
        .split("$ ")
        .skip(1)
        .map(|exchange| exchange.split_once('\n').expect("a line"))
        .collect();
    let (before, after): (Vec<_>, Vec<_>) = exchanges
        .into_iter()
        .partition(|(command, _)| !command.contains("127.0.0.1:8080"));
    let mut count = 0;
    for (command, shown) in before {
        let said = shell(command);
        // Each hash of a password has a salt of its own.
        let length = if command.contains("forebay password") {
            "$argon2id$v=19$m=19456,t=2,p=1$".len()
        } else {
            shown.len()
        };
        assert_eq!(said.get(..length), shown.get(..length), "{command}");
        count += 1;
    }
    let server = setup.start();
    for (command, shown) in after {
        let said = shell(&command.replace("127.0.0.1:8080", &server.address().to_string()));
        assert_eq!(said.trim_end(), shown.trim_end(), "{command}");
        count += 1;
    }
    assert!(count >= 8, "the guide shows {count} commands");
}
