//! `examples/hardened`, asked by curl: what its comments say holds.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use forebay_testkit::{Server, Setup};

use crate::certificates::{for_localhost, issuer};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hardened")
}

/// Serves the example with a certificate for `localhost`. Of its lines only the addresses are others.
fn serve() -> Server {
    let authority = issuer("authority");
    let (certificate, key) = for_localhost(&authority, 2020..2100);
    let read = |name: &str| std::fs::read_to_string(example().join(name)).expect("it is there");
    let config = read("forebay.toml");
    let (_, config) = config.split_once("[server]\n").expect("its first section");
    let (server, config) = config.split_once("[admin]\n").expect("its second section");
    let (admin, config) = config.split_once("[log]\n").expect("its third section");
    let (listen, server) = server.split_once('\n').expect("the first key");
    assert_eq!(listen, "listen = [\"0.0.0.0:80\", \"https://0.0.0.0:443\"]");
    let setup = Setup::new(&format!("[log]\n{config}"))
        .listen("\"127.0.0.1:0\", \"https://127.0.0.1:0\"")
        .server(server)
        .admin_keys(admin)
        .file("authority.pem", authority.pem())
        .file("site.pem", certificate.pem())
        .file("site.key", key.serialize_pem());
    let files = [
        "handlers/notes.mjs",
        "public/index.html",
        "public/notes.js",
        "errors/4xx.html",
        "errors/5xx.html",
    ];
    let setup = files
        .iter()
        .fold(setup, |setup, name| setup.file(name, read(name)));
    let folder = setup.folder().path().display().to_string();
    setup
        .env("CERTIFICATES", &folder)
        .env("SITE", "localhost")
        .start()
}

/// What curl prints of a path of the site: heads and bodies.
fn curl(server: &Server, path: &str, options: &[&str]) -> String {
    let url = server.urls()[1].replace("127.0.0.1", "localhost");
    let url = format!("{url}{path}");
    let authority = server.folder().path().join("authority.pem");
    let arguments = ["--include", "--cacert", &authority.to_string_lossy(), &url];
    let output = forebay_testkit::curl(arguments.iter().chain(options));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path} {options:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn status(printed: &str) -> u16 {
    let (_, rest) = printed.split_once(' ').expect("a status line");
    rest[..3].parse().expect("a status")
}

#[test]
fn the_hardened_example_keeps_what_its_comments_promise() {
    let server = serve();
    let plain = server.get("/");
    assert_eq!(plain.status, 308);
    assert!(
        plain
            .header("location")
            .is_some_and(|url| url.starts_with("https://"))
    );

    let everywhere = [
        "strict-transport-security: max-age=31536000",
        "content-security-policy: default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: strict-origin-when-cross-origin",
        "cross-origin-opener-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
        "permissions-policy: camera=(), geolocation=(), microphone=()",
    ];
    let note = ["--json", "{\"text\":\"<b>mine</b>\"}"];
    let long = format!("{{\"text\":\"{}\"}}", "a".repeat(5_000));
    let html = ["--header", "accept: text/html"];
    let foreign = [note[0], note[1], "--header", "sec-fetch-site: cross-site"];
    let cases: [(&str, &[&str], u16, &str); 15] = [
        ("/", &[], 200, "<h1>Notes</h1>"),
        ("/notes.js", &[], 200, "content-type: text/javascript"),
        ("/api/notes", &[], 200, "cache-control: no-store"),
        ("/api/notes", &note, 201, "<b>mine</b>"),
        (
            "/api/notes",
            &["--json", "null"],
            422,
            "text has 1 to 200 characters",
        ),
        ("/api/notes", &["--json", "{"], 400, "JSON"),
        ("/api/notes", &["--data", "text=a"], 415, "a note is JSON"),
        ("/api/notes", &["--json", &long], 413, "body_bytes_max"),
        ("/api/notes", &foreign, 403, "only pages of this site"),
        (
            "/api/notes",
            &["--request", "DELETE"],
            405,
            "allow: GET, HEAD, OPTIONS, POST",
        ),
        ("/", &["--request", "TRACE"], 405, "allow: "),
        ("/", &["--header", "host: other.example"], 404, "no route"),
        ("/none", &html, 404, "<h1>That is not possible</h1>"),
        ("/.env", &[], 404, ""),
        ("/store/Note", &[], 404, ""),
    ];
    for (path, options, expected, part) in cases {
        let printed = curl(&server, path, options);
        assert_eq!(status(&printed), expected, "{path} {options:?}: {printed}");
        assert!(printed.contains(part), "{path} {options:?}: {printed}");
        for field in everywhere {
            assert!(
                printed.contains(&format!("{field}\r\n")),
                "{path} {options:?} has no {field}: {printed}"
            );
        }
    }
    let notes = curl(&server, "/api/notes", &[]);
    assert!(notes.ends_with("[{\"text\":\"<b>mine</b>\"}]"), "{notes}");

    // One comes back each second, so the sixty of a minute are used up long before these are sent.
    let many = curl(&server, "/api/notes?[1-200]", &[]);
    let refused = many.split("HTTP/2 ").find(|answer| answer.starts_with("429"));
    let refused = refused.expect("one is refused");
    assert!(
        refused.contains("ratelimit-limit: 60\r\n") && refused.contains("retry-after: "),
        "{refused}"
    );
    let line = server.wait_for_log(&["forebay::access", "\"status\":429"]);
    assert!(
        line.contains("\"tls\":\"TLSv1.3\"") && line.contains("\"peer\":\"127.0.0.1\""),
        "{line}"
    );

    for socket in ["admin.sock", "forebay.sock"] {
        let file = std::fs::metadata(server.folder().path().join(socket)).expect("it is there");
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{socket}");
    }
    assert_eq!(server.admin().get("/health/ready").status, 200);
}
