//! Listeners with TLS, asked by curl and openssl.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Command, Output},
    time::Duration,
};

use forebay_testkit::{Client, Folder, Server, Setup, command, wait_until};

use crate::{
    certificates::{Issuer, for_name, issuer, revocation_list, with_serial},
    reload::reload,
    support::{ONE_WORKER, Runtime},
    websockets,
};

const ROUTES: &str = r#"
[tls.first]
cert = "first.pem"
key = "first.key"

[tls.second]
cert = "second.pem"
key = "second.key"

[script.echo]
handler = "echo.mjs"

[[route]]
path = "/here"
respond = { text = "here" }

[[route]]
path = "/echo"
script = "echo"
body_bytes_max = "16MiB"

[[route]]
path = "/files/*"
files = "public"
"#;

const GOOD: std::ops::Range<i32> = 2020..2100;

/// The PEM files of a certificate: the certificate with its chain, and the key.
fn files(issuer: &Issuer, name: &str) -> (String, String) {
    let (certificate, key) = for_name(issuer, name, GOOD);
    (certificate.pem(), key.serialize_pem())
}

/// A server with certificates for `localhost` and `*.example.org`.
fn setup(issuer: &Issuer) -> Setup {
    let (first, first_key) = files(issuer, "localhost");
    let (second, second_key) = files(issuer, "*.example.org");
    Setup::new(ROUTES)
        .listen("\"https://127.0.0.1:0\"")
        .file("first.pem", first)
        .file("first.key", first_key)
        .file("second.pem", second)
        .file("second.key", second_key)
        .file("authority.pem", issuer.pem())
        .file("public/small.txt", "small")
        .file("echo.mjs", "export default (request) => request.bytes();")
}

fn address(server: &Server) -> SocketAddr {
    let url = &server.urls()[0];
    url.strip_prefix("https://")
        .expect("it is encrypted")
        .parse()
        .expect("an address")
}

/// Runs curl on a path below a name, which is the server's.
fn curl(server: &Server, name: &str, path: &str, options: &[&str]) -> Output {
    let port = address(server).port();
    let authority = server.folder().path().join("authority.pem");
    let resolve = format!("{name}:{port}:127.0.0.1");
    let common = [
        "--http1.1",
        "--cacert",
        &authority.to_string_lossy(),
        "--resolve",
        &resolve,
    ];
    let url = [&*format!("https://{name}:{port}{path}")];
    forebay_testkit::curl(common.iter().chain(options).chain(&url))
}

/// The body of a successful response.
fn got(server: &Server, name: &str, path: &str, options: &[&str]) -> Vec<u8> {
    let output = curl(server, name, path, options);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn clients_get_the_certificate_for_the_name_that_they_ask_for() {
    let server = setup(&issuer("authority")).start();
    for name in ["localhost", "www.example.org"] {
        assert_eq!(got(&server, name, "/here", &[]), b"here", "{name}");
    }
    // No certificate is for this name.
    let other = curl(&server, "example.net", "/here", &[]);
    assert_eq!(
        other.status.code(),
        Some(60),
        "curl: the certificate does not fit"
    );
    assert_eq!(got(&server, "example.net", "/here", &["--insecure"]), b"here");
    let strange = issuer("another authority").pem();
    server.folder().write("authority.pem", strange);
    assert_eq!(curl(&server, "localhost", "/here", &[]).status.code(), Some(60));
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_nothing_older() {
    let server = setup(&issuer("authority")).start();
    for version in ["1.2", "1.3"] {
        let options = [&format!("--tlsv{version}")[..], "--tls-max", version];
        assert_eq!(got(&server, "localhost", "/here", &options), b"here", "{version}");
    }
    let suite = |name: &str| {
        let options = ["--tls-max", "1.2", "--ciphers", &format!("{name}:@SECLEVEL=0")];
        curl(&server, "localhost", "/here", &options).status.success()
    };
    assert!(suite("ECDHE-ECDSA-AES128-GCM-SHA256"));
    assert!(!suite("ECDHE-ECDSA-AES128-SHA256"), "no authenticated encryption");
    let old = ["--tlsv1.0", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"];
    assert!(!curl(&server, "localhost", "/here", &old).status.success());
}

#[test]
fn bodies_of_any_size_arrive_whole_in_both_directions() {
    let large: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let server = setup(&issuer("authority"))
        .file("public/large.bin", &large)
        .start();
    assert_eq!(got(&server, "localhost", "/files/large.bin", &[]), large);
    let file = server.folder().path().join("public/large.bin");
    let sent = format!("@{}", file.display());
    let echoed = got(&server, "localhost", "/echo", &["--data-binary", &sent]);
    assert!(echoed == large, "{} bytes", echoed.len());
    // A slow reader gets everything as well.
    let slow = ["--limit-rate", "4M"];
    assert_eq!(got(&server, "localhost", "/files/large.bin", &slow), large);
}

#[test]
fn a_reload_takes_new_certificates_and_keeps_the_old_ones_if_they_are_bad() {
    let (old, new) = (issuer("old"), issuer("new"));
    let server = setup(&old).admin().start();
    assert_eq!(got(&server, "localhost", "/here", &[]), b"here");
    let (cert, key) = files(&new, "localhost");
    server.folder().write("first.pem", &cert);
    let refused = reload(&server);
    assert_ne!(refused.status, 200);
    let why = refused.text().to_owned();
    assert!(
        why.contains("first.key does not fit the certificate in") || why.contains("first.key"),
        "{why}"
    );
    assert_eq!(
        got(&server, "localhost", "/here", &[]),
        b"here",
        "the old one is in force"
    );
    server.folder().write("first.key", key);
    assert_eq!(reload(&server).status, 200);
    assert_eq!(curl(&server, "localhost", "/here", &[]).status.code(), Some(60));
    server.folder().write("authority.pem", new.pem());
    assert_eq!(got(&server, "localhost", "/here", &[]), b"here");
}

#[test]
fn who_does_not_speak_tls_is_given_up_and_hurts_nobody() {
    let server = setup(&issuer("authority"))
        .server("header_timeout = \"300ms\"")
        .start();
    let connect = || {
        let stream = TcpStream::connect(address(&server)).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a limit");
        stream
    };
    let silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    for garbage in [
        &b"GET /here HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        &[0x16, 3, 1, 0xff, 0xff, 1],
        &[0; 5000],
    ] {
        let mut stream = connect();
        // It may be closed while it is written to.
        let _ = stream.write_all(garbage);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 10]).expect("it is closed"), 0);
    }
    assert_eq!(got(&server, "localhost", "/here", &[]), b"here");
}

#[test]
fn clients_have_certificates_that_are_not_revoked_where_that_is_asked_for() {
    let (authority, clients) = (issuer("authority"), issuer("clients"));
    let of = |name: &str, issuer: &Issuer| {
        let (cert, key) = files(issuer, name);
        cert + &key
    };
    let (revoked, key, serial) = with_serial(&clients, "revoked", GOOD);
    let server = setup(&authority)
        .server("client_ca = \"clients.pem\"\nclient_crl = [\"clients.crl\"]")
        .file("clients.pem", clients.pem())
        .file("clients.crl", revocation_list(&clients, &[serial]))
        .file("known.pem", of("known", &clients))
        .file("strange.pem", of("strange", &issuer("strangers")))
        .file("revoked.pem", revoked.pem() + &key.serialize_pem())
        .start();
    let with = |file: &str| {
        let file = server.folder().path().join(file).display().to_string();
        curl(&server, "localhost", "/here", &["--cert", &file])
    };
    let known = with("known.pem");
    assert_eq!(
        known.stdout,
        b"here",
        "{}",
        String::from_utf8_lossy(&known.stderr)
    );
    for file in ["strange.pem", "revoked.pem"] {
        assert!(!with(file).status.success(), "{file}");
    }
    assert!(
        !curl(&server, "localhost", "/here", &[]).status.success(),
        "without any"
    );
}

#[test]
fn plain_requests_are_sent_to_tls_and_browsers_are_told_to_stay_there() {
    let server = setup(&issuer("authority"))
        .listen("\"127.0.0.1:0\", \"https://127.0.0.1:0\", \"unix:plain.sock\"")
        .server("https_only = true\nhsts = \"8760h\"")
        .start();
    let tls = server.urls()[1]
        .strip_prefix("https://")
        .expect("the second has TLS");
    let port = tls.rsplit_once(':').expect("it has a port").1;
    let mut client = server.connect();
    for (target, host, location) in [
        (
            "/here?a=1&b=%20",
            "example.org",
            format!("https://example.org:{port}/here?a=1&b=%20"),
        ),
        (
            "/none",
            "localhost:8080",
            format!("https://localhost:{port}/none"),
        ),
        ("/", "[::1]:80", format!("https://[::1]:{port}/")),
    ] {
        client.send(format!(
            "POST {target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 3\r\n\r\nabc"
        ));
        let response = client.response();
        assert_eq!(
            (response.status, response.header("location")),
            (308, Some(&location[..])),
            "{target}"
        );
        assert_eq!(response.header("strict-transport-security"), None);
    }
    let mut local = Client::unix(&server.folder().path().join("plain.sock"));
    assert_eq!(local.get("/here").text(), "here");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--include"])
        .arg(format!("https://{tls}/here"));
    let printed = String::from_utf8(curl.output().expect("curl can be started").stdout).expect("text");
    assert!(
        printed.contains("strict-transport-security: max-age=31536000\r\n"),
        "{printed}"
    );
}

#[test]
fn websockets_use_tls_where_everything_does() {
    let authority = issuer("authority");
    let (cert, key) = files(&authority, "localhost");
    let server = Runtime::Node
        .pool(
            websockets::HANDLERS,
            &format!("{ONE_WORKER}\n[tls.a]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n"),
        )
        .server("https_only = true")
        .listen("\"127.0.0.1:0\", \"https://127.0.0.1:0\"")
        .file("cert.pem", cert)
        .file("key.pem", key)
        .file("authority.pem", authority.pem())
        .start();
    let client = "const socket = new WebSocket(process.argv[1]);
        socket.onopen = () => socket.send('by TLS');
        socket.onmessage = ({ data }) => (console.log(data), socket.close());
        socket.onerror = ({ message }) => (console.error(message), process.exit(1));";
    let open = |url: &str| {
        let mut node = Command::new("node");
        node.args(["--eval", client, "--", url])
            .env(
                "NODE_EXTRA_CA_CERTS",
                server.folder().path().join("authority.pem"),
            )
            .env("NODE_NO_WARNINGS", "1");
        node.output().expect("node can be started")
    };
    let [plain, encrypted] = ["http", "https"].map(|scheme| {
        let url = server
            .urls()
            .iter()
            .find(|url| url.starts_with(&format!("{scheme}:")));
        let url = url.expect("it listens").replace("127.0.0.1", "localhost");
        format!("{}/echo", url.replacen("http", "ws", 1))
    });
    let output = open(&encrypted);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "by TLS\n", "{output:?}");
    assert!(!open(&plain).status.success());
    let mut client = Client::tcp(server.address());
    client.send(websockets::request("/echo", ""));
    assert_eq!(client.head().expect("a head").status, 308);
}

#[test]
fn handlers_know_whether_the_client_speaks_tls() {
    let authority = issuer("authority");
    let (certificate, key) = files(&authority, "localhost");
    let pools = [
        ("node", "handler = \"url.mjs\"\nruntime = \"node\""),
        ("bun", "handler = \"url.mjs\"\nruntime = \"bun\""),
        ("python", "handler = \"url.py\""),
        ("wsgi", "handler = \"wsgi.py\""),
    ];
    let pools = pools.map(|(name, handler)| {
        format!("[pool.{name}]\n{handler}\n{ONE_WORKER}\n[[route]]\npath = \"/{name}\"\npool = \"{name}\"\n")
    });
    let config = format!(
        "[tls.site]\ncert = \"site.pem\"\nkey = \"site.key\"\n{}",
        pools.concat()
    );
    let python = "from forebay import App\napp = App()\n@app.get(\"/python\")\ndef url(request):\n    return request.url\n";
    let wsgi = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [(environ['wsgi.url_scheme'] + '://' + environ['HTTP_HOST'] + environ['PATH_INFO']).encode()]\n";
    let server = Setup::new(&config)
        .listen("\"https://127.0.0.1:0\", \"127.0.0.1:0\"")
        .file("site.pem", certificate)
        .file("site.key", key)
        .file("authority.pem", authority.pem())
        .file("url.mjs", "export default (request) => request.url;")
        .file("url.py", python)
        .file("wsgi.py", wsgi)
        .start();
    let port = address(&server).port();
    for path in ["/node", "/bun", "/python", "/wsgi"] {
        let url = format!("https://localhost:{port}{path}");
        assert_eq!(got(&server, "localhost", path, &[]), url.as_bytes());
        let url = format!("{}{path}", server.urls()[1]);
        assert_eq!(forebay_testkit::curl([&url]).stdout, url.as_bytes());
    }
}

#[test]
fn a_client_that_leaves_ends_its_connection() {
    let server = setup(&issuer("authority")).admin().start();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &address(&server).to_string()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("openssl can be started");
    let open = || crate::support::metric(&server, "forebay_connections_open");
    wait_until("the connection", || open() == 1);
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    wait_until("its end", || open() == 0);
}

#[test]
fn a_development_certificate_is_made_and_kept() {
    let cache = Folder::new();
    let start = || {
        Setup::new("[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n")
            .argument("--tls-dev=127.0.0.1:0")
            .env("FOREBAY_CACHE_DIR", &cache.path().display().to_string())
            .start()
    };
    let server = start();
    let cert = cache.read("tls/localhost.pem").expect("it is there");
    server.folder().write("authority.pem", &cert);
    let url = server.urls()[1].replace("127.0.0.1", "localhost");
    let authority = server.folder().path().join("authority.pem");
    let mut curl = Command::new("curl");
    let output = curl
        .args(["--silent", "--show-error", "--cacert"])
        .arg(authority)
        .arg(format!("{url}/here"));
    let output = output.output().expect("curl can be started");
    assert_eq!(
        output.stdout,
        b"here",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut openssl = Command::new("openssl");
    let text = openssl
        .args(["x509", "-noout", "-text", "-in"])
        .arg(cache.path().join("tls/localhost.pem"));
    let text = String::from_utf8(text.output().expect("openssl can be started").stdout).expect("text");
    for strong in ["prime256v1", "ecdsa-with-SHA256"] {
        assert!(text.contains(strong), "{text}");
    }
    drop(server);
    drop(start());
    assert_eq!(cache.read("tls/localhost.pem").expect("it is there"), cert);
}

#[test]
fn check_names_the_file_that_is_wrong() {
    let setup = setup(&issuer("authority")).file("first.pem", "no certificate");
    let server = setup.listen("\"127.0.0.1:0\"");
    let folder = server.folder().path().to_owned();
    server.folder().write(
        "forebay.toml",
        format!("[server]\nlisten = \"https://127.0.0.1:0\"\n{ROUTES}"),
    );
    let check = |says: &str| {
        let mut command = command(&["check"]);
        let output = command.current_dir(&folder).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(says), "{told}");
    };
    check("first.pem has no certificate");
    server
        .folder()
        .write("forebay.toml", "[server]\nlisten = \"https://127.0.0.1:0\"\n");
    check("add [tls.NAME] with `cert` and `key`");
}

#[test]
fn chromium_loads_a_page_over_http2_compressed_and_through_a_proxy() {
    let behind = Setup::new("[[route]]\npath = \"/*\"\nrespond = { text = \"from behind\" }\n").start();
    let page = format!(
        "<!doctype html><body><script>
           const [entry] = performance.getEntriesByType('navigation');
           const shown = (text) => {{ document.body.textContent = text; }};
           fetch('/proxy/x').then((response) => response.text())
             .then((text) => shown([entry.nextHopProtocol, entry.encodedBodySize < entry.decodedBodySize, text].join(' ')), shown);
         </script>{}",
        "<p>The same again.".repeat(500)
    );
    let routes = format!(
        "{ROUTES}[proxy.behind]\nservers = [\"http://{}\"]\n[[route]]\npath = \"/proxy/*\"\nproxy = \"behind\"\n",
        behind.address()
    );
    let authority = issuer("authority");
    let (cert, key) = files(&authority, "localhost");
    let server = Setup::new(&routes)
        .listen("\"https://127.0.0.1:0\"")
        .server("compress = \"public\"")
        .file("first.pem", &cert)
        .file("first.key", &key)
        .file("second.pem", &cert)
        .file("second.key", &key)
        .file("echo.mjs", "export default (request) => request.bytes();")
        .file("public/page.html", page)
        .start();
    let chromium = std::env::var("FOREBAY_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--ignore-certificate-errors",
        ])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            server.folder().path().join("chromium").display()
        ))
        .arg(format!(
            "https://localhost:{}/files/page.html",
            address(&server).port()
        ))
        .output()
        .expect("Chromium can be started: `make browser`");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("h2 true from behind"),
        "{shown}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
